"""How soon a wrong placement is refuted, and how many wrong ones survive m examples on average.

Inputs are i.i.d. Bernoulli(p)^T and labels y = f(x_I). A wrong placement J shares some variables
with I; given the shared bits the two values are independent, so with P_I(v | c), P_J(v | c) the
chances of value v given shared bits c,

    q = P[f(x_I) != f(x_J)] = 1 - sum_c P(c) sum_v P_I(v | c) P_J(v | c),

and J survives m examples with probability exactly (1 - q)^m. For a symmetric f and |I n J| = r < s,
with pi_c = P[f = 1 | c ones among the shared bits]: q_r = sum_c Bin(c; r, p) 2 pi_c (1 - pi_c);
AND: 2 p^s (1 - p^(s-r)), OR: the same with 1-p, parity: (1 - (1-2p)^(2(s-r)))/2. (Ours.)
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.traits.bias import row_probabilities
from capax.boolean.traits.symmetries import Permutation, num_automorphisms, permuted_rows
from capax.errors import InfeasibleError, require

MAX_MATCHINGS = 20_000


def log_binomial(n: int, k: int) -> float:
    """ln C(n, k), exact to rounding for small k and any n (no difference of large numbers)."""
    if k < 0 or k > n:
        return -math.inf
    k = min(k, n - k)
    return math.fsum(math.log((n - i) / (k - i)) for i in range(k))


def log_num_placements(
    f: SparseFunction, T: int, supports: Literal["random", "contiguous"] = "random"
) -> float:
    """ln of the number of distinct functions that f makes on T positions; C(T, s) if symmetric.

    On contiguous supports T - s + 1 instead, times the orders of its variables that differ.
    """
    check_length(f, T)
    if supports == "contiguous":
        orders = math.lgamma(f.s + 1) - math.log(num_automorphisms(f))
        return math.log(T - f.s + 1) + max(0.0, orders)
    if f.is_symmetric:
        return log_binomial(T, f.s)
    return _log_falling(T, f.s) - math.log(num_automorphisms(f))


def disagreement(f: SparseFunction, r: int, p: float) -> float:
    """q_r = P[f(x_I) != f(x_J)], |I n J| = r, for a symmetric f. Raises unless 0 <= r <= s."""
    only_bits(f)
    require(f.is_symmetric, "function", "a symmetric function", f)
    require(0 <= r <= f.s, "r", f"an overlap in 0..{f.s}", r)
    return 0.0 if r == f.s else _disagreement(f, p, tuple(range(r)), tuple(range(r)))


@dataclass(frozen=True)
class Rivals:
    """A kind of wrong placement: ln of their number, and the chance q that an example refutes
    one."""

    overlap: int
    log_count: float
    q: float

    def log_survivors(self, m: int, noise: float = 0.0) -> float:
        """ln of the expected number that survive m examples.

        With labels flipped with chance e, ln of a bound on the expected number that make no more
        errors than the true placement: where the two differ (chance q), one of them errs, the wrong
        one with chance 1 - e; by Chernoff's bound a factor 1 - q + 2 q sqrt(e (1 - e)) per example.
        """
        q = self.q * (1.0 - 2.0 * math.sqrt(noise * (1.0 - noise)))
        if q >= 1.0:
            return self.log_count if m == 0 else -math.inf
        return self.log_count + m * math.log1p(-q)


def rivals(f: SparseFunction, T: int, p: float) -> tuple[Rivals, ...]:
    """All kinds of wrong placements of f on T positions (irrelevant variables dropped first).

    Raises `InfeasibleError` for a non-symmetric f of more than 6 variables.
    """
    check_length(f, T)
    g = f.relevant()
    return _rivals(g.on(range(g.s)), T, float(p))


def expected_wrong_survivors(f: SparseFunction, T: int, m: int, p: float) -> float:
    """E[W_m] = sum over wrong placements of (1 - q)^m, exact; at least P(|V_m| > 1).

    Symmetric f: sum_{r<s} C(s,r) C(T-s, s-r) (1 - q_r)^m. Other tables: over all ways to match
    variables of J with variables of I, divided by the number of automorphisms.
    """
    return math.exp(min(log_expected_wrong_survivors(f, T, m, p), 709.0))


def log_expected_wrong_survivors(
    f: SparseFunction, T: int, m: int, p: float, *, noise: float = 0.0
) -> float:
    """ln E[W_m]; -inf when there is no rival. With noise the bound of `Rivals.log_survivors`."""
    require(m >= 0, "m", "a number of examples >= 0", m)
    terms = [kind.log_survivors(m, noise) for kind in rivals(f, T, p)]
    return float(logsumexp(terms)) if terms else -math.inf


def union_sample_size(
    f: SparseFunction, T: int, delta: float, p: float, *, noise: float = 0.0
) -> int:
    """The smallest m with E[W_m] <= delta: then the sample names I with probability >= 1 - delta.

    With noise the placement with the fewest errors is I with that probability.
    Raises `InfeasibleError` when some rival is never refuted (p = 0 or 1).
    """
    require(delta > 0.0, "delta", "a number > 0", delta)
    require(0.0 <= noise < 0.5, "noise", "0 <= noise < 1/2", noise)
    if any(kind.q <= 0.0 for kind in rivals(f, T, p)):
        raise InfeasibleError(f"p: at p = {p} some wrong placement of f is never refuted")
    enough = 1
    while log_expected_wrong_survivors(f, T, enough, p, noise=noise) > math.log(delta):
        enough *= 2
    low = -1  # exclusive: too few; `enough` suffices
    while enough - low > 1:
        middle = (low + enough) // 2
        fits = log_expected_wrong_survivors(f, T, middle, p, noise=noise) <= math.log(delta)
        low, enough = (low, middle) if fits else (middle, enough)
    return enough


def check_length(f: SparseFunction, T: int) -> None:
    """Raise `InputError` unless f fits into T positions."""
    require(f.s <= T, "T", f"T >= s = {f.s}", T)


@functools.lru_cache(maxsize=256)
def _rivals(f: SparseFunction, T: int, p: float) -> tuple[Rivals, ...]:
    if f.is_symmetric:
        kinds = [
            Rivals(r, log_binomial(f.s, r) + log_binomial(T - f.s, f.s - r), disagreement(f, r, p))
            for r in range(f.s)
        ]
    else:
        kinds = _rivals_by_matching(f, T, p)
    return tuple(kind for kind in kinds if kind.log_count > -math.inf)


def _rivals_by_matching(f: SparseFunction, T: int, p: float) -> list[Rivals]:
    s = f.s
    matchings = sum(math.comb(s, r) ** 2 * math.factorial(r) for r in range(s + 1))
    if matchings > MAX_MATCHINGS:
        raise InfeasibleError(f"function: {matchings} ways to overlap for s = {s}, at most 20000")
    log_symmetries = math.log(num_automorphisms(f))
    kinds = []
    for r in range(s + 1):
        log_count = _log_falling(T - s, s - r) - log_symmetries
        for mine in itertools.combinations(range(s), r):
            for theirs in itertools.permutations(range(s), r):
                if r < s or not _is_automorphism(f, theirs):
                    kinds.append(Rivals(r, log_count, _disagreement(f, p, mine, theirs)))
    return kinds


def _is_automorphism(f: SparseFunction, permutation: Permutation) -> bool:
    return np.array_equal(f.table[permuted_rows(permutation)], f.table)


def _disagreement(
    f: SparseFunction, p: float, mine: tuple[int, ...], theirs: tuple[int, ...]
) -> float:
    """q when variable mine[i] of one placement and theirs[i] of the other share a position."""
    left, right = _conditional(f, p, mine), _conditional(f, p, theirs)
    agree = float(row_probabilities(len(mine), p) @ (left * right).sum(axis=1))
    return min(max(1.0 - agree, 0.0), 1.0)


@functools.lru_cache(maxsize=4096)
def _conditional(f: SparseFunction, p: float, shared: tuple[int, ...]) -> np.ndarray:
    """[2^r, values]: P[f = v | the shared variables are the bits of c]."""
    free = tuple(i for i in range(f.s) if i not in shared)
    rows = _scattered(shared, free)
    table = f.table[rows].reshape(1 << len(free), 1 << len(shared))  # free bits are the high ones
    weights = row_probabilities(len(free), p)
    return np.stack([weights @ (table == v) for v in np.unique(f.table)], axis=1)


def _scattered(shared: tuple[int, ...], free: tuple[int, ...]) -> np.ndarray:
    """Row of f for each number whose low bits are the shared and high bits the free variables."""
    numbers = np.arange(1 << (len(shared) + len(free)))
    rows = np.zeros_like(numbers)
    for i, variable in enumerate((*shared, *free)):
        rows |= ((numbers >> i) & 1) << variable
    return rows


def _log_falling(n: int, k: int) -> float:
    """ln n (n-1) .. (n-k+1)."""
    return math.fsum(math.log(n - i) for i in range(k)) if k <= n else -math.inf
