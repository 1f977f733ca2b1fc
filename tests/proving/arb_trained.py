"""The second checker for trained networks: the same statement in balls (Arb), other code.

No number is rounded by hand here: weights, roots, quotients and erf are balls of 160 bits. Sigma is
bounded by its slopes on pieces instead of points of a grid. It shares no line with `capax_check`.
"""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from arb_numbers import ball, proof_and_weights, with_bits
from flint import arb, arb_mat

PIECES = 24


def matrix(rows) -> arb_mat:
    return arb_mat([[x if isinstance(x, arb) else ball(float(x)) for x in row] for row in rows])


def rows_of(M: arb_mat) -> list[list[arb]]:
    return M.tolist()


def upper(x: arb) -> arb:
    return arb(x.upper())


def largest(form: list[arb], limits: list[list[arb]]) -> arb:
    """At least the largest value of a form over bits that keep the limits."""
    for limit in limits:
        gains, costs = ([float(x.mid()) for x in row[1:]] for row in (form, limit))
        over = float(limit[0].mid()) + sum(c for g, c in zip(gains, costs, strict=True) if g > 0)
        if over <= 0:
            continue
        both = [(g / c, abs(c)) for g, c in zip(gains, costs, strict=True) if g * c > 0]
        for ratio, step in sorted(both):
            over -= step
            if over <= 0:
                form = [x - ball(ratio) * y for x, y in zip(form, limit, strict=True)]
                break
    return upper(form[0] + sum(map(max_zero, form[1:]), arb(0)))


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


def gelu_lines(name, low, high):
    """(slope, least, most) of sigma(h) - slope h on [low, high]: values and slopes on pieces."""
    ends = [float(x) * {"gelu": math.erfc(-x / 2**0.5) / 2, "relu": x > 0}.get(name, 1)
            for x in (low, high)]  # fmt: skip
    slope = ball(Fraction(round((ends[1] - ends[0]) / (high - low) * 4096), 4096))
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
    bottom, top = min(float(x.lower()) for x in least), max(float(x.upper()) for x in most)
    return slope, ball(bottom - 1e-12), ball(top + 1e-12)


@with_bits(160)
def accepted(proof: str, weights: Path) -> bool:
    """True when every line of the proof holds."""
    read = proof_and_weights(proof, weights)
    if read is None:
        return False
    header, lines, a, module = read
    spec = module["spec"]
    T, support, table = header["T"], header["support"], int(header["table"], 16)
    net, margin = _Network(a, spec), Fraction(header["margin"])
    start = [dict(zip(support, (r >> i & 1 for i in range(len(support))), strict=True))
             for r in reversed(range(1 << len(support)))]  # fmt: skip
    todo = [(fixed, []) for fixed in start]
    for line in lines:
        if not todo:
            return False
        fixed, given = todo.pop()
        if "cut" in line:
            kind, at, *level = line["cut"]
            if kind == "bit":
                if at in fixed or not 0 <= at < T:
                    return False
                todo += [({**fixed, at: 1}, given), ({**fixed, at: 0}, given)]
                continue
            if kind == "all":
                if len(set(at)) < len(at) or set(at) & set(fixed) or not set(at) <= set(range(T)):
                    return False
                same = [arb(t in at and b == level[0]) for t in range(T) for b in (0, 1)]
                other = [*given, [*same, arb(1 - len(at))]]
                todo += [(fixed, other), (fixed | dict.fromkeys(at, level[0]), given)]
                continue
            terms = [arb(b) for _ in range(T) for b in (0, 1)] + [arb(-at)]
            other = [-x for x in terms[:-1]] + [arb(at + 1)]
            if kind == "head":
                w, v = net.heads.w[at // net.heads.k], net.heads.v[at]
                terms = [a * (x - ball(level[0])) for a, x in zip(w, v, strict=True)]
                other = [-x for x in terms]
            todo += [(fixed, [*given, other]), (fixed, [*given, terms])]
            continue
        row = sum(fixed[t] << i for i, t in enumerate(support))
        sign = 1 if table >> row & 1 else -1
        if not net.leaf(_Cell(T, fixed, given), line, sign, ball(margin)):
            return False
    return not todo and margin > 0


class _Cell:
    def __init__(self, T, fixed, given):
        self.free = [t for t in range(T) if t not in fixed]
        self.there = [2 * t + fixed.get(t, 0) for t in range(T)] + [2 * T]
        self.limits = [self.form(terms) for terms in given[::-1]]

    def form(self, terms):
        start = sum((terms[r] for r in self.there), arb(0))
        return [start, *(terms[2 * t + 1] - terms[2 * t] for t in self.free)]

    def range(self, form):
        """(low, high) of a form with noise behind its gains."""
        F = len(self.free) + 1
        noise = upper(sum(map(abs, form[F:]), arb(0)))
        low = -largest([-x for x in form[:F]], self.limits) - noise
        return arb(low.lower()), upper(largest(form[:F], self.limits) + noise)


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

    def leaf(self, cell, line, sign, margin) -> bool:
        forms = self._head_forms(cell, line)
        if forms is None:
            return False
        x = arb_mat(forms).transpose() * self.W_O
        x = self._shifted(rows_of(x), rows_of(self.base)[0])
        V, err, low, high = self._square(cell, x)
        m = ball(float(((low * high * (low + high)) / 2).mid()) ** (1 / 3))
        top = upper(max((1 / s + s * s / (2 * m**3) for s in (low, high)), key=float))
        bottom, slope = 3 / (2 * m), -1 / (2 * m**3)
        r = [slope * n for n in V]
        r[0] += (top + bottom) / 2
        err = upper(abs(slope) * err + (top - bottom) / 2)
        R, wide = (1 / low + 1 / high) / 2, upper((1 / low - 1 / high) / 2)
        columns = []
        for j, form in enumerate(rows_of((arb_mat(x) * self.G).transpose())):
            a, b = cell.range(form)
            middle, far = (a + b) / 2, upper((b - a) / 2)
            h = [middle * y + R * g for g, y in zip(form, r, strict=True)]
            h[0] += self.shift[j] - middle * R
            off = upper(abs(middle) * err + far * wide)
            a, b = cell.range(h)
            ends = float((a - off).lower()) - 1e-9, float((b + off).upper()) + 1e-9
            slope, least, most = gelu_lines(self.spec["activation"], *ends)
            columns.append([slope * n for n in h])
            columns[-1][0] += (least + most) / 2
            noise = upper(abs(slope) * off + (most - least) / 2)
            columns[-1] += [noise if i == j else arb(0) for i in range(len(self.shift))]
        return bool(self._claim(cell, columns, x, sign, margin) >= 0)

    def _head_forms(self, cell, line):
        """Forms of the head outputs, a leak behind each; None where a `far` does not hold."""
        heads, found, n = self.heads, [], len(self.heads.v)
        u, far, D0 = ([ball(x) for x in line[name]] for name in ("u", "far", "D"))
        for i, v in enumerate(heads.v):
            w, D = heads.w[i // heads.k], D0[i // heads.k]
            for s in (1, -1):
                terms = [a * (s * (x - u[i]) - far[i]) for a, x in zip(w, v, strict=True)]
                if not cell.range(cell.form(terms))[1] <= 0:
                    return None
            low, high = cell.range(cell.form(w))
            form = cell.form([a * (x - u[i]) / D for a, x in zip(w, v, strict=True)])
            form[0] += u[i]
            leak = upper(far[i] * abs(1 - low / D).max(abs(1 - high / D)))
            found.append(form + [leak if j == i else arb(0) for j in range(n)])
        return found

    @staticmethod
    def _shifted(rows, bias):
        return [[x + b for x, b in zip(rows[0], bias, strict=True)], *rows[1:]]

    @staticmethod
    def _square(cell, rows):
        """|x|^2/d + eps as a form, its err, and the ends of its root."""
        d, eps = len(rows[0]), ball(Fraction(1, 100000))
        ends = [cell.range(list(column)) for column in zip(*rows, strict=True)]
        m, r = [(a + b) / 2 for a, b in ends], [upper((b - a) / 2) for a, b in ends]
        form = [row[0] for row in rows_of(arb_mat(rows) * arb_mat([[2 * x / d] for x in m]))]
        rest = upper(sum((x * x for x in r), arb(0)) / (2 * d))
        form[0] += rest + eps - sum((x * x for x in m), arb(0)) / d
        box = sum((max_zero(abs(x) - y) ** 2 for x, y in zip(m, r, strict=True)), arb(0)) / d + eps
        low, high = cell.range(form)
        least = (low - rest).max(box)
        return form, rest, arb(least.lower()).sqrt(), upper((high + rest).sqrt())

    def _claim(self, cell, columns, x, sign, margin):
        """Lower end of s_z (sign logit - margin)."""
        rows = rows_of(arb_mat(columns).transpose() * self.W_out)
        rows = self._shifted(rows, rows_of(self.b_out)[0])
        for i, row in enumerate(x):
            rows[i] = [a + b for a, b in zip(rows[i], row, strict=True)]
        V, err, low, high = self._square(cell, rows)
        m, t = (low + high) / 2, sign * self.rho - margin
        bottom = min((s - s * s / (2 * m) for s in (low, high)), key=float)
        root = [n / (2 * m) for n in V]
        root[0] += (bottom + m / 2) / 2
        err = upper(err / (2 * m) + (m / 2 - bottom) / 2)
        g = [row[0] for row in rows_of(arb_mat(rows) * arb_mat([[n] for n in self.last]))]
        form = [sign * a + t * b for a, b in zip(g, root, strict=True)]
        return cell.range(form)[0] - upper(abs(t) * err)
