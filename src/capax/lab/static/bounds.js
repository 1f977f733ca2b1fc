// The view Bounds: sliders for norms, sizes and probabilities; every route, and where it helps.

import { make, number, slider, choice, message, legend, latest, table, chartFrame, shortNumber } from "./dom.js";
import { mountChart, drawChart } from "./charts.js";

export const title = "Bounds";
const DEFAULTS = { W_QK: 2, v: 1, T: 1000, m: 100000, d: 64, margin: 0.5, delta: 0.05, target: 0.1 };
const RANGES = { W_QK: [0.01, 1000], v: [0.01, 1000], T: [1, 1e6], m: [10, 1e12], d: [1, 4096], margin: [0.001, 10], delta: [1e-9, 0.5], target: [0.001, 0.9] };
const MOST = { W_QK: 1e6, v: 1e6, T: 1e9, m: 1e12, d: 1e6, margin: 1e6, delta: 0.999, target: 0.999 }; // limits of the command
const LABELS = { W_QK: "\u2016W_QK\u2016_F", v: "\u2016v\u2016", T: "T", m: "m", d: "d", margin: "margin", delta: "delta", target: "wanted error" };
const WHOLE = new Set(["T", "m", "d"]);

export function mount(root, host) {
  const state = { ...DEFAULTS };
  for (const [name, value] of Object.entries(host.state())) if (name in DEFAULTS && Number(value) > 0) state[name] = Number(value);
  const said = message();
  const sliders = {};
  for (const name of Object.keys(DEFAULTS)) {
    const [low, high] = RANGES[name];
    sliders[name] = slider({ label: LABELS[name], name, low, high, most: MOST[name], value: state[name], log: true, whole: WHOLE.has(name), onInput: (x) => move(name, x), onChange: (x) => settle({ [name]: x }) });
  }
  const numbers = { error: number("error at most"), needed: number("m for the wanted error"), ours: number("log10 of ln N, our constants"), paper: number("log10 of ln N, the paper's constants") };
  const heads = choice("head of an audit", "head", [{ value: "", text: "no file yet" }], "", (value) => value && setNorm(Number(value)));
  const file = make("input", { type: "file", "aria-label": "output of capax audit --json", "data-name": "file", on: { change: () => file.files[0] && read(file.files[0]) } });
  const frame = chartFrame("bounds-chart", "Error bound against m");
  const routes = make("div", { class: "scroll" });
  const assumed = make("ul", { class: "assumes" });
  const command = make("code", { class: "command" });
  root.append(
    make("section", { class: "controls-panel", "aria-label": "Norms and sizes" }, ...Object.values(sliders).map((one) => one.node), host.live ? make("label", { class: "drop" }, "Norms of a checkpoint: the file of ", make("code", { text: "capax audit --json" }), " ", file) : null, host.live ? heads.node : null, said.node),
    make("section", { class: "result", "aria-label": "Bounds" }, legend(), make("div", { class: "numbers" }, ...Object.values(numbers).map((one) => one.node)), frame, routes, make("h2", { text: "What is assumed" }), assumed, make("p", {}, "The same numbers: ", command)),
  );
  let answer = null;
  let chart = null;
  let dragging = false;
  const ask = latest((question) => host.ask("bounds", question), show, (error) => said.say(error.message, "error"));

  function remember() {
    const kept = {};
    for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) kept[name] = value;
    host.setState(kept);
  }

  function move(name, x) {
    dragging = true;
    state[name] = x;
    if (name === "m" && answer) drawAt();
    else ask({ ...state });
    for (const one of Object.values(numbers)) one.node.querySelector("output").dataset.kind = "drawn";
  }

  function settle(change) {
    dragging = false;
    Object.assign(state, change);
    remember();
    said.say("computing \u2026");
    ask({ ...state });
  }

  function setNorm(norm) {
    sliders.W_QK.set(norm);
    settle({ W_QK: norm });
  }

  function between(curve, m) {
    const k = Math.max(1, curve.m.findIndex((one) => one >= m));
    const part = (Math.log(m) - Math.log(curve.m[k - 1])) / (Math.log(curve.m[k]) - Math.log(curve.m[k - 1]));
    return curve.log10[k - 1] + part * (curve.log10[k] - curve.log10[k - 1]);
  }

  function drawAt() {
    const least = Math.min(...answer.curves.map((curve) => between(curve, state.m)));
    numbers.error.set(10 ** least, "drawn");
    markAt(answer.curves.map((curve) => 10 ** between(curve, state.m)));
    drawChart(chart);
  }

  function markAt(values) {
    const mark = chart.spec.series.at(-1);
    mark.x = values.map(() => state.m);
    mark.y = values;
  }

  function show(reply, asked) {
    answer = reply;
    said.say("");
    const kind = dragging ? "drawn" : "computed";
    const { bound } = reply;
    numbers.error.set(bound.value, kind);
    numbers.needed.set(bound.m_needed, kind);
    numbers.ours.set(bound.log_cover_compared.log10_ours, kind);
    numbers.paper.set(bound.log_cover_compared.log10_paper, kind);
    command.textContent = reply.command;
    const line = (curve, k) => ({ name: short(curve.statement), color: `series-${k + 1}`, dash: k ? "6 3" : "", line: true, x: curve.m, y: curve.log10.map((value) => 10 ** value) });
    const series = [...reply.curves.map(line), { name: "at m", color: "ink", marks: true, x: [], y: [] }];
    const rules = [{ y: 1, label: "vacuous above" }, { y: asked.target, label: "wanted" }];
    if (chart) Object.assign(chart.spec, { series, rules });
    else chart = mountChart(frame, { id: "bounds-chart", title: "Error bound against the number m of sequences", x: { label: "sequences m", short: "m", log: true, toggle: false }, y: { label: "error at most", short: "error", log: true, toggle: true }, series, rules, hover: "x" });
    markAt(bound.portfolio.map((route) => route.value));
    drawChart(chart);
    routes.replaceChildren(
      table(
        ["route", "error at most", "status", "m for the wanted error", "error below 1 from m ="],
        bound.portfolio.map((route) => [short(route.statement), exact(route.value, kind), route.status + (route.vacuous ? ", vacuous" : ""), exact(route.m_needed, kind), exact(reply.useful_from[route.statement], kind)]),
        "All routes hold together",
      ),
    );
    const texts = new Set(bound.portfolio.flatMap((route) => route.assumes));
    assumed.replaceChildren(...[...texts].map((text) => make("li", { text })));
  }

  function short(statement) {
    return statement.split(" with ")[0];
  }

  function exact(amount, kind) {
    const node = make("span", { text: shortNumber(amount), "data-kind": kind });
    node.dataset.value = amount === null ? "" : String(amount);
    return node;
  }

  async function read(chosen) {
    try {
      const found = await host.upload("audit", chosen);
      heads.fill([{ value: "", text: `${found.heads.length} heads` }, ...found.heads.map((head) => ({ value: head.W_QK, text: `${head.name}: ${shortNumber(head.W_QK)}` }))], "");
      said.say(`${chosen.name}: choose a head`);
    } catch (error) {
      said.say(error.message, "error");
    }
  }

  if (host.live) settle({});
  else ask({ ...state });
}
