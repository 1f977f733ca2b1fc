"""The second checker for trained networks: the same statement in balls (Arb), other code.

No number is rounded by hand here: weights, roots, quotients and erf are balls of 160 bits. The
range of a sum over the free bits with a limited number of ones comes from a multiplier, not a sort,
sigma from slopes on pieces instead of points of a grid. It shares no line with `capax_check`.
"""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
from flint import arb, arb_mat, fmpq
from safetensors import safe_open

PIECES = 24


def ball(x) -> arb:
    ratio = Fraction(x)
    return arb(fmpq(ratio.numerator, ratio.denominator))


def matrix(rows) -> arb_mat:
    return arb_mat([[x if isinstance(x, arb) else ball(float(x)) for x in row] for row in rows])


def rows_of(M: arb_mat) -> list[list[arb]]:
    return M.tolist()


def upper(x: arb) -> arb:
    return arb(x.upper())


def largest(gains: list[arb], first: int, last: int) -> arb:
    """At least the largest sum of `first` to `last` gains: sum (g - m)+ + m (last or first)."""
    tops = sorted((float(g.mid()) for g in gains), reverse=True)
    positive = sum(g > 0 for g in tops)
    m = 0.0
    if positive > last:
        m = tops[last]
    elif positive < first:
        m = tops[first - 1]
    level = ball(m)
    total = sum((max_zero(g - level) for g in gains), arb(0))
    return upper(total + level * (last if m > 0 else first))


def max_zero(x: arb) -> arb:
    return x.max(arb(0))


class Heads:
    """Balls for every token (two for each position, [CLS] last): weights and values."""

    def __init__(self, a, spec):
        d, H = spec["d"], spec["heads"]
        k = d // H
        tokens = matrix(self.normed([[ball(float(p)) + ball(float(e)) for p, e in
                                      zip(P, E, strict=True)] for P in a["position"]
                                     for E in a["embed"]] + [[ball(c) for c in a["cls"]]],
                                    a, "blocks.0.ln1"))  # fmt: skip
        W = {n: a[f"blocks.0.{n}"] for n in ("W_Q", "W_K", "W_V", "b_Q", "b_V")}
        self.w, self.v, self.k = [], [], k
        last = arb_mat([rows_of(tokens)[-1]])
        for h in range(H):
            asked = rows_of(last * matrix(W["W_Q"][h]))[0]
            query = [q + ball(float(b)) for q, b in zip(asked, W["b_Q"][h], strict=True)]
            key = matrix(W["W_K"][h]) * arb_mat([[q] for q in query])
            scale = 1 / arb(k).sqrt() if spec["scale"] == "sqrt" else arb(1)
            scores = [row[0] * scale for row in rows_of(tokens * key)]
            top = ball(max(float(s.mid()) for s in scores))
            self.w.append([(s - top).exp() for s in scores])
            values = rows_of(tokens * matrix(W["W_V"][h]))
            for j in range(k):
                self.v.append([row[j] + ball(float(W["b_V"][h][j])) for row in values])

    @staticmethod
    def normed(rows, a, name):
        gain, bias = ([ball(float(x)) for x in a[f"{name}.{part}"]] for part in ("gain", "bias"))
        found = []
        for row in rows:
            d = len(row)
            mean = sum(row, arb(0)) / d
            c = [x - mean for x in row]
            s = (sum((x * x for x in c), arb(0)) / d + ball(Fraction(1, 100000))).sqrt()
            found.append([x / s * g + b for x, g, b in zip(c, gain, bias, strict=True)])
        return found


def gelu_lines(name, low, high, slope):
    """(least, most) of sigma(h) - slope h on [low, high]: values and slopes on pieces."""
    least, most, wide = [], [], (high - low) / PIECES
    for i in range(PIECES):
        middle, half = ball(low + wide * (i + 0.5)), ball(wide * 0.5000001 + 1e-12)
        around = arb(middle.mid(), half.upper())
        if name == "gelu":
            phi = (-around * around / 2).exp() / (2 * arb.pi()).sqrt()
            change = (1 + (around / arb(2).sqrt()).erf()) / 2 + around * phi - slope
            value = middle * (1 + (middle / arb(2).sqrt()).erf()) / 2 - slope * middle
            off = upper(abs(change)) * half
            least.append(value - off)
            most.append(value + off)
        else:
            value = (max_zero(around) if name == "relu" else around) - slope * around
            if name == "identity":
                value = around * (1 - slope)
            elif low + wide * (i + 1.01) < 0 or low + wide * (i - 0.01) > 0:
                value = around * (0 - slope if low + wide * (i + 1.01) < 0 else 1 - slope)
            least.append(value)
            most.append(value)
    return min(float(x.lower()) for x in least) - 1e-12, max(float(x.upper()) for x in most) + 1e-12


def accepted(proof: str, weights: Path) -> bool:
    """True when every line of the proof holds."""
    before, flint.ctx.prec = flint.ctx.prec, 160
    try:
        return _accepted(proof, weights)
    finally:
        flint.ctx.prec = before


def _accepted(proof: str, weights: Path) -> bool:
    header, *lines = [json.loads(line) for line in proof.splitlines() if line.strip()]
    if hashlib.sha256(weights.read_bytes()).hexdigest() != header["weights"]:
        return False
    with safe_open(str(weights), framework="np") as file:
        a = {n: file.get_tensor(n).astype(np.float64) for n in file.keys()}  # noqa: SIM118
        spec = json.loads(file.metadata()["capax"])["module"]["spec"]
    T, support, table = header["T"], header["support"], int(header["table"], 16)
    net, margin = _Network(a, spec), Fraction(header["margin"])
    todo = [(dict(zip(support, (r >> i & 1 for i in range(len(support))), strict=True)), 0,
             T - len(support)) for r in reversed(range(1 << len(support)))]  # fmt: skip
    for line in lines:
        if not todo:
            return False
        fixed, first, last = todo.pop()
        if "cut" in line:
            t = line["cut"]
            if t in fixed or not 0 <= t < T:
                return False
            children = [({**fixed, t: 1}, max(first - 1, 0), last - 1),
                        ({**fixed, t: 0}, first, min(last, T - len(fixed) - 1))]  # fmt: skip
            todo += [child for child in children if child[1] <= child[2]]
        elif "ones" in line:
            if not first <= line["ones"] < last:
                return False
            todo += [(fixed, line["ones"] + 1, last), (fixed, first, line["ones"])]
        else:
            row = sum(fixed[t] << i for i, t in enumerate(support))
            sign = 1 if table >> row & 1 else -1
            if not net.leaf(fixed, first, last, T, line, sign, ball(margin)):
                return False
    return not todo and margin > 0


class _Network:
    def __init__(self, a, spec):
        self.a, self.spec, self.heads = a, spec, Heads(a, spec)
        d = spec["d"]
        self.d, b0 = d, "blocks.0."
        centre = matrix(np.eye(d)) - arb_mat([[arb(1) / d] * d for _ in range(d)])
        self.W_O = matrix(a[b0 + "W_O"].reshape(-1, d)) * centre
        base = [[ball(float(x)) + ball(float(y)) for x, y in
                 zip(a["cls"], a[b0 + "b_O"], strict=True)]]  # fmt: skip
        self.base = arb_mat(base) * centre
        gain = [[ball(float(g)) * ball(float(x)) for x in row] for g, row in
                zip(a[b0 + "ln2.gain"], a[b0 + "W_in"], strict=True)]  # fmt: skip
        self.G = arb_mat(gain)
        shift = matrix([a[b0 + "ln2.bias"]]) * matrix(a[b0 + "W_in"])
        self.shift = [x + ball(float(b)) for x, b in
                      zip(rows_of(shift)[0], a[b0 + "b_in"], strict=True)]  # fmt: skip
        self.W_out = matrix(a[b0 + "W_out"]) * centre
        self.b_out = matrix([a[b0 + "b_out"]]) * centre
        last = [[ball(float(g)) * ball(float(x)) for g, x in
                 zip(a["ln_final.gain"], a["w"], strict=True)]]  # fmt: skip
        self.last = rows_of(arb_mat(last) * centre)[0]
        both = zip(a["ln_final.bias"], a["w"], strict=True)
        self.rho = sum((ball(float(x)) * ball(float(y)) for x, y in both), ball(float(a["b"])))

    def leaf(self, fixed, first, last, T, line, sign, margin) -> bool:
        heads, d, eps = self.heads, self.d, ball(Fraction(1, 100000))
        free = [t for t in range(T) if t not in fixed]
        there = [2 * t + fixed.get(t, 0) for t in range(T)] + [2 * T]
        top = lambda gains: largest(gains, first, last)  # noqa: E731
        gains = lambda row: [row[2 * t + 1] - row[2 * t] for t in free]  # noqa: E731
        u, far = [ball(x) for x in line["u"]], [ball(x) for x in line["far"]]
        D0, leak, moves = [ball(x) for x in line["D"]], [], []
        for i, v in enumerate(heads.v):
            h = i // heads.k
            w, D = heads.w[h], D0[h]
            for s in (1, -1):
                terms = [a * (s * (x - u[i]) - far[i]) for a, x in zip(w, v, strict=True)]
                if not sum((terms[r] for r in there), arb(0)) + top(gains(terms)) <= 0:
                    return False
            start = sum((w[r] for r in there), arb(0))
            change = gains(w)
            high, low = start + top(change), start - top([-g for g in change])
            leak.append(far[i] * upper(abs(1 - low / D).max(abs(1 - high / D))))
            row = [a * (x - u[i]) / D for a, x in zip(w, v, strict=True)]
            moves.append([sum((row[r] for r in there), arb(0)), *gains(row)])
        rows = arb_mat(moves).transpose() * self.W_O
        stack = arb_mat(rows_of(rows) + rows_of(self.W_O))
        F = len(free) + 1

        def ranges(L):
            found = []
            for column in rows_of((stack * L).transpose()):
                lost = upper(
                    sum((x * abs(y) for x, y in zip(leak, column[F:], strict=True)), arb(0))
                )
                low = column[0] - top([-g for g in column[1:F]]) - lost
                found.append((arb(low.lower()), upper(column[0] + top(column[1:F]) + lost)))
            return found

        c0 = rows_of(self.base + arb_mat([u]) * self.W_O)[0]
        reach = [upper(abs(x).max(abs(y))) for x, y in ranges(matrix(np.eye(d)))]
        s0 = (sum((x * x for x in c0), arb(0)) / d + eps).sqrt()
        E = upper(sum((x * x for x in reach), arb(0)) / (2 * d * s0))
        slant = [x / (d * s0) for x in c0]
        ((low, high),) = ranges(arb_mat([[x] for x in slant]))
        box = [max_zero(abs(x) - r) for x, r in zip(c0, reach, strict=True)]
        least_s = (sum((x * x for x in box), arb(0)) / d + eps).sqrt().max(s0 + low)
        s = arb(least_s.lower()), upper(s0 + high + E)
        eta = [x / s0 for x in rows_of(arb_mat([c0]) * self.G)[0]]
        ell = arb_mat([[g - e * x for g, e in zip(row, eta, strict=True)]
                       for row, x in zip(rows_of(self.G), slant, strict=True)])  # fmt: skip
        slopes, lines = [ball(Fraction(n, 1024)) for n in line["slopes"]], []
        for j, (low, high) in enumerate(ranges(ell)):
            low, high = low - max_zero(eta[j]) * E, high + max_zero(-eta[j]) * E
            middle = eta[j] + self.shift[j]
            left = (middle + min((low / x for x in s), key=lambda y: float(y.mid()))).lower()
            right = (middle + max((high / x for x in s), key=lambda y: float(y.mid()))).upper()
            ends = float(left) - 1e-9, float(right) + 1e-9
            lines.append((*gelu_lines(self.spec["activation"], *ends, slopes[j]), *ends))
        return bool(self._claim(line, sign, margin, c0, s0, s, E, eta, ell, slopes, lines,
                                reach, ranges) >= 0)  # fmt: skip

    def _claim(self, line, sign, margin, c0, s0, s, E, eta, ell, slopes, lines, reach, ranges):
        """Lower end of s_z (sign logit - margin)."""
        d, eps = self.d, ball(Fraction(1, 100000))
        z = [ball(x) for x in line["z"]]
        s_z, t = (sum((x * x for x in z), arb(0)) / d + eps).sqrt(), sign * self.rho - margin
        q = [sign * a + t * b / (d * s_z) for a, b in zip(self.last, z, strict=True)]
        q_mean = sum(q, arb(0)) / d
        q = [x - q_mean for x in q]
        total = t * eps / s_z
        if not t >= 0:
            total += t * self._spread(z, c0, lines, slopes, reach) / (2 * d * s_z)
        column = arb_mat([[x] for x in q])
        S = [row[0] for row in rows_of(self.W_out * column)]
        total += rows_of((arb_mat([c0]) + self.b_out) * column)[0][0]
        K = [x * y for x, y in zip(S, slopes, strict=True)]
        for j, (least, most, *_) in enumerate(lines):
            total += K[j] * (eta[j] + self.shift[j])
            total += min(S[j] * ball(least), S[j] * ball(most), key=lambda x: float(x.lower()))
        turn = [row[0] for row in rows_of(ell * arb_mat([[x] for x in K]))]
        both = arb_mat([[x + y / s0, y] for x, y in zip(q, turn, strict=True)])
        (low, _), ends = ranges(both)
        far = upper(abs(ends[0]).max(abs(ends[1])))
        total += low - upper(abs(1 / s[0] - 1 / s0).max(abs(1 / s0 - 1 / s[1]))) * far
        slowed = max_zero(sum((x * y for x, y in zip(K, eta, strict=True)), arb(0)))
        return total - slowed * E / s[0]

    def _spread(self, z, c0, lines, slopes, reach):
        """At least |Cz - z0|^2."""
        middles, halves = [], []
        for (least, most, low, high), a in zip(lines, slopes, strict=True):
            ends = [a * ball(low), a * ball(high)]
            bottom = ball(least) + min(ends, key=lambda x: float(x.mid()))
            top = ball(most) + max(ends, key=lambda x: float(x.mid()))
            middles.append((bottom + top) / 2)
            halves.append(upper((top - bottom) / 2))
        at = rows_of(arb_mat([middles]) * self.W_out + self.b_out + arb_mat([c0]))[0]
        wide = arb_mat([halves]) * arb_mat(
            [[upper(abs(x)) for x in r] for r in rows_of(self.W_out)]
        )
        parts = zip(at, z, rows_of(wide)[0], reach, strict=True)
        return upper(sum(((abs(x - y) + b + r) ** 2 for x, y, b, r in parts), arb(0)))
