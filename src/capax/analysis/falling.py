"""Tests for success that falls with m or T: the success curve assumes that it rises.

With a fixed number of steps a learner may do worse with more examples, or level off lower as T
grows. Both are tested and reported.

    with m   The largest difference, in standard errors, between the success rate of a block of
             neighbouring m and that of a later block. Its distribution when success never falls is
             simulated from the isotonic fit, the closest rates that do not fall.
    with T   Likelihood ratio of a plateau that is the same at every T against plateaus that never
             rise with T, by χ² of one degree less than there are T (which is on the safe side); the
             other parameters of each curve are integrated out.

If success falls with m, the curve is fitted up to the peak: m* is the smallest m that reaches the
target, and larger m give no information about it.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import chdtrc, logsumexp, xlogy

from capax.identity import key_words
from capax.sweep.searching.counts import Counts, isotonic_rates
from capax.sweep.searching.curve import CurveGrid, log_likelihood

LEVEL = 0.01
SUSPECTED = 0.1
"""Few trials can hide a fall, so from this level on the curve is fitted up to its peak."""
_MOST_BINS = 12
_DRAWS = 1000


@dataclass(frozen=True)
class Fall:
    """Success rises up to `peak` examples and falls afterwards."""

    peak: int
    p_value: float


def falling(counts: Counts, level: float = LEVEL) -> Fall | None:
    """The fall of success with m, if it is significant at `level`."""
    bins = _bins(counts) if counts.trials else []
    if len(bins) < 2:
        return None
    solved = np.array([sum(counts.solved[i:j]) for i, j in bins], dtype=np.float64)
    total = np.array([sum(counts.total[i:j]) for i, j in bins], dtype=np.float64)
    rates = isotonic_rates(
        Counts(tuple(range(1, len(bins) + 1)), *(tuple(int(x) for x in v) for v in (solved, total)))
    )
    observed = float(_largest_drop(solved[None], total)[0])
    if observed < 2.0:  # never significant: the largest of many differences is larger by chance
        return None
    random = np.random.default_rng(key_words([counts.m, counts.solved, counts.total], "falling"))
    drawn = random.binomial(total.astype(np.int64), rates, size=(_DRAWS, total.size))
    as_large = int((_largest_drop(drawn.astype(np.float64), total) >= observed - 1e-9).sum())
    p_value = (1 + as_large) / (1 + _DRAWS)
    return Fall(_peak(counts), p_value) if p_value < level else None


def _bins(counts: Counts) -> list[tuple[int, int]]:
    """At most twelve runs of neighbouring m with about the same number of trials."""
    done = np.cumsum(counts.total)
    number = np.minimum((done - 0.5) * _MOST_BINS / done[-1], _MOST_BINS - 1).astype(int)
    inner = np.flatnonzero(np.diff(number)) + 1
    return list(itertools.pairwise([0, *inner.tolist(), len(number)]))


def _largest_drop(
    solved: Float[ndarray, "d n"], total: Float[ndarray, " n"]
) -> Float[ndarray, " d"]:
    """Largest z of (rate of a block) - (rate of a later block), over all pairs of blocks."""
    n = total.size
    blocks = [(i, j) for i, j in itertools.combinations(range(n + 1), 2)]
    member = np.array([[float(i <= k < j) for k in range(n)] for i, j in blocks])
    pairs = [
        (a, b)
        for a, (_, end) in enumerate(blocks)
        for b, (start, _) in enumerate(blocks)
        if end <= start
    ]
    first, later = (np.array(side) for side in zip(*pairs, strict=True))
    hits, trials = solved @ member.T, member @ total
    pooled = (hits[:, first] + hits[:, later]) / (trials[first] + trials[later])
    variance = pooled * (1 - pooled) * (1 / trials[first] + 1 / trials[later])
    drop = hits[:, first] / trials[first] - hits[:, later] / trials[later]
    return np.where(variance > 0, drop / np.sqrt(np.maximum(variance, 1e-300)), 0.0).max(axis=1)


def _peak(counts: Counts) -> int:
    """The largest m up to which rates rise and from which they fall, by maximum likelihood."""
    backward = Counts(tuple(range(1, len(counts.m) + 1)), counts.solved[::-1], counts.total[::-1])
    best, peak = -math.inf, counts.m[-1]
    for n in range(1, len(counts.m) + 1):
        up = isotonic_rates(counts.up_to(counts.m[n - 1]))
        down = isotonic_rates(backward.up_to(len(counts.m) - n))[::-1]
        fit = _log_likelihood(counts, np.concatenate([up, down]))
        if fit >= best - 1e-9:  # the peak could end the rise or start the fall: it ends the rise
            best, peak = fit, counts.m[n - 1]
    return peak


def _log_likelihood(counts: Counts, rates: Float[ndarray, " i"]) -> float:
    solved, total = np.array(counts.solved), np.array(counts.total)
    return float((xlogy(solved, rates) + xlogy(total - solved, 1 - rates)).sum())


@dataclass(frozen=True)
class PlateauFall:
    """The plateau falls with T, from `first` at the smallest to `last` at the largest T."""

    first: float
    last: float
    p_value: float


def plateau_falling(
    curves: tuple[tuple[int, Counts], ...], level: float = LEVEL
) -> PlateauFall | None:
    """The fall of the plateau with T, if it is significant at `level`."""
    if len({T for T, _ in curves}) < 2:
        return None
    ordered = sorted(curves, key=lambda curve: curve[0])
    levels = np.linspace(1.0, 0.01, 100)  # from high to low, as T grows
    tables = [np.interp(levels, *_plateau_likelihood(counts)) for _, counts in ordered]
    common = float(np.sum(tables, axis=0).max())
    best, first = tables[0], np.arange(levels.size)
    for table in tables[1:]:  # best[i]: the best sequence that has come down to level i
        so_far = np.maximum.accumulate(best)
        where = np.maximum.accumulate(np.where(best >= so_far, np.arange(best.size), 0))
        best, first = table + so_far, first[where]
    last = int(np.argmax(best))
    p_value = float(chdtrc(len(ordered) - 1, max(0.0, 2 * (float(best[last]) - common))))
    if p_value >= level:
        return None
    return PlateauFall(float(levels[first[last]]), float(levels[last]), p_value)


def _plateau_likelihood(counts: Counts) -> tuple[Float[ndarray, " l"], Float[ndarray, " l"]]:
    """log P[outcomes | plateau], by increasing plateau, all else integrated out."""
    grid = CurveGrid.fitted(counts)
    nuisance = grid.nuisance
    joint = logsumexp(log_likelihood(grid, counts), axis=0) + nuisance.log_prior
    lapses = np.unique(nuisance.lapse)
    value = [
        logsumexp(joint[nuisance.lapse == x]) - logsumexp(nuisance.log_prior[nuisance.lapse == x])
        for x in lapses
    ]
    return 1 - lapses[::-1], np.array(value)[::-1]
