// Elements and numbers. All text is set by textContent, so text from files and formulas is never HTML.

export function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, action] of Object.entries(value)) node.addEventListener(event, action);
    else if (key === "class") node.className = value;
    else if (key === "text") node.textContent = value;
    else if (key in node && !key.includes("-") && key !== "list" && key !== "form") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function button(text, action, properties = {}) {
  return make("button", { type: "button", text, on: { click: action }, ...properties });
}

// A number and where it comes from. `computed`: by the server, with the code of the command line.
// `drawn`: computed by this page. `data-value` holds the number with all its digits.
export function number(label, unit = "") {
  const value = make("output", { class: "value", "aria-live": "off" }); // it may change with every frame
  const node = make("div", { class: "number", role: "group", "aria-label": label }, make("span", { class: "name", text: label }), value);
  return {
    node,
    set(amount, kind, text = null) {
      const shown = text ?? shortNumber(amount);
      value.textContent = shown + unit;
      value.dataset.value = amount === null || amount === undefined ? "" : String(amount);
      value.dataset.kind = kind;
      value.title = { computed: "computed by Capax, as on the command line", drawn: "drawn by this page; not proved" }[kind];
      value.setAttribute("aria-label", `${shown}${unit}, ${kind}`);
    },
  };
}

export function shortNumber(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value !== "number" || !Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value).replace("-", "\u2212");
  if (size >= 1e7 || size < 1e-4) return value.toExponential(3).replace(/\.?0+e/, "e").replace("-", "\u2212").replace("e+", "e");
  return String(Number(value.toPrecision(5))).replace("-", "\u2212");
}

export function legend() {
  return make(
    "p",
    { class: "kinds" },
    make("span", { class: "sample", "data-kind": "computed", text: "0.125" }),
    " computed by Capax, as on the command line ",
    make("span", { class: "sample", "data-kind": "drawn", text: "0.125" }),
    " drawn by this page while you drag",
  );
}

// A slider with a number field beside it. `log`: the slider moves in equal factors. The field takes
// numbers up to `most`, by default the end of the slider.
export function slider({ label, name, low, high, value, most = high, log = false, whole = false, step = null, onInput, onChange }) {
  const steps = 1000;
  const warp = log ? Math.log : (x) => x;
  const back = log ? Math.exp : (x) => x;
  const to = (x) => Math.round(((warp(x) - warp(low)) / (warp(high) - warp(low))) * steps);
  const rounded = (x) => (whole ? Math.round(x) : Number(x.toPrecision(4)));
  const clip = (x) => Math.min(high, Math.max(low, x));
  const stepped = (x) => (step && whole ? clip(Math.max(step, Math.round(x / step) * step)) : x);
  const range = make("input", { type: "range", min: 0, max: steps, value: to(value), "aria-label": label, "data-name": name });
  const field = make("input", { type: "number", min: low, max: most, step: step ?? (whole ? 1 : "any"), value, "aria-label": `${label}, number`, "data-field": name });
  const said = (x) => range.setAttribute("aria-valuetext", shortNumber(x));
  let last = value; // shown again after an input that is not a number
  let moving = false; // somebody types or drags: an answer that arrives meanwhile changes nothing here
  said(value);
  field.addEventListener("input", () => (moving = true));
  for (const part of [field, range]) part.addEventListener("blur", () => (moving = false));
  range.addEventListener("input", () => {
    moving = true;
    const x = stepped(rounded(clip(back(warp(low) + (range.value / steps) * (warp(high) - warp(low))))));
    field.value = x;
    said(x);
    onInput?.(x);
  });
  range.addEventListener("change", () => {
    moving = false;
    last = Number(field.value);
    onChange?.(last);
  });
  field.addEventListener("change", () => {
    moving = false;
    const typed = field.valueAsNumber;
    if (!Number.isFinite(typed)) return void (field.value = last);
    const x = stepped(Math.min(most, Math.max(low, whole ? Math.round(typed) : typed)));
    field.value = last = x;
    range.value = to(clip(x));
    said(x);
    onInput?.(x);
    onChange?.(x);
  });
  const node = make("div", { class: "slider" }, make("span", { class: "name", text: label, "aria-hidden": "true" }), range, field);
  return {
    node,
    get value() {
      return Number(field.value);
    },
    set(x) {
      if (moving) return;
      field.value = last = x;
      range.value = to(clip(x));
      said(x);
    },
    disable(off) {
      range.disabled = field.disabled = off;
    },
  };
}

export function choice(label, name, options, value, onChange) {
  const select = make("select", { "aria-label": label, "data-name": name, on: { change: () => onChange(select.value) } });
  const fill = (list, chosen) => {
    select.replaceChildren(...list.map((option) => make("option", { value: option.value ?? option, text: option.text ?? option })));
    select.value = chosen;
  };
  fill(options, value);
  return { node: make("label", { class: "choice" }, make("span", { class: "name", text: label }), select), select, fill };
}

export function message() {
  const node = make("p", { class: "message", role: "status" });
  return {
    node,
    say(text, kind = "note") {
      node.textContent = text;
      node.dataset.kind = kind;
    },
  };
}

// Calls of `draw` in one frame become one.
export function onFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// The last call wins: answers to earlier questions are dropped, at most one question is open.
export function latest(ask, show, fail) {
  let open = false;
  let next = null;
  let number = 0;
  async function go(question) {
    open = true;
    const mine = ++number;
    try {
      const answer = await ask(question);
      if (next === null && mine === number) show(answer, question);
    } catch (error) {
      if (next === null) fail(error, question);
    }
    open = false;
    if (next !== null) {
      const waiting = next;
      next = null;
      go(waiting);
    }
  }
  return (question) => {
    if (open) next = question;
    else go(question);
  };
}

export function table(head, rows, caption) {
  const cells = (tag, row) => row.map((cell) => (cell instanceof Node ? make(tag, {}, cell) : make(tag, { text: cell ?? "" })));
  return make(
    "table",
    {},
    make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, ...cells("th", head))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row)))),
  );
}

export function chartFrame(id, title) {
  return make(
    "div",
    { class: "chart", id },
    make("div", { class: "bar" }, make("span", { class: "y-label" }), make("span", { class: "controls" })),
    make("div", { class: "plot", tabIndex: 0, role: "group", "aria-label": `${title}. Arrow keys walk along the points.` }),
    make("div", { class: "tip", role: "status", hidden: true }),
    make("div", { class: "legend" }),
  );
}
