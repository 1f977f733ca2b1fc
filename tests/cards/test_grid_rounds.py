"""A grid of a card: half of its trials everywhere, the rest where a threshold may lie."""

from itertools import product

import numpy as np
import pytest

from capax.cards.measuring.grid_rounds import GridRounds, open_m
from capax.cards.measuring.looks import BestLook
from capax.sweep.searching.search import GridSearch, Progress

M, ACCURACIES = (4, 7, 11, 17, 29, 41, 64), (1.0, 0.9)


def test_open_m_by_their_definition():
    """All of the 3^6 ways in which shares of 0, a half and 1 can follow each other."""
    for shares in product((0.0, 0.5, 1.0), repeat=6):
        passed = dict(zip(M, shares, strict=False))
        lost = {m for m in passed if all(passed[k] == 0 for k in passed if k <= m)}
        won = sorted(m for m in passed if all(passed[k] == 1 for k in passed if k >= m))
        if len(lost) == 6:
            lost.remove(max(lost))
        assert open_m(passed) == [m for m in passed if m not in lost and m not in won[3:]]


def accuracy_of(m, number, seed=0):
    """100 % from about m = 29 on, 95 % from about 17 on, less below."""
    draw = np.random.default_rng([seed, m, number]).normal(np.log(m), 0.2)
    return 1.0 if draw > np.log(29) else 0.95 if draw > np.log(17) else 0.8


def run(scores, stop=None, trouble=(), seed=0):
    """Drive the rounds as a question does, from stored trials, until `stop` more trials ended."""
    rounds = GridRounds(GridSearch(m=M, trials=5), ACCURACIES, scores)
    given = {c: look.accuracy >= 1 for c, look in scores.items() if not look.trouble}
    spent = {c for c, look in scores.items() if look.trouble}
    progress = Progress(rounds, restarts=1, known={}, given=given, spent=spent)
    batches = []
    while batch := list(iter(progress.take, None)):
        batches.append(batch)
        for cell in batch[::-1]:  # results come in any order
            if stop == 0:
                return batches
            stop = None if stop is None else stop - 1
            look = BestLook(accuracy_of(*cell, seed), 1, trouble=cell in trouble)
            scores[cell] = look
            progress.record(cell, None if look.trouble else look.accuracy >= 1)
    assert progress.finished
    return batches


@pytest.mark.parametrize("seed", range(5))
def test_the_rest_of_the_trials_is_where_thresholds_lie(seed):
    scores = {}
    first, rest = run(scores, seed=seed)
    assert sorted(first) == [(m, i) for m in M for i in range(3)]  # three of five everywhere
    shares = [{m: np.mean([accuracy_of(m, i, seed) >= a for i in range(3)]) for m in M}
              for a in ACCURACIES]  # fmt: skip
    wanted = {m for passed in shares for m in open_m(passed)}
    assert sorted(rest) == [(m, i) for m in M if m in wanted for i in (3, 4)]
    assert 29 in wanted and 4 not in wanted


@pytest.mark.parametrize("trouble", [(), ((17, 1), (29, 4), (4, 0))])
def test_an_interruption_changes_no_trial(trouble):
    """The second round is chosen by the trials of the first alone."""
    whole = {}
    run(whole, trouble=trouble)
    assert sum(not look.trouble for look in whole.values()) < 5 * len(M)
    for stop in range(len(whole)):
        scores = {}
        run(scores, stop, trouble)
        assert len(scores) == stop
        run(scores, trouble=trouble)
        assert scores == whole


def test_a_whole_grid_of_before_asks_for_nothing():
    """Stores of before have all trials at every m."""
    assert run({(m, i): BestLook(accuracy_of(m, i), 1) for m in M for i in range(5)}) == []
