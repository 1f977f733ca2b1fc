"""Limits for every learner: counting, Fano, pairwise-independent parities, and all juntas.

Converse bounds hold for every learner, whatever its model: with fewer examples the data do not
determine the answer.
"""

import itertools
import math
from typing import Literal

import numpy as np

from capax.boolean.best_possible.disagreement import check_length, log_binomial, log_num_placements
from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.traits.bias import row_probabilities
from capax.errors import InfeasibleError, require

MAX_JUNTA_SPARSITY = 4


def entropy_bits(probabilities: np.ndarray) -> float:
    """H = -sum P log2 P."""
    positive = probabilities[probabilities > 0.0]
    return max(0.0, float(-(positive * np.log2(positive)).sum()))


def label_entropy(f: SparseFunction, p: float) -> float:
    """Bits in one label, H(f(x)); for a Boolean f the binary entropy of P[y = 1]."""
    rows = row_probabilities(f.s, p)
    return entropy_bits(np.array([rows[f.table == v].sum() for v in np.unique(f.table)]))


def fano(
    f: SparseFunction, T: int, delta: float, p: float, *, guesses: int = 1, noise: float = 0.0
) -> float:
    """m >= ((1 - delta) log2(N/K) - 1) / I(y): needed by any learner that errs w.p. at most delta.

    N = number of placements of f, K = rules that the learner may offer (right if one of them is),
    I(y) = H(y) - H(noise) = bits that one label carries when it is flipped with probability
    `noise`. Fano's inequality for lists with I(I; sample) <= m I(y). Not below 0.
    Raises `InfeasibleError` when the labels carry no information.
    """
    only_bits(f)
    require(0.0 <= delta < 1.0, "delta", "0 <= delta < 1", delta)
    require(guesses >= 1, "guesses", "at least 1", guesses)
    require(0.0 <= noise <= 0.5, "noise", "0 <= noise <= 1/2", noise)
    bits = (1.0 - delta) * (log_num_placements(f, T) - math.log(guesses)) / math.log(2.0) - 1.0
    carried = label_entropy(f, p) if noise == 0.0 else noisy_label_bits(f, p, noise)
    if bits > 0.0 and carried <= 0.0:
        raise InfeasibleError(f"p: at p = {p} the labels of f are constant and tell nothing")
    return max(0.0, bits / carried) if bits > 0.0 else 0.0


def noisy_label_bits(f: SparseFunction, p: float, noise: float) -> float:
    """I(y; x_I) = H(y) - H(noise) for a Boolean f whose label is flipped with chance `noise`."""
    require(f.is_boolean, "function", "a Boolean function", f)
    one = float(row_probabilities(f.s, p) @ f.table)
    seen = one * (1.0 - noise) + (1.0 - one) * noise
    return _binary_entropy(seen) - _binary_entropy(noise)


def _binary_entropy(q: float) -> float:
    return entropy_bits(np.array([q, 1.0 - q]))


def counting_sample_size(
    f: SparseFunction,
    T: int,
    target: float,
    *,
    guesses: int = 1,
    supports: Literal["random", "contiguous"] = "random",
) -> int:
    """The smallest m that `counting` allows: K values^m >= target N, K rules offered."""
    require(0.0 < target <= 1.0, "target", "0 < target <= 1", target)
    require(guesses >= 1, "guesses", "at least 1", guesses)
    nats = log_num_placements(f, T, supports) + math.log(target) - math.log(guesses)
    values = max(2, len(np.unique(f.table)))
    return max(0, math.ceil(nats / math.log(values) - 1e-9))


def counting(f: SparseFunction, T: int, m: int) -> float:
    """P[success] <= min(1, values^m / N): m labels take at most 2^m values for N placements."""
    only_bits(f)
    require(m >= 0, "m", "a number of examples >= 0", m)
    log_outcomes = m * math.log(max(1, len(np.unique(f.table))))
    return math.exp(min(0.0, log_outcomes - log_num_placements(f, T)))


def parity_ambiguity(T: int, s: int, m: int) -> tuple[float, float]:
    """Bounds on P(|V_m| > 1) for parity at p = 1/2.

    Two different parities agree with the labels independently, each with chance 2^-m, so with
    mu = (C(T,s) - 1) 2^-m: mu / (1 + mu - 2^-m) <= P <= min(1, mu) (second moment, union bound).
    """
    require(0 <= s <= T, "s", f"0 <= s <= T = {T}", s)
    require(m >= 0, "m", "a number of examples >= 0", m)
    log_rivals = log_binomial(T, s)
    log_others = log_rivals + math.log1p(-math.exp(-log_rivals)) if log_rivals > 0 else -math.inf
    if log_others == -math.inf:
        return 0.0, 0.0
    log_mu = log_others - m * math.log(2.0)
    upper = math.exp(min(0.0, log_mu))
    lower = 1.0 / (math.exp(min(700.0, -log_mu)) * (1.0 - 0.5**m) + 1.0)
    return lower, upper


def num_full_functions(k: int) -> int:
    """D_k = sum_i (-1)^(k-i) C(k,i) 2^(2^i): Boolean functions that depend on all of their k
    bits."""
    require(0 <= k <= 20, "k", "0 <= k <= 20", k)
    return sum((-1) ** (k - i) * math.comb(k, i) * (1 << (1 << i)) for i in range(k + 1))


def log_num_juntas(T: int, s: int) -> float:
    """ln sum_{k<=s} C(T,k) D_k: functions of T bits that depend on at most s of them."""
    require(0 <= s <= T, "s", f"0 <= s <= T = {T}", s)
    return math.log(sum(math.comb(T, k) * num_full_functions(k) for k in range(s + 1)))


def expected_consistent_juntas(f: SparseFunction, T: int, s: int, m: int, p: float) -> float:
    """E[number of (J, g)], |J| = s, g: {0,1}^s -> {0,1}, that agree with m labels of f.

    = sum_J sum_g P(g(x_J) = f(x_I))^m, where only K = I n J matters for J.
    Raises `InfeasibleError` for s > 4 (2^(2^s) functions g).
    """
    check_length(f, T)
    require(f.is_boolean, "function", "a Boolean function", f)
    require(0 <= s <= T, "s", f"0 <= s <= T = {T}", s)
    if s > MAX_JUNTA_SPARSITY:
        raise InfeasibleError(f"s: wanted s <= {MAX_JUNTA_SPARSITY}, got {s}: 2^(2^s) functions g")
    total = 0.0
    for r in range(max(0, s - (T - f.s)), min(s, f.s) + 1):
        for K in itertools.combinations(range(f.s), r):
            agreements = _agreements(_chance_of_one(f, p, K), s, p)
            total += math.comb(T - f.s, s - r) * float((agreements**m).sum())
    return total


def _chance_of_one(f: SparseFunction, p: float, K: tuple[int, ...]) -> np.ndarray:
    """P[f = 1 | x_K = c] for c = 0 .. 2^|K| - 1."""
    rows = np.arange(f.table.size)
    c = sum((((rows >> i) & 1) << k for k, i in enumerate(K)), np.zeros_like(rows))
    weights = row_probabilities(f.s, p)
    joint = np.bincount(c, weights=weights * f.table, minlength=1 << len(K))
    return joint / np.bincount(c, weights=weights, minlength=1 << len(K))


def _agreements(chance_of_one: np.ndarray, s: int, p: float) -> np.ndarray:
    """P(g(x_J) = f(x_I)) for all 2^(2^s) functions g; the shared variables are J's first."""
    rows = np.arange(1 << s)
    one = chance_of_one[rows & (chance_of_one.size - 1)]
    weights = row_probabilities(s, p)
    gains = weights * (2.0 * one - 1.0)  # choosing g = 1 instead of 0 in this row
    total = np.array([float(weights @ (1.0 - one))])
    for gain in gains:
        total = np.concatenate([total, total + gain])
    return np.clip(total, 0.0, 1.0)
