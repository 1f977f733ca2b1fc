// The view Laws: m*(T) of learners, published points, references, and files of one's own.

import { make, button, choice, message, table, chartFrame, shortNumber } from "./dom.js";
import { mountChart, drawChart } from "./charts.js";

export const title = "Laws";
const DEFAULTS = { target: "and3", accuracy: 1, hidden: "some", stores: "", zoom: "", axes: "log-log" };
const COLORS = ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6"];
const SHOWN_FIRST = new Set(["transformer", "lasso", "mlp", "ssm", "tree"]); // the others are a click away
const DASHES = ["", "6 3", "2 3"];

export function mount(root, host) {
  const state = { ...DEFAULTS };
  for (const [name, value] of Object.entries(host.state())) if (name in DEFAULTS) state[name] = name === "accuracy" ? Number(value) || 1 : value;
  const said = message();
  const target = choice("target", "target", [state.target], state.target, (value) => settle({ target: value, zoom: "" }));
  const accuracy = choice("accuracy", "accuracy", [{ value: 1, text: "100 %" }], state.accuracy, (value) => settle({ accuracy: Number(value), zoom: "" }));
  const stores = make("fieldset", { class: "stores" }, make("legend", { text: "Results that travel with Capax" }));
  const file = make("input", { type: "file", "aria-label": "a card (capax card --json) or a store (capax sweep)", "data-name": "file", on: { change: () => file.files[0] && read(file.files[0]) } });
  const drop = make("label", { class: "drop" }, "Your own card or store: drop the file here, or choose it. ", file);
  const place = make("div", {});
  const details = make("div", { class: "scroll" });
  const verdicts = make("div", {});
  root.append(
    make("section", { class: "controls-panel", "aria-label": "Choice" }, make("div", { class: "pair" }, target.node, accuracy.node), stores, host.live ? drop : null, said.node),
    make("section", { class: "result", "aria-label": "Thresholds" }, place, verdicts, details),
  );
  let answer = null;
  let chart = null;
  let first = ""; // what was hidden when the chart was made
  const loaded = new Map(); // reference name -> curves
  const own = []; // files

  function remember() {
    const kept = {};
    for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) kept[name] = value;
    host.setState(kept);
  }

  async function settle(change) {
    Object.assign(state, change);
    remember();
    said.say("computing \u2026");
    try {
      answer = await host.ask("laws", { target: state.target, accuracy: state.accuracy });
      said.say("");
      fill();
      show();
      for (const name of state.stores.split(",").filter(Boolean)) await load(name);
    } catch (error) {
      said.say(error.message, "error");
    }
  }

  function fill() {
    const known = new Set([...answer.targets, ...own.flatMap((one) => one.rows ?? []).map((row) => row.target)]);
    if (!known.has(state.target)) said.say(`No reference learner was measured on ${state.target}.`, "error");
    target.fill([...known], known.has(state.target) ? state.target : "");
    accuracy.fill(answer.accuracies.map((value) => ({ value, text: `${shortNumber(100 * value)} %` })), state.accuracy);
    const chosen = new Set(state.stores.split(","));
    const boxes = answer.references.map((store) => {
      const box = make("input", { type: "checkbox", checked: chosen.has(store.name), "data-store": store.name, disabled: !host.live && !chosen.has(store.name), on: { change: () => toggle(store.name, box.checked) } });
      return make("label", {}, box, ` ${store.name} (${store.trials} ${store.trials === 1 ? "trial" : "trials"})`);
    });
    stores.replaceChildren(stores.firstChild, ...(boxes.length ? boxes : [make("p", { class: "hint", text: "Stores and published points exist for and3 only." })]));
  }

  function toggle(name, on) {
    const names = new Set(state.stores.split(",").filter(Boolean));
    on ? names.add(name) : names.delete(name);
    state.stores = [...names].join(",");
    remember();
    if (on) load(name);
    else show();
  }

  async function load(name) {
    if (loaded.has(name)) return show();
    said.say(`${name}: computing m* and its intervals from all trials; this takes a few seconds \u2026`);
    try {
      loaded.set(name, (await host.ask("reference", { name })).curves);
      said.say("");
      show();
    } catch (error) {
      said.say(error.message, "error");
    }
  }

  async function read(chosen) {
    said.say(`${chosen.name}: reading \u2026`);
    try {
      const read = await host.upload("laws", chosen);
      own.push(read);
      said.say("");
      const targets = new Set((read.rows ?? []).map((row) => row.target));
      if (targets.size && !targets.has(state.target)) return settle({ target: [...targets][0], zoom: "" });
      fill();
      show();
    } catch (error) {
      said.say(error.message, "error");
    }
  }

  function curveSeries(name, points, color, dash = "") {
    const shared = { group: name, name, color, x: points.map((p) => p.T) };
    const marks = { ...shared, marks: true, y: points.map((p) => p.m_star), low: points.map((p) => p.low), high: points.map((p) => p.high), notes: points.map((p) => p.note) };
    return [{ ...shared, line: true, dash, y: points.map((p) => p.m_star), silent: true }, marks];
  }

  function byLearner(rows) {
    const groups = new Map();
    for (const row of rows) if (row.m_star !== null) groups.set(row.learner, [...(groups.get(row.learner) ?? []), row]);
    const named = [...groups].map(([name, points]) => [name, points.sort((a, b) => a.T - b.T)]);
    return [...named.filter(([name]) => SHOWN_FIRST.has(name)), ...named.filter(([name]) => !SHOWN_FIRST.has(name))]; // these get the first colours
  }

  function series() {
    const all = [];
    byLearner(answer.card.rows).forEach(([name, points], k) => all.push(...curveSeries(name, points, COLORS[k % 6], DASHES[Math.floor(k / 6) % 3])));
    const floors = new Map(answer.card.rows.filter((row) => row.floor !== null).map((row) => [row.T, row.floor]));
    const lengths = [...floors.keys()].sort((a, b) => a - b);
    all.push({ name: "floor: best possible learner", x: lengths, y: lengths.map((T) => floors.get(T)), color: "muted", line: true, dash: "2 3" });
    if (answer.published) all.push({ name: "published (Figure 2)", group: "published (Figure 2)", marks: true, color: "ink", x: answer.published.map((p) => p.T), y: answer.published.map((p) => p.m_star), low: answer.published.map((p) => p.low), high: answer.published.map((p) => p.high) });
    const shown = state.stores.split(",").filter((name) => loaded.has(name));
    const curves = [...shown.flatMap((name) => loaded.get(name)), ...own.filter((one) => one.kind === "store").flatMap((one) => one.curves)];
    curves.forEach((curve, k) => {
      const points = curve.thresholds.filter((row) => row.m_star !== null).map((row) => ({ ...row, note: row.status }));
      all.push(...curveSeries(`store ${curve.name}`, points, COLORS[(k + 3) % 6], "1 2"));
    });
    for (const card of own.filter((one) => one.kind === "card")) {
      const rows = card.rows.filter((row) => row.target === state.target && row.accuracy === state.accuracy);
      byLearner(rows).forEach(([name, points], k) => all.push(...curveSeries(`${card.name}: ${name}`, points, COLORS[(k + 1) % 6], "8 2 2 2")));
    }
    return { all, curves };
  }

  function show() {
    const { all, curves } = series();
    const [x, y] = state.axes.split("-");
    const frame = chartFrame("laws-chart", "Examples needed against T");
    place.replaceChildren(frame);
    chart = mountChart(frame, {
      id: "laws-chart",
      title: `Examples needed against T, ${state.target}, ${shortNumber(100 * state.accuracy)} % accuracy`,
      x: { label: "context length T", short: "T", log: x === "log", toggle: true },
      y: { label: "training examples m*", short: "m*", log: y === "log", toggle: true },
      series: all,
      rules: [],
      hover: "nearest",
    });
    const hidden = new Set(state.hidden.split("|").filter(Boolean));
    const learners = new Set(answer.card.rows.map((row) => row.learner));
    const isHidden = (name) => (state.hidden === "some" ? learners.has(name) && !SHOWN_FIRST.has(name) : hidden.has(name));
    frame.querySelectorAll(".key").forEach((key) => {
      if (!isHidden(key.textContent)) return;
      chart.hidden.add(key.textContent);
      key.setAttribute("aria-pressed", false);
    });
    first = [...chart.hidden].join("|");
    const zoom = state.zoom.split(",").map(Number);
    if (zoom.length === 4 && zoom.every(Number.isFinite)) chart.view = [zoom.slice(0, 2), zoom.slice(2)];
    drawChart(chart);
    for (const event of ["click", "pointerup", "keydown", "dblclick"]) frame.addEventListener(event, () => setTimeout(keepView));
    verdicts.replaceChildren(...curves.map((curve) => make("p", { class: "verdict", text: `${curve.name}: ${curve.verdict}` })));
    const laws = answer.card.laws.map((law) => [law.learner, law.law ?? "not settled", law.p_value === null ? "" : exact(law.p_value), law.ruled_out.join(", ")]);
    const rows = answer.card.rows.map((row) => [row.learner, row.T, exact(row.m_star, row.note), row.low === null || row.high === null ? row.note : `${row.low} \u2013 ${row.high}`, exact(row.floor)]);
    details.replaceChildren(
      make("p", { class: "hint", text: "Choose learners in the legend, point at a mark, drag to zoom, double-click or Escape for the whole range." }),
      button("all learners", () => { state.hidden = ""; remember(); show(); }),
      table(["learner", "law", "fit p", "ruled out"], laws, "How m* grows with T"),
      make("p", { class: "commands" }, "The same numbers: ", ...sources().map((text) => make("code", { class: "command", text }))),
      make("details", {}, make("summary", { text: "All thresholds as a table" }), table(["learner", "T", "m*", "95 % interval", "floor"], rows, "Examples needed")),
    );
  }

  function sources() {
    const shown = new Set(state.stores.split(","));
    const stores = answer.references.filter((store) => shown.has(store.name)).map((store) => store.command);
    return [answer.command, ...(answer.published ? [answer.published_command] : []), ...stores];
  }

  function exact(amount, note = "") {
    const node = make("span", { text: amount === null ? note || "open" : shortNumber(amount), "data-kind": "computed" });
    node.dataset.value = amount === null ? "" : String(amount);
    return node;
  }

  function keepView() {
    const names = [...chart.hidden].join("|");
    if (names !== first) state.hidden = names;
    state.zoom = chart.view ? chart.view.flat().map((value) => Number(value.toPrecision(5))).join(",") : "";
    state.axes = chart.root.dataset.scale;
    remember();
  }

  for (const event of ["dragover", "drop"]) {
    drop.addEventListener(event, (dragged) => {
      dragged.preventDefault();
      if (event === "drop" && dragged.dataTransfer.files[0]) read(dragged.dataTransfer.files[0]);
    });
  }
  settle({});
}
