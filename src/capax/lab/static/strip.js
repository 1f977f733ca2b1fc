// All T tokens as a strip: a bar for each weight, the bit below it. Click or space flips a bit.

import { make, shortNumber } from "./dom.js";

const HEIGHT = 110;
const BITS = 12;

export function tokenStrip(onFlip) {
  const canvas = make("canvas", { class: "strip-canvas", height: HEIGHT });
  const caption = make("p", { class: "strip-caption", role: "status" });
  const frame = make("div", { class: "strip-view", tabIndex: 0, role: "group", "aria-label": "Input bits and weights. Arrow keys move, space flips the bit, home and end jump, R goes to the next relevant bit." }, canvas);
  const node = make("div", {}, frame, caption);
  let now = null;
  let cursor = -1;

  function draw(head, bits, weight) {
    now = { head, bits, weight };
    const width = Math.max(240, frame.clientWidth);
    const ratio = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = HEIGHT * ratio;
    }
    const style = getComputedStyle(frame);
    const color = (name) => style.getPropertyValue(name).trim();
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const T = bits.length;
    const relevant = new Set(head.support);
    const columns = Math.min(T, Math.floor(width));
    const step = width / columns;
    const floor = HEIGHT - BITS - 4;
    let peak = 0.02;
    for (let t = 0; t < T; t++) peak = Math.max(peak, weight(t));
    const plain = color("--muted");
    const marked = color("--series-2");
    const on = color("--series-1");
    const off = color("--line");
    for (let c = 0; c < columns; c++) {
      const first = Math.floor((c * T) / columns);
      const end = Math.max(first + 1, Math.floor(((c + 1) * T) / columns));
      let top = 0;
      let ones = 0;
      let hit = false;
      for (let t = first; t < end; t++) {
        const w = weight(t);
        if (w > top) top = w;
        ones += bits[t];
        if (relevant.has(t)) hit = true;
      }
      const x = c * step;
      const wide = Math.max(step - (step > 3 ? 1 : 0), hit ? 2 : 0.6);
      const tall = Math.max(hit ? 2 : 0.5, (top / peak) * (floor - 6));
      pen.fillStyle = hit ? marked : plain;
      pen.fillRect(x, floor - tall, wide, tall);
      pen.fillStyle = ones * 2 >= end - first ? on : off;
      pen.fillRect(x, floor + 3, wide, BITS);
    }
    if (cursor >= 0 && cursor < T) {
      const x = (cursor / T) * width;
      pen.strokeStyle = color("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(x, 1, Math.max(2, step), HEIGHT - 2);
    }
    read(cursor);
  }

  function read(t) {
    if (!now) return;
    if (t < 0 || t >= now.bits.length) {
      caption.textContent = `${now.bits.length} tokens, the highest bar is the largest weight; the relevant ones are marked. Point at one, or use the arrow keys.`;
      return;
    }
    const kind = now.head.support.includes(t) ? "relevant" : "irrelevant";
    caption.textContent = `x${t}: bit ${now.bits[t]}, ${kind}, weight ${shortNumber(now.weight(t))}`;
  }

  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return Math.min(now.bits.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * now.bits.length)));
  };
  const again = () => now && draw(now.head, now.bits, now.weight);
  frame.addEventListener("pointermove", (event) => {
    if (now) read(place(event));
  });
  frame.addEventListener("pointerleave", () => read(cursor));
  frame.addEventListener("click", (event) => {
    if (!now) return;
    cursor = place(event);
    onFlip(cursor);
  });
  frame.addEventListener("keydown", (event) => {
    if (!now) return;
    const T = now.bits.length;
    const far = event.shiftKey ? 10 : 1;
    const moves = { ArrowRight: far, ArrowLeft: -far };
    if (event.key in moves) cursor = Math.min(T - 1, Math.max(0, cursor + moves[event.key]));
    else if (event.key === "Home") cursor = 0;
    else if (event.key === "End") cursor = T - 1;
    else if (event.key === "r" || event.key === "R") cursor = now.head.support.find((t) => t > cursor) ?? now.head.support[0] ?? cursor;
    else if (event.key === " " || event.key === "Enter") {
      if (cursor >= 0) onFlip(cursor);
    } else return;
    event.preventDefault();
    again();
  });
  new ResizeObserver(again).observe(frame);
  return { node, draw };
}
