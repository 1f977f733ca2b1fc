"""Every rounding of the proof checker, at so few bits that a wrong direction changes the answer.

Real proofs have 160 bits to spare, so a rounding in the wrong direction changes none of them.
"""

import hashlib
import json
import math
import random
import struct
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import mpmath
import pytest

from capax.proving import capax_check
from capax.proving.capax_check import InputCell, Matrix, Tables, exp_between

TINY = Fraction(1, 1 << 100)  # far above the error of `exact_exp`, far below any step of the tests


def exact_exp(x: Fraction) -> Fraction:
    """e^x with a relative error below 2^-250."""
    with mpmath.workprec(300):
        sign, man, exponent, _ = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)._mpf_
    return (-1) ** sign * int(man) * Fraction(2) ** exponent


# `Y` for `Y + 1` in `exp_between` is harmless: it moves the series by less than 1, and the error
# 2 i + 3 counts 2 for the first term, which is exact.
@pytest.mark.parametrize(
    ("bits", "most"), [*((b, (1 << b) - 1) for b in range(1, 9)), (12, 300), (64, 200), (200, 100)]
)
def test_exp_is_enclosed_next_to_every_integer(bits, most):
    """2^bits exp(-n/2^e) just above k needs high > k, just below k it needs low < k."""
    e = 2 * bits + 160
    for k in range(1, most + 1):
        with mpmath.workprec(e + 60):
            n = int(mpmath.floor(mpmath.log(mpmath.mpf(1 << bits) / k) * 2**e))
        low, high = exp_between(n, e, bits)  # the true number is in (k, k + 2^-100)
        assert low <= k < high <= low + 2, k
        low, high = exp_between(n + 1, e, bits)  # the true number is in (k - 2^-100, k)
        assert low < k <= high <= low + 2, k


def test_exp_is_enclosed_where_it_ends_at_zero():
    for bits in range(1, 13):
        for n in range((bits - 1) << 4, (bits + 2) << 4):
            low, high = exp_between(n, 4, bits)
            assert low <= exact_exp(Fraction(-n, 16)) * (1 << bits) <= high <= low + 2
        assert exp_between(0, 4, bits)[1] >= 1 << bits


def head(rng: random.Random, size: int, e: int) -> SimpleNamespace:
    """The tables of a random head with T = 4; positions 2 and 3 may be alike."""
    number = lambda: rng.randint(-size, size)  # noqa: E731
    scores = [(rng.randint(0, 48), rng.randint(0, 48)) for _ in range(4)]
    values = [([number(), number()], [number(), number()]) for _ in range(4)]
    if rng.random() < 0.5:
        scores[3], values[3] = scores[2], values[2]
    cls, cls_value = rng.randint(0, 48), [number(), number()]
    return SimpleNamespace(
        T=4, scores=lambda: (scores, cls, 4), values=lambda: (None, values, cls_value, e)
    )


def head_range(network, support, row, g) -> tuple[Fraction, Fraction]:
    """Least and most of c . u over the free bits: every input, one after the other."""
    scores, cls, e = network.scores()
    _, values, cls_value, f = network.values()
    found = []
    for bits in product((0, 1), repeat=network.T):
        if any(bits[t] != row >> i & 1 for i, t in enumerate(support)):
            continue
        tokens = [(scores[t][b], values[t][b][g]) for t, b in enumerate(bits)]
        tokens.append((cls, cls_value[g]))
        weights = [exact_exp(Fraction(s, 1 << e)) for s, _ in tokens]
        total = sum(w * v for w, (_, v) in zip(weights, tokens, strict=True))
        found.append(total / sum(weights) / (1 << f))
    return min(found), max(found)


def tables(network, bits: int) -> Tables:
    scores, cls, e = network.scores()
    _, values, cls_value, f = network.values()
    rows = [[s] for pair in scores for s in pair] + [[cls]]
    return Tables(Matrix(rows, e), Matrix([v for p in values for v in p] + [cls_value], f), bits)


def proved(made: Tables, row: int, g: int, sign: int, end: Fraction, T: int = 4) -> bool:
    """`end` is an upper (sign 1) or lower (-1) end where position 0 shows the bit `row`."""
    return made.at_most(InputCell(T, {0: row}), g, sign, math.floor(sign * end * (1 << made.e)))


# Large whole values: an end of a weight decides. Few bits: every rounding does.
HEADS = [(size, e, bits) for size, e in ((99, 0), (40, 6), (3, 9)) for bits in (3, 4, 6, 8, 12)]


@pytest.mark.parametrize(("size", "e", "bits"), HEADS)
def test_weights_are_enclosed_and_values_exact(size, e, bits):
    rng = random.Random(bits + size)
    for _ in range(5):
        network = head(rng, size, e)
        made, (scores, cls, es) = tables(network, bits), network.scores()
        values = network.values()[1]
        flat = [s for pair in scores for s in pair] + [cls]
        top = max(flat)
        for (low, high), score in zip(made.between[0], flat, strict=True):
            assert low <= exact_exp(Fraction(score - top, 1 << es)) * (1 << bits) <= high <= low + 2
        for g in (0, 1):
            stored = [Fraction(v, 1 << made.e) for v in made.v[g]][:-1]
            assert stored == [Fraction(v[g], 1 << e) for pair in values for v in pair]


@pytest.mark.parametrize(("size", "e", "bits"), HEADS)
def test_an_end_a_hair_inside_the_range_is_never_proved(size, e, bits):
    rng = random.Random(100 * bits + size)
    for _ in range(5):
        network = head(rng, size, e)
        few, many = tables(network, bits), tables(network, 120)
        for row, g in product((0, 1), repeat=2):
            least, most = head_range(network, [0], row, g)
            for made in (few, many):
                assert not proved(made, row, g, 1, most - TINY)
                assert not proved(made, row, g, -1, least + TINY)
            slack = Fraction(1, 1 << 40)
            assert proved(many, row, g, 1, most + slack)
            assert proved(many, row, g, -1, least - slack)


@pytest.mark.parametrize("off", [0, 1, 5])
def test_head_outputs_of_the_integers_are_within_the_slack(off):
    """Scores and values that are known to within `off` only: every choice at the ends."""
    rng = random.Random(off)
    for _ in range(20):
        scores = [rng.randint(0, 300) for _ in range(5)]
        values = [rng.randint(-500, 500) for _ in range(5)]
        made = Tables(
            Matrix([[s] for s in scores], 8, off), Matrix([[v] for v in values], 8, off), 8
        )
        if not made.slack:
            continue
        for chosen in product((0, 1), repeat=2):
            there = [chosen[0], 2 + chosen[1], 4]
            w, v = ([x[r] for r in there] for x in (made.w[0], made.v[0]))
            ours = Fraction(sum(map(int.__mul__, w, v)), sum(w))
            for moved in product((-off, off), repeat=3):
                true = [
                    exact_exp(Fraction(scores[r] + m, 256))
                    for r, m in zip(there, moved, strict=True)
                ]
                for signs in ((off,) * 3, (-off,) * 3):
                    top = sum(
                        a * (values[r] + m) for a, r, m in zip(true, there, signs, strict=True)
                    )
                    assert abs(top / sum(true) - ours) <= made.slack[0]


def test_a_head_with_one_value_shows_the_rounding_of_levels():
    """u is that value on every input: nothing below is an upper end, nothing above a lower end."""
    for bits, v in product((1, 2, 4), range(-40, 41)):
        pair = ([v], [v])
        network = SimpleNamespace(
            T=2, scores=lambda: ([(0, 0)] * 2, 0, 0), values=lambda p=pair: (None, [p] * 2, p[0], 6)
        )
        made, true = tables(network, bits), Fraction(v, 64)
        for hair in (TINY, Fraction(1, 128)):
            assert not proved(made, 0, 0, 1, true - hair, 2)
            assert not proved(made, 0, 0, -1, true + hair, 2)
        assert proved(made, 0, 0, 1, true, 2) and proved(made, 0, 0, -1, true, 2)


def mean_network() -> bytes:
    """Weights with all scores 0: output = (1/2 + the sum of +-1 over three bits) / 4."""
    arrays = {
        "W_Q": [[0.0]] * 6,
        "W_K": [[0.0]] * 6,
        "W_V": [[0.0], [0.0], [0.0], [-1.0], [1.0], [0.5]],  # three positions, two bits, [CLS]
        "W_C": [[1.0]],
        "w": [1.0],
    }
    fields = {
        "encoding": {"kind": "DeterministicPositions"},
        "norm": {"kind": "Softmax", "fields": {"temperature": {"value": 1}}},
        "scale": {"value": "paper"},
        "activation": {"value": "identity"},
    }
    told = json.dumps({"module": {"kind": "ClsScalar", "fields": fields}})
    header, data = {"__metadata__": {"capax": told}}, b""
    for name, rows in arrays.items():
        flat = [x for row in rows for x in (row if isinstance(row, list) else [row])]
        shape = [len(rows), 1] if name != "w" else [1]
        header[name] = {
            "dtype": "F64", "shape": shape, "data_offsets": [len(data), len(data) + 8 * len(flat)],
        }  # fmt: skip
        data += struct.pack(f"<{len(flat)}d", *flat)
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


HAIR = 2.0**-40
RANGES = [(-0.625, 0.375), (-0.125, 0.875)]  # of the output, bit 0 off and on, the others free


def judged(table, error: float, widened: float) -> str:
    """The answer to a proof with this table and error, its ends moved outward by `widened`."""
    data = mean_network()
    header = {
        "proof": capax_check.VERSION, "weights": hashlib.sha256(data).hexdigest(), "T": 3,
        "support": [0], "table": table, "margin": None, "error": f"{error:.20f}", "bits": 100,
    }  # fmt: skip
    lines = [{"ends": [[low - widened, high + widened]]} for low, high in RANGES]
    try:
        return capax_check.check("\n".join(map(json.dumps, (header, *lines))), data)
    except capax_check.Refused as refusal:
        return str(refusal)


# The output lies in RANGES, so against one of these targets it errs by 1 on one side at most.
@pytest.mark.parametrize(
    "table",
    [[low for low, _ in RANGES], [high for _, high in RANGES]],
    ids=["upper error", "lower error"],
)
def test_the_error_is_checked_on_both_sides_to_a_hair(table):
    assert judged(table, 1 + 2 * HAIR, HAIR).startswith("On all 2^3 inputs")
    assert "line 2: the error may exceed" in judged(table, 1 - HAIR, HAIR)
    assert "line 2: the error may exceed" in judged(table, 1 + HAIR / 2, HAIR)
    assert "end is not proved" in judged(table, 1 - HAIR, -HAIR)  # the ends claim too much


def test_products_of_long_integers_are_exact_at_their_largest():
    rng = random.Random(1)
    for _ in range(1000):
        n, m, k = (rng.randint(1, 4) for _ in range(3))
        a, b = 2 ** rng.choice([0, 1, 3, 7, 8, 15, 31, 64]), 2 ** rng.choice([0, 1, 3, 8, 31])
        A = [[rng.choice([-a, a, 0, rng.randint(-a, a)]) for _ in range(m)] for _ in range(n)]
        B = [[rng.choice([-b, b, 0, rng.randint(-b, b)]) for _ in range(k)] for _ in range(m)]
        columns = list(zip(*B, strict=True))
        wanted = [[sum(x * y for x, y in zip(r, c, strict=True)) for c in columns] for r in A]
        assert (Matrix(A, 3) @ Matrix(B, 4)).rows == wanted


def test_errors_of_products_hold_where_every_number_is_off():
    A, B = Matrix([[3, -2]], 0, 2), Matrix([[5], [-7]], 0, 3)
    found = A @ B
    moves = product((-2, 2), (-3, 3), (-2, 2), (-3, 3))
    ends = [(3 + i) * (5 + j) + (-2 + k) * (-7 + l) for i, j, k, l in moves]
    assert found.rows == [[29]] and max(abs(x - 29) for x in ends) <= found.off
    assert Matrix([[7]], 2, 3).rounded(0).off >= 2 and Matrix([[7]], 2).rounded(5).off == 0
