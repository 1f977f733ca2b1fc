// One chart: series of points with intervals, lines and bands on two axes, drawn as SVG.
// A chart is described by plain data (see charts.py); all colours are CSS variables of the page.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") node.style.cssText = value; // an attribute would need a laxer security policy
    else node.setAttribute(key, value);
  }
  if (text !== null) node.textContent = text;
  return node;
}

function mountChart(root, spec) {
  const chart = {
    root,
    spec,
    logX: spec.x.log,
    logY: spec.y.log,
    view: null, // zoomed [x domain, y domain]
    hidden: new Set(),
    tip: root.querySelector(".tip"),
  };
  mountControls(chart);
  mountLegend(chart);
  mountPointer(chart);
  new ResizeObserver(() => drawChart(chart)).observe(root.querySelector(".plot"));
  return chart;
}

function mountControls(chart) {
  const bar = chart.root.querySelector(".controls");
  for (const axis of ["x", "y"]) if (chart.spec[axis].toggle) bar.append(logToggle(chart, axis));
  const reset = plainButton("whole range", () => zoomTo(chart, null));
  reset.className = "reset";
  reset.hidden = true;
  bar.append(reset);
}

function plainButton(text, action) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", action);
  return button;
}

function logToggle(chart, axis) {
  const field = axis === "x" ? "logX" : "logY";
  const show = () => {
    button.textContent = `${chart.spec[axis].short}: ${chart[field] ? "log" : "linear"}`;
    button.setAttribute("aria-pressed", chart[field]);
  };
  const button = plainButton("", () => {
    chart[field] = !chart[field];
    chart.view = null;
    show();
    drawChart(chart);
  });
  button.dataset.axis = axis;
  show();
  return button;
}

function mountLegend(chart) {
  const legend = chart.root.querySelector(".legend");
  const groups = new Map();
  for (const series of chart.spec.series) {
    const name = series.group ?? series.name;
    if (!groups.has(name)) groups.set(name, series);
  }
  for (const [name, series] of groups) {
    const button = plainButton("", () => {
      if (!chart.hidden.delete(name)) chart.hidden.add(name);
      button.setAttribute("aria-pressed", !chart.hidden.has(name));
      drawChart(chart);
    });
    button.className = "key";
    button.setAttribute("aria-pressed", true);
    button.style.setProperty("--series", `var(--${series.color})`);
    button.style.setProperty("--strength", series.strength ?? 1);
    button.classList.toggle("dashed", Boolean(series.dash));
    button.append(document.createElement("i"), name);
    legend.append(button);
  }
}

function visibleSeries(chart) {
  return chart.spec.series.filter((series) => !chart.hidden.has(series.group ?? series.name));
}

function domains(chart) {
  if (chart.view) return chart.view;
  const shown = visibleSeries(chart).filter((series) => series.x.length);
  const all = shown.length ? shown : chart.spec.series;
  const xs = all.flatMap((series) => series.x);
  const ys = all.flatMap((series) => [...series.y, ...(series.low ?? []), ...(series.high ?? [])]);
  ys.push(...chart.spec.rules.map((rule) => rule.y));
  const { x, y } = chart.spec;
  return [
    extent(xs, { log: chart.logX, from: x.from ?? null }),
    extent(ys.filter((value) => value !== null), { log: chart.logY, from: y.from ?? null, upTo: y.upTo ?? null, margin: 0.05 }),
  ];
}

function drawChart(chart) {
  const plot = chart.root.querySelector(".plot");
  const width = Math.max(240, plot.clientWidth);
  const height = Math.round(Math.min(430, Math.max(250, width * 0.56)));
  const frame = { left: 46, right: width - 12, top: 12, bottom: height - 42 };
  const [xDomain, yDomain] = domains(chart);
  chart.frame = frame;
  chart.x = makeScale(xDomain, [frame.left, frame.right], chart.logX);
  chart.y = makeScale(yDomain, [frame.bottom, frame.top], chart.logY);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": chart.spec.title });
  const clip = `clip-${chart.spec.id}`;
  const defs = svg.appendChild(element("clipPath", { id: clip }));
  defs.append(element("rect", { x: frame.left - 7, y: frame.top - 7, width: frame.right - frame.left + 14, height: frame.bottom - frame.top + 14 }));
  svg.append(drawAxes(chart, width, height));
  const body = svg.appendChild(element("g", { "clip-path": `url(#${clip})` }));
  for (const rule of chart.spec.rules) body.append(drawRule(chart, rule));
  for (const series of visibleSeries(chart)) body.append(drawSeries(chart, series));
  chart.cursor = svg.appendChild(element("g", { class: "cursor" }));
  plot.replaceChildren(svg);
  chart.svg = svg;
  chart.root.querySelector(".reset").hidden = chart.view === null;
  chart.root.dataset.scale = `${chart.logX ? "log" : "linear"}-${chart.logY ? "log" : "linear"}`;
}

function drawAxes(chart, width, height) {
  const { frame, x, y, spec } = chart;
  const group = element("g", { class: "axes" });
  for (const tick of makeTicks(y, (frame.bottom - frame.top) / 42)) {
    group.append(element("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y.to(tick), y2: y.to(tick) }));
    group.append(element("text", { x: frame.left - 7, y: y.to(tick) + 4, "text-anchor": "end" }, formatNumber(tick)));
  }
  for (const tick of makeTicks(x, (frame.right - frame.left) / 75, chart.view ? null : spec.x.ticks)) {
    group.append(element("line", { class: "tick", x1: x.to(tick), x2: x.to(tick), y1: frame.bottom, y2: frame.bottom + 4 }));
    group.append(element("text", { x: x.to(tick), y: frame.bottom + 18, "text-anchor": "middle" }, formatNumber(tick)));
  }
  group.append(element("line", { class: "tick", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }));
  group.append(element("text", { class: "label", x: (frame.left + frame.right) / 2, y: height - 6, "text-anchor": "middle" }, spec.x.label));
  chart.root.querySelector(".y-label").textContent = spec.y.label;
  return group;
}

function drawRule(chart, rule) {
  const { frame, y } = chart;
  const group = element("g", { class: "rule" });
  group.append(element("line", { x1: frame.left, x2: frame.right, y1: y.to(rule.y), y2: y.to(rule.y) }));
  group.append(element("text", { x: frame.right - 4, y: y.to(rule.y) - 5, "text-anchor": "end" }, rule.label));
  return group;
}

function drawSeries(chart, series) {
  const { x, y } = chart;
  const group = element("g", { class: "series", style: `--series: var(--${series.color}); --strength: ${series.strength ?? 1}` });
  const drawable = (i) => series.y[i] !== null && (!y.log || series.y[i] > 0) && (!x.log || series.x[i] > 0);
  const path = series.x.map((_, i) => i).filter(drawable);
  const trail = (indices, values) => indices.map((i) => `${x.to(series.x[i]).toFixed(1)},${y.to(values[i]).toFixed(1)}`).join(" ");
  if (series.low && series.line) {
    const band = path.filter((i) => series.low[i] !== null && series.high[i] !== null && (!y.log || series.low[i] > 0));
    if (band.length) group.append(element("polygon", { class: "band", points: `${trail(band, series.high)} ${trail([...band].reverse(), series.low)}` }));
  }
  if (series.line) {
    const dash = series.dash ? { "stroke-dasharray": series.dash } : {};
    group.append(element("polyline", { class: series.faint ? "line faint" : "line", points: trail(path, series.y), ...dash }));
  }
  if (series.marks) for (const i of path) group.append(drawMark(chart, series, i));
  return group;
}

function drawMark(chart, series, i) {
  const { x, y } = chart;
  const group = element("g", { class: series.traces ? "mark traceable" : "mark" });
  const cx = x.to(series.x[i]);
  if (series.low && !series.line) {
    const [bottom, top] = y.domain;
    const low = Math.max(series.low[i] ?? bottom, y.log ? bottom : -Infinity);
    const high = series.high[i] ?? top;
    group.append(element("line", { class: "interval", x1: cx, x2: cx, y1: y.to(low), y2: y.to(high) }));
  }
  group.append(element("circle", { cx, cy: y.to(series.y[i]), r: series.radius ?? 4.5 }));
  return group;
}
