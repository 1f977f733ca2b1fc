"""Covering numbers of function classes on samples (Definition 2.1).

    d_z(f, g) = max_i ||f(z_i) - g(z_i)||,     N_inf(F; eps; z_1..z_m) = N(F, eps, d_z)
    N_inf(F, eps, m) = sup over samples z_1..z_m

One point per *function* (its tuple of values on the sample), not one per value. A cover by
parameters has the same size: take one parameter per function.

`kind` is "exact", "lower bound", "upper bound" or "interval".
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from capax.capacity.arguments import check_count, check_finite, check_nonnegative, check_positive
from capax.capacity.covers.covering_sets import covering_number
from capax.capacity.covers.metrics import FiniteSpace, as_floats
from capax.capacity.covers.packing_sets import packing_number
from capax.capacity.covers.volume import log_cover_parametric
from capax.errors import require

MAX_SAMPLES = 2000


@dataclass(frozen=True)
class ClassCover:
    """log_lower <= ln N <= log_upper for the class `of`, with centres (indices) if known.

    sample: for a worst case, the points (columns) at which the lower end is attained.
    """

    of: str
    eps: float
    log_lower: float
    log_upper: float
    centres: tuple[int, ...] = ()
    sample: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """exact, lower bound (no finite upper end), upper bound (lower end 1) or interval."""
        if self.log_lower == self.log_upper:
            return "exact"
        if math.isinf(self.log_upper):
            return "lower bound"
        return "upper bound" if self.log_lower == 0 else "interval"

    @property
    def exact(self) -> int | None:
        """The covering number if it is known."""
        return round(math.exp(self.log_upper)) if self.kind == "exact" else None


def function_space(values: object, norm: float | int = 2.0) -> FiniteSpace:
    """The pseudometric space of functions given by their values on a sample.

    values: [functions, m] for scalar outputs or [functions, m, k] for vectors; norm: the p of the
    output norm (1, 2 or math.inf).
    """
    table = _check_values(values)
    require(norm in (1, 2, math.inf), "norm", "1, 2 or inf", norm)
    kind = {1: "cityblock", 2: "euclidean", math.inf: "chebyshev"}[norm]
    D = np.zeros((len(table), len(table)))
    for i in range(table.shape[1]):
        D = np.maximum(D, _distances(table[:, i], kind))
    return FiniteSpace(np.maximum(D, D.T), metric=f"max over sample of {norm:g}-norm")


def cover_on_sample(
    values: object, eps: float | int, *, norm: float | int = 2.0, time_limit: float | int = 60.0
) -> ClassCover:
    """N_inf(F; eps; z_1..z_m) of a finite class, exactly, or an interval at the time limit."""
    cover = covering_number(function_space(values, norm), eps, time_limit=time_limit)
    return ClassCover(
        "finite class on this sample",
        float(eps),
        math.log(cover.lower),
        math.log(cover.upper),
        cover.centres,
    )


def cover_worst_case(
    values: object,
    eps: float | int,
    m: int,
    *,
    norm: float | int = 2.0,
    time_limit: float | int = 60.0,
) -> ClassCover:
    """N_inf(F, eps, m) = max over samples of m points of a finite domain (the columns of values).

    Every subset is tried if there are at most 2000 (repetitions never help: they leave d_z as it
    is). Otherwise an interval: points are added greedily for the lower end, and the whole domain,
    whose metric is the largest, gives the upper end.
    """
    table = _check_values(values)
    check_count("m", m)
    deadline = time.monotonic() + time_limit
    domain, size = table.shape[1], min(m, table.shape[1])
    exhaustive = math.comb(domain, size) <= MAX_SAMPLES
    samples = itertools.combinations(range(domain), size) if exhaustive else ()
    covers = [(s, _cover_at(table, s, eps, norm, deadline)) for s in samples]
    if not exhaustive:
        covers = _greedy_samples(table, size, eps, norm, deadline)
    sample, best = max(covers, key=lambda pair: pair[1].log_lower)
    upper = max(cover.log_upper for _, cover in covers)
    if not exhaustive:
        upper = _cover_at(table, tuple(range(domain)), eps, norm, deadline).log_upper
    return ClassCover(
        f"finite class, worst of {len(covers)} samples of {size} points",
        float(eps),
        best.log_lower,
        max(upper, best.log_lower),
        best.centres,
        tuple(sample),
        () if exhaustive else ("samples found greedily; upper end from the whole domain",),
    )


def cover_of_parameters(
    function: Callable[[np.ndarray, np.ndarray], object],
    parameters: Sequence[object],
    sample: Sequence[object],
    eps: float | int,
    *,
    norm: float | int = 2.0,
    time_limit: float | int = 60.0,
) -> ClassCover:
    """Definition 2.1 for a finite set of parameters: the centres are indices of parameters."""
    values = evaluate(function, parameters, sample)
    return cover_on_sample(values, eps, norm=norm, time_limit=time_limit)


def cover_of_sampled_class(
    function: Callable[[np.ndarray, np.ndarray], object],
    parameters: Sequence[object],
    sample: Sequence[object],
    eps: float | int,
    *,
    norm: float | int = 2.0,
    lipschitz: float | int | None = None,
    radius: float | int | None = None,
    time_limit: float | int = 60.0,
) -> ClassCover:
    """An infinite class known through some of its members, on this sample.

    Lower end: members pairwise more than 2 eps apart (a packing of a subset packs the class; holds
    for external covers too). Upper end, if `lipschitz` (||f_w(z) - f_v(z)|| <= L ||w - v||) and
    `radius` (||w|| <= R for all parameters) are given: n ln(1 + 2LR/eps), n = length of w.
    """
    check_positive("eps", eps)
    space = function_space(evaluate(function, parameters, sample), norm)
    packing = packing_number(space, 2 * eps, time_limit=time_limit)
    upper = math.inf
    if lipschitz is not None and radius is not None:
        check_nonnegative("lipschitz", lipschitz)
        check_nonnegative("radius", radius)
        num_parameters = int(np.size(np.asarray(parameters[0])))
        upper = log_cover_parametric(num_parameters, radius, lipschitz, eps)
    return ClassCover(
        f"parametric class on this sample, seen through {len(parameters)} members",
        float(eps),
        math.log(packing.lower),
        upper,
        packing.points,
    )


def evaluate(
    function: Callable[[np.ndarray, np.ndarray], object],
    parameters: Sequence[object],
    sample: Sequence[object],
) -> Float[np.ndarray, "functions m k"]:
    """The table of values function(parameter, z), one row per parameter, one column per z."""
    require(len(parameters) > 0, "parameters", "at least one", len(parameters))
    require(len(sample) > 0, "sample", "at least one point", len(sample))
    rows = [[function(np.asarray(w), np.asarray(z)) for z in sample] for w in parameters]
    return _check_values(rows)


def _check_values(values: object) -> Float[np.ndarray, "functions m k"]:
    table = as_floats("values", values)
    table = table[..., None] if table.ndim == 2 else table
    wanted = "values[function, sample] or values[function, sample, output]"
    require(table.ndim == 3, "values", wanted, f"shape {table.shape}")
    check_finite("values", table)
    return table


def _distances(points: Float[np.ndarray, "n k"], kind: str) -> Float[np.ndarray, "n n"]:
    if kind == "cityblock":
        return cdist(points, points, "cityblock")
    if kind == "chebyshev":
        return cdist(points, points, "chebyshev")
    return cdist(points, points, "euclidean")


def _cover_at(
    table: Float[np.ndarray, "functions m k"],
    columns: tuple[int, ...],
    eps: float | int,
    norm: float | int,
    deadline: float,
) -> ClassCover:
    left = max(0.0, deadline - time.monotonic())
    return cover_on_sample(table[:, list(columns)], eps, norm=norm, time_limit=left)


def _greedy_samples(
    table: Float[np.ndarray, "functions m k"],
    size: int,
    eps: float | int,
    norm: float | int,
    deadline: float,
) -> list[tuple[tuple[int, ...], ClassCover]]:
    """Add the point that raises the number most, `size` times; the last of each round counts."""
    chosen: tuple[int, ...] = ()
    rounds: list[tuple[tuple[int, ...], ClassCover]] = []
    for _ in range(size):
        rest = [j for j in range(table.shape[1]) if j not in chosen]
        tried = [((*chosen, j), _cover_at(table, (*chosen, j), eps, norm, deadline)) for j in rest]
        rounds.append(max(tried, key=lambda pair: pair[1].log_lower))
        chosen = rounds[-1][0]
    return rounds
