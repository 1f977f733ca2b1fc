"""Success that falls where it should rise is found, and not where it does not."""

import itertools

import numpy as np
import pytest

from capax.analysis.falling import _bins, _largest_drop, falling, plateau_falling
from capax.analysis.threshold import threshold_of
from capax.sweep.families.simulated import SimulatedSpec
from capax.sweep.searching.counts import Counts

SIZES = (20, 28, 40, 56, 80, 112, 160, 224)


def drawn(learner, trials, rng, T=1, sizes=SIZES):
    solved = [int(rng.binomial(trials, learner.success(m, T))) for m in sizes]
    return Counts(sizes, tuple(solved), (trials,) * len(sizes))


def test_rising_curves_are_rarely_said_to_fall():
    """Level 0.01 in 150 sweeps of three kinds: 6 or more alarms have probability below 0.005."""
    rng, alarms = np.random.default_rng(5), 0
    kinds = ({}, {"lapse": 0.3}, {"shape": "weibull", "lapse": 0.1})
    for fields in kinds:
        learner = SimulatedSpec(threshold=45.0, **fields)
        alarms += sum(falling(drawn(learner, 20, rng)) is not None for _ in range(50))
    assert alarms < 6


def test_a_fall_is_found_and_m_star_lies_before_it():
    rng = np.random.default_rng(6)
    learner = SimulatedSpec(threshold=40.0, fall=0.8)
    truth = learner.true_threshold()
    found = [threshold_of("p", 9, drawn(learner, 40, rng)) for _ in range(20)]
    assert sum(t.peak is not None and 40 <= t.peak <= 112 for t in found) >= 19
    assert sum((t.low or 0) <= truth <= (t.high or 10**9) for t in found) >= 17
    assert all(t.rising.m[-1] == t.peak for t in found if t.peak is not None)
    few = [threshold_of("p", 9, drawn(learner, 8, rng)) for _ in range(20)]
    assert sum((t.low or 0) <= truth <= (t.high or 10**9) for t in few) >= 17


def test_the_largest_drop_by_trying_all_pairs_of_blocks():
    """Blocks of neighbours, the later one behind the end of the first; 0 where all is equal."""
    total = np.array([3.0, 5.0, 2.0, 7.0])
    rows = np.array([[3, 2, 1, 0], [0, 5, 0, 6], [0, 1, 2, 7], [3, 5, 2, 7]], float)
    for solved, found in zip(rows, _largest_drop(rows, total), strict=True):
        drops = []
        for i, j, k, end in itertools.product(range(5), repeat=4):
            if i < j <= k < end:
                hits = [solved[i:j].sum(), solved[k:end].sum()]
                trials = [total[i:j].sum(), total[k:end].sum()]
                pooled = sum(hits) / sum(trials)
                error = np.sqrt(pooled * (1 - pooled) * (1 / trials[0] + 1 / trials[1]))
                gap = hits[0] / trials[0] - hits[1] / trials[1]
                drops.append(gap / error if error > 0 else 0.0)
        assert found == pytest.approx(max(drops), rel=1e-12)


def test_too_little_to_fall():
    assert falling(Counts((), (), ())) is None
    assert falling(Counts((20,), (3,), (9,))) is None
    assert falling(Counts((20, 30), (1, 0), (1, 2)), level=1.0) is None  # z² is at most 3
    assert falling(Counts((20, 30), (2, 0), (2, 2)), level=0.1).peak == 20  # once in 16
    assert falling(Counts((20, 30), (20, 0), (20, 20))).peak == 20
    assert falling(Counts((20, 30), (1, 0), (1, 1))) is None
    assert falling(Counts((20, 30), (50, 0), (50, 1))) is None  # one run of neighbours holds both


def test_runs_of_neighbours_hold_every_m_once_and_about_as_many_trials():
    """Each run ends where another twelfth of all trials is passed by half a trial."""
    for totals in [(1, 1), (50, 1), (1, 50), (7,) * 30, tuple(range(1, 40))]:
        counts = Counts(tuple(range(4, 4 + len(totals))), (0,) * len(totals), totals)
        done, found = 0, []
        for trials in totals:
            done += trials
            found.append(min((2 * done - 1) * 12 // (2 * sum(totals)), 11))
        bins = _bins(counts)
        assert [i for i, _ in bins] == [found.index(twelfth) for twelfth in sorted(set(found))]
        assert [k for i, j in bins for k in range(i, j)] == list(range(len(totals)))


def test_a_plateau_that_falls_with_T():
    rng = np.random.default_rng(7)
    falls = tuple(
        (T, drawn(SimulatedSpec(threshold=40.0, lapse=lapse), 30, rng))
        for T, lapse in ((10, 0.0), (100, 0.15), (1000, 0.3))
    )
    found = plateau_falling(falls)
    assert found is not None and found.first > 0.9 and 0.6 < found.last < 0.8
    steady = SimulatedSpec(threshold=40.0, lapse=0.1)
    alarms = sum(
        plateau_falling(tuple((T, drawn(steady, 20, rng)) for T in (10, 100, 1000))) is not None
        for _ in range(20)
    )
    assert alarms <= 1
    assert plateau_falling(falls[:1]) is None
