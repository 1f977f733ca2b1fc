#!/usr/bin/env python3
"""Check a proof that a small attention network decides as a Boolean function on ALL 2^T inputs.

    python capax_check.py model.proof model.safetensors [--json]

Standard library only; it searches for nothing. Numbers are integers over a power of two or
fractions; e^x, roots and erf are enclosed. Format and derivations: docs/guides/proofs.md of Capax.
One lemma carries everything. A softmax head that the token [CLS] asks puts out

    u = (sum of w v) / (sum of w)      over the T tokens and [CLS],  w = e^score > 0,
so u <= L  <=>  sum of w (v - L) <= 0. Positions do not interact in this sum: it is largest, over
all free bits at once, where each position takes its larger term. ONE number L proves an end.
"""

# fmt: off
import hashlib
import json
import struct
import sys
from fractions import Fraction
from functools import cache
from math import ceil, floor, isqrt, prod
from operator import add, mul
from pathlib import Path

FIELDS = {"proof", "weights", "T", "support", "table", "margin", "error", "bits"}
VERSION, CODES = "capax-proof-1", {"F64": "d", "F32": "f", "F16": "e"}
WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, struct.error)

class Refused(Exception):
    """The proof does not hold: the number of the line, and the reason."""
    def __init__(self, line, reason):
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason

def need(condition, reason):  # `check` adds the line
    if not condition:
        raise ValueError(reason)

def parse(text):
    """A JSON object in which no key is given twice."""
    def unique(pairs):
        need(len(dict(pairs)) == len(pairs), "a key is given twice")
        return dict(pairs)
    found = json.loads(text, object_pairs_hook=unique)
    need(isinstance(found, dict), "not a JSON object")
    return found

def read_weights(data):
    """(description of the network, exact matrices by name) of a safetensors file by Capax."""
    (size,) = struct.unpack("<Q", data[:8])
    header = parse(data[8 : 8 + size])
    network = parse(header.pop("__metadata__")["capax"])["module"]
    return network, {name: read_array(data[8 + size :], of) for name, of in header.items()}

def read_array(data, entry):
    """All axes but the last make the rows; a number is one row of one."""
    code, shape, (start, end) = CODES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    ratios = [x.as_integer_ratio() for (x,) in struct.iter_unpack("<" + code, data[start:end])]
    fits = all(type(n) is int and n >= 0 for n in (*shape, start)) and prod(shape) == len(ratios)
    need(fits, "weights: an array does not fit its place")
    e = max((d.bit_length() - 1 for _, d in ratios), default=0)
    flat, width = [n << (e - d.bit_length() + 1) for n, d in ratios], shape[-1] if shape else 1
    rows = [flat[i * width : (i + 1) * width] for i in range(prod(shape[:-1]))]
    return Matrix(rows, e, shape=shape)

class Matrix:
    """Rows of integers over 2^e; every number is known to within off/2^e (0: exactly)."""
    def __init__(self, rows, e, off=0, shape=()):
        self.rows, self.e, self.off, self.shape = rows, e, off, shape
    def __matmul__(self, other):
        """|a b - a' b'| <= |a| |b - b'| + |a - a'| (|b| + |b - b'|), summed along a row."""
        rows, columns = other.rows, list(zip(*other.rows, strict=True))
        need(all(len(row) == len(rows) for row in self.rows), "weights: shapes do not fit together")
        along, down = (max((sum(map(abs, x)) for x in m), default=0) for m in (self.rows, columns))
        off = along * other.off + self.off * (down + len(rows) * other.off)
        size = (along * max((abs(n) for row in rows for n in row), default=0)).bit_length() + 1
        places, half = range(0, size * len(columns), size), 1 << size - 1
        long = [sum(n << i for n, i in zip(row, places, strict=True)) for row in rows]
        # a row of B is one long integer with a digit for each number; half a digit makes it >= 0
        sums = [sum(map(mul, row, long)) + sum(half << i for i in places) for row in self.rows]
        found = [[(n >> i & 2 * half - 1) - half for i in places] for n in sums]
        return Matrix(found, self.e + other.e, off)
    def rounded(self, e):  # down, over 2^e
        up, down = max(e - self.e, 0), max(self.e - e, 0)
        rows = [[n << up >> down for n in row] for row in self.rows]
        return Matrix(rows, e, (self.off << up >> down) + 2 * (down > 0))
    def transposed(self):
        return Matrix([list(column) for column in zip(*self.rows, strict=True)], self.e, self.off)
    def fractions(self):
        return [Fraction(n, 1 << self.e) for row in self.rows for n in row]
    def centred(self):  # rows minus their means, as fractions
        return [[Fraction(len(r) * n - sum(r), len(r) << self.e) for n in r] for r in self.rows]

def stacked(*parts):  # exact matrices below each other
    e = max(part.e for part in parts)
    return Matrix([[n << (e - part.e) for n in row] for part in parts for row in part.rows], e)

def fixed_point(rows, bits):  # rows of fractions, rounded down
    return Matrix([[(n.numerator << bits) // n.denominator for n in row] for row in rows], bits, 1)

def exp_between(n, e, bits):
    """(low, high) with low <= 2^bits exp(-n/2^e) <= high, n >= 0: exp(-x) = exp(-x/2^j)^(2^j)."""
    if n > bits << e:
        return 0, 1  # exp(-bits) < 2^-bits
    j = (n >> e).bit_length() + 8
    q = bits + 2 * j + 24
    def series(y):  # terms are less than 2 too small; those after the first zero sum to less than 3
        total, term, i = 0, 1 << q, 0
        while term:
            total, i = total + (term if i % 2 == 0 else -term), i + 1
            term = term * y // (i << q)
        return total, 2 * i + 3
    (low, below), (high, above) = series((n << (q - j) >> e) + 1), series(n << (q - j) >> e)
    low, high = max(low - below, 0), high + above
    for _ in range(j):
        low, high = low * low >> q, -(-high * high >> q)
    return low >> (q - bits), -(-high >> (q - bits))

class InputCell:
    """Inputs with some bits fixed, and with limits: sums over their tokens that are at most 0.
    Token 2 t + b is bit b at position t, token 2 T is [CLS]. The form of a sum: its value where all
    free bits are 0, then what a one adds to it at each free position."""
    def __init__(self, T, fixed, given=()):
        self.T, self.fixed, self.given = T, fixed, given
        self.free = [t for t in range(T) if t not in fixed]
        self.limits = [self.form(terms) for terms in reversed(given)]  # the newest is the tightest
    def form(self, terms):  # of a sum of terms, one for each token
        start = terms[-1] + sum(terms[2 * t + self.fixed.get(t, 0)] for t in range(self.T))
        return [start, *(terms[2 * t + 1] - terms[2 * t] for t in self.free)]
    def most(self, form):
        """At least the largest sum: limit <= 0, a <= a - m limit for ANY m >= 0, in any order."""
        for limit in self.limits:
            pairs = list(zip(form[1:], limit[1:], strict=True))
            over = limit[0] + sum(b for a, b in pairs if a > 0)
            for turn, size in sorted((a / b, abs(b)) for a, b in pairs if over > 0 and a * b > 0):
                over -= size
                if over <= 0:
                    n, d = turn.as_integer_ratio()
                    form = [a - n * b // d for a, b in zip(form, limit, strict=True)]
                    break
        return form[0] + sum(n for n in form[1:] if n > 0)
    def ends(self, form):  # at most the least sum, at least the largest
        return -self.most([-n for n in form]), self.most(form)
    def parts(self, tables, kind, at, level=0):
        """Two cells that together hold every input of this one, the first one last."""
        if kind == "bit":
            need(at in self.free, "cut: wanted a free position")
            return [InputCell(self.T, self.fixed | {at: b}, self.given) for b in (1, 0)]
        if kind == "all":  # the bits at these positions are all `level`, or fewer of them are
            need({*at} <= {*self.free} and level in (0, 1), "cut: wanted free positions and a bit")
            fewer = [i // 2 in at and i % 2 == level for i in range(2 * self.T)] + [1 - len(at)]
            first = InputCell(self.T, self.fixed | dict.fromkeys(at, level), self.given)
            return [InputCell(self.T, self.fixed, (*self.given, fewer)), first]
        if kind == "ones":  # at most `at` of all T bits, or more
            need(type(at) is int, "cut: wanted an integer")
            limits = [0, 1] * self.T + [-at], [0, -1] * self.T + [at + 1]
        else:  # u[at] <= level, or >=
            end = floor(Fraction(level) * (1 << tables.e))
            limits = tables.terms(at, 1, end, False), tables.terms(at, -1, -end, False)
        return [InputCell(self.T, self.fixed, (*self.given, limit)) for limit in reversed(limits)]

class Tables:
    """Weights of all tokens by head, low and high, over 2^bits; values v[i] within `off`, over 2^e.
    A head has k values. With the middles w of the weights, u_i is off by at most `slack`."""
    def __init__(self, scores, values, bits):
        values = values.rounded(bits if values.off else max(bits, values.e))
        self.off, self.e, self.v = values.off, values.e, list(zip(*values.rows, strict=True))
        self.k, self.between, self.w, self.slack = len(self.v) // len(scores.rows[0]), [], [], []
        for h, column in enumerate(zip(*scores.rows, strict=True)):
            top, off = max(column) + scores.off, scores.off  # a shift of all scores changes nothing
            low = {s: exp_between(top - s + off, scores.e, bits)[0] for s in set(column)}
            high = {s: exp_between(top - s - off, scores.e, bits)[1] for s in low}
            self.between.append([(low[s], high[s]) for s in column])
            w, o = [low[s] + high[s] >> 1 for s in column], max(high[s] - low[s] for s in low)
            D = w[-1] + sum(map(min, w[:-1:2], w[1::2])) - len(w) * o
            self.w.append(w)
            for v in self.v[h * self.k : (h + 1) * self.k] if D > 0 else ():
                self.slack.append(self.off + len(w) * o * (max(v) - min(v)) // D + 1)
    def terms(self, i, sign, level, up):
        """w (sign v_i - level) of every token, none below the true one (up), or none above."""
        shift, both = (self.off if up else -self.off) - level, self.between[i // self.k]
        values = [sign * v + shift for v in self.v[i]]
        return [x * (b if (x > 0) == up else a) for x, (a, b) in zip(values, both, strict=True)]
    def at_most(self, cell, i, sign, level):  # sign u_i <= level/2^e on every input of the cell
        return cell.most(cell.form(self.terms(i, sign, level, True))) <= 0

ENCODINGS = {  # the arrays of positions, symbols and [CLS]; none: they are the unit vectors
    "TrainablePositions": ("P", "E", "v_CLS"), "IncoherentCodes": ("codes",),
    "BagOfVectors": ("V", "v_CLS"), "DeterministicPositions": (), "OrthonormalBag": (),
}

def all_tokens(rows, T, bag=False):
    """2 T + 1 rows: P_t + E_b (in a bag b v_t), then [CLS]; from positions, symbols, [CLS]."""
    need(len(rows) == T + (1 if bag else 3), "weights: the encoding does not fit T")
    none = [0] * len(rows[-1])
    pairs = [(none, P) if bag else [map(add, P, E) for E in rows[T : T + 2]] for P in rows[:T]]
    return [list(token) for pair in pairs for token in pair] + rows[-1:]

class CompiledNetwork:
    """One head with values along directions c; output: c . u, or sum w relu(c . u + b) + b_2."""
    def __init__(self, described, a, told):
        kind, fields = described["kind"], described["fields"]
        encoding, norm = fields["encoding"]["kind"], fields["norm"]
        self.scalar, self.units, self.b_2 = kind == "ClsScalar", {}, 0
        softmax = norm["kind"] == "Softmax" and norm["fields"]["temperature"]["value"] == 1
        plain = kind == "ClsMLP" or (self.scalar and fields["activation"]["value"] == "identity")
        plain = plain and encoding in ENCODINGS and fields["scale"]["value"] == "paper"
        need(softmax and plain, "weights: this kind of network is not covered")
        self.signed, self.error = self.scalar and told.boolean, told.number("error")
        self.target, self.rule = "2 f - 1" if self.signed else "f", "output > 1/2"
        if self.scalar:
            directions, self.rule = a["W_C"] @ a["w"].transposed(), "output > 0"
        else:
            columns, (self.b_2,) = zip(*a["W_1"].rows, strict=True), a["b_2"].fractions()
            units = zip(columns, a["b_1"].fractions(), a["w_2"].fractions(), strict=True)
            for column, *unit in units:
                self.units.setdefault(column, []).append(unit)
            rows = [[c[i] for c in self.units] for i in range(len(a["W_1"].rows))]
            directions = Matrix(rows, a["W_1"].e)
        def images(W):
            stored = [a[f"encoding.{name}"] for name in ENCODINGS[encoding]]
            W = stacked(*stored) @ W if stored else W
            return Matrix(all_tokens(W.rows, told.T, "Bag" in encoding), W.e)
        asked = images(a["W_Q"])
        scores = images(a["W_K"] @ Matrix(asked.rows[-1:], asked.e).transposed())
        self.tables = Tables(scores, images(a["W_V"] @ directions), told.bits)
    def close(self, cell, line, f, margin):
        """The ends of every direction, then the error and the margin of the output."""
        tables, found = self.tables, [tuple(map(Fraction, pair)) for pair in line["ends"]]
        need(len(found) == len(tables.v), f"ends: wanted {len(tables.v)} pairs")
        for g, pair in enumerate(found):
            for end, sign, name in zip(pair, (-1, 1), ("lower", "upper"), strict=True):
                holds = tables.at_most(cell, g, sign, floor(sign * end * (1 << tables.e)))
                need(holds, f"direction {g}: the {name} end is not proved")
        if not self.scalar:
            found = list(map(ridge, self.units.values(), found))
        least, most = (self.b_2 + sum(pair[i] for pair in found) for i in (0, 1))
        target, cut = 2 * f - 1 if self.signed else f, 0 if self.scalar else Fraction(1, 2)
        near = most - target <= self.error and target - least <= self.error
        need(near, "the error may exceed the stated one")
        far = margin is None or (least - cut if f else cut - most) >= margin
        need(far, "the margin may be below the stated one")

def ridge(units, ends):
    """(least, most) of sum w relu(l + b) between two ends: attained there or at a kink."""
    need(ends[0] <= ends[1], "a lower end lies above its upper end")
    kinks = [-b for b, _ in units if ends[0] < -b < ends[1]]
    points = [sum(w * max(l + b, 0) for b, w in units) for l in (*ends, *kinks)]
    return min(points), max(points)

EPSILON, GRID = Fraction(1, 100_000), 10  # of LayerNorm, root > 1/317; binary places of points
ROOT, ROOT_ONE = 3989422804014326779399460599343818684758, 10**40  # 1/sqrt(2 pi), rounded down

def normed(x, gain, bias, bits):
    """LayerNorm of exact rows; a root 2^-bits too large moves c/s by at most 317 d/2^bits."""
    rows, off = [], ceil(317 * len(gain) * max(map(abs, gain))) + 1
    for c in x.centred():
        V = Fraction(sum(n * n for n in c), len(c)) + EPSILON
        s = Fraction(isqrt((V.numerator << 2 * bits) // V.denominator) + 1, 1 << bits)
        rows.append([n / s * g + b for n, g, b in zip(c, gain, bias, strict=True)])
    return Matrix(fixed_point(rows, bits).rows, bits, off)

def gelu(n, bits):
    """(low, high) around 2^bits gelu(x), x = n/2^GRID; for x >= 0 it is x (1/2 + phi(x) S(x)),
    S(x) = x + x^3/3 + x^5/15 + ...: `low` rounds its terms down, `high` up, until each is less than
    half of the one before. gelu(-x) = gelu(x) - x, and x - gelu(x) < 2^-180 for x >= 16."""
    x, q = abs(n), bits + 40 + (n * n >> 2 * GRID)  # phi(x) > 2^-(x^2 + 2)
    back = x << bits - GRID if n < 0 else 0
    if x >> GRID >= 16:
        return (x << bits - GRID) - 1 - back, (x << bits - GRID) - back
    down = up = x << q - GRID
    low = high = i = 0
    while up > 1 or (2 * i + 3 << 2 * GRID) < 2 * x * x:
        low, high, i = low + down, high + up, i + 1
        below = 2 * i + 1 << 2 * GRID
        down, up = down * x * x // below, -(-up * x * x // below)
    least, most = exp_between(x * x, 2 * GRID + 1, q)
    low = (1 << q - 1) + low * least * ROOT // (ROOT_ONE << q)
    high = (1 << q - 1) - (-(high + 2 * up) * most * (ROOT + 1) // (ROOT_ONE << q))
    return (low * x >> GRID + q - bits) - back, -(-high * x >> GRID + q - bits) - back

SIGMA = {  # on and between the points of the grid |sigma''| <= 2 phi(0) < 0.8, or it is 0
    "gelu": gelu,
    "relu": lambda n, bits: (max(n, 0) << bits - GRID,) * 2,
    "identity": lambda n, bits: (n << bits - GRID,) * 2,
}

class TrainedNetwork:
    """x = base + u W_O, h = G . c/s(c) + shift, z = x + sigma(h) W_out + b_out, c = Cx = x - mean,
    s(c) = sqrt(|c|^2/d + eps), logit = last . Cz/s(Cz) + rho."""
    target, rule = None, "logit > 0"
    def __init__(self, described, arrays, told):
        spec, bits = described["spec"], told.bits
        plain = spec["layers"] == 1 and spec["alphabet"] == 2 and spec["layer_norm"] is True
        plain = plain and spec["normalizer"] == "softmax" and spec["activation"] in SIGMA
        need(plain and spec["T"] == told.T, "weights: this kind of Transformer is not covered")
        need(told.line["error"] is None and told.boolean, "error: wanted null")
        need(bits >= 2 * GRID, "bits: wanted more")
        self.bits, self.sigma = bits, cache(lambda n: SIGMA[spec["activation"]](n, bits))
        a = {name.removeprefix("blocks.0."): array for name, array in arrays.items()}
        numbers = {name: array.fractions() for name, array in a.items() if len(array.shape) < 2}
        H, d, k = a["W_Q"].shape
        def beside(name, bias):  # [H, d, k] as d rows, the heads side by side; then the bias
            need(a[name].shape == [H, d, k], f"weights: {name} has another shape")
            W = [[n for h in range(H) for n in a[name].rows[h * d + i]] for i in range(d)]
            last = [n for row in a[bias].rows for n in row]
            return stacked(Matrix(W, a[name].e), Matrix([last], a[bias].e))
        x = stacked(a["position"], a["embed"], a["cls"])
        x = Matrix(all_tokens(x.rows, told.T), x.e)
        X = normed(x, numbers["ln1.gain"], numbers["ln1.bias"], bits)
        X.rows = [[*token, 1 << bits] for token in X.rows]
        query = Matrix(X.rows[-1:], bits, X.off) @ beside("W_Q", "b_Q")
        scale = isqrt((1 << 2 * bits) // (k if spec["scale"] == "sqrt" else 1))
        query = (query.transposed() @ Matrix([[scale]], bits, 1)).rounded(bits)
        apart = [[n if i // k == h else 0 for h in range(H)] for i, (n,) in enumerate(query.rows)]
        keys = beside("W_K", "b_K") @ Matrix(apart, bits, query.off)
        scores, values = X @ keys.rounded(bits), X @ beside("W_V", "b_V")
        self.tables = Tables(scores.rounded(bits), values, bits)
        need(len(self.tables.slack) == H * k, "bits: too few for the weights of a head")
        *C_O, cls, b_O = stacked(a["W_O"], a["cls"], a["b_O"]).centred()
        *C_out, self.b_out = stacked(a["W_out"], a["b_out"]).centred()
        self.C_O, self.C_out = fixed_point(C_O, bits), fixed_point(C_out, bits)
        self.base, W_in = list(map(add, cls, b_O)), a["W_in"]
        rows = zip(numbers["ln2.gain"], W_in.rows, strict=True)
        self.G = fixed_point([[g * n / (1 << W_in.e) for n in row] for g, row in rows], bits)
        self.shift = list(map(add, (a["ln2.bias"] @ W_in).fractions(), numbers["b_in"]))
        last = map(mul, numbers["ln_final.gain"], numbers["w"])
        self.last = fixed_point([[n] for n in last], bits)
        self.rho = sum(map(mul, numbers["ln_final.bias"], numbers["w"])) + numbers["b"][0]
    def close(self, cell, line, f, margin):
        holds = Leaf(self, cell, line).least(1 if f else -1, margin) >= 0
        need(holds, "the margin may be below the stated one")
    def lines(self, low, high):
        """(a, least, most): least <= 2^bits (sigma(h) - a h/2^GRID) <= most for low <= h <= high,
        from at most 34 points of a grid; between two of them a chord is off by 0.8 step^2/8."""
        bits, step = self.bits, 1 << max(0, (high - low >> self.bits - GRID).bit_length() - 5)
        size = step << bits - GRID
        first, last = low // size * step, (high // size + 1) * step
        points = [(n, *self.sigma(n)) for n in range(first, last + 1, step)]
        a = (points[-1][1] - points[0][1] << 2 * GRID) // (last - first << bits)
        sides = [[y - (a * n << bits - 2 * GRID) for y in ends] for n, *ends in points]
        off = (step * step << bits) // (10 << 2 * GRID) + 1
        return a, min(y for y, _ in sides) - off, max(y for _, y in sides) + off

class Leaf:
    """The logit over one cell. Forms have noise behind their gains: factors between -1 and 1.
    `err` is how far a form may be off; `off` of a matrix of forms counts once for each row."""
    def __init__(self, net, cell, line):
        self.net, self.cell, self.bits, self.one = net, cell, net.bits, 1 << net.bits
        self.F, n, forms, tables = len(cell.free) + 1, len(net.C_O.rows), [], net.tables
        u, far, D = ([floor(Fraction(x) * self.one) for x in line[n]] for n in ("u", "far", "D"))
        need(min(D) > 0, "D: wanted positive numbers")
        sums = [cell.ends(cell.form(w)) for w in tables.w]
        for i, v in enumerate(tables.v):  # u = u0 + M/D0 + (u - u0)(1 - D/D0); the last is noise
            w, D0 = tables.w[i // tables.k], D[i // tables.k]
            near = all(tables.at_most(cell, i, s, s * u[i] + far[i]) for s in (1, -1))
            need(near, f"head output {i} may be farther than {line['far'][i]} from u")
            least, most = sums[i // tables.k]
            noise = far[i] * max(D0 - least, most - D0) // D0 + tables.slack[i] + cell.T + 2
            form = cell.form([a * (x - u[i]) // D0 for a, x in zip(w, v, strict=True)])
            forms.append([form[0] + u[i], *form[1:], *(noise * (j == i) for j in range(n))])
        self.x = self.image(Matrix(forms, net.bits).transposed(), net.C_O, net.base)
        self.hidden()
    def image(self, forms, W, bias):  # the forms of x W + bias
        found, (b,) = (forms @ W).rounded(self.bits), fixed_point([bias], self.bits).rows
        return Matrix([list(map(add, found.rows[0], b)), *found.rows[1:]], self.bits, found.off + 1)
    def middle(self, form, err):  # middle and radius of a form
        low, high = self.cell.ends(form[: self.F])
        return low + high >> 1, (high - low >> 1) + sum(map(abs, form[self.F :])) + err + 1
    def root(self, forms):
        """V = |x|^2/d + eps as a form, its err, and the ends of its root; m is the middle of x and
        x^2 = 2 m x - m^2 + (x - m)^2, the last part at most r^2."""
        d, bits, err = len(forms.rows[0]), self.bits, forms.off * len(forms.rows)
        parts = [self.middle(form, err) for form in zip(*forms.rows, strict=True)]
        V = (forms @ Matrix([[2 * m] for m, _ in parts], bits)).rounded(bits)
        eps, rest = floor(EPSILON * self.one), sum(r * r for _, r in parts) // (2 * d) >> bits
        form = [n // d for (n,) in V.rows]
        form[0] += rest - (sum(m * m for m, _ in parts) // d >> bits) + eps
        err = rest + (V.off + 1) * len(form) + 8
        box = sum(max(0, abs(m) - r) ** 2 for m, r in parts) // d >> bits
        m, r = self.middle(form, err)
        least, most = isqrt(max(m - r, box + eps) << bits), isqrt(m + r << bits) + 1
        return form, err, Fraction(least, self.one), Fraction(most, self.one)
    def bent(self, form, err, a, ends):
        """a V + something between the least and the largest end, as a form with its err."""
        found, half = [floor(a * n) for n in form], (max(ends) - min(ends)) / 2
        found[0] += floor((min(ends) + half) * self.one)
        return found, ceil(abs(a) * err + half * self.one) + len(form) + 1
    def hidden(self):
        """h = g r + shift for g = G . c and r = 1/s(c); g r = m r + R g - m R + (g - m)(r - R)."""
        net, bits, one, forms, extra, self.h = self.net, self.bits, self.one, [], [], []
        V, err, low, high = self.root(self.x)
        m = Fraction(float(low * high * (low + high) / 2) ** (1 / 3))  # any number > 0 would do
        ends = [3 / (2 * m), *(1 / s + s * s / (2 * m**3) for s in (low, high))]
        self.r = r, err = self.bent(V, err, -1 / (2 * m**3), ends)
        R, wide = floor((1 / low + 1 / high) / 2 * one), ceil((1 / low - 1 / high) / 2 * one) + 1
        g = (self.x @ net.G).rounded(bits)
        for form, shift in zip(zip(*g.rows, strict=True), net.shift, strict=True):
            off = g.off * len(form)
            m, far = self.middle(form, off)
            h = [m * b + R * a >> bits for a, b in zip(form, r, strict=True)]
            h[0] += floor(shift * one) - (m * R >> bits)
            off = (R * off + abs(m) * err + far * wide >> bits) + len(h) + 4
            self.h.append((h, off))
            m, far = self.middle(h, off)
            a, least, most = net.lines(m - far, m + far)
            forms.append([a * n >> GRID for n in h])
            forms[-1][0] += least + most >> 1
            extra.append((abs(a) * off >> GRID) + (most - least >> 1) + len(h) + 3)
        z = self.image(Matrix(forms, bits).transposed(), net.C_out, net.b_out)
        rows = [list(map(add, *pair)) for pair in zip(z.rows, self.x.rows, strict=True)]
        rows += ([x * n >> bits for n in row] for x, row in zip(extra, net.C_out.rows, strict=True))
        self.z = Matrix(rows, bits, z.off + self.x.off + (max(extra) >> bits) + 2)
    def least(self, sign, margin):
        """At most s_z (sign logit - margin) = sign last . Cz + t s_z, over 2^bits."""
        t, (V, err, low, high) = sign * self.net.rho - margin, self.root(self.z)
        m, g = (low + high) / 2, (self.z @ self.net.last).rounded(self.bits)
        ends = [m / 2, *(n - n * n / (2 * m) for n in (low, high))]
        self.s = s, err = self.bent(V, err, 1 / (2 * m), ends)
        form = [sign * a + floor(t * b) for (a,), b in zip(g.rows, s, strict=True)]
        middle, radius = self.middle(form, ceil(abs(t) * err) + (g.off + 1) * len(form))
        return middle - radius

class ProofStatement:
    """The first line: which weights, which function, which margin and error."""
    def __init__(self, line, data):
        need(set(line) == FIELDS, f"wanted the fields {', '.join(sorted(FIELDS))}")
        need(line["proof"] == VERSION, f"wanted a proof of the kind {VERSION}")
        need(hashlib.sha256(data).hexdigest() == line["weights"], "not the weights that it names")
        self.line, self.T, self.support, self.bits = line, line["T"], line["support"], line["bits"]
        whole = all(type(n) is int for n in (self.T, self.bits, *self.support))
        need(whole and 0 < self.bits <= 1 << 14, "T, bits, support: wanted integers")
        fits = sorted({*self.support} & {*range(self.T)}) == sorted(self.support)
        need(fits and len(self.support) <= 20, "support: wrong positions")
        rows, table = 1 << len(self.support), line["table"]  # row r: bit i of r at support[i]
        if isinstance(table, str):
            need(0 <= int(table, 16) < 1 << rows, "table: too many rows")
            table = [int(table, 16) >> r & 1 for r in range(rows)]
        need(len(table) == rows, f"table: wanted {rows} numbers")
        self.table = list(map(Fraction, table))
        self.boolean = set(self.table) <= {0, 1}
        need((line["margin"] is None) != self.boolean, "margin: wanted for a Boolean function")
        self.margin = self.number("margin") if self.boolean else None
        need(self.margin is None or self.margin > 0, "margin: wanted a positive number")
    def number(self, name):  # exactly as it is written
        need(type(self.line[name]) is str, f"{name}: wanted a decimal in quotes")
        return Fraction(self.line[name])
    def sentence(self, target, rule):
        shown = hex(sum(int(x) << r for r, x in enumerate(self.table))) if self.boolean else "given"
        told = [f"the output is within {self.line['error']} of {target}"] if target else []
        if self.boolean:
            told.append(f"'{rule}' decides as f with a margin of at least {self.line['margin']}")
        return (f"On all 2^{self.T} inputs {', and '.join(told)}. f is the function of the "
                f"{len(self.support)} bits at positions {self.support} with the table {shown}. "
                "Arithmetic: exact, on the stored weights.")

def check(proof, data):
    """The sentence that is proved. Every line cuts the newest open cell in two, or closes it."""
    lines, number = proof.removesuffix("\n").split("\n"), 1
    try:
        told, (described, arrays) = ProofStatement(parse(lines[0]), data), read_weights(data)
        kind = TrainedNetwork if described["kind"] == "Transformer" else CompiledNetwork
        network, places = kind(described, arrays, told), list(enumerate(told.support))
        rows = reversed(range(len(told.table)))
        cells = [InputCell(told.T, {t: row >> i & 1 for i, t in places}) for row in rows]
        for text in lines[1:]:
            number += 1
            need(cells, "a line more than there are cells")
            cell, line = cells.pop(), parse(text)
            if "cut" in line:
                cells += cell.parts(network.tables, *line["cut"])
            else:
                row = sum(cell.fixed[t] << i for i, t in places)
                network.close(cell, line, told.table[row], told.margin)
        number += 1
        need(not cells, f"the proof ends, and {len(cells)} cells are open")
        return told.sentence(network.target, network.rule)
    except (ValueError, *WRONG) as error:
        kind = "" if type(error) is ValueError else f"damaged: {type(error).__name__} "
        raise Refused(number, f"{kind}{error}") from None

def main(arguments):
    """Check the files named on the command line; the exit code is 0 if proved, 1 if refused."""
    names, found = [name for name in arguments if name != "--json"], {"status": "refused"}
    if len(names) != 2:
        print("usage: python capax_check.py model.proof model.safetensors [--json]")
        return 2
    try:
        proof, data = Path(names[0]).read_text("utf-8"), Path(names[1]).read_bytes()
        found = {"status": "proved", "statement": check(proof, data), "line": None, "reason": None}
    except (OSError, UnicodeDecodeError, Refused) as error:
        line, reason = getattr(error, "line", 1), getattr(error, "reason", "cannot be read")
        found |= {"statement": None, "line": line, "reason": reason}
    told = found["statement"] or f"line {found['line']}: {found['reason']}"
    print(json.dumps(found) if "--json" in arguments else f"{found['status']}: {told}")
    return 0 if found["status"] == "proved" else 1

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
