#!/usr/bin/env python3
"""Check a proof that a small attention network decides as a Boolean function on ALL 2^T inputs.

    python capax_check.py model.proof model.safetensors [--json]

This file needs Python 3.11 and nothing else: no NumPy, no capax. It searches for nothing. Stored
weights are dyadic rationals, so every number below is an exact integer over a power of two, except
e^x, which is enclosed between two integers (`exp_between`). Exit code 0: proved. 1: refused, with
the first line of the proof that fails. `docs/guides/proofs.md` of Capax explains the file format.

What is proved. The network has one softmax head whose query is the fixed token [CLS]. Bit b at
position t enters through its score s[t,b] and its value v[t,b] only, and so does [CLS]:

    u = (sum of e^s v) / (sum of e^s)        over the T tokens and [CLS],
    output = u . W_C . w                                     (ClsScalar, decided at 0)
    output = w_2 . relu(u . W_1 + b_1) + b_2                 (ClsMLP,    decided at 1/2).

Fix the bits on the support; the others are free. In a direction c of the head,

    c . u <= L   <=>   sum of e^s (c . v - L) <= 0,

and the sum is largest, over all free bits at once, where each position takes its larger term. So
ONE number L and one sum over positions prove an end of the range of c . u over all inputs with the
same bits on the support. A line of the proof gives such numbers, the hints, for one pattern of the
support. The rest is arithmetic.
"""

import hashlib
import json
import re
import struct
import sys
from fractions import Fraction
from math import isfinite, prod
from pathlib import Path

VERSION = "capax-proof-1"
MOST_BITS, MOST_SUPPORT = 1 << 14, 20
HALF = Fraction(1, 2)
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
    arrays = {name: read_array(name, data[8 + size :], entry) for name, entry in header.items()}
    return network, arrays


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


class Matrix:
    """Rows of integers over 2^e: exact products."""

    def __init__(self, rows, e):
        self.rows, self.e = rows, e

    def __matmul__(self, other):
        """The matrix product."""
        fits = all(len(row) == len(other.rows) for row in self.rows)
        need(fits, 1, "weights: shapes do not fit together")
        columns = list(zip(*other.rows, strict=True))
        rows = [[sum(map(int.__mul__, row, c)) for c in columns] for row in self.rows]
        return Matrix(rows, self.e + other.e)

    def transposed(self):
        """Rows and columns exchanged."""
        return Matrix([list(column) for column in zip(*self.rows, strict=True)], self.e)

    def fractions(self):
        """The numbers as fractions, row after row."""
        return [Fraction(n, 1 << self.e) for row in self.rows for n in row]


def stacked(arrays, *names):
    """Arrays below each other as one matrix; a vector is one row, a number one row of one."""
    parts = []
    for name in names:
        need(name in arrays, 1, f"weights: {name} is missing")
        shape, numbers, e = arrays[name]
        need(len(shape) <= 2, 1, f"weights: {name} has {len(shape)} axes")
        width = shape[-1] if shape else 1
        count = shape[0] if len(shape) == 2 else 1
        parts.append(Matrix([numbers[i * width : (i + 1) * width] for i in range(count)], e))
    e = max(part.e for part in parts)
    return Matrix([[n << (e - part.e) for n in row] for part in parts for row in part.rows], e)


# ---------------------------------------------------------------- the network as tables

POSITIONS = ("DeterministicPositions", "TrainablePositions", "IncoherentCodes")  # x_t = P_t + E_b
BAGS = ("OrthonormalBag", "BagOfVectors")  # x_t = b v_t
STORED = {
    "TrainablePositions": ("encoding.P", "encoding.E", "encoding.v_CLS"),
    "IncoherentCodes": ("encoding.codes",),
    "BagOfVectors": ("encoding.V", "encoding.v_CLS"),
}


class Network:
    """What the proof is about: scores, values and read-out, exactly as stored."""

    def __init__(self, data, T):
        described, self.arrays = read_weights(data)
        self.kind, fields = described["kind"], described["fields"]
        need(self.kind in ("ClsScalar", "ClsMLP"), 1, f"weights: {self.kind} is not covered")
        self.encoding, self.T = fields["encoding"]["kind"], T
        need(self.encoding in POSITIONS + BAGS, 1, f"weights: {self.encoding} is not covered")
        norm = fields["norm"]
        softmax = norm["kind"] == "Softmax" and norm["fields"]["temperature"]["value"] == 1
        need(softmax, 1, "weights: wanted a softmax of temperature 1")
        need(fields["scale"]["value"] == "paper", 1, "weights: wanted scores without a scale")
        if self.kind == "ClsScalar":
            identity = fields["activation"]["value"] == "identity"
            need(identity, 1, "weights: wanted a read-out without activation")

    def images(self, W):
        """x_t W for both bits, T pairs of rows, x_CLS W, and the power of two under them."""
        if self.encoding in STORED:  # otherwise P_t, E_b, v_t and v_CLS are the unit vectors
            W = stacked(self.arrays, *STORED[self.encoding]) @ W
        rows, T, bag = W.rows, self.T, self.encoding in BAGS
        need(len(rows) == T + (1 if bag else 3), 1, "weights: the encoding does not fit T")
        if bag:
            tokens = [([0] * len(rows[0]), rows[t]) for t in range(T)]
        else:
            sums = ([map(int.__add__, rows[t], rows[T + b]) for b in (0, 1)] for t in range(T))
            tokens = [tuple(map(list, pair)) for pair in sums]
        return tokens, rows[-1], W.e

    def scores(self):
        """s[t][b] and the score of [CLS], as integers over one power of two."""
        _, query, e = self.images(stacked(self.arrays, "W_Q"))
        keys = stacked(self.arrays, "W_K") @ Matrix([[n] for n in query], e)
        tokens, cls, e = self.images(keys)
        return [(zero[0], one[0]) for zero, one in tokens], cls[0], e

    def values(self):
        """The units of every direction c, and c . v: tokens, [CLS], power of two."""
        directions, units = self.directions()
        return units, *self.images(stacked(self.arrays, "W_V") @ directions)

    def directions(self):
        """The directions c as columns, and for each the units (b, w) that read it (MLP)."""
        if self.kind == "ClsScalar":
            w = stacked(self.arrays, "w").transposed()
            return stacked(self.arrays, "W_C") @ w, None
        W_1, units = stacked(self.arrays, "W_1"), {}
        biases, weights = (stacked(self.arrays, name).fractions() for name in ("b_1", "w_2"))
        for column, b, w in zip(W_1.transposed().rows, biases, weights, strict=True):
            units.setdefault(tuple(column), []).append((b, w))
        columns = [[column[i] for column in units] for i in range(len(W_1.rows))]
        return Matrix(columns, W_1.e), list(units.values())


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


class Sums:
    """For every direction the terms of sum e^s (c . v - L), with e^s and c . v between integers.

    Scores are shifted by the largest one, which multiplies the whole sum by a positive number.
    Positions outside the support that are alike in all numbers are counted once.
    """

    def __init__(self, network, support, bits):
        self.bits = bits
        scores, cls, e = network.scores()
        top = max(cls, *(s for pair in scores for s in pair))
        known = {}

        def weight(score):
            if score not in known:
                known[score] = exp_between(top - score, e, bits)
            return known[score]

        self.units, values, cls_value, self.e = network.values()
        self.cls = (weight(cls), self.fixed_point(cls_value))
        alike = {}
        for t in range(network.T):
            if t not in support:
                key = (*scores[t], *values[t][0], *values[t][1])
                alike[key] = (alike.get(key, (0, 0))[0] + 1, t)

        def token(t, b):
            return weight(scores[t][b]), self.fixed_point(values[t][b])

        self.free = [(count, token(t, 0), token(t, 1)) for count, t in alike.values()]
        self.support = [(token(t, 0), token(t, 1)) for t in support]

    def fixed_point(self, numbers):
        """(low, high) integers around 2^bits times every number."""
        up = [n << self.bits for n in numbers]
        return [(n >> self.e, -(-n >> self.e)) for n in up]

    def at_most(self, row, g, level):
        """c . u <= level on every input whose support shows the bits of `row`."""
        level = (level.numerator << self.bits) // level.denominator  # rounded down: more to show
        return self._total(row, g, level, lambda value: value[1]) <= 0

    def at_least(self, row, g, level):
        """c . u >= level there: -c . u <= -level."""
        level = (-level.numerator << self.bits) // level.denominator
        return self._total(row, g, level, lambda value: -value[0]) <= 0

    def _total(self, row, g, level, upper):
        """At least the sum of e^s (c . v - L) over all choices of the free bits."""

        def term(token):
            (low, high), value = token[0], upper(token[1][g]) - level
            return (high if value > 0 else low) * value

        chosen = [pair[row >> i & 1] for i, pair in enumerate(self.support)]
        total = term(self.cls) + sum(map(term, chosen))
        return total + sum(count * max(term(zero), term(one)) for count, zero, one in self.free)


# ---------------------------------------------------------------- the proof


def ridge(units, low, high, line):
    """(least, most) of sum w relu(l + b) for low <= l <= high; an end may be absent."""

    def at(l):
        return sum(w * max(l + b, 0) for b, w in units)

    if low is None:
        need(high is not None, line, "a direction has neither end")
        need(all(high + b <= 0 for b, _ in units), line, "no lower end, and a unit may be active")
        return 0, 0
    if high is None:
        settled = all(low + b >= 0 for b, _ in units) and sum(w for _, w in units) == 0
        need(settled, line, "no upper end, and the units do not end flat")
        value = sum(w * b for b, w in units)
        return value, value
    need(low <= high, line, "a lower end lies above its upper end")
    points = [at(low), at(high), *(at(-b) for b, _ in units if low < -b < high)]
    return min(points), max(points)


def output_range(network, sums, row, ends, line):
    """(least, most) output at a pattern, from ends that are checked one by one."""
    need(len(ends) == len(sums.cls[1]), line, f"wanted {len(sums.cls[1])} pairs of ends")
    for g, (low, high) in enumerate(ends):
        holds = low is None or sums.at_least(row, g, low)
        need(holds, line, f"direction {g}: the lower end is not proved")
        holds = high is None or sums.at_most(row, g, high)
        need(holds, line, f"direction {g}: the upper end is not proved")
    if sums.units is None:
        need(None not in ends[0], line, "both ends are needed")
        return ends[0]
    both = zip(sums.units, ends, strict=True)
    ranges = [ridge(units, low, high, line) for units, (low, high) in both]
    b_2 = stacked(network.arrays, "b_2").fractions()[0]
    return b_2 + sum(r[0] for r in ranges), b_2 + sum(r[1] for r in ranges)


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
        self.rows = 1 << len(self.support)
        self.table = self._table(line["table"])
        self.boolean = set(self.table) <= {0, 1}
        self.error, self.told = decimal(line["error"], "error"), line
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

    def check_row(self, row, least, most, signed, line):
        """The range of the output at a pattern, against the function."""
        f = self.table[row]
        target, cut = (2 * f - 1 if signed and self.boolean else f), (0 if signed else HALF)
        near = most - target <= self.error and target - least <= self.error
        need(near, line, f"row {row}: the error may exceed the stated one")
        if self.boolean:
            far = least - cut if f else cut - most
            need(far >= self.margin, line, f"row {row}: the margin may be below the stated one")

    def sentence(self, signed):
        """What has been proved, in words."""
        where = f"the {len(self.support)} bits at positions {self.support}"
        shown = hex(sum(int(x) << r for r, x in enumerate(self.table))) if self.boolean else "given"
        target = "2 f - 1" if signed and self.boolean else "f"
        told = f"On all 2^{self.T} inputs the output is within {self.told['error']} of {target}"
        if self.boolean:
            rule = "output > 0" if signed else "output > 1/2"
            told += f", and '{rule}' decides as f with a margin of at least {self.told['margin']}"
        told += f". f is the function of {where} with the table {shown}."
        return told + " Arithmetic: exact, on the stored weights."


def check(proof, data):
    """The sentence that is proved. Raises `Refused` with the first line that fails."""
    lines = proof.removesuffix("\n").split("\n")
    statement = ProofStatement(parse(lines[0], 1), data)
    network = Network(data, statement.T)
    sums = Sums(network, statement.support, statement.bits)
    signed, seen = network.kind == "ClsScalar", set()
    for number, text in enumerate(lines[1:], start=2):
        line = parse(text, number)
        need(set(line) == {"row", "ends"}, number, "wanted the fields row, ends")
        row, ends = line["row"], pairs(line["ends"], number)
        fresh = type(row) is int and 0 <= row < statement.rows and row not in seen
        need(fresh, number, f"row {row!r}: wanted each of the {statement.rows} rows once")
        seen.add(row)
        least, most = output_range(network, sums, row, ends, number)
        statement.check_row(row, least, most, signed, number)
    missing = statement.rows - len(seen)
    need(not missing, len(lines) + 1, f"the proof ends, and {missing} rows have no line")
    return statement.sentence(signed)


def pairs(given, line):
    """Ends of every direction: [low, high], null where an end is not needed."""
    listed = isinstance(given, list) and all(isinstance(p, list) and len(p) == 2 for p in given)
    need(listed, line, "ends: wanted a list of pairs")
    numbers = all(x is None or is_number(x) for p in given for x in p)
    need(numbers, line, "ends: wanted numbers or null")
    return [tuple(None if x is None else Fraction(x) for x in p) for p in given]


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
