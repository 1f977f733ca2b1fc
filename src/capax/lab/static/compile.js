// The view Compile: a formula becomes a head; flip bits, move T, the temperature or one weight.

import { make, button, number, slider, choice, message, legend, onFrame, latest, table, shortNumber } from "./dom.js";
import { bitsFrom, rangesOf } from "./bits.js";
import { forward, mass, score, drawnMargin, keyNorm, atTemperature, between, withWeight } from "./head_math.js";
import { tokenStrip } from "./strip.js";
import { gauge } from "./gauge.js";

export const title = "Compile";
const DEFAULTS = { formula: "maj(x1, x5, x9)", T: 50, encoding: "deterministic", temperature: 1, weight: "", value: 0, on: "" };
const SHOWN = 12; // relevant tokens that have their own columns

export function mount(root, host) {
  const given = host.state();
  const state = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) if (given[name] !== undefined) state[name] = typeof DEFAULTS[name] === "number" ? Number(given[name]) || DEFAULTS[name] : given[name];
  state.T = Math.min(100000, Math.max(1, Math.round(state.T)));
  if (state.value === 0 && given.value !== undefined) state.value = Number(given.value) || 0;
  let head = null; // as drawn now
  let answer = null; // the last answer of the server, and its question
  let ladder = null;
  let bits = bitsFrom(state.on, state.T);

  const formula = make("input", { type: "text", value: state.formula, "aria-label": "formula", "data-name": "formula", spellcheck: false, autocomplete: "off", maxLength: 4096 });
  const said = message();
  const T = slider({ label: "T", name: "T", low: 4, high: 100000, value: state.T, log: true, whole: true, onInput: moveT, onChange: (x) => T.set(settle({ T: longEnough(x) }).T) });
  const encoding = choice("encoding", "encoding", ["deterministic", "bag"], state.encoding, (value) => settle({ encoding: value, weight: "", value: 0 }));
  const temperature = slider({ label: "temperature", name: "temperature", low: 0.1, high: 10, value: state.temperature, log: true, onInput: moveTemperature, onChange: (x) => settle({ temperature: x }) });
  const weight = choice("one weight", "weight", [{ value: "", text: "as compiled" }], "", chooseWeight);
  const value = slider({ label: "its value", name: "value", low: -10, high: 10, value: 0, onInput: moveWeight, onChange: (x) => settle({ value: x }) });
  const numbers = {
    margin: number("margin"),
    error: number("worst-case error"),
    wrong: number("wrong decisions"),
    norm: number("\u2016W_QK\u2016_F"),
    units: number("MLP units"),
    output: number("output here"),
  };
  const strip = tokenStrip((t) => flip(t));
  const meter = gauge();
  const tokens = make("div", { class: "scroll tokens" });
  const more = make("div", { class: "scroll" });
  const verdict = message();
  const worst = make("p", { class: "worst" });
  const found = message();
  const command = make("code", { class: "command" });

  const form = make("form", { class: "formula", on: { submit: (event) => { event.preventDefault(); settle({ formula: formula.value, weight: "", value: 0 }); } } }, formula, make("button", { type: "submit", text: "compile" }));
  const result = make("section", { class: "result", "aria-label": "Result" });
  root.append(
    make("section", { class: "controls-panel", "aria-label": "Head" }, form, said.node, T.node, temperature.node, make("div", { class: "pair" }, encoding.node, weight.node), value.node, make("div", { class: "actions" }, button("as compiled", reset), button("break it", breakIt, { "data-action": "break" }), host.download ? button("download the weights", download, { "data-action": "download" }) : null)),
    result,
  );
  result.append(
    legend(),
    make("div", { class: "numbers" }, ...Object.values(numbers).map((one) => one.node)),
    verdict.node,
    worst,
    make("h2", { text: "The head on this input" }),
    make("div", { class: "actions" }, button("all 0", () => setBits(new Uint8Array(state.T))), button("all 1", () => setBits(new Uint8Array(state.T).fill(1))), button("relevant bits 1", relevantOn)),
    strip.node,
    make("p", { class: "strip-caption", text: "Tokens, as drawn: softmax of the scores gives the weights; the output is read off the weighted values." }),
    tokens,
    meter.node,
    found.node,
    make("h2", { text: "The certificate" }),
    more,
    make("p", {}, "The same numbers: ", command),
  );

  const draw = onFrame(() => head && drawAll());
  const ask = latest((question) => host.ask("compile", question), show, fail);

  function question() {
    const { on, ...rest } = state;
    return rest;
  }

  function settle(change) {
    Object.assign(state, change);
    bits = resized(bits, state.T);
    remember();
    said.say("computing \u2026");
    ask(question());
    if (change.formula !== undefined || change.encoding !== undefined) ladder = null;
    return state;
  }

  function remember() {
    state.on = rangesOf(bits);
    const kept = {};
    for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) kept[name] = value;
    host.setState(kept);
  }

  function show(reply, question) {
    answer = { ...reply, question };
    head = reply.head;
    said.say("");
    result.classList.remove("stale");
    weight.fill([{ value: "", text: "as compiled" }, ...Object.entries(reply.weights).map(([name, amount]) => ({ value: name, text: `${name} = ${shortNumber(amount)}` }))], state.weight);
    value.disable(!state.weight);
    if (state.weight) value.set(state.value);
    T.set(state.T);
    command.textContent = reply.command;
    certificate(reply);
    sayWorst(drawnMargin(head).worst);
    draw();
    if (ladder === null) {
      ladder = [];
      const { formula: text, encoding: kind } = state;
      host.ask("ladder", { formula: text, encoding: kind }).then((found) => { if (text === state.formula && kind === state.encoding) ladder = found.rungs; }, () => {});
    }
  }

  function fail(error) {
    said.say(error.message, "error");
    result.classList.add("stale");
    if (answer) verdict.say(`These numbers still belong to ${answer.question.formula}, T = ${answer.question.T}.`);
    for (const one of Object.values(numbers)) one.node.querySelector("output").dataset.kind = "drawn";
  }

  function longEnough(x) {
    return Math.max(Math.round(x), Math.max(0, ...(answer?.head.support ?? [])) + 1);
  }

  function certificate({ certificate: c, proved }) {
    numbers.margin.set(c.margin, "computed");
    numbers.error.set(c.worst_case_error, "computed");
    numbers.wrong.set(c.wrong_decisions, "computed", proved ? (c.margin === null ? "not applicable" : `0 of 2^${c.T}`) : "not proved 0");
    numbers.norm.set(c.norms.W_QK.frobenius, "computed");
    numbers.units.set(c.mlp_units, "computed");
    if (proved && c.margin !== null) verdict.say(`Right on all 2^${c.T} inputs: every output is at least ${shortNumber(c.margin)} away from the threshold.`, "good");
    else if (proved) verdict.say(`On all 2^${c.T} inputs the output is within ${shortNumber(c.worst_case_error)} of the value of the formula.`, "good");
    else verdict.say("Not proved right on all inputs. Press \u201cbreak it\u201d to look for an input that fails.", "error");
    const norms = Object.entries(c.norms).map(([name, row]) => [name, ...["frobenius", "spectral", "norm_2_1"].map((kind) => exact(row[kind]))]);
    const samples = Object.entries(c.sample_size).map(([route, m]) => [route, m === null ? "no finite number" : exact(m), c.capacity[route]?.vacuous_in_practice ? "vacuous in practice" : ""]);
    more.replaceChildren(
      table(["matrix", "Frobenius", "spectral", "(2,1)"], norms, `${c.family}, ${c.encoding}, d = ${c.d}`),
      samples.length ? table(["route", "m", ""], samples, "Examples for error 0.1 with probability 95 %") : make("p", { text: "No sample size: the head is not right on all inputs." }),
    );
  }

  function exact(amount) {
    const node = make("span", { text: shortNumber(amount), "data-kind": "computed" });
    node.dataset.value = String(amount);
    return node;
  }

  function drawAll() {
    if (bits.length !== head.T) bits = resized(bits, head.T);
    const now = forward(head, bits);
    const relevant = new Set(head.support);
    strip.draw(head, bits, (t) => mass(head, now.known, relevant.has(t), bits[t]) / now.Z);
    meter.draw(now.output, head.cut, head.boolean ? head.table[now.pattern.reduce((row, bit, i) => row + (bit << i), 0)] > 0.5 : null);
    numbers.output.set(now.output, "drawn");
    drawTokens(now);
  }

  function drawTokens(now) {
    const columns = head.support.slice(0, SHOWN).map((t, i) => ({ name: `x${t}`, t, bit: bits[t], score: score(head, now.known, true, bits[t]), weight: mass(head, now.known, true, bits[t]) / now.Z, value: head.scalar ? head.readout.nu[i] : head.readout.position_values[i]?.[0] }));
    const rest = head.T - head.support.length;
    columns.push({ name: "others", t: null, bit: `${rest} tokens`, score: score(head, now.known, false, head.beta), weight: now.others, value: 0 });
    columns.push({ name: "[CLS]", t: null, bit: null, score: score(head, now.known, "CLS", 0), weight: now.cls, value: head.scalar ? head.readout.cls_value : head.readout.cls_values[0] });
    if (tokens.dataset.columns !== columns.map((column) => column.name).join()) buildTokens(columns);
    columns.forEach((column, i) => {
      const cell = tokens.cells[i];
      cell.bit.textContent = column.bit;
      if (column.t !== null) cell.bit.setAttribute("aria-pressed", column.bit === 1);
      cell.score.textContent = shortNumber(column.score);
      cell.weight.textContent = shortNumber(column.weight);
      cell.bar.style.setProperty("--share", column.weight);
      cell.value.textContent = shortNumber(column.value);
    });
  }

  function buildTokens(columns) {
    tokens.dataset.columns = columns.map((column) => column.name).join();
    tokens.cells = columns.map((column) => ({
      bit: column.t === null ? make("span") : make("button", { type: "button", class: "bit", "aria-label": `bit x${column.t}`, on: { click: () => flip(column.t) } }),
      score: make("span"),
      weight: make("span"),
      bar: make("span", { class: "share", "aria-hidden": "true" }),
      value: make("span"),
    }));
    const row = (name, part) => make("tr", {}, make("th", { scope: "row", text: name }), ...tokens.cells.map((cell) => make("td", {}, ...part(cell))));
    tokens.replaceChildren(
      make(
        "table",
        { class: "drawn-table", "aria-label": "Tokens, as drawn" },
        make("thead", {}, make("tr", {}, make("th", { text: "token" }), ...columns.map((column) => make("th", { scope: "col", text: column.name })))),
        make("tbody", {}, row("bit", (cell) => [cell.bit]), row("score", (cell) => [cell.score]), row("weight", (cell) => [cell.bar, cell.weight]), row("value", (cell) => [cell.value])),
      ),
    );
  }

  function preview() {
    const drawn = drawnMargin(head);
    numbers.margin.set(drawn.margin, "drawn");
    numbers.error.set(drawn.error, "drawn");
    numbers.wrong.set(null, "drawn", "\u2026");
    numbers.norm.set(keyNorm(head), "drawn");
    verdict.say("Drawn while you drag; the proof follows when you release the slider.");
    sayWorst(drawn.worst);
    draw();
  }

  function sayWorst(input) {
    if (input === null) return void (worst.textContent = "");
    const bits = head.support.map((t, i) => `x${t} = ${input.pattern[i]}`);
    const others = input.share === 0 ? "all others 0" : input.share === 1 ? "all others 1" : `${Math.round(100 * input.share)} % of the others 1`;
    worst.textContent = `Worst input as drawn: ${[...bits, others].join(", ")}.`;
  }

  function compiledAt(length) {
    return ladder?.length ? between(ladder, length) : { ...answer.head, T: length };
  }

  function moveT(x) {
    if (!answer) return;
    const length = longEnough(x);
    head = withWeight(atTemperature(compiledAt(length), state.temperature), state.weight, state.value);
    bits = resized(bits, length);
    preview();
  }

  function moveTemperature(x) {
    if (!answer) return;
    head = atTemperature(answer.head, x / state.temperature);
    preview();
  }

  function moveWeight(x) {
    if (!answer || !state.weight) return;
    head = withWeight(answer.head, state.weight, x);
    preview();
  }

  function chooseWeight(name) {
    settle({ weight: name, value: name ? answer.weights[name] : 0 });
  }

  function reset() {
    temperature.set(1);
    settle({ temperature: 1, weight: "", value: 0 });
  }

  function flip(t) {
    bits[t] ^= 1;
    remember();
    draw();
  }

  function setBits(next) {
    bits = next;
    remember();
    draw();
  }

  function relevantOn() {
    const next = new Uint8Array(state.T);
    for (const t of head?.support ?? []) next[t] = 1;
    setBits(next);
  }

  async function breakIt() {
    found.say("looking for an input that fails \u2026");
    try {
      const reply = await host.ask("break", question());
      setBits(bitsFrom(reply.on, state.T));
      const [low, high] = reply.output.map(shortNumber);
      const wanted = head.boolean ? `${reply.wanted > head.cut ? "above" : "below"} ${head.cut}` : reply.wanted;
      const output = `The output on the input shown is in [${low}, ${high}], wanted ${wanted}.`;
      if (reply.fails) found.say(`Counterexample: the decision on this input is wrong. ${output}`, "error");
      else if (reply.margin > 0) found.say(`No input fails: the margin ${shortNumber(reply.margin)} is proved. The input with the smallest margin found is shown. ${output}`, "good");
      else found.say(`No failing input was found, but there may be one. The input with the smallest margin found is shown. ${output}`);
    } catch (error) {
      found.say(error.message, "error");
    }
  }

  async function download() {
    try {
      await host.download("weights", question());
      said.say("head.safetensors was saved; capax verify head.safetensors checks it");
    } catch (error) {
      said.say(error.message, "error");
    }
  }

  if (state.temperature !== 1) temperature.set(state.temperature);
  ask(question());
}

function resized(bits, T) {
  const next = new Uint8Array(T);
  next.set(bits.subarray(0, T));
  return next;
}
