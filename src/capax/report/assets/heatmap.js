// Attention weights, one strip per head: rows are examples, columns positions and, last, [CLS].
// Opacity is the square root of the weight, so that the small weights of an idle head stay visible.

function mountHeatmap(root, spec) {
  const tip = root.querySelector(".tip");
  const strips = spec.heads.map((head) => buildStrip(root, spec, head, tip));
  const paint = () => strips.forEach((strip) => paintStrip(spec, strip));
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
}

function buildStrip(root, spec, head, tip) {
  const figure = document.createElement("figure");
  figure.className = "strip";
  const caption = document.createElement("figcaption");
  const share = document.createElement("b");
  share.textContent = head.share.toFixed(2);
  caption.append(span(head.name), span("on I ", share), span(signed(head.effect)));
  const canvas = document.createElement("canvas");
  canvas.width = spec.T + 2; // one empty column before [CLS]
  canvas.height = head.weights.length;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `attention weights of ${head.name}, share on the relevant positions ${head.share.toFixed(2)}`);
  const frame = document.createElement("div");
  frame.className = "strip-frame";
  frame.append(canvas, ...spec.support.map((t) => supportMark(spec, t)));
  figure.append(caption, frame);
  root.querySelector(".strips").append(figure);
  canvas.addEventListener("pointermove", (event) => readCell(root, spec, head, canvas, tip, event));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  return { canvas, head };
}

function span(...content) {
  const node = document.createElement("span");
  node.append(...content);
  return node;
}

function supportMark(spec, t) {
  const mark = document.createElement("span");
  mark.className = "support-mark";
  mark.style.left = `${(100 * (t + 0.5)) / (spec.T + 2)}%`;
  return mark;
}

function signed(value) {
  return (value < 0 ? "\u2212" : "+") + formatNumber(Number(Math.abs(value).toPrecision(2)));
}

function paintStrip(spec, { canvas, head }) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--series-1").trim();
  head.weights.forEach((row, example) =>
    row.forEach((weight, t) => {
      context.globalAlpha = Math.sqrt(weight);
      context.fillRect(t < spec.T ? t : t + 1, example, 1, 1);
    }),
  );
}

function readCell(root, spec, head, canvas, tip, event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * canvas.width);
  const example = Math.floor(((event.clientY - box.top) / box.height) * canvas.height);
  const t = column > spec.T ? spec.T : column;
  tip.hidden = column === spec.T || example < 0 || example >= head.weights.length;
  if (tip.hidden) return;
  const where = t === spec.T ? "[CLS]" : `position ${t}${spec.support.includes(t) ? " (relevant)" : ""}, bit ${spec.bits[example][t]}`;
  const title = document.createElement("strong");
  title.textContent = `${head.name}, example ${example + 1}`;
  const line = document.createElement("span");
  line.textContent = `${where}: weight ${formatNumber(head.weights[example][t])}`;
  tip.replaceChildren(title, line);
  const outer = root.getBoundingClientRect();
  const left = event.clientX - outer.left;
  const onLeft = left > outer.width / 2;
  tip.style.left = onLeft ? "auto" : `${left + 12}px`;
  tip.style.right = onLeft ? `${outer.width - left + 12}px` : "auto";
  tip.style.top = `${event.clientY - outer.top + 14}px`;
}
