// Reading a chart: hover or tap for values, arrow keys to move, drag to zoom, click to see the runs.

function mountPointer(chart) {
  const plot = chart.root.querySelector(".plot");
  let start = null;
  const position = (event) => {
    const box = plot.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  plot.addEventListener("pointerdown", (event) => {
    start = position(event);
  });
  plot.addEventListener("pointermove", (event) => {
    const here = position(event);
    if (start && Math.abs(here[0] - start[0]) > 6) return drawSelection(chart, start, here);
    readOut(chart, nearestPoint(chart, here));
  });
  plot.addEventListener("pointerup", (event) => {
    const here = position(event);
    if (start && Math.abs(here[0] - start[0]) > 6) zoomTo(chart, [start, here]);
    else {
      const point = nearestPoint(chart, here);
      readOut(chart, point);
      if (event.pointerType === "mouse") follow(chart, point, here);
    }
    start = null;
  });
  plot.addEventListener("pointercancel", () => (start = null));
  plot.addEventListener("pointerleave", () => {
    start = null;
    readOut(chart, null);
  });
  plot.addEventListener("dblclick", () => zoomTo(chart, null));
  plot.addEventListener("keydown", (event) => walk(chart, event));
}

function nearestPoint(chart, [px, py]) {
  let best = null;
  for (const series of visibleSeries(chart)) {
    if (series.silent) continue;
    for (let i = 0; i < series.x.length; i++) {
      if (series.y[i] === null) continue;
      const dx = chart.x.to(series.x[i]) - px;
      const dy = chart.y.to(series.y[i]) - py;
      const distance = Math.hypot(dx, dy * (chart.spec.hover === "x" ? 0.25 : 1));
      if (Number.isFinite(distance) && (!best || distance < best.distance)) best = { series, i, distance };
    }
  }
  return best;
}

function readOut(chart, point) {
  chart.point = point;
  chart.cursor.replaceChildren();
  chart.tip.hidden = point === null;
  if (!point) return;
  const at = point.series.x[point.i];
  const cx = chart.x.to(at);
  const { frame } = chart;
  chart.cursor.append(element("line", { x1: cx, x2: cx, y1: frame.top, y2: frame.bottom }));
  const rows = chart.spec.hover === "x" ? rowsAt(chart, at) : [point];
  const title = document.createElement("strong");
  title.textContent = `${chart.spec.x.short} = ${formatNumber(at)}`;
  chart.tip.replaceChildren(title, ...rows.map((row) => tipRow(chart, row)));
  placeTip(chart, cx, chart.y.to(point.series.y[point.i]));
}

function rowsAt(chart, at) {
  const rows = [];
  for (const series of visibleSeries(chart)) {
    if (series.silent) continue;
    let best = -1;
    series.x.forEach((value, i) => {
      if (best < 0 || Math.abs(value - at) < Math.abs(series.x[best] - at)) best = i;
    });
    const near = best >= 0 && Math.abs(chart.x.to(series.x[best]) - chart.x.to(at)) < 9;
    if (near && series.y[best] !== null) rows.push({ series, i: best });
  }
  return rows;
}

function tipRow(chart, { series, i }) {
  chart.cursor.append(
    element("circle", { cx: chart.x.to(series.x[i]), cy: chart.y.to(series.y[i]), r: 5, style: `--series: var(--${series.color})` }),
  );
  const row = document.createElement("span");
  row.style.setProperty("--series", `var(--${series.color})`);
  const interval = series.low ? ` [${formatNumber(series.low[i])}, ${formatNumber(series.high[i])}]` : "";
  const value = document.createElement("b");
  value.textContent = formatNumber(series.y[i]) + interval;
  const note = series.notes?.[i] ? ` (${series.notes[i]})` : "";
  row.append(document.createElement("i"), `${series.name} `, value, note);
  return row;
}

function placeTip(chart, cx, cy) {
  const { tip, root } = chart;
  const plot = root.querySelector(".plot");
  const left = plot.offsetLeft + cx;
  const onLeft = cx > plot.clientWidth / 2;
  tip.style.left = onLeft ? "auto" : `${Math.max(0, left + 12)}px`;
  tip.style.right = onLeft ? `${Math.max(0, root.clientWidth - left + 12)}px` : "auto";
  const room = plot.offsetTop + plot.clientHeight - tip.offsetHeight - 4;
  tip.style.top = `${Math.max(plot.offsetTop, Math.min(plot.offsetTop + cy - 30, room))}px`;
}

function drawSelection(chart, [x0, y0], [x1, y1]) {
  chart.tip.hidden = true;
  const [top, bottom] = Math.abs(y1 - y0) > 24 ? [y0, y1] : [chart.frame.top, chart.frame.bottom];
  chart.cursor.replaceChildren(
    element("rect", { class: "selection", x: Math.min(x0, x1), width: Math.abs(x1 - x0), y: Math.min(top, bottom), height: Math.abs(bottom - top) }),
  );
}

function zoomTo(chart, corners) {
  if (corners) {
    const [[x0, y0], [x1, y1]] = corners;
    const { frame, x, y } = chart;
    const inside = (value, low, high) => Math.min(high, Math.max(low, value));
    const xs = [x0, x1].map((p) => x.from(inside(p, frame.left, frame.right))).sort((a, b) => a - b);
    const ys = Math.abs(y1 - y0) > 24 ? [y0, y1].map((p) => y.from(inside(p, frame.top, frame.bottom))) : [...y.domain];
    ys.sort((a, b) => a - b);
    if (xs[0] === xs[1] || ys[0] === ys[1]) return;
    chart.view = [xs, ys];
  } else chart.view = null;
  drawChart(chart);
  chart.tip.hidden = true;
}

function walk(chart, event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Enter" && chart.point) return follow(chart, chart.point, null);
  if (event.key === "Escape") return zoomTo(chart, null);
  if (!step) return;
  event.preventDefault();
  const series = chart.point?.series ?? visibleSeries(chart).find((s) => !s.silent);
  if (!series) return;
  const next = chart.point ? chart.point.i + step : 0;
  readOut(chart, { series, i: Math.min(series.x.length - 1, Math.max(0, next)) });
}

function follow(chart, point, here) {
  const trace = point?.series.trace ?? point?.series.traces?.[point.i];
  if (!trace) return;
  const close = !here || Math.hypot(chart.x.to(point.series.x[point.i]) - here[0], chart.y.to(point.series.y[point.i]) - here[1]) < 12;
  if (close) document.dispatchEvent(new CustomEvent("trace", { detail: trace }));
}
