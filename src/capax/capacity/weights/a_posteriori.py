"""Norms measured after training: a bound fixed in advance for every point of a grid.

A class may not depend on the sample, but the norms of a trained model do. So fix, before seeing
data, a geometric grid n_0 (1 + g)^j, j any integer, for each of P quantities; give grid point j
the share w(j) of the failure probability,

    w(0) = 1/2,   w(j) = 1 / (2 (|j| + 1)(|j| + 2))  (j != 0),   sum_j w(j) = 1   (telescoping),

and use the bound at the grid point just above the measured value. It costs at most a factor 1 + g
on each quantity and adds sum_p ln(1/w(j_p)) to ln(1/delta).
"""

import math
from dataclasses import dataclass

from capax.capacity.arguments import check_positive
from capax.errors import require

GRID = 0.1


@dataclass(frozen=True)
class Rounded:
    """Quantities rounded up to their grids, and the cost of the choice in ln(1/delta)."""

    values: dict[str, float]
    indices: dict[str, int]
    cost: float


def index_weight(j: int) -> float:
    """w(j), the share of delta that grid point j receives."""
    return 0.5 if j == 0 else 1.0 / (2.0 * (abs(j) + 1) * (abs(j) + 2))


def index_cost(j: int) -> float:
    """ln(1/w(j)): ln 2 at the centre, ln 2 + ln((|j| + 1)(|j| + 2)) elsewhere."""
    return -math.log(index_weight(j))


def grid_index(value: float, centre: float = 1.0, g: float = GRID) -> int:
    """The smallest j with centre (1 + g)^j >= value."""
    check_positive("value", value)
    check_positive("centre", centre)
    check_positive("g", g)
    j = math.ceil(math.log(value / centre) / math.log1p(g) - 1e-12)
    while centre * (1 + g) ** j < value:
        j += 1
    return j


def round_up(
    quantities: dict[str, float], centres: dict[str, float] | None = None, g: float = GRID
) -> Rounded:
    """Every quantity on its grid (centre 1 unless given): for margins pass 1/gamma.

    Centres must be chosen without looking at the training data. Raises InputError for values
    that are not finite and > 0.
    """
    require(g > 0, "g", "a number > 0", g)
    known = centres or {}
    indices = {name: grid_index(v, known.get(name, 1.0), g) for name, v in quantities.items()}
    values = {name: known.get(name, 1.0) * (1 + g) ** j for name, j in indices.items()}
    return Rounded(values, indices, sum(index_cost(j) for j in indices.values()))
