#!/usr/bin/env python3
"""Check a proof that a small attention network decides as a Boolean function on ALL 2^T inputs.

    python capax_check.py model.proof model.safetensors [--json]

This file needs Python 3.11 and nothing else: no NumPy, no capax. It searches for nothing. Stored
weights are dyadic rationals, so numbers are integers over a power of two; what is not (e^x, roots,
erf) is enclosed between two integers. Exit code 0: proved. 1: refused, with the first line of the
proof that fails. `docs/guides/proofs.md` of Capax has the file format and walks through this file.

One lemma carries everything. A softmax head that the fixed token [CLS] asks puts out

    u = (sum of w v) / (sum of w)      over the T tokens and [CLS],  w = e^score > 0,

so u <= L  <=>  sum of w (v - L) <= 0. Positions do not interact in this sum: it is largest, over
all free bits at once, where each position takes its larger term. ONE number L proves an end.
"""

import hashlib
import json
import re
import struct
import sys
from fractions import Fraction
from math import ceil, floor, isfinite, isqrt, prod
from operator import add, mul, sub
from pathlib import Path

VERSION = "capax-proof-1"
MOST_BITS, MOST_SUPPORT = 1 << 14, 20
CODES = {"F64": "d", "F32": "f", "F16": "e"}
HEADER = {"proof", "weights", "T", "support", "table", "margin", "error", "bits"}


class Refused(Exception):
    """The proof does not hold: the number of the line, and the reason."""

    def __init__(self, line, reason):
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def need(condition, line, reason):
    """Refuse unless the condition holds."""
    if not condition:
        raise Refused(line, reason)


# ---------------------------------------------------------------- files


def parse(text, line):
    """One JSON object; keys given twice, NaN and infinity are refused."""

    def unique(pairs):
        need(len({key for key, _ in pairs}) == len(pairs), line, "a key is given twice")
        return dict(pairs)

    def constant(name):
        raise Refused(line, f"{name} is not a number")

    try:
        found = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise Refused(line, f"not a JSON object ({error})") from None
    need(isinstance(found, dict), line, "not a JSON object")
    return found


def read_weights(data):
    """(description of the network, arrays by name) of a safetensors file written by Capax."""
    need(len(data) >= 8, 1, "weights: not a safetensors file")
    (size,) = struct.unpack("<Q", data[:8])
    need(8 + size <= len(data), 1, "weights: the header is cut off")
    header = parse(data[8 : 8 + size].decode("utf-8", "replace"), 1)
    told = header.pop("__metadata__", None)
    need(isinstance(told, dict) and "capax" in told, 1, "weights: not written by Capax")
    network = parse(str(told["capax"]), 1).get("module")
    need(isinstance(network, dict), 1, "weights: no description of the network")
    return network, {name: read_array(name, data[8 + size :], of) for name, of in header.items()}


def read_array(name, data, entry):
    """An array as (shape, integers, e): the numbers are integers / 2^e, exactly."""
    need(entry["dtype"] in CODES, 1, f"weights: {name} is of type {entry['dtype']}")
    code = CODES[entry["dtype"]]
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    need(all(type(n) is int and n >= 0 for n in (*shape, start, end)), 1, f"weights: {name}")
    whole = end <= len(data) and end - start == prod(shape) * struct.calcsize(code)
    need(whole, 1, f"weights: {name} does not fit its place")
    ratios = [x.as_integer_ratio() for (x,) in struct.iter_unpack("<" + code, data[start:end])]
    e = max((d.bit_length() - 1 for _, d in ratios), default=0)
    return shape, [n << (e - d.bit_length() + 1) for n, d in ratios], e


def products(A, B):
    """The rows of A B. A row of B becomes one long integer with a digit for each number.

    A digit has so many bytes that no number of A B exceeds half of it; this half is added to make
    digits positive, and taken away again. One long product is faster than many short ones.
    """
    largest = [max((abs(n) for row in M for n in row), default=0) for M in (A, B)]
    size = (max(largest[0], 1) * largest[1] * len(B)).bit_length() // 8 + 1
    half, width = 1 << 8 * size - 1, len(B[0]) if B else 0

    def joined(row):
        return int.from_bytes(b"".join((n + half).to_bytes(size, "little") for n in row), "little")

    zero, found = joined([0] * width), []
    long = [joined(row) - zero for row in B]
    for row in A:
        digits = (sum(map(mul, row, long)) + zero).to_bytes(size * width, "little")
        parts = (digits[i : i + size] for i in range(0, size * width, size))
        found.append([int.from_bytes(part, "little") - half for part in parts])
    return found


class Matrix:
    """Rows of integers over 2^e; every number is known to within off/2^e (0: exactly)."""

    def __init__(self, rows, e, off=0):
        self.rows, self.e, self.off = rows, e, off

    def __matmul__(self, other):
        """|a b - a' b'| <= |a| |b - b'| + |a - a'| (|b| + |b - b'|), summed along a row."""
        fits = all(len(row) == len(other.rows) for row in self.rows)
        need(fits, 1, "weights: shapes do not fit together")
        columns, off = list(zip(*other.rows, strict=True)), 0
        if self.off or other.off:
            along, down = (max(sum(map(abs, r)) for r in m) for m in (self.rows, columns))
            off = along * other.off + self.off * (down + len(other.rows) * other.off)
        return Matrix(products(self.rows, other.rows), self.e + other.e, off)

    def times(self, row):
        """Every row times one row, number by number."""
        most = max(abs(n) for mine in self.rows for n in mine)
        off = self.off * (max(map(abs, row.rows[0])) + row.off) + most * row.off
        return Matrix([list(map(mul, r, row.rows[0])) for r in self.rows], self.e + row.e, off)

    def plus(self, row):
        """One exact row added to every row."""
        e = max(self.e, row.e)
        added = [n << e - row.e for n in row.rows[0]]
        rows = [[(n << e - self.e) + m for n, m in zip(r, added, strict=True)] for r in self.rows]
        return Matrix(rows, e, self.off << e - self.e)

    def rounded(self, e):
        """Over 2^e, rounded down."""
        up, down = max(e - self.e, 0), max(self.e - e, 0)
        rows = [[n << up >> down for n in row] for row in self.rows]
        return Matrix(rows, e, (self.off << up >> down) + 2 * (down > 0))

    def transposed(self):
        """Rows and columns exchanged."""
        return Matrix([list(column) for column in zip(*self.rows, strict=True)], self.e, self.off)

    def fractions(self):
        """The numbers as fractions, row after row."""
        return [Fraction(n, 1 << self.e) for row in self.rows for n in row]


def stacked(arrays, *names):
    """Arrays below each other as one matrix; a vector is one row, a number one row of one."""
    parts = []
    for name in names:
        need(name in arrays, 1, f"weights: {name} is missing")
        shape, numbers, e = arrays[name]
        width, count = (*shape, 1)[-1 - (shape != [])], prod(shape[:-1])
        parts.append(Matrix([numbers[i * width : (i + 1) * width] for i in range(count)], e))
    e = max(part.e for part in parts)
    return Matrix([[n << (e - part.e) for n in row] for part in parts for row in part.rows], e)


# ---------------------------------------------------------------- heads over cells of inputs


def exp_between(n, e, bits):
    """(low, high) with low <= 2^bits exp(-n/2^e) <= high, for n >= 0.

    exp(-x) = exp(-x/2^j)^(2^j) with x/2^j < 2^-8. The series of exp(-y) for y = Y/2^q: the computed
    terms are rounded down, each is less than 2 below the true one (1 for its own rounding, and
    less than 1 that the last one hands on), and the terms after the first zero add up to less
    than 3. Squares are rounded outward. 2 j + 24 spare bits keep the interval narrow.
    """
    if n > bits << e:
        return 0, 1  # exp(-bits) < 2^-bits
    j = (n >> e).bit_length() + 8
    q = bits + 2 * j + 24
    Y = n << (q - j) >> e

    def series(y):
        total, term, i = 0, 1 << q, 0
        while term:
            total, i = total + (term if i % 2 == 0 else -term), i + 1
            term = term * y // (i << q)
        return total, 2 * i + 3

    total, error = series(Y + 1)
    low = max(total - error, 0)
    total, error = series(Y)
    high = total + error
    for _ in range(j):
        low, high = low * low >> q, -(-high * high >> q)
    return low >> (q - bits), -(-high >> (q - bits))


class InputCell:
    """Inputs with some bits fixed, and with `first` to `last` ones among the other T - s bits.

    Token 2 t + b is bit b at position t, token 2 T is [CLS]. `there` are the tokens of the input
    whose free bits are 0.
    """

    def __init__(self, T, fixed, first=0, last=None):
        self.T, self.fixed, self.free = T, fixed, [t for t in range(T) if t not in fixed]
        self.first, self.last = first, len(self.free) if last is None else last
        self.there = [2 * t + fixed.get(t, 0) for t in range(T)] + [2 * T]

    def parts(self, line, number):
        """Cut at the bit of a free position, or by the number of ones."""
        t, n = line.get("cut"), line.get("ones")
        if set(line) == {"cut"} and type(t) is int and t in self.free:
            zero = InputCell(
                self.T, self.fixed | {t: 0}, self.first, min(self.last, len(self.free) - 1)
            )
            one = InputCell(self.T, self.fixed | {t: 1}, max(self.first - 1, 0), self.last - 1)
            return [cell for cell in (one, zero) if cell.first <= cell.last]
        halves = set(line) == {"ones"} and type(n) is int and self.first <= n < self.last
        need(halves, number, "wanted a free position or a number of ones to cut at, or all hints")
        ends = (n + 1, self.last), (self.first, n)
        return [InputCell(self.T, self.fixed, *pair) for pair in ends]

    def gains(self, terms):
        """What a one adds to a sum of terms, at each free position."""
        return [terms[2 * t + 1] - terms[2 * t] for t in self.free]

    def most(self, gains):
        """The largest sum of gains that the number of ones allows."""
        if self.first == 0 and self.last == len(gains):
            return sum(n for n in gains if n > 0)
        ordered = sorted(gains, reverse=True)
        return sum(ordered[: min(max(sum(n > 0 for n in gains), self.first), self.last)])

    def ends(self, start, gains):
        """Least and largest sum."""
        return start - self.most([-n for n in gains]), start + self.most(gains)


class Tables:
    """Weights of all tokens by head, low and high, over 2^bits; values v[i] within `off`, over 2^e.

    Head h has k values. A shift of all its scores changes nothing. If weights are off by at most o
    and values by at most p, then u_i is off by at most p + (T + 1) o spread / D, D the least sum of
    weights: `slack`, where u is computed with the middles w of the weights.
    """

    def __init__(self, scores, values, bits):
        values = values.rounded(bits if values.off else max(bits, values.e))
        self.off, self.e, self.v = values.off, values.e, list(zip(*values.rows, strict=True))
        self.k, self.ends, self.w, self.slack = len(self.v) // len(scores.rows[0]), [], [], []
        for h, column in enumerate(zip(*scores.rows, strict=True)):
            top, off = max(column) + scores.off, scores.off
            low = {s: exp_between(top - s + off, scores.e, bits)[0] for s in set(column)}
            high = {s: exp_between(top - s - off, scores.e, bits)[1] for s in low}
            self.ends.append([(low[s], high[s]) for s in column])
            w, o = [low[s] + high[s] >> 1 for s in column], max(high[s] - low[s] for s in low)
            D = w[-1] + sum(map(min, w[:-1:2], w[1::2])) - len(w) * o
            self.w.append(w)
            for v in self.v[h * self.k : (h + 1) * self.k] if D > 0 else ():
                self.slack.append(self.off + len(w) * o * (max(v) - min(v)) // D + 1)

    def at_most(self, cell, i, sign, level):
        """sign u_i <= level/2^e on every input of the cell: no term is below the true one."""
        values, ends = (sign * v + self.off - level for v in self.v[i]), self.ends[i // self.k]
        both = zip(values, ends, strict=True)
        terms = [x * (high if x > 0 else low) for x, (low, high) in both]
        return sum(terms[r] for r in cell.there) + cell.most(cell.gains(terms)) <= 0


# ---------------------------------------------------------------- compiled networks

BAGS = ("OrthonormalBag", "BagOfVectors")  # x_t = b v_t, otherwise x_t = P_t + E_b
STORED = {
    "TrainablePositions": ("encoding.P", "encoding.E", "encoding.v_CLS"),
    "IncoherentCodes": ("encoding.codes",),
    "BagOfVectors": ("encoding.V", "encoding.v_CLS"),
    "DeterministicPositions": (),  # P_t, E_b, v_t and v_CLS are the unit vectors
    "OrthonormalBag": (),
}


def all_tokens(rows, T, bag=False):
    """2 T + 1 rows from T positions, two symbols (none in a bag) and [CLS]."""
    need(len(rows) == T + (1 if bag else 3), 1, "weights: the encoding does not fit T")
    zero = [0] * len(rows[0])
    if bag:
        return [row for t in range(T) for row in (zero, rows[t])] + [rows[-1]]
    both = [(rows[t], rows[T + b]) for t in range(T) for b in (0, 1)]
    return [list(map(add, *pair)) for pair in both] + [rows[-1]]


class CompiledNetwork:
    """One head, read by output = u . W_C w, or by output = w_2 . relu(u . W_1 + b_1) + b_2.

    The values are those of the directions c of the head: W_C w, or the different columns of W_1,
    each with the units (b, w) that read it.
    """

    def __init__(self, described, arrays, T, bits):
        kind, fields = described["kind"], described["fields"]
        need(kind in ("ClsScalar", "ClsMLP"), 1, f"weights: {kind} is not covered")
        encoding, norm = fields["encoding"]["kind"], fields["norm"]
        need(encoding in STORED, 1, f"weights: {encoding} is not covered")
        softmax = norm["kind"] == "Softmax" and norm["fields"]["temperature"]["value"] == 1
        need(softmax, 1, "weights: wanted a softmax of temperature 1")
        need(fields["scale"]["value"] == "paper", 1, "weights: wanted scores without a scale")
        self.signed, self.units, self.T = kind == "ClsScalar", {}, T
        if self.signed:
            identity = fields["activation"]["value"] == "identity"
            need(identity, 1, "weights: wanted a read-out without activation")
            directions = stacked(arrays, "W_C") @ stacked(arrays, "w").transposed()
        else:
            W_1 = stacked(arrays, "W_1")
            parts = [stacked(arrays, name).fractions() for name in ("b_1", "w_2", "b_2")]
            for column, b, w in zip(W_1.transposed().rows, *parts[:2], strict=True):
                self.units.setdefault(tuple(column), []).append((b, w))
            self.b_2 = parts[2][0]
            directions = Matrix([[c[i] for c in self.units] for i in range(len(W_1.rows))], W_1.e)

        def images(W):
            W = stacked(arrays, *STORED[encoding]) @ W if STORED[encoding] else W
            return Matrix(all_tokens(W.rows, T, encoding in BAGS), W.e)

        query = Matrix(images(stacked(arrays, "W_Q")).rows[-1:], images(stacked(arrays, "W_Q")).e)
        scores = images(stacked(arrays, "W_K") @ query.transposed())
        self.tables = Tables(scores, images(stacked(arrays, "W_V") @ directions), bits)

    def output(self, line, row, support, number):
        """(least, most) output at a pattern, from ends that are checked one by one."""
        need(set(line) == {"row", "ends"}, number, "wanted the fields row, ends")
        ends, tables, found = line["ends"], self.tables, []
        listed = isinstance(ends, list) and all(isinstance(p, list) and len(p) == 2 for p in ends)
        fits = listed and len(ends) == len(tables.v)
        need(fits, number, f"ends: wanted {len(tables.v)} pairs")
        numbers = all(x is None or is_number(x) for pair in ends for x in pair)
        need(numbers, number, "ends: wanted numbers or null")
        cell = InputCell(self.T, {t: row >> i & 1 for i, t in enumerate(support)})
        for g, pair in enumerate(ends):
            for end, sign, name in zip(pair, (-1, 1), ("lower", "upper"), strict=True):
                level = None if end is None else floor(sign * Fraction(end) * (1 << tables.e))
                holds = end is None or tables.at_most(cell, g, sign, level)
                need(holds, number, f"direction {g}: the {name} end is not proved")
            found.append([None if end is None else Fraction(end) for end in pair])
        if self.signed:
            need(None not in found[0], number, "both ends are needed")
            return found[0]
        both = zip(self.units.values(), found, strict=True)
        ranges = [ridge(units, low, high, number) for units, (low, high) in both]
        return self.b_2 + sum(r[0] for r in ranges), self.b_2 + sum(r[1] for r in ranges)


def ridge(units, low, high, line):
    """(least, most) of sum w relu(l + b) for low <= l <= high; an end may be absent."""
    if low is None:
        need(high is not None, line, "a direction has neither end")
        need(all(high + b <= 0 for b, _ in units), line, "no lower end, and a unit may be active")
        return 0, 0
    if high is None:
        settled = all(low + b >= 0 for b, _ in units) and sum(w for _, w in units) == 0
        need(settled, line, "no upper end, and the units do not end flat")
        high = low
    need(low <= high, line, "a lower end lies above its upper end")
    kinks = [-b for b, _ in units if low < -b < high]
    points = [sum(w * max(l + b, 0) for b, w in units) for l in (low, high, *kinks)]
    return min(points), max(points)


# ---------------------------------------------------------------- trained networks

EPSILON = Fraction(1, 100_000)  # of LayerNorm
COARSE, GRID = 28, 10  # binary places of directions, and of the points where sigma is evaluated
ROOT, ROOT_ONE = 3989422804014326779399460599343818684758, 10**40  # 1/sqrt(2 pi), rounded down
HINTS = {"u", "far", "D", "slopes", "z"}


def centred(row):
    """The row minus its mean, each number off by less than 1."""
    mean = sum(row) // len(row)
    return [n - mean for n in row]


def normed(x, gain, bias, bits):
    """LayerNorm of exact rows: gain c/sqrt(|c|^2/d + eps) + bias for c = x - mean.

    With n = d c and V = |n|^2/d + d^2 eps the quotient is n/sqrt(V), at most sqrt(d). The root is
    rounded down and has so many places that the quotient is off by less than 1; rounding the
    quotient down costs less than 1 more.
    """
    d, rows = len(x.rows[0]), []
    g = bits + d.bit_length()
    for row in x.rows:
        total = sum(row)
        c = [d * n - total for n in row]
        V = Fraction(sum(n * n for n in c), d) + d * d * EPSILON * 4**x.e
        root = isqrt((V.numerator << 2 * g) // V.denominator)
        need(root * root >= d << 2 * bits, 1, "bits: too few for LayerNorm")
        rows.append([(n << bits + g) // root for n in c])
    return Matrix(rows, bits, 2).times(gain).plus(bias).rounded(bits)


def gelu(n, bits):
    """(low, high) around 2^bits gelu(x), x = n/2^GRID: gelu(x) = x (1/2 + phi(x) S(x)) for x >= 0.

    S(x) = x + x^3/3 + x^5/15 + ...; the terms of `low` are rounded down, those of `high` up, until
    each is less than half of the one before: the others add up to less than two of them. For
    x >= 16 gelu(x) is less than phi(16) < 2^-180 below x. gelu(-x) = gelu(x) - x.
    """
    x, q = abs(n), bits + 40 + (n * n >> 2 * GRID)  # phi(x) > 2^-(x^2 + 2)
    if x >> GRID >= 16:
        low, high = (x << bits - GRID) - 1, x << bits - GRID
    else:
        down = up = x << q - GRID
        low = high = i = 0
        while up > 1 or (2 * i + 3 << 2 * GRID) < 2 * x * x:
            low, high, i = low + down, high + up, i + 1
            below = 2 * i + 1 << 2 * GRID
            down, up = down * x * x // below, -(-up * x * x // below)
        least, most = exp_between(x * x, 2 * GRID + 1, q)
        low = (1 << q - 1) + low * least * ROOT // (ROOT_ONE << q)
        high = (1 << q - 1) - (-(high + 2 * up) * most * (ROOT + 1) // (ROOT_ONE << q))
        low, high = low * x >> GRID + q - bits, -(-high * x >> GRID + q - bits)
    back = x << bits - GRID if n < 0 else 0
    return low - back, high - back


SIGMA = {  # on and between the points of the grid |sigma''| <= 2 phi(0) < 0.8, or it is 0
    "gelu": gelu,
    "relu": lambda n, bits: (max(n, 0) << bits - GRID,) * 2,
    "identity": lambda n, bits: (n << bits - GRID,) * 2,
}


class TrainedNetwork:
    """One layer, H heads of k values, d residual coordinates: x = base + u W_O, c = x - mean, and

    h = G . c/s(c) + shift,  z = x + sigma(h) W_out + b_out,  logit = last . Cz/s(Cz) + rho,

    s(c) = sqrt(|c|^2/d + eps), Cz = z - mean. A key bias moves all scores of a head alike.
    """

    def __init__(self, spec, arrays, T, bits):
        plain = spec["layers"] == 1 and spec["alphabet"] == 2 and spec["layer_norm"] is True
        plain = plain and spec["normalizer"] == "softmax" and spec["activation"] in SIGMA
        need(plain and spec["T"] == T, 1, "weights: this kind of Transformer is not covered")
        need(bits >= 2 * COARSE, 1, f"bits: wanted at least {2 * COARSE}")
        self.bits, self.sigma, self.known = bits, SIGMA[spec["activation"]], {}
        arrays = {name.removeprefix("blocks.0."): array for name, array in arrays.items()}
        H, d, k = arrays["W_Q"][0]
        self.H, self.d, self.n = H, d, H * k

        def row(name):
            return Matrix([arrays[name][1]], arrays[name][2])

        def beside(name):  # [H, d, k] as d rows, the heads side by side
            need(arrays[name][0] == [H, d, k], 1, f"weights: {name} has another shape")
            W = stacked(arrays, name)
            rows = [[n for h in range(H) for n in W.rows[h * d + i]] for i in range(d)]
            return Matrix(rows, W.e)

        x = stacked(arrays, "position", "embed", "cls")
        X = Matrix(all_tokens(x.rows, T), x.e)
        X = normed(X, row("ln1.gain"), row("ln1.bias"), bits)
        query = (Matrix(X.rows[-1:], bits, X.off) @ beside("W_Q")).plus(row("b_Q")).rounded(bits)
        apart = [[n if i // k == h else 0 for h in range(H)] for i, n in enumerate(query.rows[0])]
        scale = isqrt((1 << 2 * bits) // (k if spec["scale"] == "sqrt" else 1))
        keys = beside("W_K") @ Matrix(apart, bits, query.off)
        scores = X @ keys.times(Matrix([[scale] * H], bits, 1)).rounded(bits)
        values = (X @ beside("W_V")).plus(row("b_V"))
        self.tables = Tables(scores.rounded(bits), values, bits)
        need(len(self.tables.slack) == H * k, 1, "bits: too few for the weights of a head")
        self.W_O = stacked(arrays, "W_O").rounded(bits)
        self.C_O = [centred(r) for r in self.W_O.rows]  # each number off by less than 2
        self.base = row("cls").plus(row("b_O")).rounded(bits).rows[0]
        W_in, self.W_out = stacked(arrays, "W_in"), stacked(arrays, "W_out")
        self.b_out = row("b_out")
        self.G = W_in.transposed().times(row("ln2.gain")).rounded(COARSE).transposed()
        self.shift = (row("ln2.bias") @ W_in).plus(row("b_in")).rounded(COARSE).rows[0]
        self.last = row("ln_final.gain").times(row("w")).rounded(bits).rows[0]
        self.rho = (row("ln_final.bias") @ row("w").transposed()).plus(row("b")).fractions()[0]

    def lines(self, low, high, slope):
        """(least, most) of 2^bits (sigma(h) - a h) for low <= 2^COARSE h <= high, a = slope/2^GRID.

        At most 34 points of a grid that covers [low, high]; between two of them, a step apart, the
        chord is off by at most 0.8 step^2/8.
        """
        fine = max(0, (high - low).bit_length() - 5 - COARSE + GRID)  # step: 2^(fine - GRID)
        first, last = low >> COARSE - GRID + fine, -(-high >> COARSE - GRID + fine)
        least, most = [], []
        for n in range(first << fine, (last << fine) + 1, 1 << fine):
            if n not in self.known:
                self.known[n] = self.sigma(n, self.bits)
            line = slope * n << self.bits - 2 * GRID
            least.append(self.known[n][0] - line)
            most.append(self.known[n][1] - line)
        off = (1 << self.bits + 2 * (fine - GRID)) // 10 + 1
        return min(least) - off, max(most) + off


def root_above(row, bits):
    """|x|^2/d + eps for x = row/2^bits, and an integer above its root; in units of 2^-bits."""
    square = Fraction(sum(n * n for n in row), len(row)) + EPSILON * 4**bits
    return square, isqrt(floor(square)) + 1


class Leaf:
    """The logit over one cell. The centred residual is c = c0 + delta.

    Each head has u - u0 = M/D = M/D0 + (u - u0)(1 - D/D0), M = sum of w (v - u0). The first part is
    a sum over tokens: a start, and a gain for each free position that shows a one. The second is at
    most far |1 - D/D0| where |u - u0| <= far: `leak`, with T + 2 for the rounding of the tokens.
    Both pass through W_O; `blur` is for the rounding of delta.

    For any s0 with s0^2 >= |c0|^2/d + eps =: s0 A, by Cauchy and Schwarz and 2 s s0 <= s^2 + s0^2,

        s = A + c0 . delta/(d s0) + e,   0 <= e <= |delta|^2/(2 d s0) + (s0 - A)/2 =: E,

    and a unit is, with eta = G . c0/A and l = G - eta c0/(d s0),

        h = eta + shift + (l . delta - eta e)/s.
    """

    def __init__(self, net, cell, line, number):
        self.net, self.cell, self.number, self.one = net, cell, number, 1 << net.bits
        self.line, tables = line, net.tables
        u, far, D = self.hint("u", net.n), self.hint("far", net.n), self.hint("D", net.H)
        need(min(D) > 0 and min(far) >= 0, number, "D, far: wanted positive numbers")
        D, self.leak = [D[i // tables.k] for i in range(net.n)], []
        for i in range(net.n):
            near = all(tables.at_most(cell, i, s, s * u[i] + far[i]) for s in (1, -1))
            need(near, number, f"head output {i} may be farther than {line['far'][i]} from u")
            w = tables.w[i // tables.k]
            least, most = cell.ends(sum(w[r] for r in cell.there), cell.gains(w))
            wide = max(D[i] - least, most - D[i])
            self.leak.append(far[i] * wide // D[i] + tables.slack[i] + cell.T + 2)
        moves = [[a * (n - u[i]) // D[i] for a, n in zip(tables.w[i // tables.k], v, strict=True)]
                 for i, v in enumerate(tables.v)]  # fmt: skip
        start = [[sum(row[r] for r in cell.there), *cell.gains(row)] for row in moves]
        moved = Matrix(start, net.bits).transposed() @ Matrix(net.C_O, net.bits)
        self.rows = Matrix(moved.rounded(net.bits).rows + net.C_O, net.bits)
        at = (Matrix([u], net.bits) @ net.W_O).rounded(net.bits).rows[0]
        self.c0 = centred(list(map(add, at, net.base)))
        self.blur = cell.T + 8 + (sum(far) + 2 * sum(self.leak) + sum(map(abs, u)) >> net.bits - 1)
        self.axes = self.ranges(None)
        self.reach = [max(-low, high) for low, high in self.axes]
        self.near = sum(self.reach)
        self.norm_and_units()

    def hint(self, name, length):
        """A list of hints as integers over 2^bits."""
        given = self.line[name]
        fits = isinstance(given, list) and len(given) == length and all(map(is_number, given))
        need(fits, self.number, f"{name}: wanted {length} numbers")
        return [floor(Fraction(x) * self.one) for x in given]

    def ranges(self, L):
        """Least and most of 2^(bits + L.e) l . delta for each column l of L; None: the axes."""
        product, found, F = self.rows if L is None else self.rows @ L, [], len(self.cell.free) + 1
        columns = [[1]] * self.net.d if L is None else zip(*L.rows, strict=True)
        sizes = [sum(map(abs, column)) for column in columns]
        for column, size in zip(zip(*product.rows, strict=True), sizes, strict=True):
            lost = (sum(map(mul, self.leak, map(abs, column[F:]))) >> self.net.bits) + 1
            low, high = self.cell.ends(column[0], column[1:F])
            found.append((low - lost - size * self.blur, high + lost + size * self.blur))
        return found

    def norm_and_units(self):
        """s, eta, l, and the lines around sigma(h) for every unit."""
        net, d, c0 = self.net, self.net.d, self.c0
        square, s0 = root_above(c0, net.bits)
        self.A = square / s0
        self.E = Fraction(sum(n * n for n in self.reach), 2 * d * s0) + (s0 - self.A) / 2
        ((low, high),) = self.ranges(Matrix([[n] for n in c0], net.bits))
        both = zip(c0, self.axes, strict=True)
        least = floor(root_above([max(0, n + a, -n - b) for n, (a, b) in both], net.bits)[0])
        self.s = max(self.A + Fraction(low, d * s0), isqrt(least)), self.A + Fraction(high, d * s0)
        self.s = self.s[0], self.s[1] + self.E
        self.eta = [n // self.A for n in (Matrix([c0], net.bits) @ net.G).rows[0]]
        ell = [[g - e * c // (d * s0) for g, e in zip(row, self.eta, strict=True)]
               for row, c in zip(net.G.rows, c0, strict=True)]  # fmt: skip
        self.ell, self.slopes, n = Matrix(ell, COARSE), self.line["slopes"], len(net.shift)
        fits = isinstance(self.slopes, list) and len(self.slopes) == n
        fits = fits and all(type(a) is int and abs(a) <= 2 << GRID for a in self.slopes)
        need(fits, self.number, f"slopes: wanted {n} integers up to {2 << GRID}")
        self.units = [self.unit(j, *ends) for j, ends in enumerate(self.ranges(self.ell))]

    def unit(self, j, low, high):
        """(least, most) of sigma(h) - a h, and of sigma(h), for unit j.

        G and shift are rounded: h is off by at most 2 d + 2, since |c|_1 <= d s. The rounding of l
        costs `near`, that of eta costs A.
        """
        eta, off, up = self.eta[j], 2 * self.net.d + 2, self.net.bits - COARSE
        low -= self.near + max(eta, 0) * self.E
        high += self.near + self.A + max(-eta, 0) * self.E
        middle, slope = eta + self.net.shift[j], self.slopes[j]
        low = floor(min(low / s for s in self.s)) + middle - off
        high = ceil(max(high / s for s in self.s)) + middle + off
        least, most = self.net.lines(low, high, slope)
        least, most = least - (2 * off << up), most + (2 * off << up)
        ends = [slope * n << up - GRID for n in (low, high)]
        return least, most, least + min(ends), most + max(ends)

    def least(self, sign, margin):
        """At most s_z (sign logit - margin), s_z = s(Cz).

        With t = sign rho - margin this is sign last . Cz + t s_z, and s_z is at least, where t < 0
        at most, linear in z, as s above around any z0. So there is one direction q = sign last +
        t z0/(d s0); its rounding costs 8 d^2 s_z / 2^bits, taken from t.
        """
        net, one, d, z = self.net, self.one, self.net.d, self.hint("z", self.net.d)
        square, s0 = root_above(z, net.bits)
        t = sign * net.rho - margin - Fraction(8 * d * d, one)
        total = t * EPSILON * one / s0
        if t < 0:
            total += t * ((s0 - square / s0) / 2 + Fraction(self.spread(z), 2 * d * s0)) / one
        q = centred([sign * a + t * one * b // (d * s0) for a, b in zip(net.last, z, strict=True)])
        q[0] -= sum(q)
        column = Matrix([[n] for n in q], net.bits)
        S = net.W_out @ column
        total += (Matrix([self.c0], net.bits) @ column).plus(net.b_out @ column).fractions()[0]
        return total + self.through(q, [n for (n,) in S.rows], S.e)

    def through(self, q, S, e):
        """Lower end of q . delta + sum of S sigma(h), S over 2^e, by the lines of the units.

        a h = a (eta + shift) + a (l . delta - eta e)/s, and 1/s is 1/A plus a small number.
        """
        net, near, full, A = self.net, self.near, 1 << e + GRID + COARSE, floor(self.A)
        K = list(map(mul, S, self.slopes))
        sides = sum(n * unit[0 if n > 0 else 1] for n, unit in zip(S, self.units, strict=True))
        total = Fraction(sides, 1 << e + net.bits)
        total += Fraction(sum(map(mul, K, map(add, self.eta, net.shift))), full)
        turn = [(sum(map(mul, K, row)) << net.bits) // full for row in self.ell.rows]
        both = [[n + m * self.one // A, m] for n, m in zip(q, turn, strict=True)]
        (low, _), ends = self.ranges(Matrix(both, net.bits))
        total += Fraction(low - near, self.one**2)
        change = max(abs(1 / s - Fraction(1, A)) for s in self.s)
        total -= change * max(-ends[0], ends[1]) / self.one
        lost = max(Fraction(sum(map(mul, K, self.eta)), full), 0) * self.E
        lost += sum(map(abs, K)) * (self.A + near) / full + Fraction(near, self.one)
        return total - lost / self.s[0]

    def spread(self, z):
        """At least |Cz - z0|^2, from the ranges of all sigma(h)."""
        net, total = self.net, 0
        low, high = zip(*(unit[2:] for unit in self.units), strict=True)
        twice, wide = list(map(add, low, high)), list(map(sub, high, low))
        columns = zip(*map(centred, net.W_out.rounded(net.bits).rows), strict=True)
        b = centred(net.b_out.rounded(net.bits).rows[0])
        off = (sum(map(abs, twice)) + sum(wide) >> net.bits) + 8
        for column, *parts, reach in zip(columns, self.c0, b, z, self.reach, strict=True):
            at = (sum(map(mul, twice, column)) >> net.bits + 1) + parts[0] + parts[1] - parts[2]
            side = sum(map(mul, wide, map(abs, column))) >> net.bits + 1
            total += (abs(at) + side + reach + off) ** 2
        return total


# ---------------------------------------------------------------- the proof


def is_number(x):
    """An integer or a finite float64, and no truth value."""
    return type(x) is int or (type(x) is float and isfinite(x))


def decimal(text, name):
    """A number of the statement: a short decimal in quotes, exactly as it is written."""
    short = isinstance(text, str) and re.fullmatch(r"\d{1,20}(\.\d{1,40})?(e-?\d{1,3})?", text)
    need(short, 1, f"{name}: wanted a decimal in quotes")
    return Fraction(text)


class ProofStatement:
    """The first line: which weights, which function, which margin and error."""

    def __init__(self, line, data):
        need(set(line) == HEADER, 1, f"wanted the fields {', '.join(sorted(HEADER))}")
        need(line["proof"] == VERSION, 1, f"wanted a proof of the kind {VERSION}")
        same = hashlib.sha256(data).hexdigest() == line["weights"]
        need(same, 1, "these are not the weights that the proof names")
        self.T, self.support, self.bits = line["T"], line["support"], line["bits"]
        whole = type(self.T) is int and type(self.bits) is int
        need(whole and self.T > 0 and 0 < self.bits <= MOST_BITS, 1, "T, bits: wanted integers")
        listed = isinstance(self.support, list) and all(type(t) is int for t in self.support)
        need(listed and len(self.support) <= MOST_SUPPORT, 1, "support: wanted a short list")
        inside = all(0 <= t < self.T for t in self.support)
        need(inside and len(set(self.support)) == len(self.support), 1, "support: wrong positions")
        self.rows, self.told = 1 << len(self.support), line
        self.table = self._table(line["table"])
        self.boolean = set(self.table) <= {0, 1}
        need((line["margin"] is None) != self.boolean, 1, "margin: wanted for a Boolean function")
        self.margin = decimal(line["margin"], "margin") if self.boolean else None
        need(self.margin is None or self.margin > 0, 1, "margin: wanted a positive number")

    def _table(self, given):
        """f at each pattern: row r shows bit i of r at support[i]."""
        if isinstance(given, str):
            need(re.fullmatch(r"0x[0-9a-f]+", given), 1, "table: wanted hexadecimal digits")
            number = int(given, 16)
            need(number < 1 << self.rows, 1, "table: too many rows")
            return [number >> r & 1 for r in range(self.rows)]
        numbers = isinstance(given, list) and all(map(is_number, given))
        need(numbers and len(given) == self.rows, 1, f"table: wanted {self.rows} numbers")
        return [Fraction(x) for x in given]

    def sentence(self, target, rule):
        """What has been proved, in words."""
        where = f"the {len(self.support)} bits at positions {self.support}"
        shown = hex(sum(int(x) << r for r, x in enumerate(self.table))) if self.boolean else "given"
        within = f"the output is within {self.told['error']} of {target}" if target else ""
        if self.boolean:
            decides = f"'{rule}' decides as f with a margin of at least {self.told['margin']}"
            within += f", and {decides}" if target else decides
        told = f"On all 2^{self.T} inputs {within}. f is the function of {where} with the table"
        return f"{told} {shown}. Arithmetic: exact, on the stored weights."


def check(proof, data):
    """The sentence that is proved. Raises `Refused` with the first line that fails."""
    lines = proof.removesuffix("\n").split("\n")
    statement = ProofStatement(parse(lines[0], 1), data)
    described, arrays = read_weights(data)
    trained = described["kind"] == "Transformer"
    checked = (check_cells if trained else check_rows)(statement, described, arrays, lines)
    return statement.sentence(*checked)


def check_rows(statement, described, arrays, lines):
    """A compiled network: one line for each pattern of the support."""
    error, seen = decimal(statement.told["error"], "error"), set()
    network = CompiledNetwork(described, arrays, statement.T, statement.bits)
    cut, signed = (0 if network.signed else Fraction(1, 2)), network.signed and statement.boolean
    for number, text in enumerate(lines[1:], start=2):
        line = parse(text, number)
        row = line.get("row")
        fresh = type(row) is int and 0 <= row < statement.rows and row not in seen
        need(fresh, number, f"row {row!r}: wanted each of the {statement.rows} rows once")
        seen.add(row)
        least, most = network.output(line, row, statement.support, number)
        f = statement.table[row]
        target = 2 * f - 1 if signed else f
        near = most - target <= error and target - least <= error
        need(near, number, f"row {row}: the error may exceed the stated one")
        far = not statement.boolean or (least - cut if f else cut - most) >= statement.margin
        need(far, number, f"row {row}: the margin may be below the stated one")
    missing = statement.rows - len(seen)
    need(not missing, len(lines) + 1, f"the proof ends, and {missing} rows have no line")
    return "2 f - 1" if signed else "f", "output > 0" if network.signed else "output > 1/2"


def check_cells(statement, described, arrays, lines):
    """A trained network: every line cuts the newest open cell in two, or proves and closes it."""
    need(statement.told["error"] is None and statement.boolean, 1, "error: wanted null")
    net = TrainedNetwork(described["spec"], arrays, statement.T, statement.bits)
    places = list(enumerate(statement.support))
    rows = reversed(range(statement.rows))
    cells = [InputCell(statement.T, {t: row >> i & 1 for i, t in places}) for row in rows]
    for number, text in enumerate(lines[1:], start=2):
        line = parse(text, number)
        need(cells, number, "a line more than there are cells")
        cell = cells.pop()
        if set(line) != HINTS:
            cells += cell.parts(line, number)
            continue
        row = sum(cell.fixed[t] << i for i, t in places)
        leaf = Leaf(net, cell, line, number)
        holds = leaf.least(1 if statement.table[row] else -1, statement.margin) >= 0
        need(holds, number, f"row {row}: the margin may be below the stated one")
    need(not cells, len(lines) + 1, f"the proof ends, and {len(cells)} cells are open")
    return None, "logit > 0"


def answer(proof_path, weights_path):
    """The answer as plain data: status, statement, line, reason."""
    try:
        proof, data = Path(proof_path).read_text("utf-8"), Path(weights_path).read_bytes()
        return {"status": "proved", "statement": check(proof, data), "line": None, "reason": None}
    except Refused as refusal:
        line, reason = refusal.line, refusal.reason
    except (OSError, UnicodeDecodeError) as error:
        line, reason = 1, f"cannot read a file: {error}"
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        line, reason = 1, f"damaged weights or proof: {type(error).__name__} {error}"
    return {"status": "refused", "statement": None, "line": line, "reason": reason}


def main(arguments):
    """Check the files named on the command line; the exit code is 0 if proved, 1 if refused."""
    names = [name for name in arguments if name != "--json"]
    if len(names) != 2:
        print("usage: python capax_check.py model.proof model.safetensors [--json]")
        return 2
    found = answer(*names)
    if "--json" in arguments:
        print(json.dumps(found))
    elif found["status"] == "proved":
        print(f"proved: {found['statement']}")
    else:
        print(f"refused: line {found['line']}: {found['reason']}")
    return 0 if found["status"] == "proved" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
