"""VC dimension and growth function of finite binary classes, and the covers they imply.

For F in {0,1}^X and eps < 1 the internal covering number N_inf(F, eps, m) *is* the growth function:
two functions that differ on the sample differ by 1. Sauer-Shelah then bounds it by
sum_{i <= d} C(m, i) <= (em/d)^d for m >= d = VC(F) >= 1.
"""

import itertools
import math

import numpy as np
from jaxtyping import Bool

from capax.capacity.arguments import check_count
from capax.capacity.complexity.shattering import Shattered, largest_shattered
from capax.capacity.covers.delannoy import MAX_TERMS, log_sum_from_ratios
from capax.capacity.covers.metrics import as_floats
from capax.errors import InfeasibleError, require

MAX_SUBSETS = 200_000


def vc_dimension(values: object) -> Shattered:
    """The VC dimension of a finite class, with a largest shattered set of points.

    values: [functions, points] of zeros and ones. Exact; `InfeasibleError` if the search is long.
    """
    table = binary_table(values)
    return largest_shattered(table, ~table, np.arange(table.shape[1]))


def growth_function(values: object, m: int) -> int:
    """The largest number of distinct label patterns on m points of the domain.

    Exact by trying every subset; `InfeasibleError` beyond 200 000 subsets.
    """
    table = binary_table(values)
    check_count("m", m)
    size = min(m, table.shape[1])
    subsets = math.comb(table.shape[1], size)
    if subsets > MAX_SUBSETS:
        raise InfeasibleError(f"growth_function: at most {MAX_SUBSETS} subsets, got {subsets}")
    columns = itertools.combinations(range(table.shape[1]), size)
    return max(len(np.unique(np.packbits(table[:, c], axis=1), axis=0)) for c in columns)


def log_sauer(m: int, d: int) -> float:
    """ln sum_{i <= d} C(m, i) (Sauer-Shelah): the growth function at VC dimension d, at most.

    Beyond a million terms the weaker `log_sauer_power`.
    """
    check_count("m", m)
    check_count("d", d, at_least=0)
    if d >= m:
        return m * math.log(2.0)
    if d > MAX_TERMS:
        return min(m * math.log(2.0), log_sauer_power(m, d))
    i = np.arange(d, dtype=np.float64)
    return log_sum_from_ratios(np.log(m - i) - np.log(i + 1))


def log_sauer_power(m: int, d: int) -> float:
    """d ln(em/d), the weaker textbook form; needs m >= d >= 1."""
    check_count("d", d)
    require(m >= d, "m", f"at least d = {d}", m)
    return d * (1 + math.log(m) - math.log(d))


def log_cover_from_vc(m: int, d: int, eps: float | int) -> float:
    """ln N_inf(F, eps, m) for VC dimension d: Sauer-Shelah if eps < 1, one function if eps >= 1."""
    require(eps > 0, "eps", "a number > 0", eps)
    return 0.0 if eps >= 1 else log_sauer(m, d)


def binary_table(values: object) -> Bool[np.ndarray, "functions points"]:
    """The class as booleans; `InputError` unless a nonempty table of zeros and ones."""
    table = as_floats("values", values)
    require(table.ndim == 2, "values", "a table [functions, points]", f"shape {table.shape}")
    require(table.size > 0, "values", "at least one function and one point", table.shape)
    binary = bool(np.isin(table, (0.0, 1.0)).all())
    other = table[~np.isin(table, (0.0, 1.0))]
    require(binary, "values", "zeros and ones only", float(other[0]) if other.size else None)
    return table.astype(bool)
