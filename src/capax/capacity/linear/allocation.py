"""How much of the allowed error each piece of a network may spend.

A network is covered piece by piece. Piece i, covered to within eps_i, moves the output by at most
alpha_i eps_i, and its cover has log-size C_i / eps_i^2. The best split of the total eps:

    minimise sum_i C_i / eps_i^2   subject to   sum_i alpha_i eps_i = eps.

Lagrange (ours): 2 C_i / eps_i^3 = mu alpha_i, so eps_i is proportional to (C_i / alpha_i)^{1/3};
with G = sum_j (alpha_j^2 C_j)^{1/3} this gives

    eps_i = eps (alpha_i^2 C_i)^{1/3} / (alpha_i G)     and the value   G^3 / eps^2.

All numbers are logarithms: after a hundred layers alpha_i does not fit a float.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capax.capacity.magnitude import log_sum
from capax.errors import require


@dataclass(frozen=True)
class Allocation:
    """log_eps[i] = ln eps_i (inf for pieces that cost nothing); log_value = ln(G^3 / eps^2)."""

    log_eps: tuple[float, ...]
    log_value: float


def allocate(
    log_C: Sequence[float], log_alpha: Sequence[float], log_eps: float = 0.0
) -> Allocation:
    """The optimal split for ln C_i, ln alpha_i and a total of e^{log_eps}.

    Pieces with C_i = 0 or alpha_i = 0 (logarithm -inf) need no error and get eps_i = inf.
    """
    require(len(log_C) == len(log_alpha), "log_alpha", f"{len(log_C)} numbers", len(log_alpha))
    require(len(log_C) > 0, "log_C", "at least one piece", len(log_C))
    cubes = [(2 * a + c) / 3 for c, a in zip(log_C, log_alpha, strict=True)]
    require(not any(math.isnan(x) for x in cubes), "log_C, log_alpha", "numbers", "NaN")
    log_G = log_sum(cubes)
    if log_G == -math.inf:
        return Allocation((math.inf,) * len(cubes), -math.inf)
    shares = [
        math.inf if x == -math.inf else log_eps + x - a - log_G
        for x, a in zip(cubes, log_alpha, strict=True)
    ]
    return Allocation(tuple(shares), 3 * log_G - 2 * log_eps)


def allocate_by_parameters(
    num_parameters: Sequence[int], log_alpha: Sequence[float], log_eps: float = 0.0
) -> tuple[float, ...]:
    """ln eps_i for covers of log-size n_i ln(1 + c_i / eps_i): eps_i = eps n_i / (alpha_i sum n).

    The optimum of sum_i n_i ln(c_i / eps_i) under the same constraint (ours).
    """
    total = sum(num_parameters)
    require(total > 0, "num_parameters", "at least one parameter", list(num_parameters))
    return tuple(
        math.inf if n == 0 or a == -math.inf else log_eps + math.log(n / total) - a
        for n, a in zip(num_parameters, log_alpha, strict=True)
    )
