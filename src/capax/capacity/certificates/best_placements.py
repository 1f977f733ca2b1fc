"""A family and a sample: Gibbs on its survivors, and Occam for the first of them.

The family is all placements of one function f on the T positions, fixed before the data. With label
noise it may be that no placement fits all labels; then the placements with the fewest errors are
used.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Num

from capax.boolean.best_possible.disagreement import log_num_placements
from capax.boolean.consistent.survivors import survivors
from capax.boolean.functions import SparseFunction
from capax.capacity.bound import Bound
from capax.capacity.certificates.pac_bayes import LEAST_EXAMPLES, version_space_bound
from capax.capacity.certificates.tails import occam_tail_bound
from capax.errors import InfeasibleError, require

MAX_BITS = 400_000_000
BLOCK = 4096


@dataclass(frozen=True)
class BestPlacements:
    """The placements of f with the fewest errors: this number of errors, their count, the first."""

    errors: int
    count: int
    first: tuple[int, ...]
    log_placements: float
    m: int

    def bounds(self, name: str, delta: float, *, cost: float = 0.0) -> tuple[Bound, ...]:
        """Gibbs on all of them and Occam for the first, each with delta/2."""
        where = ", ".join(f"x{position}" for position in self.first)
        first = occam_tail_bound(
            self.errors, self.m, self.log_placements / math.log(2.0), delta / 2, cost=cost,
            predictor=f"{name} on {where}",
        )  # fmt: skip
        if self.m < LEAST_EXAMPLES:
            return (first,)
        gibbs = version_space_bound(
            self.log_placements, self.count, self.m, delta / 2, errors=self.errors, cost=cost,
            predictor=f"{name} on random surviving positions",
        )  # fmt: skip
        return (gibbs, first)


def best_placements(f: SparseFunction, X: Any, y: Any) -> BestPlacements:
    """The placements of f with the fewest errors on X [m, T], y [m].

    Raises `InputError` for a sample that is not of bits, `InfeasibleError` when every placement
    has an error and there are too many placements to try one by one.
    """
    f = f.relevant()
    require(f.is_boolean, "function", "a Boolean function", f)
    require(len(y) > 0, "X", "at least one example", np.shape(X))
    log_N = log_num_placements(f, np.shape(X)[1])
    space = survivors(f, X, y, keep=1)
    if space.count:
        return BestPlacements(0, space.count, space.supports[0], log_N, len(y))
    return _with_errors(f, np.asarray(X), np.asarray(y), log_N)


def _with_errors(
    f: SparseFunction, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "m"], log_N: float
) -> BestPlacements:
    """All placements, one by one; ordered ones give each function equally often."""
    T, order = X.shape[1], math.factorial(f.s)
    total = math.comb(T, f.s) * (1 if f.is_symmetric else order)
    if total * len(y) * max(1, f.s) > MAX_BITS:
        raise InfeasibleError(
            f"family: every placement has an error, and {total} placements times {len(y)} examples "
            f"are too many to try one by one; use a smaller T or fewer examples"
        )
    choose = itertools.combinations if f.is_symmetric else itertools.permutations
    every = choose(range(T), f.s)
    columns = np.asarray(X, np.int64).T
    fewest, count, first = len(y) + 1, 0, ()
    while block := list(itertools.islice(every, BLOCK)):
        positions = np.array(block, dtype=np.int64).reshape(len(block), f.s)
        rows = sum((columns[positions[:, i]] << i for i in range(f.s)), np.zeros((1, len(y)), int))
        wrong = (f.table[rows] != y).sum(axis=1)
        least = int(wrong.min())
        if least < fewest:
            fewest, count, first = least, 0, block[int(wrong.argmin())]
        count += int((wrong == least).sum()) if least == fewest else 0
    repeats = 1 if f.is_symmetric else round(math.exp(math.log(total) - log_N))
    return BestPlacements(fewest, count // repeats, tuple(first), log_N, len(y))
