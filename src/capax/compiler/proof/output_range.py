"""The range of the network's output at each pattern of the relevant symbols, over all others.

Scalar read-out: one direction of the head, whose proven range is the answer. MLP: units whose
columns of W_1 are equal in every bit form a ridge h(l) of one direction l. At each pattern

    output in b_2 + sum over directions of h([low, high]),

which is sound for any gains, since only bit-equal columns are merged. Three refinements keep it
sharp. Where l is proved to lie left of every kink, or right of every kink of a ridge that ends
flat, h is one number, known exactly. Directions that stay within one linear piece are added first,
and their sum is one direction with its own range: opposite units may cancel in it. The two
intervals are intersected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer

from capax.attention import ClsMLP, ClsScalar
from capax.boolean.functions import all_patterns
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.linear_fractional import HeadProblems, head_range
from capax.compiler.proof.ridge import Ridge, ridge
from capax.compiler.proof.tables import HeadTables, Model
from capax.errors import require

Rows = Float[np.ndarray, " rows"]


@dataclass(frozen=True)
class Hidden:
    """The different columns of W_1 [k, g], the ridge of each, and the column of each unit."""

    columns: Float[np.ndarray, "k g"]
    ridges: tuple[Ridge, ...]
    group: Integer[np.ndarray, " n"]
    b_2: float


def output_range(model: Model, tables: HeadTables, support: Sequence[int]) -> tuple[Rows, Rows]:
    """(lower, upper) bound of the output for each of the M^s patterns, over all inputs with it."""
    if isinstance(model, ClsScalar):
        found = head_range(tables, support, scalar_direction(model))
        return found.low[:, 0], found.high[:, 0]
    return _mlp_range(hidden_units(model), tables, support)


def scalar_direction(model: ClsScalar) -> Enclosed:
    """W_C w as a column [k, 1]."""
    require(model.activation == "identity", "activation", "identity", model.activation)
    return exactly(model.W_C) @ exactly(model.w)[:, None]


def hidden_units(model: ClsMLP) -> Hidden:
    """Units with bit-equal columns, together."""
    W_1, b_1 = np.asarray(model.W_1, np.float64), np.asarray(model.b_1, np.float64)
    w_2 = np.asarray(model.w_2, np.float64)
    columns, group = np.unique(W_1, axis=1, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(1, columns.shape[1]))
    members = np.split(order, starts) if columns.shape[1] else []
    ridges = tuple(ridge(b_1[m], w_2[m]) for m in members)
    return Hidden(columns, ridges, group, float(model.b_2))


def _mlp_range(hidden: Hidden, tables: HeadTables, support: Sequence[int]) -> tuple[Rows, Rows]:
    rows, g = tables.alphabet ** len(support), len(hidden.ridges)
    if not g:
        return np.full(rows, hidden.b_2), np.full(rows, hidden.b_2)
    problems = HeadProblems.of(tables, support, hidden.columns)
    low, high = direction_ranges(problems, hidden.ridges)
    bottom, top = summed_ridges(hidden, low, high)
    joined = _joined_range(hidden, tables, support, low, high)
    return _tighter(bottom, joined[0], np.maximum), _tighter(top, joined[1], np.minimum)


def _tighter(end: Rows, other: Rows, choose: np.ufunc) -> Rows:
    """The better of two ends; an end that is NaN is ignored."""
    nothing = -np.inf if choose is np.maximum else np.inf
    return choose(*(np.where(np.isnan(x), nothing, x) for x in (end, other)))


def direction_ranges(
    problems: HeadProblems, ridges: tuple[Ridge, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """[rows, g] ends of each direction: exact ends, or only "beyond every kink"."""
    first, last = (np.array([r.kinks[i] for r in ridges]) for i in (0, -1))
    flat = np.array([r.ends_flat for r in ridges])
    rows, columns = (index.reshape(-1) for index in np.indices(problems.shape))
    low, high = np.full(rows.shape, -np.inf), np.full(rows.shape, np.inf)
    left = problems.at_most(rows, columns, first[columns])
    high[left] = first[columns[left]]
    rest = np.flatnonzero(~left & flat[columns])
    right = rest[problems.at_least(rows[rest], columns[rest], last[columns[rest]])]
    low[right] = np.nextafter(last[columns[right]], np.inf)
    rest = np.flatnonzero(np.isinf(low) & np.isinf(high))
    low[rest], high[rest] = problems.range(rows[rest], columns[rest])[:2]
    return low.reshape(problems.shape), high.reshape(problems.shape)


def summed_ridges(
    hidden: Hidden, low: np.ndarray, high: np.ndarray, skip: np.ndarray | None = None
) -> tuple[Rows, Rows]:
    """b_2 + sum of h over its interval, for rows of intervals [rows, g], but for `skip`ped ones."""
    bottom = top = exactly(np.full(len(low), hidden.b_2))
    with np.errstate(over="ignore", invalid="ignore"):
        for g, h in enumerate(hidden.ridges):
            least, most = h.bounds(low[:, g], high[:, g])
            if skip is not None:
                least, most = (np.where(skip[:, g], 0.0, end) for end in (least, most))
            bottom, top = bottom + exactly(least), top + exactly(most)
    return bottom.low, top.high


def _joined_range(
    hidden: Hidden, tables: HeadTables, support: Sequence[int], low: np.ndarray, high: np.ndarray
) -> tuple[Rows, Rows]:
    """The same, with all directions that stay on one sloping piece added up before the head."""
    least, most = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    pieces = [(h.segment(low[:, g]), h.segment(high[:, g])) for g, h in enumerate(hidden.ridges)]
    steady = np.stack([a == b for a, b in pieces], axis=1)
    slope, offset = _steady_pieces(hidden, [a for a, _ in pieces], steady)
    where = np.flatnonzero((slope.mid != 0).sum(axis=1) > 1)
    if not len(where):
        return least, most
    with np.errstate(over="ignore", invalid="ignore"):
        direction = slope[where] @ exactly(hidden.columns.T)  # [rows, k]
        constant = offset[where] @ exactly(np.ones(len(hidden.ridges)))
        shown = all_patterns(len(support), tables.alphabet)[where]
        turned = Enclosed(direction.mid.T, direction.rad.T)
        problems = HeadProblems.of(tables, support, turned, shown)
        each = np.arange(len(where))
        ends = problems.range(each, each)
        bottom, top = summed_ridges(hidden, low[where], high[where], skip=steady[where])
        least[where] = (exactly(ends[0]) + constant + exactly(bottom)).low
        most[where] = (exactly(ends[1]) + constant + exactly(top)).high
    return least, most


def _steady_pieces(
    hidden: Hidden, segments: list[np.ndarray], steady: np.ndarray
) -> tuple[Enclosed, Enclosed]:
    """Slope and offset [rows, g] of the piece a direction stays on; zero where it leaves one."""
    parts = []
    for name in ("slopes", "offsets"):
        chosen = [getattr(h, name)[j] for h, j in zip(hidden.ridges, segments, strict=True)]
        mid, rad = (np.stack([getattr(c, end) for c in chosen], axis=1) for end in ("mid", "rad"))
        parts.append(Enclosed(np.where(steady, mid, 0.0), np.where(steady, rad, 0.0)))
    return parts[0], parts[1]
