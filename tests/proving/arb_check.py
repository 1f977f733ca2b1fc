"""A second checker, for the tests: the same statement in ball arithmetic (Arb), other code.

It reads weights by the safetensors library, forms every token as a map from coordinates to balls
(zeros are left out), and evaluates every sum in balls of 1000 bits. It shares no line with
`capax_check`.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np
from arb_numbers import ball, proof_and_weights, with_bits
from flint import arb


def dot(a, b) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True) if x != 0 and y != 0), arb(0))


def sparse(numbers) -> dict[int, arb]:
    """A token: coordinate -> ball, without the zeros."""
    return {int(i): ball(numbers[i]) for i in np.flatnonzero(numbers)}


def image(token, column) -> arb:
    return sum((x * column[i] for i, x in token.items()), arb(0))


def plus(a, b) -> dict[int, arb]:
    return {i: a.get(i, arb(0)) + b.get(i, arb(0)) for i in a.keys() | b.keys()}


@with_bits(1000)
def accepted(proof: str, weights: Path) -> bool:
    """True when every line of the proof holds."""
    read = proof_and_weights(proof, weights)
    if read is None:
        return False
    header, lines, arrays, module = read
    fields = module["fields"]
    T, support = header["T"], header["support"]
    tokens, cls = _tokens(fields["encoding"]["kind"], arrays, T)
    q = [image(cls, balls(column)) for column in arrays["W_Q"].T.tolist()]
    key = [dot(row, q) for row in map(balls, arrays["W_K"].tolist())]
    W_V = [balls(column) for column in arrays["W_V"].T.tolist()]
    score = lambda x: image(x, key)  # noqa: E731
    top = max(float(score(x)) for pair in [*tokens, (cls, cls)] for x in pair)

    def fact(x):
        """(weight, head value) of a token."""
        return (score(x) - ball(top)).exp(), [image(x, column) for column in W_V]

    known = [tuple(map(fact, pair)) for pair in tokens]
    read, query = _readout(arrays), fact(cls)
    for row, line in enumerate(lines):
        bits = {t: row >> i & 1 for i, t in enumerate(support)}
        for direction, (low, high) in zip(read["directions"], line["ends"], strict=True):
            for end, sign in ((high, 1), (low, -1)):
                total = _most(query, direction, end, sign)
                for t, pair in enumerate(known):
                    terms = [_most(x, direction, end, sign) for x in pair]
                    total += terms[bits[t]] if t in bits else terms[0].max(terms[1])
                if not total <= 0:
                    return False
        if not _row_holds(header, read, row, line["ends"]):
            return False
    return len(lines) == 1 << len(support)


def balls(numbers) -> list[arb]:
    return [ball(x) for x in numbers]


def _most(token, direction, end, sign) -> arb:
    weight, value = token
    return weight * sign * (dot(direction, value) - ball(end))


def _tokens(kind, arrays, T):
    if kind in ("OrthonormalBag", "BagOfVectors"):
        V = np.eye(T + 1)[:T] if kind == "OrthonormalBag" else arrays["encoding.V"]
        cls = np.eye(T + 1)[T] if kind == "OrthonormalBag" else arrays["encoding.v_CLS"]
        return [({}, sparse(v)) for v in V], sparse(cls)
    if kind == "TrainablePositions":
        P, E, cls = (arrays[f"encoding.{name}"] for name in ("P", "E", "v_CLS"))
    else:
        rows = np.eye(T + 3) if kind == "DeterministicPositions" else arrays["encoding.codes"]
        P, E, cls = rows[:T], rows[T : T + 2], rows[T + 2]
    P, E = [sparse(row) for row in P], [sparse(row) for row in E]
    return [tuple(plus(p, e) for e in E) for p in P], sparse(cls)


def _readout(arrays):
    if "W_C" in arrays:
        w = balls(arrays["w"])
        return {"directions": [[dot(balls(row), w) for row in arrays["W_C"]]], "scalar": True}
    columns = [tuple(column) for column in arrays["W_1"].T.tolist()]
    units = {}
    for column, b, w in zip(columns, arrays["b_1"], arrays["w_2"], strict=True):
        units.setdefault(column, []).append((Fraction(b), Fraction(w)))
    return {
        "directions": [balls(column) for column in units],
        "units": list(units.values()),
        "b_2": Fraction(float(arrays["b_2"])),
        "scalar": False,
    }


def _row_holds(header, read, row, ends) -> bool:
    if read["scalar"]:
        least, most = map(Fraction, ends[0])
    else:
        ranges = [_units(u, *pair) for u, pair in zip(read["units"], ends, strict=True)]
        least = read["b_2"] + sum(r[0] for r in ranges)
        most = read["b_2"] + sum(r[1] for r in ranges)
    table = header["table"]
    f = Fraction(int(table, 16) >> row & 1 if isinstance(table, str) else table[row])
    boolean = header["margin"] is not None
    target = 2 * f - 1 if read["scalar"] and boolean else f
    if max(most - target, target - least) > Fraction(header["error"]):
        return False
    cut = Fraction(0 if read["scalar"] else Fraction(1, 2))
    far = least - cut if f == 1 else cut - most
    return not boolean or far >= Fraction(header["margin"]) > 0


def _units(units, low, high):
    """Least and most of sum w relu(l + b): unit by unit at every breakpoint inside."""

    def at(l):
        return sum(w * (l + b) for b, w in units if l + b > 0)

    kinks = [-b for b, _ in units]
    low, high = Fraction(low), Fraction(high)
    values = [at(l) for l in (low, high, *(k for k in kinks if low < k < high))]
    return min(values), max(values)
