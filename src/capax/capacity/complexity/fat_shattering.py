"""The fat-shattering dimension of finite real classes, and the cover it implies.

Points x_1..x_d are gamma-shattered when there are witnesses r_1..r_d such that for every pattern
b in {0,1}^d some f has f(x_i) >= r_i + gamma where b_i = 1 and f(x_i) <= r_i - gamma where b_i = 0.
fat_gamma(F) is the largest such d.
"""

import math

import numpy as np

from capax.capacity.arguments import check_count, check_finite, check_positive
from capax.capacity.complexity.shattering import Shattered, largest_shattered
from capax.capacity.covers.delannoy import MAX_TERMS, log_sum_from_ratios
from capax.capacity.covers.metrics import TIE, as_floats
from capax.errors import require


def fat_shattering_dimension(values: object, gamma: float | int) -> Shattered:
    """fat_gamma of a finite class, with a largest gamma-shattered set of points.

    values: [functions, points]. Exact: a witness may be lowered until r - gamma meets a value of
    the class, so only those witnesses are tried. A gap of exactly 2 gamma counts (tolerance 1e-9).
    """
    table = as_floats("values", values)
    require(table.ndim == 2, "values", "a table [functions, points]", f"shape {table.shape}")
    check_finite("values", table)
    check_positive("gamma", gamma)
    gap = 2 * gamma * (1 - TIE)
    floors = [_useful_floors(column, gap) for column in table.T]
    point = np.repeat(np.arange(table.shape[1]), [len(f) for f in floors])
    floor = np.concatenate(floors)
    columns = table[:, point]
    found = largest_shattered(columns >= floor + gap, columns <= floor, point)
    return Shattered(found.dimension, tuple(int(point[t]) for t in found.tests))


def log_cover_from_fat(m: int, fat: int, eps: float | int) -> float:
    """ln N_inf(F, eps, m) for F in [0,1]^X with fat = fat_{eps/4}(F), m >= fat >= 1, 0 < eps <= 1.

    N < 2 (m (b + 1)^2)^{ceil(log2 y)}, b = floor(2/eps), y = sum_{i=1}^{fat} C(m, i) b^i
    (Alon, Ben-David, Cesa-Bianchi, Haussler 1997). Beyond a million terms y <= (emb/fat)^fat.
    """
    check_count("fat", fat)
    require(m >= fat, "m", f"at least fat = {fat}", m)
    require(0 < eps <= 1, "eps", "0 < eps <= 1", eps)
    b = math.floor(2 / eps)
    log_y = fat * (math.log(b) + 1 + math.log(m) - math.log(fat))
    if fat <= MAX_TERMS:
        i = np.arange(1, fat, dtype=np.float64)
        ratios = math.log(b) + np.log(m - i) - np.log(i + 1)
        log_y = math.log(m * b) + log_sum_from_ratios(ratios)
    exponent = math.ceil(log_y / math.log(2) * (1 + TIE))
    return math.log(2) + exponent * (math.log(m) + 2 * math.log(b + 1))


def _useful_floors(column: np.ndarray, gap: float) -> np.ndarray:
    """Values v (= r - gamma) for which some function is at least 2 gamma higher."""
    distinct = np.unique(column)
    return distinct[distinct + gap <= distinct[-1]]
