// One run: its curves, the attention by position, the formula it computes now, and its controls.

import { make, button, number, message, chartFrame, shortNumber, onFrame } from "./dom.js";
import { rangesOf } from "./bits.js";
import { mountChart, drawChart } from "./charts.js";

const TOP = 90;
// Measures of a parity run that change while its accuracy is flat; the command prints more of them.
const PROGRESS = { attention_peak: "largest weight of a head on one position", influence_share: "relevant bits' share of the sensitivity", target_coefficient: "correlation with the rule" };
const COMPILING = "Compiling the program: a few seconds, the first time up to half a minute \u2026";

export function runPanel(host, name, question, index) {
  const id = `run-${index}`;
  const said = message();
  const frame = chartFrame(`${id}-chart`, `${name}: loss, accuracy and attention`);
  const hidden = make("div", { class: "hidden-progress" });
  const formula = make("output", { class: "formula-now", "aria-label": `${name}: formula that the network computes` });
  const canvas = make("canvas", { class: "attention", height: TOP, role: "img", "aria-label": `${name}: attention by position` });
  const caption = make("p", { class: "strip-caption" });
  const scrub = make("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": `${name}: step to look at`, "data-name": `look-${index}`, disabled: true });
  const numbers = { step: number("step"), loss: number("loss"), validation: number("validation accuracy"), mass: number("attention on the relevant bits") };
  const pause = button("pause", () => host.steer(panel.run, { what: paused ? "resume" : "pause" }).catch(fail), { disabled: true, "data-action": "pause" });
  const restart = button("restart", () => start(), { "data-action": "restart" });
  const stop = button("stop", () => host.steer(panel.run, { what: "stop" }).catch(fail), { disabled: true, "data-action": "stop" });
  const source = make("span", { text: "The same run: " });
  const command = make("code", { class: "command" });
  const heading = make("h2", { text: name });
  const node = make(
    "article",
    { class: "run", id, "aria-label": name },
    heading,
    host.live ? make("div", { class: "actions" }, pause, stop, restart) : null,
    said.node,
    make("p", { class: "now" }, "It computes now: ", formula),
    make("div", { class: "numbers" }, ...Object.values(numbers).map((one) => one.node)),
    canvas,
    caption,
    make("label", { class: "scrub" }, make("span", { class: "name", text: "evaluation" }), scrub),
    frame,
    hidden,
    make("p", {}, source, command),
  );
  let looks = [];
  let support = [];
  let paused = false;
  let seen = -1;
  let follow = null;
  let ended = null;
  let chart = null;
  let progress = null; // the chart of hidden progress
  const draw = onFrame(drawAll);
  const panel = {
    node,
    run: null,
    start,
    replay,
    changeRate(lr) {
      if (panel.run && !ended) host.steer(panel.run, { what: "rate", lr }).catch(fail);
    },
  };

  function spec() {
    const line = (name, color, dash = "") => ({ name, color, dash, line: true, x: [], y: [] });
    return {
      id: `${id}-chart`,
      title: `${name}: loss, accuracy and attention against steps`,
      x: { label: "steps", short: "step", log: false, toggle: false, from: 0 },
      y: { label: "share, or loss", short: "share", log: false, toggle: true, from: 0, upTo: 1 },
      series: [line("validation accuracy", "series-1"), line("attention on the relevant bits", "series-3", "6 3"), line("loss", "series-2", "2 3")],
      rules: [],
      hover: "x",
    };
  }

  function fail(error) {
    said.say(error.message, "error");
  }

  function clear() {
    looks = [];
    support = [];
    paused = false;
    ended = null;
    seen = -1;
    source.textContent = "The same run: ";
    scrub.disabled = true;
    scrub.value = scrub.max = 0;
    chart ??= mountChart(frame, spec());
    for (const series of chart.spec.series) series.x.length = series.y.length = 0;
    progress = null;
    hidden.replaceChildren();
  }

  async function start() {
    const asked = question();
    heading.textContent = `${name}: m = ${asked.m}`;
    if (panel.run && !ended) host.steer(panel.run, { what: "stop" }).catch(() => {});
    follow?.();
    clear();
    said.say(COMPILING);
    try {
      panel.run = await host.startRun(asked);
      follow = host.follow(panel.run, (event) => hear(event, asked));
      pause.disabled = stop.disabled = false;
    } catch (error) {
      fail(error);
    }
  }

  function hear(event, asked) {
    if (event.number !== undefined) {
      if (event.number <= seen) return; // repeated after a lost connection
      seen = event.number;
    }
    if (event.kind === "waiting") said.say(event.before ? `waiting: ${event.before} ${event.before === 1 ? "run" : "runs"} before this one` : COMPILING);
    else if (event.kind === "started") {
      support = event.support;
      command.textContent = event.command;
      said.say("training");
    } else if (event.kind === "look") {
      add(event);
      if (!paused) said.say(`training: ${support.length} relevant bits of ${asked.T}`);
    } else if (event.kind === "paused" || event.kind === "resumed") {
      paused = event.kind === "paused";
      pause.textContent = paused ? "resume" : "pause";
      said.say(paused ? "paused" : "training");
    } else if (event.kind === "rate") {
      said.say(`learning rate ${shortNumber(event.lr)} from now on`);
      source.textContent = "The same run up to the change of its learning rate: ";
    } else if (event.kind === "lost") said.say("The server does not answer. The page continues when it is back.", "error");
    else if (event.kind === "connected") said.say("training");
    else if (event.kind === "gone") {
      start().then(() => said.say("The server was restarted and the run was lost: it starts again from the beginning."));
    } else if (event.kind === "ended") finish(event);
    draw();
  }

  function add(event) {
    looks.push(event);
    const following = Number(scrub.value) >= Number(scrub.max);
    scrub.disabled = false;
    scrub.max = looks.length - 1;
    if (following) scrub.value = scrub.max;
    const values = [event.validation_accuracy, event.mass, event.loss];
    chart.spec.series.forEach((series, i) => {
      series.x.push(event.step);
      series.y.push(values[i]);
    });
    if (event.progress) addProgress(event);
  }

  function addProgress(event) {
    progress ??= mountProgress();
    Object.keys(PROGRESS).forEach((measure, i) => {
      progress.spec.series[i].x.push(event.step);
      progress.spec.series[i].y.push(event.progress[measure]);
    });
  }

  function mountProgress() {
    const place = chartFrame(`${id}-progress`, `${name}: hidden progress`);
    hidden.append(make("h3", { text: "Hidden progress" }), place);
    const dashes = ["6 3", "1 2", ""];
    const series = Object.values(PROGRESS).map((text, i) => ({ name: text, color: `series-${[3, 4, 1][i]}`, dash: dashes[i], line: true, x: [], y: [] }));
    return mountChart(place, { ...spec(), id: `${id}-progress`, title: `${name}: hidden progress against steps`, y: { label: "weight, share or correlation", short: "value", log: false, toggle: true, from: 0, upTo: 1 }, series });
  }

  function finish(event) {
    ended = event;
    const last = looks.at(-1); // the last evaluation uses the whole validation set and more queries
    if (last && event.formula !== undefined) Object.assign(last, { validation_accuracy: event.validation_accuracy, formula: event.formula });
    pause.disabled = stop.disabled = true;
    pause.textContent = "pause";
    const whole = event.all_inputs;
    const right = event.validation_accuracy === undefined ? "" : ` ${shortNumber(100 * event.validation_accuracy)} % of the validation set is right.`;
    const words = { solved: `Solved after ${event.steps} steps.${right}`, failed: `Not solved in ${event.steps} steps.${right}`, diverged: "The loss is not a number any more: a smaller learning rate helps.", stopped: `Stopped after ${event.steps} steps${event.reason ? `: ${event.reason}` : ""}.`, error: event.reason };
    let proof = "";
    if (whole?.status === "proved") proof = ` Proved on all inputs: the network computes ${event.formula}.`;
    else if (whole?.status === "refuted") proof = ` The formula below is its best short one; it differs from the network on the input with ones at ${ones(whole.counterexample, looks.at(-1)?.attention.length)}.`;
    else if (whole) proof = " The formula below is its best short one; the proof on all inputs is open.";
    said.say((words[event.outcome] ?? event.outcome) + proof, event.outcome === "solved" ? "good" : "note");
    said.node.dataset.outcome = event.outcome;
  }

  function ones(positions, T = 1) {
    const bits = new Uint8Array(T);
    for (const t of positions) bits[t] = 1;
    const text = rangesOf(bits) || "no position";
    const cut = text.length > 30 ? text.lastIndexOf(",", 30) : -1;
    return cut < 0 ? text : `${text.slice(0, cut)}, \u2026 (${positions.length} in all)`;
  }

  function drawAll() {
    if (!looks.length) return;
    const look = looks[Math.min(looks.length - 1, Number(scrub.value))];
    formula.textContent = formula.title = look.formula ?? "";
    numbers.step.set(look.step, "computed");
    numbers.loss.set(look.loss, "computed");
    numbers.validation.set(look.validation_accuracy, "computed");
    numbers.mass.set(look.mass, "computed");
    scrub.setAttribute("aria-valuetext", `step ${look.step}`);
    if (look.attention) bars(look.attention);
    drawChart(chart);
    if (progress) drawChart(progress);
  }

  function bars(weights) {
    const T = weights.length - 1;
    const width = Math.max(200, canvas.clientWidth);
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = TOP * ratio;
    const style = getComputedStyle(canvas);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const known = new Set(support);
    const step = width / (T + 1);
    const top = Math.max(0.2, ...weights);
    weights.forEach((weight, t) => {
      const tall = Math.max(1, (weight / top) * (TOP - 14));
      pen.fillStyle = style.getPropertyValue(known.has(t) ? "--series-3" : t === T ? "--series-5" : "--muted").trim();
      pen.fillRect(t * step, TOP - 8 - tall, Math.max(1, step - 1), tall);
      if (known.has(t)) pen.fillRect(t * step, TOP - 6, Math.max(2, step - 1), 5);
    });
    const named = support.map((t) => `x${t} ${shortNumber(weights[t])}`).join(", ");
    caption.textContent = `attention by position; relevant: ${named}; [CLS] ${shortNumber(weights[T])}`;
    canvas.setAttribute("aria-label", caption.textContent);
  }

  function replay(record) {
    heading.textContent = `${name}: m = ${record.question.m}`;
    clear();
    record.events.forEach((event, number) => hear({ ...event, number }, record.question));
  }

  scrub.addEventListener("input", draw);
  clear();
  return panel;
}
