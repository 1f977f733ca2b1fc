// The formulas of a selection head, for drawing between two answers of the server. Nothing here is a
// proof: rounding is not looked after. Weights are up to the common factor that softmax does not see:
// relevant active 1, relevant inactive delta, irrelevant active tau, irrelevant inactive tau delta,
// [CLS] omega; in the bag every token that is not relevant and on weighs tau.

export function constants(head) {
  const tau = Math.exp(-head.a);
  const delta = Math.exp(-head.D);
  const gap = head.a + Math.log(head.omega);
  return { tau, delta, gap, shift: head.bag ? 0 : (head.D - gap) / 3 };
}

export function mass(head, { tau, delta }, relevant, bit) {
  if (head.bag) return relevant && bit ? 1 : tau;
  return (relevant ? 1 : tau) * (bit === head.beta ? 1 : delta);
}

export function score(head, { gap, shift }, relevant, bit) {
  if (relevant === "CLS") return gap + shift;
  if (head.bag) return relevant && bit ? head.a : 0;
  return (relevant ? head.a : 0) + shift - (bit === head.beta ? 0 : head.D);
}

function activity(head, { delta }, bit) {
  return bit === head.beta ? 1 : head.bag ? 0 : delta;
}

// The output for given relevant bits and normaliser Z.
function outputAt(head, known, pattern, Z) {
  const { readout } = head;
  if (head.scalar) {
    let sum = head.omega * readout.cls_value;
    readout.nu.forEach((nu, i) => (sum += nu * activity(head, known, pattern[i])));
    return (readout.scale * sum) / Z;
  }
  const u = readout.cls_values.map((value, k) => {
    let sum = head.omega * value;
    readout.position_values.forEach((row, i) => (sum += row[k] * activity(head, known, pattern[i])));
    return sum / Z;
  });
  let output = readout.b_2;
  readout.b_1.forEach((bias, j) => {
    let hidden = bias;
    u.forEach((value, k) => (hidden += value * readout.W_1[k][j]));
    if (hidden > 0) output += hidden * readout.w_2[j];
  });
  return output;
}

export function forward(head, bits) {
  const known = constants(head);
  const relevant = new Set(head.support);
  let ones = 0;
  for (let t = 0; t < bits.length; t++) ones += bits[t];
  const pattern = head.support.map((t) => bits[t]);
  const on = ones - pattern.reduce((a, b) => a + b, 0);
  const off = bits.length - relevant.size - on;
  const others = on * mass(head, known, false, 1) + off * mass(head, known, false, 0);
  let Z = head.omega + others;
  for (const bit of pattern) Z += mass(head, known, true, bit);
  return { known, Z, others: others / Z, pattern, output: outputAt(head, known, pattern, Z), cls: head.omega / Z };
}

// The smallest distance from a wrong decision over all patterns and irrelevant bits, as drawn, and the
// input where it is met: its relevant bits, and the share of ones among the others.
export function drawnMargin(head) {
  if (!head.boolean) return { margin: null, error: null, worst: null };
  const known = constants(head);
  const s = head.support.length;
  const hidden = head.T - s;
  let margin = Infinity;
  let error = 0;
  let worst = null;
  for (let row = 0; row < 1 << s; row++) {
    const pattern = Array.from({ length: s }, (_, i) => (row >> i) & 1);
    let least = head.omega;
    for (const bit of pattern) least += mass(head, known, true, bit);
    const ends = [0, 1].map((bit) => least + hidden * mass(head, known, false, bit));
    const wanted = head.table[row] > 0.5;
    const target = head.scalar ? (wanted ? 1 : -1) : head.table[row];
    const points = head.scalar ? 2 : 5;
    for (let k = 0; k < points; k++) {
      const share = k / (points - 1);
      const output = outputAt(head, known, pattern, ends[0] + (ends[1] - ends[0]) * share);
      const away = wanted ? output - head.cut : head.cut - output;
      if (away < margin) [margin, worst] = [away, { pattern, share }];
      error = Math.max(error, Math.abs(output - target));
    }
  }
  return { margin, error, worst };
}

export function keyNorm(head) {
  const { gap } = constants(head);
  const rest = head.bag ? gap ** 2 : (2 / 3) * (gap ** 2 + gap * head.D + head.D ** 2);
  return Math.sqrt(head.support.length * head.a ** 2 + rest);
}

export function atTemperature(head, theta) {
  return { ...head, a: head.a / theta, D: head.D / theta, omega: head.omega ** (1 / theta) };
}

// The head with another number in the place called `name`, as the server names it: `W_V[x5]`, `w`, `b_2`.
export function withWeight(head, name, x) {
  const found = /^(w|b_2|W_V|W_1|b_1|w_2)(?:\[([^\]]*)\])?$/.exec(name);
  if (!found) return head;
  const readout = structuredClone(head.readout);
  const [row, column = "0"] = (found[2] ?? "").split(",");
  const i = head.support.indexOf(Number(row.slice(1)));
  if (found[1] === "w") readout.scale = x;
  else if (found[1] === "b_2") readout.b_2 = x;
  else if (found[1] === "W_V" && row === "CLS") head.scalar ? (readout.cls_value = x) : (readout.cls_values[Number(column)] = x);
  else if (found[1] === "W_V") head.scalar ? (readout.nu[i] = x) : (readout.position_values[i][Number(column)] = x);
  else if (found[1] === "W_1") readout.W_1[Number(row)][Number(column)] = x;
  else readout[found[1]][Number(row)] = x;
  return { ...head, readout };
}

// Between two rungs of the ladder every number is a line in ln T.
export function between(rungs, T) {
  const last = rungs.length - 1;
  let k = rungs.findIndex((rung) => rung.T >= T);
  if (k < 0) k = last;
  const high = rungs[k];
  const low = rungs[Math.max(0, k - 1)];
  const span = Math.log(high.T) - Math.log(low.T);
  const part = span > 0 ? (Math.log(T) - Math.log(low.T)) / span : 1;
  const mix = (a, b) => (Array.isArray(a) ? a.map((x, i) => mix(x, b[i])) : a + (b - a) * part);
  const same = JSON.stringify(Object.values(low.readout).map(shape)) === JSON.stringify(Object.values(high.readout).map(shape));
  const readout = {};
  for (const name of Object.keys(high.readout)) readout[name] = same ? mix(low.readout[name], high.readout[name]) : high.readout[name];
  return { ...high, T, a: mix(low.a, high.a), D: mix(low.D, high.D), omega: Math.exp(mix(Math.log(low.omega), Math.log(high.omega))), readout };
}

function shape(value) {
  return Array.isArray(value) ? [value.length, ...(value.length ? shape(value[0]) : [])] : [];
}
