"""A grid of a card: half of its trials from the largest m down, the rest where it tells."""

from itertools import product

import numpy as np
import pytest

from capax.cards.measuring.grid_rounds import PLATEAU, GridRounds, aims_by_m
from capax.cards.measuring.looks import BestLook
from capax.sweep.searching.search import GridSearch, Progress

M, ACCURACIES = (4, 7, 11, 17, 29, 41, 64), (1.0, 0.9)
LARGEST, HALF = 64, 3  # of five


@pytest.mark.parametrize("number", [3, 5, 9])
def test_aims_by_their_definition(number):
    """All of the 6^4 ways in which worst and best accuracies can follow, with plateaus of 17
    trials at some of the numbers."""
    some = M[:4]
    for pairs in product([(a, b) for a in (0.8, 0.95, 1.0) for b in (0.8, 0.95, 1.0) if a <= b],
                         repeat=4):  # fmt: skip
        first = {
            m: [worst] + [best] * (number - 1) for m, (worst, best) in zip(some, pairs, strict=True)
        }
        wanted = {}
        for accuracy in (0.9, 1.0):
            if all(best < accuracy for _, best in pairs):
                wanted |= {17: accuracy} if number < 4 else {}
                continue
            for i, m in enumerate(some):
                began = any(best >= accuracy for _, best in pairs[: i + 1])
                level = [j for j in range(4) if all(worst >= accuracy for worst, _ in pairs[j:])]
                shown = bool(level) and number * (4 - min(level)) >= 17
                if began and not (shown and i > min(level)):
                    wanted[m] = accuracy
        assert aims_by_m(first, ACCURACIES) == wanted


def test_seventeen_passes_in_a_row_are_a_plateau_and_sixteen_are_not():
    """The fewest that a chance of 80 % gives with less than 2.5 %."""
    assert 0.8**PLATEAU < 0.025 <= 0.8 ** (PLATEAU - 1)
    first = {4: [0.8, 1.0], 7: [1.0] * 8, 11: [1.0] * 8}
    assert aims_by_m(first, (1.0,)) == {4: 1.0, 7: 1.0, 11: 1.0}
    assert aims_by_m(first | {11: [1.0] * 9}, (1.0,)) == {4: 1.0, 7: 1.0}


def accuracy_of(m, number, seed=0, shift=1.0):
    """100 % from about m = 29 on, 95 % from about 17 on, less below."""
    draw = np.random.default_rng([seed, m, number]).normal(np.log(m), 0.2) - np.log(shift)
    return 1.0 if draw > np.log(29) else 0.95 if draw > np.log(17) else 0.8


def run(scores, stop=None, trouble=(), seed=0, shift=1.0, trials=5, scouts=None, of=accuracy_of):
    """Drive the rounds as a question does, from stored trials, until `stop` more trials ended."""
    rounds = GridRounds(GridSearch(m=M, trials=trials), ACCURACIES, scores, scouts or {})
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
            reached = of(*cell, seed, shift)  # a last look may find more than the aim
            look = BestLook(reached, 1, trouble=cell in trouble, aim=batches[-1][cell])
            scores[cell] = look
            progress.record(cell, None if look.trouble else look.accuracy >= 1)
    assert progress.finished
    return batches


def sizes(batches):
    """The m of every round, with the aim of each."""
    return [{m: aim for (m, _), aim in batch.items()} for batch in batches]


def descent(best_of, worst_of, scouts):
    """The rounds of the first half by their definition."""
    left, aim, at_once, found = list(M[::-1]), 1.0, 1, []
    while left:
        part, left = left[:at_once], left[at_once:]
        found.append(dict.fromkeys(part, aim))
        seen = [best_of(part[-1]), *(a for m, a in scouts.items() if m < part[-1])]
        question = [a for a in ACCURACIES if max(seen) >= a]
        if not question:
            break
        aim, at_once = max(question), 3 if worst_of(part[-1]) == 1.0 else 1
    return found


@pytest.mark.parametrize("shift", [0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 20.0])
@pytest.mark.parametrize("scouts", [{}, {11: 0.95}, {29: 1.0}])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_half_descends_while_an_accuracy_is_in_question(seed, scouts, shift):
    def first(m):
        return [accuracy_of(m, i, seed, shift) for i in range(HALF)]

    looks = {(m, 10**6): BestLook(accuracy, 1) for m, accuracy in scouts.items()}
    scores = {}
    batches = run(scores, seed=seed, shift=shift, scouts=looks)
    wanted = descent(lambda m: max(first(m)), lambda m: min(first(m)), scouts)
    assert sizes(batches)[: len(wanted)] == wanted
    for batch in batches[: len(wanted)]:
        assert {i for _, i in batch} == set(range(HALF))
    seen = {m: first(m) for part in wanted for m in part}
    rest = {(m, i): aim for m, aim in aims_by_m(seen, ACCURACIES).items() for i in (3, 4)}
    assert batches[len(wanted) :] == ([rest] if rest else [])


def test_plateaus_take_several_m_at_once():
    """All trials pass at once: the largest m, then three at a time."""
    batches = sizes(run({}, shift=0.01))
    assert batches[:3] == [{64: 1.0}, dict.fromkeys((41, 29, 17), 1.0),
                           dict.fromkeys((11, 7, 4), 1.0)]  # fmt: skip
    assert batches[3] == {4: 1.0}  # 21 trials show the plateau: the rest is where it may begin


def test_small_m_are_left_out_where_larger_ones_fail():
    batches = sizes(run({}, shift=20.0))
    assert batches == [{64: 1.0}, {64: 1.0}]  # three trials alone do not settle it


def test_four_failures_at_the_largest_m_settle_it():
    """If m* lay below, all four would fail with probability 0.2^4."""
    scores = {}
    assert sizes(run(scores, shift=20.0, trials=8)) == [{64: 1.0}]
    assert sorted(scores) == [(64, i) for i in range(4)]


def test_a_scout_that_passed_below_keeps_its_accuracy_in_question():
    """Success may fall with m: without the scout nothing below 64 would be looked at."""

    def falls(m, *_):
        return 0.8 if m > 17 else 1.0

    assert sizes(run({}, of=falls)) == [{64: 1.0}, {64: 1.0}]
    scouts = {(17, 10**6): BestLook(1.0, 1), (11, 10**6): BestLook(1.0, 1, trouble=True)}
    below = sizes(run({}, of=falls, scouts=scouts))
    assert below[:4] == [{64: 1.0}, {41: 1.0}, {29: 1.0}, {17: 1.0}]
    assert below[4] == dict.fromkeys((11, 7, 4), 1.0)
    lower = {(17, 10**6): BestLook(0.95, 1)}
    assert sizes(run({}, of=falls, scouts=lower))[:4] == [
        {64: 1.0},
        {41: 0.9},
        {29: 0.9},
        {17: 0.9},
    ]


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
