// The view Create: two runs of one rule, above and below the threshold, watched while they learn.

import { make, button, slider, message, legend, shortNumber } from "./dom.js";
import { runPanel } from "./run_panel.js";

export const title = "Create";
const DEFAULTS = { formula: "and3", T: 50, m: 200, m2: 30, seed: 0, lr: 0.001, steps: 1000, heads: 16, d: 64 };

export function mount(root, host) {
  const state = { ...DEFAULTS };
  for (const [name, value] of Object.entries(host.state())) if (name in DEFAULTS) state[name] = typeof DEFAULTS[name] === "number" ? Number(value) || 0 : value;
  const formula = make("input", { type: "text", value: state.formula, "aria-label": "rule", "data-name": "formula", spellcheck: false, autocomplete: "off", maxLength: 4096, on: { change: () => settle({ formula: formula.value }) } });
  const said = message();
  const settle = (change) => {
    Object.assign(state, change);
    const kept = {};
    for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) kept[name] = value;
    host.setState(kept);
  };
  const control = (label, name, low, high, options = {}) => slider({ label, name, low, high, value: state[name], log: true, whole: true, onChange: (x) => settle({ [name]: x }), ...options });
  const sliders = {
    T: control("T", "T", 2, 1000),
    steps: control("steps", "steps", 100, 20000, { step: 100 }),
    seed: control("seed", "seed", 0, 100, { log: false }),
    lr: control("learning rate", "lr", 1e-5, 1, { whole: false, onChange: (x) => { settle({ lr: x }); panels.forEach((panel) => panel.changeRate(x)); } }),
  };
  const examples = [
    control("m, first run", "m", 1, 20000),
    control("m, second run", "m2", 1, 20000),
  ];
  const question = (m) => {
    const { m2, ...rest } = state;
    return { ...rest, m };
  };
  const panels = [
    runPanel(host, "first run", () => question(state.m), 0),
    runPanel(host, "second run", () => question(state.m2), 1),
  ];
  host.runs = () => panels.map((panel) => panel.run).filter(Boolean);
  const train = button("train both", () => panels.forEach((panel) => panel.start()), { class: "main-action", "data-action": "train" });
  const rules = ["and3", "maj3", "parity3", "x1 & (x2 | x5)"];
  const controls = [
    make("div", { class: "formula" }, formula, make("span", { class: "examples" }, ...rules.map((rule) => button(rule, () => { formula.value = rule; settle({ formula: rule }); })))),
    ...[sliders.T, ...examples, sliders.lr, sliders.steps, sliders.seed].map((one) => one.node),
    make("div", { class: "actions" }, train),
  ];
  root.append(
    make(
      "section",
      { class: "controls-panel", "aria-label": "Task" },
      ...(host.live ? controls : []),
      said.node,
      make("p", { class: "hint", text: "Above the threshold m*(T) the network finds the rule; below it, it learns its examples by heart. For parity3 with T = 12, m = 1000 and seed 2 hidden progress, below the loss, rises while the accuracy is still near 50 %." }),
    ),
    make("section", { class: "runs-side", "aria-label": "Runs" }, legend(), ...panels.map((panel) => panel.node)),
  );
  if (!host.live) {
    said.say(`Recorded runs of ${state.formula}, T = ${state.T}, learning rate ${shortNumber(state.lr)}, seed ${state.seed}.`);
    (host.recorded ?? []).forEach((record, i) => panels[i]?.replay(record));
  }
}
