// The output on a line with the threshold: left of it the head says 0, right of it 1.

import { make, shortNumber } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

export function gauge() {
  const part = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const svg = part("svg", { viewBox: "0 0 400 54", role: "img", class: "gauge" });
  const line = part("line", { x1: 10, x2: 390, y1: 26, y2: 26, class: "axis" });
  const cut = part("line", { x1: 200, x2: 200, y1: 12, y2: 40, class: "cut" });
  const dot = part("circle", { cx: 200, cy: 26, r: 7, class: "dot" });
  const zero = part("text", { x: 10, y: 50 });
  const one = part("text", { x: 390, y: 50, "text-anchor": "end" });
  zero.textContent = "decides 0";
  one.textContent = "decides 1";
  const words = make("p", { class: "strip-caption" });
  svg.append(line, cut, dot, zero, one);
  return {
    node: make("div", { class: "gauge-frame" }, svg, words),
    draw(output, threshold, wanted) {
      const away = output - threshold;
      dot.setAttribute("cx", 200 + 190 * Math.tanh(1.5 * away));
      const decided = away > 0;
      const right = wanted === null || decided === wanted;
      dot.classList.toggle("wrong", !right);
      const says = wanted === null ? "" : `: decides ${decided ? 1 : 0}, the formula says ${wanted ? 1 : 0}${right ? "" : " (wrong)"}`;
      words.textContent = `output ${shortNumber(output)}, threshold ${threshold}${says}`;
      svg.setAttribute("aria-label", words.textContent);
    },
  };
}
