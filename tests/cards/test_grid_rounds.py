"""A grid of a card: half of its trials from the largest m down, the rest where it tells."""

from itertools import product

import numpy as np
import pytest

from capax.cards.measuring.grid_rounds import GridRounds, aims_by_m
from capax.cards.measuring.looks import BestLook
from capax.sweep.searching.search import GridSearch, Progress

M, ACCURACIES = (4, 7, 11, 17, 29, 41, 64), (1.0, 0.9)
UPPER = M[3:]


def test_aims_by_their_definition():
    """All of the 3^7 ways in which best accuracies below 90 %, above, and of 100 % can follow."""
    for shares in product((0.8, 0.95, 1.0), repeat=7):
        best = dict(zip(M, shares, strict=True))
        wanted = {}
        for m in M:
            reached = max(best[k] for k in M if k <= m)
            if m == max(M) or reached >= 1.0:
                wanted[m] = 1.0
            elif reached >= 0.9:
                wanted[m] = 0.9
        if max(shares) < 1.0:
            wanted[max(M)] = 1.0
        assert aims_by_m(best, ACCURACIES) == wanted


def accuracy_of(m, number, seed=0, shift=1.0):
    """100 % from about m = 29 on, 95 % from about 17 on, less below."""
    draw = np.random.default_rng([seed, m, number]).normal(np.log(m), 0.2) - np.log(shift)
    return 1.0 if draw > np.log(29) else 0.95 if draw > np.log(17) else 0.8


def run(scores, stop=None, trouble=(), seed=0, shift=1.0):
    """Drive the rounds as a question does, from stored trials, until `stop` more trials ended."""
    rounds = GridRounds(GridSearch(m=M, trials=5), ACCURACIES, scores)
    given = {c: look.accuracy >= 1 for c, look in scores.items() if not look.trouble}
    spent = {c for c, look in scores.items() if look.trouble}
    progress = Progress(rounds, restarts=1, known={}, given=given, spent=spent)
    batches = []
    while batch := list(iter(progress.take, None)):
        batches.append({cell: rounds.aims[cell[0]] for cell in batch})
        for cell in batch[::-1]:  # results come in any order
            if stop == 0:
                return batches
            stop = None if stop is None else stop - 1
            reached = accuracy_of(*cell, seed, shift)  # a last look may find more than the aim
            look = BestLook(reached, 1, trouble=cell in trouble, aim=batches[-1][cell])
            scores[cell] = look
            progress.record(cell, None if look.trouble else look.accuracy >= 1)
    assert progress.finished
    return batches


@pytest.mark.parametrize("seed", range(5))
def test_the_rest_of_the_trials_is_where_thresholds_lie(seed):
    upper, lower, rest = run({}, seed=seed, shift=0.5)
    assert upper == {(m, i): 1.0 for m in UPPER for i in range(3)}  # three of five
    assert lower == {(m, i): 1.0 for m in M[:3] for i in range(3)}
    best = {m: max(accuracy_of(m, i, seed, 0.5) for i in range(3)) for m in M}
    assert rest == {(m, i): aim for m, aim in aims_by_m(best, ACCURACIES).items() for i in (3, 4)}
    assert 17 in {m for m, _ in rest} and 4 not in {m for m, _ in rest}
    assert set(rest.values()) == {0.9, 1.0}


def test_the_lower_half_follows_a_pass_at_the_lowest_accuracy():
    assert max(accuracy_of(17, i, shift=0.8) for i in range(3)) == 0.95
    _, lower, _ = run({}, shift=0.8)
    assert sorted({m for m, _ in lower}) == [4, 7, 11]


def test_small_m_are_left_out_where_larger_ones_fail():
    upper, rest = run({}, shift=2.0)
    assert sorted({m for m, _ in upper}) == list(UPPER)
    assert {m for m, _ in rest} <= {29, 41, 64}


def test_at_an_accuracy_out_of_reach_the_largest_m_gets_all_its_trials():
    _, rest = run({}, shift=20.0)
    assert rest == {(64, 3): 1.0, (64, 4): 1.0}


@pytest.mark.parametrize("shift", [0.5, 0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("trouble", [(), ((17, 1), (29, 4), (4, 0))])
def test_an_interruption_changes_no_trial(trouble, shift):
    """Later rounds are chosen by the trials of the earlier ones alone."""
    whole = {}
    run(whole, trouble=trouble, shift=shift)
    assert sum(not look.trouble for look in whole.values()) < 5 * len(M)
    for stop in range(len(whole)):
        scores = {}
        run(scores, stop, trouble, shift=shift)
        assert len(scores) == stop
        run(scores, trouble=trouble, shift=shift)
        assert scores == whole


def test_a_whole_grid_of_before_asks_for_nothing():
    """Stores of before have all trials at every m."""
    assert run({(m, i): BestLook(accuracy_of(m, i), 1) for m in M for i in range(5)}) == []


def test_a_grid_without_m_asks_for_nothing():
    grid = GridSearch(m=(4,), trials=5).model_copy(update={"m": ()})
    progress = Progress(GridRounds(grid, ACCURACIES, {}), restarts=1, known={})
    assert progress.take() is None and progress.finished
