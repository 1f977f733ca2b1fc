// Inputs: bits of T positions, written in an address as ranges of ones, `3,7-12`.

export function bitsFrom(text, T) {
  const bits = new Uint8Array(T);
  for (const part of (text || "").split(",")) {
    const found = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(part);
    if (!found) continue;
    const first = Number(found[1]);
    const last = Math.min(T - 1, found[2] === undefined ? first : Number(found[2]));
    for (let t = first; t <= last; t++) bits[t] = 1;
  }
  return bits;
}

export function rangesOf(bits) {
  const parts = [];
  for (let t = 0; t < bits.length; t++) {
    if (!bits[t]) continue;
    const first = t;
    while (t + 1 < bits.length && bits[t + 1]) t++;
    parts.push(first === t ? `${first}` : `${first}-${t}`);
  }
  return parts.join(",");
}
