"""Searches: rounds that depend on outcomes only, and the calibration of what they find."""

import random
from collections import Counter

import numpy as np
import pytest

from capax.errors import InputError
from capax.sweep.families.simulated import SimulatedSpec
from capax.sweep.searching.curve import Counts, CurveGrid, estimate
from capax.sweep.searching.next_trials import expected_restarts, next_batch
from capax.sweep.searching.search import AdaptiveSearch, GridSearch, Progress, numbered


def simulate(search, learner, rng, restarts=5):
    """All rounds of a search against a learner whose success curve is known."""
    solved, total = Counter(), Counter()
    counts = Counts((), (), ())
    while batch := search.next_round(counts, restarts):
        for m, trials in Counter(batch).items():
            total[m] += trials
            solved[m] += int(rng.binomial(trials, learner.success(m)))
        tried = tuple(sorted(total))
        counts = Counts(tried, tuple(solved[m] for m in tried), tuple(total[m] for m in tried))
    return counts


# logistic curves are what the estimator assumes; the others are not
LEARNERS = {
    "logistic": SimulatedSpec(threshold=69.6, spread=0.2),
    "with lapses": SimulatedSpec(threshold=50.3, spread=0.12, lapse=0.1),
    "weibull with lapses": SimulatedSpec(shape="weibull", threshold=83.0, spread=0.4, lapse=0.05),
    "normal in m": SimulatedSpec(shape="normal", threshold=66.8, spread=0.3),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_intervals_cover_the_truth(name):
    """At least 85 % of 30. True coverage is about 97 %: a failure would need 5 misses where one is
    expected, which has probability 2e-3 (binomial); the seeds are fixed besides."""
    learner = LEARNERS[name]
    search = AdaptiveSearch(m_low=8, m_high=400, batch=72, max_trials=144, step=0.1)
    truth = learner.true_threshold()
    covered = 0
    for seed in range(30):
        found = search.estimate(simulate(search, learner, np.random.default_rng(seed)))
        covered += (found.low or 0) <= truth <= (found.high or 10**9)
    assert covered >= 26


@pytest.mark.parametrize("name", ["logistic", "with lapses"])
def test_three_times_fewer_trials_than_the_grid(name):
    """Both are told that m* is somewhere in 10..400. The grid tries every tenth m, 40 times."""
    learner = LEARNERS[name]
    grid = GridSearch(m=tuple(range(10, 401, 10)), trials=40)
    curve = CurveGrid(10, 400)
    widths = [
        estimate(curve, simulate(grid, learner, np.random.default_rng(s))).log_width
        for s in range(8)
    ]
    search = AdaptiveSearch(
        m_low=10, m_high=400, batch=48, max_trials=1600, precision=float(np.exp(np.median(widths)))
    )
    spent = [simulate(search, learner, np.random.default_rng(s)).trials for s in range(8)]
    assert np.median(spent) * 3 <= grid.most_trials


def test_most_trials_are_spent_near_the_threshold():
    search = AdaptiveSearch(m_low=8, m_high=400, batch=32, min_trials=160, max_trials=160)
    counts = simulate(search, LEARNERS["logistic"], np.random.default_rng(5))
    near = sum(n for m, n in zip(counts.m, counts.total, strict=True) if 45 <= m <= 105)
    assert near >= 0.6 * counts.trials


def test_costly_failures_move_the_batch_upwards():
    candidates = tuple(range(10, 200, 5))
    grid = CurveGrid(10, 200)
    counts = Counts((30, 60, 120), (0, 5, 8), (8, 8, 8))
    cheap = next_batch(grid, counts, candidates, 16, restarts=1)
    dear = next_batch(grid, counts, candidates, 16, restarts=50)
    assert np.mean(dear) > np.mean(cheap)


def test_expected_restarts_against_the_sum():
    q = np.array([0.01, 0.3, 0.8, 0.999])
    r = 1 - (1 - q) ** (1 / 5)
    direct = sum(k * r * (1 - r) ** (k - 1) for k in range(1, 5)) + 5 * (1 - r) ** 4
    assert np.allclose(expected_restarts(q, 5), direct)


def test_a_narrow_interval_or_spent_trials_end_the_search():
    search = AdaptiveSearch(m_low=50, m_high=90, step=0.05, min_trials=32, max_trials=9999)
    counts = Counts(search.candidates[:2], (1, 2), (50, 50))
    assert len(search.next_round(counts)) == search.batch
    sure = Counts(search.candidates[3:5], (7000, 8600), (10000, 10000))
    assert search.next_round(sure) == ()
    short = AdaptiveSearch(m_low=50, m_high=90, batch=30, min_trials=32, max_trials=110)
    assert len(short.next_round(counts)) == 10


def play(search, known=None, order=None, stop_after=None, rng_seed=0):
    """Drive a Progress to its end (or for some results), results arriving in a shuffled order."""
    progress = Progress(search, restarts=5, known=known or {})
    shuffle = random.Random(order)
    outcomes, running = dict(known or {}), []
    while not progress.finished:
        while (cell := progress.take()) is not None:
            running.append(cell)
        if stop_after is not None and len(outcomes) >= stop_after:
            return outcomes, progress
        cell = running.pop(shuffle.randrange(len(running)))
        draw = np.random.default_rng((rng_seed, *cell)).random()
        outcomes[cell] = bool(draw < LEARNERS["logistic"].success(cell[0]))
        progress.record(cell, outcomes[cell])
    return outcomes, progress


SEARCHES = [
    AdaptiveSearch(m_low=8, m_high=400, batch=8, min_trials=16, max_trials=40),
    GridSearch(m=(20, 50, 90), trials=5),
]


@pytest.mark.parametrize("search", SEARCHES)
def test_neither_order_nor_interruption_changes_the_trials(search):
    whole, progress = play(search, order=1)
    assert play(search, order=2)[0] == whole
    for stop in (0, 3, 11):
        partial, _ = play(search, order=3, stop_after=stop)
        resumed, again = play(search, known=partial, order=4)
        assert resumed == whole
        assert again.counts == progress.counts


def test_a_finished_search_hands_out_nothing():
    whole, _ = play(SEARCHES[0])
    progress = Progress(SEARCHES[0], restarts=5, known=whole)
    assert progress.finished and progress.take() is None and progress.num_running == 0


def test_only_running_trials_are_recorded():
    progress = Progress(SEARCHES[1], restarts=1, known={})
    with pytest.raises(InputError, match="this trial is not running"):
        progress.record((20, 0), True)


def test_numbers_continue_after_the_trials_already_done():
    assert numbered([7, 5, 7], [(7, 0), (5, 0), (7, 1)]) == [(7, 2), (5, 1), (7, 3)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaptiveSearch(m_low=50, m_high=20), "m_high: wanted more than m_low = 50"),
        (lambda: AdaptiveSearch(m_low=0), "m_low"),
        (lambda: AdaptiveSearch(batsh=3), "did you mean 'batch'"),
        (lambda: AdaptiveSearch(target=1.0), "target"),
        (lambda: GridSearch(m=(0,)), "m.0: "),
        (lambda: GridSearch(m=()), "m: "),
        (lambda: GridSearch(), "m: missing"),
    ],
)
def test_impossible_searches(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
