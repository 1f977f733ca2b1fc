"""Section "what no learner can beat": formulas against enumeration and Monte Carlo."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.boolean import conjunction, disjunction, from_table, majority, parity, parse, survivors
from capax.boolean.best_possible.best_learner import (
    _first_list,
    _heaviest,
    best_learner,
    chances,
    version_space_sizes,
)
from capax.boolean.best_possible.disagreement import (
    disagreement,
    expected_wrong_survivors,
    log_binomial,
    log_expected_wrong_survivors,
    log_num_placements,
    rivals,
    union_sample_size,
)
from capax.boolean.best_possible.limits import (
    counting,
    counting_sample_size,
    expected_consistent_juntas,
    fano,
    log_num_juntas,
    num_full_functions,
    parity_ambiguity,
)
from capax.boolean.best_possible.listed_placements import refuted_at
from capax.boolean.best_possible.one_rule_left import (
    expected_samples_until_one_left,
    no_swap_probability,
    probability_as_conjunction,
    probability_one_left,
)
from capax.boolean.functions import SparseFunction
from capax.errors import InfeasibleError, InputError

AND3, OR3, MAJ3, XOR3 = (
    family(range(3)) for family in (conjunction, disjunction, majority, parity)
)
BALANCED = 2 ** (-1 / 3)
KEY = (2022, 10090)


def all_inputs(T: int) -> np.ndarray:
    return np.array(list(itertools.product((0, 1), repeat=T)), dtype=np.uint8)


def weights(X: np.ndarray, p: float) -> np.ndarray:
    ones = X.sum(axis=1)
    return p**ones * (1 - p) ** (X.shape[1] - ones)


@pytest.mark.parametrize("p", [0.3, 0.5, BALANCED])
@pytest.mark.parametrize("s", [1, 2, 3, 4])
def test_disagreement_closed_forms_and_enumeration(s, p):
    X = all_inputs(2 * s)
    w = weights(X, p)
    for r in range(s):
        I, J = tuple(range(s)), tuple(range(s - r, 2 * s - r))
        forms = {
            conjunction: 2 * p**s * (1 - p ** (s - r)),
            disjunction: 2 * (1 - p) ** s * (1 - (1 - p) ** (s - r)),
            parity: (1 - (1 - 2 * p) ** (2 * (s - r))) / 2,
            majority: None,
        }
        for family, form in forms.items():
            q = disagreement(family(range(s)), r, p)
            by_hand = w @ (family(I)(X) != family(J)(X))
            assert q == pytest.approx(by_hand, abs=1e-13)
            assert form is None or q == pytest.approx(form, abs=1e-13)


@settings(max_examples=30)
@given(st.integers(1, 254), st.floats(0.1, 0.9), st.integers(0, 9))
def test_expected_survivors_of_any_table_against_enumeration(number, p, m):
    f, T = from_table(number, (0, 1, 2)).relevant(), 5
    X = all_inputs(T)
    placed = {f.on(J, T)(X).tobytes(): f.on(J, T)(X) for J in itertools.permutations(range(T), f.s)}
    target = f.on(range(f.s), T)(X)
    w = weights(X, p)
    wrong = [values for values in placed.values() if not np.array_equal(values, target)]
    by_hand = sum(float(w @ (values == target)) ** m for values in wrong)
    assert expected_wrong_survivors(f, T, m, p) == pytest.approx(by_hand, rel=1e-9, abs=1e-12)
    assert log_num_placements(f, T) == pytest.approx(math.log(len(placed)), abs=1e-12)


@pytest.mark.parametrize(
    ("f", "m", "expected"), [(AND3, 12, 18.720), (MAJ3, 12, 1.259), (XOR3, 12, 0.053)]
)
def test_published_values_at_twelve(f, m, expected):
    assert expected_wrong_survivors(f, 12, m, 0.5) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("f", "m", "p"), [(AND3, 20, 0.7), (MAJ3, 12, 0.5), (XOR3, 8, 0.5), (OR3, 18, 0.3)]
)
def test_expected_survivors_against_monte_carlo(f, m, p):
    """144 samples at T = 12; 5 standard errors: fails by chance less than once in 10^5."""
    random = np.random.default_rng(1)
    wrong = []
    for _ in range(144):
        X = (random.random((m, 12)) < p).astype(np.uint8)
        wrong.append(survivors(f, X, f(X)).count - 1)
    error = np.std(wrong) / 12
    assert abs(np.mean(wrong) - expected_wrong_survivors(f, 12, m, p)) < 5 * error


@pytest.mark.parametrize(
    ("T", "half", "fano_half", "balanced", "fano_balanced", "bits"),
    [
        (50, 54, 19.1, 29, 10.4, 14.3),
        (100, 61, 23.6, 32, 12.8, 17.3),
        (300, 72, 30.7, 37, 16.7, 22.1),
        (1000, 85, 38.4, 42, 20.8, 27.3),
        (10**4, 112, 53.0, 52, 28.8, 37.3),
        (10**6, 168, 82.4, 72, 44.8, 57.2),
    ],
)
def test_table_of_limits(T, half, fano_half, balanced, fano_balanced, bits):
    for p, union, converse in ((0.5, half, fano_half), (BALANCED, balanced, fano_balanced)):
        assert union_sample_size(AND3, T, 0.2, p) == union
        assert fano(AND3, T, 0.2, p) == pytest.approx(converse, abs=0.051)
        by_scan = next(
            m for m in itertools.count() if expected_wrong_survivors(AND3, T, m, p) <= 0.2
        )
        assert by_scan == union
    assert log_num_placements(AND3, T) / math.log(2) == pytest.approx(bits, abs=0.051)


def test_any_length_from_three_to_a_billion():
    sizes = [union_sample_size(AND3, T, 0.2, 0.5) for T in (3, 4, 10, 10**3, 10**6, 10**9)]
    assert sizes[0] == 0 and sizes == sorted(sizes)
    assert log_binomial(10**9, 3) == pytest.approx(math.log(math.comb(10**9, 3)), rel=1e-14)
    assert log_binomial(5, 7) == -math.inf and log_binomial(7, 0) == 0.0
    assert log_expected_wrong_survivors(AND3, 3, 5, 0.5) == -math.inf
    assert expected_wrong_survivors(AND3, 10**9, 0, 0.5) == pytest.approx(
        math.comb(10**9, 3), rel=1e-9
    )
    assert counting(AND3, 10**9, 10) == pytest.approx(1024 / math.comb(10**9, 3), rel=1e-9)
    assert counting(AND3, 10, 30) == 1.0 and fano(AND3, 3, 0.2, 0.5) == 0.0


def test_which_rivals_matter():
    kinds = {kind.overlap: kind for kind in rivals(AND3, 10**6, 0.5)}
    needed = {r: (k.log_count - math.log(0.2)) / -math.log1p(-k.q) for r, k in kinds.items()}
    assert round(needed[0]) == 167 and round(needed[2]) == 124


def test_no_swap_probability_exact():
    assert no_swap_probability(AND3, 12, 30, 0.5) == pytest.approx(0.7152, abs=5e-5)
    assert no_swap_probability(OR3, 12, 30, 0.5) == pytest.approx(0.7152, abs=5e-5)
    assert no_swap_probability(AND3, 3, 4, 0.5) == 1.0
    assert no_swap_probability(AND3, 12, 0, 0.5) == 0.0
    # s = 1: a rival survives m examples with chance P[agree]^m given the relevant bit alone
    one = conjunction((0,))
    exact = sum(
        math.comb(9, n) * 0.7**n * 0.3 ** (9 - n) * (1 - 0.7**n * 0.3 ** (9 - n)) ** 4
        for n in range(10)
    )
    assert no_swap_probability(one, 5, 9, 0.7) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("T", "m", "lower", "truth", "upper"),
    [(300, 58, 0.69, 0.76, 0.81), (10**6, 130, 0.85, 0.86, 0.97)],
)
def test_conditional_sandwich_published_values(T, m, lower, truth, upper):
    """20 000 draws, standard error 0.003; the published two digits plus 4 errors."""
    found = probability_one_left(AND3, T, m, 0.5, draws=20_000, key=KEY)
    assert found.lower == pytest.approx(lower, abs=0.018)
    assert found.upper == pytest.approx(upper, abs=0.018)
    assert found.lower < truth + 0.02 and truth < found.upper


@pytest.mark.parametrize(("f", "p"), [(AND3, 0.6), (OR3, 0.4), (conjunction(range(4)), 0.7)])
def test_sandwich_holds_the_simulated_truth(f, p):
    """150 samples, 4.5 standard errors: fails by chance less than once in 10^5."""
    T, m, random = 11, 25, np.random.default_rng(4)
    alone = []
    for _ in range(150):
        X = (random.random((m, T)) < p).astype(np.uint8)
        alone.append(survivors(f, X, f(X)).unique)
    truth, error = np.mean(alone), np.std(alone) / math.sqrt(150)
    found = probability_one_left(f, T, m, p, draws=4000, key=KEY)
    slack = 4.5 * (error + found.standard_error)
    assert found.lower - slack <= truth <= found.upper + slack
    if f.s == 3:
        exact = no_swap_probability(f, T, m, p)
        assert found.upper == pytest.approx(exact, abs=4.5 * found.standard_error)


def test_expected_samples_until_one_left_against_simulation():
    """150 histories at T = 12, p = 3/4; 4.5 standard errors: once in 10^5."""
    random, times = np.random.default_rng(8), []
    J = np.array(list(itertools.combinations(range(12), 3)))
    for _ in range(150):
        bits = random.random((150, 12)) < 0.75
        agree = bits[:, J].all(axis=2) == bits[:, :3].all(axis=1)[:, None]
        alone = np.logical_and.accumulate(agree, axis=0).sum(axis=1) == 1
        times.append(1 + int(alone.argmax()))
    found = expected_samples_until_one_left(AND3, 12, 0.75, draws=500, key=KEY)
    slack = 4.5 * (np.std(times) / math.sqrt(150) + found.standard_error)
    assert found.lower - slack <= np.mean(times) <= found.upper + slack
    assert found.upper - found.lower < 2.5


def noisy(f, T):
    return chances(f, T, 0.5, first=1, last=9, draws=2, noise=0.1, key=KEY)


@pytest.mark.parametrize(
    ("T", "p", "m", "draws", "expected"),
    [
        (300, 0.5, 60, 300, 0.87),
        (300, BALANCED, 30, 300, 0.76),
        (300, BALANCED, 40, 300, 0.965),
        (10**6, BALANCED, 60, 100, None),
    ],
)
def test_best_learner_published_values(T, p, m, draws, expected):
    """Published to +-0.01; 4.5 standard errors more: fails by chance once in 10^5."""
    found = best_learner(AND3, T, m, p, draws=draws, key=KEY)
    if expected is not None:
        slack = 4.5 * found.identification_error + found.truncation + 0.01
        assert found.identification == pytest.approx(expected, abs=slack)
    assert found.one_left <= found.identification <= (1 + found.one_left) / 2 + 1e-12
    sandwich = probability_one_left(AND3, T, m, p, key=KEY)
    slack = 4.5 * (found.one_left_error + sandwich.standard_error)
    assert sandwich.lower - slack <= found.one_left <= sandwich.upper + slack


def test_best_learner_lazy_equals_direct_simulation():
    """The short cut for AND against whole samples at T = 11; once in 10^5."""
    lazy = best_learner(AND3, 11, 14, 0.6, draws=150, limit=10**6, key=KEY)
    random, inverse = np.random.default_rng(2), []
    for _ in range(150):
        X = (random.random((14, 11)) < 0.6).astype(np.uint8)
        inverse.append(1 / survivors(AND3, X, AND3(X)).count)
    slack = 4.5 * (np.std(inverse) / math.sqrt(150) + lazy.identification_error)
    assert abs(lazy.identification - np.mean(inverse)) < slack


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("limit", [2, 7, 40])
def test_the_first_short_list_is_that_of_brute_force(first, limit):
    """The smallest m from `first` on with fewer than `limit` placements left, and these."""
    f, T, random = parse("x0 & ~x1"), 9, np.random.default_rng(4)
    pairs = list(itertools.permutations(range(T), 2))
    for _ in range(8):
        X = random.random((30, T)) < 0.5
        y = (X[:, 2] & ~X[:, 6]).astype(float)
        fits = np.array([(X[:, a] & ~X[:, b]) == y for a, b in pairs])
        left = [fits[:, :m].all(axis=1) for m in range(31)]
        wanted = next((m for m in range(first, 31) if left[m].sum() < limit), 30)
        m, found = _first_list(f, X, y, first, limit)
        assert m == wanted
        assert {tuple(row) for row in found} == {pairs[i] for i in np.flatnonzero(left[m])}


@pytest.mark.parametrize("guesses", [1, 2, 3])
def test_the_heaviest_placements_by_bayes_in_fractions(guesses):
    """P(placement | labels) is noise^errors (1 - noise)^(m - errors), normalised."""
    noise, m = Fraction(1, 5), 6
    errors = np.array([[3, 0, 1, 3], [2, 2, 2, 5], [6, 4, 6, 6]], np.int32)
    found = _heaviest(errors, float(noise), guesses)
    for row, share in zip(errors.tolist(), found, strict=True):
        mass = sorted((noise**e * (1 - noise) ** (m - e) for e in row), reverse=True)
        assert share == pytest.approx(float(sum(mass[:guesses]) / sum(mass)), rel=1e-12)


@pytest.mark.parametrize("text", ["x0 & x1", "x0 ^ x1", "x0 | ~x1"])
def test_the_example_that_refutes_a_placement_is_found_at_any_place(text):
    """130 examples, one label turned over at a time: also the last bits of the words of 64."""
    f, random = parse(text), np.random.default_rng(1)
    X = random.random((130, 5)) < 0.5
    placements = np.array(list(itertools.permutations(range(5), 2)))
    values = np.array([f.on(tuple(J), 5)(X) for J in placements.tolist()])
    for turned in (0, 1, 62, 63, 64, 127, 128, 129):
        y = values[3].copy()
        y[turned] = 1 - y[turned]
        wrong = values != y
        expected = np.where(wrong.any(axis=1), wrong.argmax(axis=1), 10**9)
        found = np.minimum(refuted_at(f, X, y, placements), 10**9)
        assert found.tolist() == expected.tolist() and found[3] == turned


def test_what_a_cut_count_leaves_out_grows_with_the_guesses():
    """Without examples all 165 placements are left: counted to 20, the chance of three guesses is
    3/20 instead of 3/165, and `truncation` allows for it."""
    found = best_learner(AND3, 11, 0, 0.5, draws=2, limit=20, guesses=3, key=KEY)
    assert found.identification == found.truncation == pytest.approx(3 / 20)
    whole = best_learner(AND3, 11, 0, 0.5, draws=2, limit=166, guesses=3, key=KEY)
    assert whole.identification == pytest.approx(3 / 165) and whole.truncation == 0
    assert (whole.one_left, whole.identification_error, whole.draws) == (0, 0, 2)


def test_standard_errors_are_those_of_means():
    """Deviation over the root of the number of draws, from the same simulated samples."""
    asked = {"draws": 60, "key": KEY}
    found = best_learner(MAJ3, 9, 6, 0.5, **asked)
    sizes = version_space_sizes(MAJ3, 9, 0.5, first=6, last=6, limit=50, **asked)[:, 0]
    assert found.identification_error == pytest.approx(np.std(1 / sizes) / math.sqrt(60))
    assert found.one_left_error == pytest.approx(np.std(sizes == 1) / math.sqrt(60))
    narrow, wide = (
        expected_samples_until_one_left(AND3, 11, 0.6, draws=draws, key=KEY).standard_error
        for draws in (900, 100)
    )
    assert wide / narrow == pytest.approx(3, rel=0.4)


def test_samples_of_an_and_begin_with_all_placements():
    """What is left alive is decided by the first examples alone, not by the next one."""
    sizes = version_space_sizes(AND3, 11, 0.8, first=0, last=2, draws=40, limit=1000, key=KEY)
    assert (sizes[:, 0] == 165).all() and (sizes[:, 1] < 165).any()


def test_neighbouring_supports_are_counted_among_neighbours():
    """T = 40: 9880 placements of three bits, 38 of them side by side."""
    asked = {"first": 0, "last": 3, "draws": 3, "limit": 100, "key": KEY}
    sizes = version_space_sizes(MAJ3, 40, 0.5, supports="contiguous", **asked)
    assert (sizes[:, 0] == 38).all() and (np.diff(sizes) <= 0).all() and (sizes >= 1).all()


def test_fano_counts_the_entropy_of_labels_of_any_value():
    """Labels 0, 1/2, 1 with chances 1/4, 1/2, 1/4 carry 1.5 bits."""
    mean = from_table([0.0, 0.5, 0.5, 1.0], (0, 1))
    placements = math.log2(math.comb(99, 2))
    assert fano(mean, 99, 0.1, 0.5) == pytest.approx((0.9 * placements - 1) / 1.5)

    def entropy(q):
        return -q * math.log2(q) - (1 - q) * math.log2(1 - q)

    flipped = entropy(1 / 8 * 0.9 + 7 / 8 * 0.1) - entropy(0.1)
    needed = (0.9 * math.log2(math.comb(99, 3)) - 1) / flipped
    assert fano(AND3, 99, 0.1, 0.5, noise=0.1) == pytest.approx(needed)


def test_best_learner_of_parity_and_majority():
    found = best_learner(MAJ3, 10, 8, 0.5, draws=30, key=KEY)
    assert 0.0 < found.one_left < 1.0 and found.truncation == 0.0
    low, high = parity_ambiguity(10, 3, 8)
    found = best_learner(XOR3, 10, 8, 0.5, draws=120, key=KEY)
    slack = 4.5 * found.one_left_error
    assert low - slack <= 1 - found.one_left <= high + slack


def test_parity_bounds():
    mu = (math.comb(10, 3) - 1) / 2**8
    assert parity_ambiguity(10, 3, 8) == pytest.approx((mu / (1 + mu - 2**-8), mu), rel=1e-12)
    assert parity_ambiguity(3, 3, 8) == (0.0, 0.0)
    low, high = parity_ambiguity(10**9, 3, 20)
    assert 0.99 < low <= high == 1.0


def test_juntas():
    assert [num_full_functions(k) for k in range(4)] == [2, 2, 10, 218]
    T, s = 4, 2
    X = all_inputs(T)
    seen = {
        from_table(g, J)(X).tobytes()
        for J in itertools.combinations(range(T), s)
        for g in range(16)
    }
    assert round(math.exp(log_num_juntas(T, s))) == len(seen)
    assert log_num_juntas(10**6, 3) == pytest.approx(math.log(218 * math.comb(10**6, 3)), abs=1e-5)


@pytest.mark.parametrize(("formula", "p"), [("and2", 0.5), ("x0 & ~x1", 0.3), ("maj3", 0.6)])
def test_expected_consistent_juntas_against_enumeration(formula, p):
    f, T, s, m = parse(formula), 5, 2, 6
    X, total = all_inputs(T), 0.0
    w, target = weights(X, p), f.on(range(f.s), T)(X)
    for J in itertools.combinations(range(T), s):
        total += sum(float(w @ (from_table(g, J)(X) == target)) ** m for g in range(16))
    assert expected_consistent_juntas(f, T, s, m, p) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(
    "table",
    [[1], [0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 0.5, 1.5, 1], [0.5, -0.5, 0, 1], [0, 1, 1, 0]],
)
def test_only_conjunctions_and_disjunctions_have_the_closed_form(table):
    """Constants, a negated literal, and real values with the sum of an AND or an OR do not."""
    f = SparseFunction(tuple(range(len(table).bit_length() - 1)), np.array(table, float))
    with pytest.raises(InputError, match="wanted an AND or an OR"):
        probability_as_conjunction(f, 0.5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: disagreement(parse("x0 & ~x1"), 1, 0.5), InputError, "symmetric"),
        (lambda: disagreement(AND3, 4, 0.5), InputError, "0..3"),
        (lambda: expected_wrong_survivors(AND3, 2, 1, 0.5), InputError, "T >= s = 3"),
        (lambda: expected_wrong_survivors(AND3, 9, -1, 0.5), InputError, "m: wanted"),
        (lambda: expected_wrong_survivors(AND3, 9, 1, 1.5), InputError, "probability"),
        (lambda: union_sample_size(AND3, 9, 0.0, 0.5), InputError, "delta"),
        (lambda: union_sample_size(AND3, 9, 0.1, 1.0), InfeasibleError, "never refuted"),
        (lambda: fano(AND3, 9, 1.0, 0.5), InputError, "delta"),
        (lambda: fano(AND3, 99, 0.1, 1.0), InfeasibleError, "constant"),
        (lambda: counting(AND3, 9, -1), InputError, "m: wanted"),
        (lambda: parity_ambiguity(3, 4, 1), InputError, "s: wanted"),
        (lambda: parity_ambiguity(9, 4, -1), InputError, "m: wanted"),
        (lambda: num_full_functions(21), InputError, "20"),
        (lambda: log_num_juntas(2, 3), InputError, "s: wanted"),
        (lambda: expected_consistent_juntas(AND3, 9, 5, 1, 0.5), InfeasibleError, "s <= 4"),
        (lambda: no_swap_probability(XOR3, 9, 4, 0.5), InputError, "an AND or an OR"),
        (lambda: no_swap_probability(AND3, 9, 900, 0.5), InfeasibleError, "terms"),
        (lambda: probability_one_left(AND3, 9, 4, 1.0, key=KEY), InputError, "0 < p < 1"),
        (lambda: probability_one_left(AND3, 9, 4, 0.5, draws=1, key=KEY), InputError, "draws"),
        (
            lambda: expected_samples_until_one_left(AND3, 9, 0.5, draws=1, key=KEY),
            InputError,
            "draws",
        ),
        (lambda: best_learner(AND3, 9, 4, 0.0, key=KEY), InputError, "0 < p < 1"),
        (lambda: counting_sample_size(AND3, 9, 0.0), InputError, "target: wanted 0 < target <= 1"),
        (lambda: counting_sample_size(AND3, 9, 1.5), InputError, "target: wanted 0 < target <= 1"),
        (lambda: best_learner(AND3, 9, -4, 0.5, key=KEY), InputError, "m: wanted"),
        (lambda: best_learner(AND3, 9, 4, 0.5, limit=1, key=KEY), InputError, "limit"),
        (lambda: best_learner(AND3, 9, 4, 0.5, guesses=51, key=KEY), InputError, "guesses"),
        (lambda: best_learner(AND3, 9, 4, 0.5, guesses=0, key=KEY), InputError, "guesses"),
        (lambda: best_learner(AND3, 9, 4, 0.5, draws=1, key=KEY), InputError, "draws"),
        (lambda: best_learner(AND3, 2, 4, 0.5, key=KEY), InputError, "T"),
        (lambda: noisy(AND3, 2), InputError, "T"),
        (lambda: noisy(AND3, 200), InfeasibleError, "times 9 examples are too many to list"),
        (lambda: best_learner(XOR3, 10**6, 30, 0.5, key=KEY), InfeasibleError, "too large to draw"),
        (
            lambda: expected_wrong_survivors(parse("x0&(x1|x2|x3|x4|x5|x6)"), 9, 4, 0.5),
            InfeasibleError,
            "ways to overlap",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
