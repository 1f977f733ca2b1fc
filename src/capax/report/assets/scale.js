// Scales map data to pixels, linear or logarithmic; ticks, and the format of numbers.

const NUMBER = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, useGrouping: false });
const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function formatNumber(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "open";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) {
    const exponent = Math.floor(Math.log10(size));
    const mantissa = NUMBER.format(value / 10 ** exponent);
    return (mantissa === "1" ? "" : mantissa + "·") + "10" + superscript(exponent);
  }
  const text = size >= 1e4 ? GROUPED.format(value).replaceAll(",", "\u2009") : NUMBER.format(value);
  return text.replace("-", "\u2212");
}

// `1 run`, `2 runs`.
function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function superscript(exponent) {
  const signs = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  return [...String(exponent)].map((sign) => signs[sign]).join("");
}

function makeScale(domain, range, log) {
  const warp = log ? Math.log10 : (value) => value;
  const [a, b] = domain.map(warp);
  const [start, end] = range;
  return {
    log,
    domain,
    to: (value) => start + ((warp(value) - a) / (b - a)) * (end - start),
    from: (pixel) => {
      const warped = a + ((pixel - start) / (end - start)) * (b - a);
      return log ? 10 ** warped : warped;
    },
  };
}

function makeTicks(scale, count, wanted = null) {
  if (wanted) return spacedTicks(scale, wanted);
  return scale.log ? logTicks(scale.domain, count) : linearTicks(scale.domain, count);
}

function spacedTicks(scale, wanted) {
  const kept = [];
  for (const tick of [...wanted].reverse()) {
    const inside = tick >= scale.domain[0] && tick <= scale.domain[1];
    if (inside && (!kept.length || scale.to(kept.at(-1)) - scale.to(tick) > 42)) kept.push(tick);
  }
  return kept;
}

function linearTicks([low, high], count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks([low, high], count) {
  const decades = Math.log10(high / low);
  if (decades < 0.4) return linearTicks([low, high], count).filter((tick) => tick > 0);
  const digits = decades * 3 <= count + 1 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(decades / Math.max(1, count)));
  const ticks = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) {
    if (((k % stride) + stride) % stride !== 0) continue;
    for (const digit of digits) {
      const tick = digit * 10 ** k;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(Number(tick.toPrecision(12)));
    }
  }
  return ticks;
}

function extent(values, { log, margin = 0.04, from = null, upTo = null }) {
  const usable = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let low = Math.min(...usable);
  let high = Math.max(...usable);
  if (from !== null && !log) low = from;
  if (upTo !== null) high = upTo;
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 1, high + 1];
  if (log) {
    const pad = (high / low) ** margin;
    return [low / pad, high * pad];
  }
  const pad = (high - low) * margin;
  return [from === null ? low - pad : low, upTo === null ? high + pad : high + pad / 2];
}
