"""Limits of parity: statistical queries, noisy gradients, and one head, each under attack."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import capax
from capax.boolean.traits.fourier import sensitivities
from capax.capacity.complexity.average_sensitivity import (
    head_sensitivity_bound,
    longest_parity,
    majority_sensitivity,
    parity_by_heads,
    sensitivity_factor,
)
from capax.capacity.complexity.statistical_queries import (
    queries_needed,
    query_dimension,
    steps_needed,
)
from capax.errors import InputError


def all_bits(T):
    return np.array(list(itertools.product((0, 1), repeat=T)))


def parities(T, sizes):
    """chi_S of all S with |S| in `sizes`, as rows over all inputs."""
    signs = 1 - 2 * all_bits(T)
    sets = [S for s in sizes for S in itertools.combinations(range(T), s)]
    return np.array([signs[:, S].prod(axis=1) for S in sets])


def most_told_apart(tau):
    """Over all 2^16 queries g_1: 4 bits -> {-1, 1}, the most s-sparse parities with |c_S| > tau."""
    tables = 1 - 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1)
    return max(
        int((np.abs(tables @ parities(4, [s]).T / 16) > tau).sum(axis=1).max()) for s in (1, 2)
    )


@pytest.mark.parametrize(("tau", "most"), [(0.49, 4), (0.5, 1), (0.7, 1), (0.3, 4)])
def test_no_query_tells_more_parities_apart(tau, most):
    """Four coefficients of 1/2 exist among the pairs of 4 bits: at 0.49 the count is attained."""
    found = most_told_apart(tau)
    assert found == most <= math.ceil(tau**-2) - 1
    d = query_dimension(4, 2)
    assert d == len(parities(4, [2])) == 6
    assert queries_needed(4, 2, tau) == math.ceil((d - 1) / (math.ceil(tau**-2) - 1))


def test_queries_needed_are_enough_in_the_smallest_case():
    """T = 4, s = 2, tau = 0.49: two queries are needed; (1, 1) and one pair more tell all apart."""
    chi = parities(4, [2])
    names = list(itertools.combinations(range(4), 2))
    four = chi[[names.index(S) for S in ((0, 1), (1, 2), (2, 3), (0, 3))]]
    g = (four[0] + four[1] + four[2] - four[3]) / 2
    assert set(g) <= {-1.0, 1.0} and ((np.abs(chi @ g / 16) > 0.49).sum()) == 4
    assert queries_needed(4, 2, 0.49) == 2 and queries_needed(4, 2, 0.49, success=0.5) == 1


def test_few_parities_correlate_with_one_hypothesis():
    """Inequality (2): no h of 4 bits has E[h chi_S] >= gamma for more than 1/gamma^2 sets S."""
    tables = 1 - 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1)
    c = tables @ parities(4, range(5)).T / 16
    for gamma in (0.25, 0.375, 0.5, 0.75, 1.0):
        assert (c >= gamma).sum(axis=1).max() <= gamma**-2


def success_of_largest(d, steps, noise):
    """d logits w_S chi_S: the mean gradient of S is 1/2, the others 0. The largest mean wins."""
    shift = math.sqrt(steps) / (2 * noise)
    z = np.linspace(-9, 9 + shift, 20_001)
    return float(np.trapezoid(norm.pdf(z - shift) * norm.cdf(z) ** (d - 1), z))


def luck_and_noise(d, steps, noise, half=1.0):
    """The bound of Theorem 2; here G^2 = d/4."""
    return 1 / d + half * math.sqrt(d / 4) / (2 * noise) * math.sqrt(steps / d)


@pytest.mark.parametrize("T, s", [(2, 1), (3, 1), (5, 2), (9, 3)])
def test_noisy_gradients_succeed_no_more_often(T, s):
    d = query_dimension(T, s)
    for steps, noise in itertools.product((1, 4, 25), (0.3, 1.0, 5.0)):
        success = success_of_largest(d, steps, noise)
        assert success <= luck_and_noise(d, steps, noise)
        assert steps >= steps_needed(T, s, noise, gradient=math.sqrt(d / 4), success=success)


def test_half_of_the_second_term_is_refuted():
    assert success_of_largest(2, 1, 1.0) > luck_and_noise(2, 1, 1.0, half=0.5)


def test_steps_grow_like_the_number_of_parities():
    ratio = steps_needed(200, 3, 1.0) / steps_needed(100, 3, 1.0)
    assert ratio == pytest.approx(math.comb(200, 3) / math.comb(100, 3), rel=1e-4)
    assert steps_needed(100, 3, 0.0) == 0 and steps_needed(100, 3, 1.0, success=1e-7) == 0


def average_sensitivity(decisions):
    """Of each row of decisions over all inputs in the order of `all_bits`."""
    rows = np.arange(decisions.shape[1])
    flips = [1 << i for i in range(decisions.shape[1].bit_length() - 1)]
    return sum((decisions != decisions[:, rows ^ flip]).mean(axis=1) for flip in flips)


def decisions(heads, T, units, dim):
    """Softmax over [CLS] and T tokens, values of `dim` numbers, and the read-out, for all inputs.

    A head is a vector of numbers; rows of the result: heads.
    """
    n = len(heads)
    cut = np.cumsum([2 * T + 1, dim * (2 * T + 1), (dim + 1) * max(units, 1)])
    scores, values, inner, outer = np.split(heads, cut, axis=1)
    at = np.concatenate([2 * np.arange(T) + all_bits(T), np.full((2**T, 1), 2 * T)], axis=1)
    weights = np.exp(scores[:, at])
    values = values.reshape(n, 2 * T + 1, dim)[:, at]
    o = (weights[..., None] * values).sum(axis=2) / weights.sum(axis=2)[..., None]
    first = inner.reshape(n, dim + 1, -1)
    hidden = o @ first[:, :dim] + first[:, dim:]
    if not units:
        return hidden[..., 0] > 0
    return (np.maximum(hidden, 0) * outer[:, None, :units]).sum(-1) + outer[:, None, units] > 0


def most_sensitive(T, units, dim, seed, rounds=30, kept=40):
    """The largest average sensitivity that a search over heads finds: mutate, keep the best."""
    rng = np.random.default_rng(seed)
    size = (dim + 1) * (2 * T + 1) + (dim + 1) * max(units, 1) + units + 1
    heads = rng.normal(size=(600, size))
    for _ in range(rounds):
        found = average_sensitivity(decisions(heads, T, units, dim))
        best = heads[np.argsort(-found)[:kept]]
        again = np.repeat(best, 9, axis=0)
        moved = again + rng.normal(size=again.shape) * rng.choice([0.05, 0.3, 1.0], again.shape)
        heads = np.concatenate([best, np.where(rng.random(again.shape) < 0.2, moved, again)])
    return float(average_sensitivity(decisions(heads, T, units, dim)).max())


@pytest.mark.parametrize(
    ("T", "units", "dim", "reached"),
    [(3, 0, 1, 1.0), (4, 0, 2, 1.0), (5, 0, 1, 1.0), (4, 1, 2, 0.3), (5, 2, 1, 0.5)],
)
def test_no_head_that_a_search_finds_is_more_sensitive(T, units, dim, reached):
    """Linear read-outs attain the bound; two units reach more than half of it."""
    bound = sensitivity_factor(units, dim) * majority_sensitivity(T)
    found = most_sensitive(T, units, dim, seed=T + units)
    assert reached * min(bound, T) - 1e-12 <= found <= bound + 1e-12
    assert head_sensitivity_bound(T, units, dim) == min(T, bound)


@pytest.mark.parametrize(("units", "dim"), [(1, 2), (3, 2), (5, 2), (4, 3), (2, 5)])
def test_units_cut_space_into_as_many_regions_as_are_counted(units, dim):
    """K - units is the number of sign patterns of that many planes; random ones attain it."""
    rng = np.random.default_rng(units)
    W, b = rng.normal(size=(dim, units)), rng.normal(size=units)
    corners = [np.linalg.lstsq(W[:, list(J)].T, -b[list(J)], rcond=None)[0]
               for J in itertools.combinations(range(units), min(dim, units))]  # fmt: skip
    sizes = 10.0 ** rng.uniform(-6, 3, size=(200_000 // len(corners), 1))
    points = np.concatenate([c + sizes * rng.normal(size=(len(sizes), dim)) for c in corners])
    patterns = np.unique((points @ W + b > 0) @ (1 << np.arange(units)))
    assert len(patterns) == sensitivity_factor(units, dim) - units


def test_three_units_need_the_factor_four():
    """A head that counts 15 bits and three units with four zeros: between 3 M(T) and 4 M(T)."""
    T, k = 15, np.arange(16)
    u = np.array([18.5 / 3, 20.5 / 3, 8.25])
    output = 7 - 3 * np.maximum(k - u[0], 0) + 3 * np.maximum(u[1] - k, 0)
    f = output - 4 * np.maximum(u[2] - k, 0) > 0
    flips = [math.comb(T, n) * (T - n) for n in range(T) if f[n] != f[n + 1]]
    assert 3 * majority_sensitivity(T) < 2 * sum(flips) / 2**T <= head_sensitivity_bound(T, 3)


@pytest.mark.parametrize("T", range(1, 13))
def test_majority_attains_its_sensitivity(T):
    f = capax.parse(f"maj{T}") if T % 2 else capax.parse(f"thr{T // 2}of{T}")
    assert majority_sensitivity(T) == pytest.approx(float(sensitivities(f).mean()), rel=1e-12)
    exact = Fraction(T * math.comb(T - 1, (T - 1) // 2), 2 ** (T - 1))
    assert majority_sensitivity(T) == pytest.approx(float(exact), rel=1e-12) and exact**2 <= T


def test_parities_beyond_the_longest_are_impossible():
    assert [longest_parity(units) for units in range(4)] == [1, 3, 5, 9]
    for units, dim in itertools.product((0, 1, 5, 40), (1, 2, 3)):
        T, K = longest_parity(units, dim), sensitivity_factor(units, dim)
        if T < 10**5:
            assert K * majority_sensitivity(T) * (1 + 1e-9) >= T
            assert K * majority_sensitivity(T + 1) < T + 1
        assert T == 1 or T < K**2


def read_out(T, heads, k):
    """The T heads of Theorem 2 at k ones, less the last ones; in exact numbers."""
    bias, values = parity_by_heads(T)
    parts = [values[h - 1] * Fraction(h, (T - k) + 2 * k + h) for h in range(1, heads + 1)]
    return bias + sum(parts)


@pytest.mark.parametrize("T", range(1, 9))
def test_parity_of_all_bits_by_as_many_heads_and_no_fewer(T):
    assert [read_out(T, T, k) > 0 for k in range(T + 1)] == [k % 2 == 0 for k in range(T + 1)]
    assert [read_out(T, T - 1, k) > 0 for k in range(T + 1)] != [k % 2 == 0 for k in range(T + 1)]


@pytest.mark.parametrize("T", [3, 4])
def test_polynomials_of_fewer_heads_never_have_the_sign_of_parity(T):
    """The dual certificate: E[p chi] = 0 for every product of fewer than T affine functions."""
    rng = np.random.default_rng(T)
    chi = parities(T, [T])[0]
    for heads in range(1, T):
        Z = np.abs(rng.normal(size=(heads, 1))) + rng.random((heads, T)) @ all_bits(T).T
        N = rng.normal(size=(heads, 1)) + rng.normal(size=(heads, T)) @ all_bits(T).T
        p = (rng.normal() + (N / Z).sum(axis=0)) * Z.prod(axis=0)
        assert abs((p * chi).mean()) < 1e-12 * np.abs(p).max()


def test_full_parity_does_not_compile():
    """A linear read-out: refused with the bound. An MLP of 2T units: exact, from the same head."""
    with pytest.raises(InputError, match=r"average sensitivity 8, .* at most 2\.188 "):
        capax.compile("parity8", T=8, family="linear-threshold")
    made = capax.compile("parity8", T=8)
    assert made.certificate.wrong_decisions == 0
    assert 8 / majority_sensitivity(8) - 1 <= made.certificate.mlp_units <= 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: queries_needed(5, 6, 0.1), "s: wanted 1 <= s <= T = 5, got 6"),
        (lambda: queries_needed(5, 2, 1.0), "tau: wanted a tolerance between 0 and 1"),
        (lambda: queries_needed(5, 2, 0.1, advantage=0.0), "advantage: wanted 1 - 2 error"),
        (lambda: steps_needed(5, 2, -1.0), "noise: wanted a finite number >= 0"),
        (lambda: steps_needed(5, 2, 1.0, gradient=0.0), "gradient: wanted a finite number > 0"),
        (lambda: steps_needed(5, 2, 1.0, success=2.0), "success: wanted a probability"),
        (lambda: steps_needed(5000, 2500, 1.0), r"s: wanted fewer than 10\^300 parities"),
        (lambda: query_dimension(0, 1), "T: wanted at least one bit"),
        (lambda: majority_sensitivity(0), "T: wanted at least one bit"),
        (lambda: parity_by_heads(0), "T: wanted at least one bit"),
        (lambda: sensitivity_factor(-1), "units: wanted a number of hidden units >= 0"),
        (lambda: sensitivity_factor(1, 0), "dim: wanted at least one dimension"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(InputError, match=message):
        call()
