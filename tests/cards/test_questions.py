"""What a card asks for: rates first, then trials; and how they are packed."""

from itertools import groupby, pairwise

import pytest
from numpy.random import default_rng

from capax.boolean.traits.bias import balancing_probability
from capax.cards.measuring.card_jobs import card_jobs
from capax.cards.measuring.card_question import CardQuestion
from capax.cards.measuring.looks import BestLook, chosen_rate, look_at, open_range
from capax.cards.protocol import card_search
from capax.cards.protocol.card_search import PROBES, CardSearch
from capax.cards.protocol.plan import REFERENCE, TUNING_SEEDS, Plan
from capax.cards.protocol.targets import target_of
from capax.learners.names import entry_of, known_names
from capax.sweep.families.simulated import SimulatedSpec
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import Progress
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial


def test_probes_decide_whether_a_search_begins():
    search = CardSearch(m_low=4, m_high=64, max_trials=40)
    assert search.next_round(Counts((), (), ())) == (64, 32, 16, 8, *(64,) * (PROBES - 1))
    few = search.model_copy(update={"max_trials": PROBES + 2})
    assert few.next_round(Counts((), (), ())) == (64, 32, 16, *(64,) * (PROBES - 1))
    assert search.next_round(Counts((64,), (0,), (1,))) == (64,) * (PROBES - 1)
    assert search.next_round(Counts((64,), (0,), (PROBES,))) == (32, 16, 8)
    failed = Counts((8, 16, 32, 64), (0, 0, 0, 0), (1, 1, 1, PROBES))
    assert search.next_round(failed) == ()
    assert search.rising(failed) == failed
    assert len(search.next_round(Counts((64,), (PROBES,), (PROBES,)))) > 0


def test_hints_say_where_to_look_and_are_no_evidence():
    """Tuning trials: nothing at 16 or below, all at 32. Or nothing at all, up to 20."""
    search = CardSearch(m_low=4, m_high=640, batch=8, max_trials=40)
    nothing = Counts((), (), ())
    passed = Counts((8, 16, 32, 64), (0, 0, 3, 3), (3, 3, 3, 3))
    batch = search.next_round(nothing, hints=passed)
    assert 640 not in batch and sum(8 < m < 64 for m in batch) >= 5
    failed = Counts((8, 20), (0, 0), (2, 2))
    assert search.next_round(nothing, hints=failed) == (640, 320, 160, 80, 40, 640, 640, 640)
    given_up = Counts((40, 80, 160, 320, 640), (0,) * 5, (1, 1, 1, 1, PROBES))
    assert search.next_round(given_up, hints=failed) == ()
    known = Counts((20, 60), (0, 8), (8, 8))  # trials that count: hints are not asked any more
    assert search.next_round(known, hints=failed) == search.next_round(known)
    assert search.rising(known) == known


def test_success_below_the_largest_m_moves_the_search_there():
    """The learner does better at 16 than at 64: 64 is no evidence for m*."""
    search = CardSearch(m_low=4, m_high=64, max_trials=40)
    fell = Counts((8, 16, 32, 64), (0, 1, 0, 0), (1, 1, 1, PROBES))
    batch = search.next_round(fell)
    assert batch and max(batch) <= 16
    probed = Counts((8, 16, 32, 64), (0, PROBES, 0, 0), (1, PROBES, 1, PROBES))
    batch = search.next_round(probed)
    assert batch and max(batch) <= 16
    assert search.rising(probed) == probed.up_to(16)
    lucky = Counts((8, 16, 32, 64), (0, 1, 0, 0), (1, PROBES + 8, 1, PROBES))
    assert search.next_round(lucky) == ()  # one of fourteen is no success
    less = Counts((8, 16, 32, 64), (0, 1, 0, 3), (1, 1, 1, 24))
    batch = search.next_round(less)
    assert batch and max(batch) <= 16  # also where some pass at the largest m


def test_a_search_ends_where_the_largest_m_does_not_reach_the_target():
    search = CardSearch(m_low=4, m_high=64, max_trials=40)
    assert search.next_round(Counts((8, 16, 32, 64), (0, 0, 0, 2), (1, 1, 1, 14))) == ()
    assert len(search.next_round(Counts((64,), (8,), (14,)))) > 0  # it may be 80 %


def searches(threshold, num=30):
    """Whether each of `num` searches says m* > 64, and how many trials each took."""
    learner = SimulatedSpec(threshold=threshold, spread=0.3)
    unreached, trials = [], []
    for seed in range(num):
        search, random = CardSearch(m_low=4, m_high=64, batch=8, max_trials=40), default_rng(seed)
        progress = Progress(search, restarts=1, known={})
        while (cell := progress.take()) is not None:
            progress.record(cell, random.random() < learner.success(cell[0]))
        unreached.append(search.estimate(progress.counts).unreached)
        trials.append(progress.num_done)
    return sum(unreached), sum(trials)


def test_to_give_up_early_costs_no_coverage(monkeypatch):
    """At the edge, m* = m_high, where every "beyond" is wrong; and beyond, where all are right."""
    wrong, _ = searches(64)
    beyond, early = searches(128, num=10)
    assert beyond == 10
    monkeypatch.setattr(card_search, "_SURE", 1.0)  # an interval of level 1 rules nothing out
    wrong_anyway, _ = searches(64)
    _, late = searches(128, num=10)
    assert wrong <= wrong_anyway + 1
    assert early <= 0.75 * late


def outcome(trial, *accuracies):
    runs = [
        Run(f"{trial.trial_id}{i}", i, "failed", None, 1, 0.1, {}, {"validation_accuracy": [a]})
        for i, a in enumerate(accuracies)
    ]
    return Outcome(trial, 1.0 in accuracies, tuple(runs))


def test_one_trial_answers_for_every_accuracy():
    """A fake learner: 96 % right from m = 10, 100 % from m = 40. Rates: 3e-3 is the best."""
    plan = Plan(T=(11,), m_high=128, max_trials=32, more_trials=16)
    question = CardQuestion(plan, entry_of("mlp"), "and3", 11, {}, {})
    tuned, scored = [], []
    while (trial := question.take()) is not None:
        tuning = trial.index >= TUNING_SEEDS
        (tuned if tuning else scored).append(trial)
        rate = trial.spec.optimiser.lr
        right = 1.0 if trial.m >= 40 else 0.96 if trial.m >= 10 else 0.7
        question.record(outcome(trial, right - (0.1 if tuning and rate != 3e-3 else 0.0)))
    assert len(tuned) == 4 * 3 + 2 * 3  # all rates on the first seed, the better half on the next
    assert {t.spec.task.seed for t in tuned}.isdisjoint({t.spec.task.seed for t in scored})
    assert {t.spec.optimiser.lr for t in scored} == {3e-3}
    for seed in (TUNING_SEEDS, TUNING_SEEDS + 1):
        seen = [(t.panel, t.m) for t in tuned if t.index == seed]
        per_rate = [{m for panel, m in seen if panel == one} for one in {p for p, _ in seen}]
        assert len(set(map(frozenset, per_rate))) == 1  # all of them saw the same data
    assert min(question.scores) < (40, 0)
    assert len(scored) == len(question.scores) <= 32 + 2 * 16
    assert {1.0, 0.96} <= {look.accuracy for look in question.scores.values()}


@pytest.mark.parametrize(("design", "probes"), [("grid", 0), ("adaptive", PROBES)])
def test_a_learner_that_no_rate_helps_is_not_searched_for(design, probes):
    """A grid's scouts were at the largest m; an adaptive search has its probes there."""
    plan = Plan(T=(11,), m_high=64, design=design)
    question = CardQuestion(plan, entry_of("mlp"), "and3", 11, {}, {})
    while (trial := question.take()) is not None:
        question.record(outcome(trial, 0.6))
    assert question.finished
    assert sorted(m for m, _ in question.scores) == [64] * probes  # scouts looked at smaller m


def looks(*pairs):
    return {(8, i): BestLook(accuracy, steps) for i, (accuracy, steps) in enumerate(pairs)}


def test_rates_are_chosen_by_accuracy_then_by_steps_then_from_the_middle():
    good, better = looks((0.9, 500)), looks((0.9, 300))
    assert chosen_rate({1e-3: looks((0.8, 100)), 1e-2: good}) == 1e-2
    assert chosen_rate({1e-4: good, 1e-3: good, 1e-2: better}) == 1e-2
    assert chosen_rate({1e-4: good, 1e-3: good, 1e-2: good}) == 1e-3
    assert chosen_rate({1e-4: looks((0.9004, 900)), 1e-3: good, 1e-2: better}) == 1e-4
    assert chosen_rate({None: good}) is None
    lone = {**looks((0.9, 300)), (9, 0): BestLook(0.0, 0, trouble=True)}
    assert chosen_rate({1e-3: lone, 1e-2: looks((0.9, 200), (0.9, 200))}) == 1e-2  # 200 per trial
    trial = Trial("p", 11, 8, 0, "id", None)
    assert look_at(outcome(trial, 0.5, 0.8)) == BestLook(0.8, 2)
    assert look_at(Outcome(trial, False, (), "no training set")).accuracy == 0.0


def scouts(**by_m):
    return {(int(m[1:]), i): BestLook(a, 1) for m, seen in by_m.items() for i, a in enumerate(seen)}


def test_scouts_bound_the_grid():
    asked = {"accuracies": (1.0, 0.95), "low": 10, "high": 1024}
    assert open_range(scouts(m40=(0.7, 0.8), m80=(0.7, 1.0), m1024=(1.0, 1.0)), **asked) == (
        20,
        1024,
    )
    assert open_range(scouts(m40=(1.0, 1.0), m80=(1.0, 1.0)), **asked) == (10, 160)
    # A fall at large m is no reason to stop early, a lucky scout at small m none to start late.
    assert open_range(scouts(m40=(1.0, 1.0), m1024=(1.0, 0.9)), **asked) == (10, 1024)
    assert open_range(scouts(m40=(0.6, 0.96), m80=(0.6, 0.6)), **asked) == (10, 1024)


def test_a_grid_is_asked_for_once_after_the_scouts():
    """A fake learner that is right from m = 300 on: the largest m is a scout, both seeds; two
    trials at the largest m of the grid and at the next three, and a third where two passed."""
    plan = Plan(T=(11,), m_high=512, design="grid", grid_trials=3)
    question = CardQuestion(plan, entry_of("tree"), "and3", 11, {}, {})
    rounds = []
    while batch := list(iter(question.take, None)):
        rounds.append(batch)
        for trial in batch:
            question.record(outcome(trial, 1.0 if trial.m >= 300 else 0.6))
    assert question.finished
    *tuned, top, below, rest = rounds
    grid = top + below
    assert {t.m for t in top} == {512} and len({t.m for t in below}) == 3
    assert [{t.index - TUNING_SEEDS for t in batch} for batch in tuned] == [{0}, {0}, {1}]
    assert [max(t.m for t in batch) == 512 for batch in tuned] == [False, True, True]
    values = sorted({t.m for t in grid})
    assert values[0] < 300 < values[-1]
    assert all(b / a < 1.6 for a, b in pairwise(values))
    assert sorted((t.m, t.index) for t in grid) == [(m, i) for m in values for i in range(2)]
    assert sorted((t.m, t.index) for t in rest) == [(m, 2) for m in values if m >= 300]


def test_on_a_grid_the_largest_m_is_tried_where_no_rate_passes_below_it():
    """Four rates on the first seed, two on the next; one passes at the largest scout but one. On
    the second seed the two are tried at the largest m as well: there a high rate may fail."""
    plan, entry = Plan(T=(11,), m_high=512, design="grid"), entry_of("mlp")
    below = plan.scouts(entry, CardQuestion(plan, entry, "and3", 11)._fewest)[:-1]
    for best, asked in ((1.0, [4, 2]), (0.99, [4, 4, 2])):
        question, rounds = CardQuestion(plan, entry, "and3", 11), []
        while (batch := list(iter(question.take, None)))[0].index >= TUNING_SEEDS:
            rounds.append(batch)
            for trial in batch:
                right = trial.m == below[-1] and trial.spec.optimiser.lr == 1e-3
                question.record(outcome(trial, best if right else 0.6))
        assert [len({t.spec.optimiser.lr for t in batch}) for batch in rounds] == asked
        assert any(t.m == 512 for batch in rounds[:-1] for t in batch) == (best < 1)
        assert {t.m for t in rounds[-1]} == {*below, 512}


def test_a_rate_that_fails_at_the_largest_m_is_not_chosen():
    """It is right at all other scouts, and of equals it is the one nearest to the middle."""
    plan, entry = Plan(T=(11,), m_high=512, design="grid"), entry_of("mlp")
    question = CardQuestion(plan, entry, "and3", 11)
    while (batch := list(iter(question.take, None)))[0].index >= TUNING_SEEDS:
        for trial in batch:
            rate = trial.spec.optimiser.lr
            right = rate == 3e-4 or (rate == 3e-3 and trial.m < 512)
            question.record(outcome(trial, 1.0 if right else 0.6))
    assert batch[0].spec.optimiser.lr == 3e-4


def test_a_grid_is_looked_at_where_a_scout_reached_the_lowest_accuracy():
    """96 % right from m = 100 on: nothing for 100 %, enough for 95 %."""
    plan = Plan(T=(11,), m_high=512, design="grid", grid_trials=3)
    question = CardQuestion(plan, entry_of("tree"), "and3", 11, {}, {})
    values = plan.grid(4, 512).m
    assert values[0] == 4 and values[-1] == 512
    assert question.most_trials == 4 * plan.tuning_trials + 3 * len(values)
    while (trial := question.take()) is not None:
        question.record(outcome(trial, 0.96 if trial.m >= 100 else 0.6))
    assert question.finished and len(question.scores) > 9


def test_the_reference_says_what_it_leaves_out():
    asked = {
        (name, target, T): REFERENCE.asks(entry_of(name), target, T)
        for name in ("mlp", "ssm", "transformer2")
        for target in ("and3", "xor2")
        for T in REFERENCE.T
    }
    left_out = sorted(key for key, value in asked.items() if not value)
    assert left_out == [
        ("ssm", "xor2", 200),
        ("ssm", "xor2", 400),
        ("transformer2", "and3", 400),
        ("transformer2", "xor2", 100),
        ("transformer2", "xor2", 200),
        ("transformer2", "xor2", 400),
    ]


def test_the_reference_set_measures_each_target_once(monkeypatch, tmp_path):
    """Eighteen learners, seven targets, five lengths: hundreds of questions, seven targets."""
    found = []
    monkeypatch.setattr(
        "capax.cards.protocol.targets.balancing_probability",
        lambda f: found.append(f) or balancing_probability(f),
    )
    target_of.cache_clear()
    entries = tuple(entry_of(name) for name in known_names())
    with Store.create_or_resume(tmp_path / "a.sqlite", REFERENCE.experiment(entries)) as store:
        jobs = card_jobs(REFERENCE, entries, store)
    assert sum(len(job.questions) for job in jobs) > 400
    assert len(found) == len(REFERENCE.targets)


@pytest.mark.parametrize(
    ("plan", "order"),
    [
        (REFERENCE.model_copy(update={"design": "adaptive"}), [20, 50, 100, 20, 50, 100, 200, 400]),
        (REFERENCE, [400, 200, 100, 50, 20]),
    ],
)
def test_what_is_slow_comes_last_but_first_where_the_whole_set_is_wanted(plan, order, tmp_path):
    entries = (entry_of("lstm"),)
    with Store.create_or_resume(tmp_path / "a.sqlite", plan.experiment(entries)) as store:
        jobs = card_jobs(plan, entries, store)
    assert [T for T, _ in groupby(job.T for job in jobs)] == order
    most = max(len({target_of(q.target).p for q in job.questions}) for job in jobs)
    assert most == (3 if plan.design == "grid" else 1)


def test_on_a_grid_a_job_has_as_many_values_of_p_as_a_call_has_room_for(tmp_path):
    targets = ("and3", "and2", "xor2", "or2", "or3", "parity3", "and4")
    plan = Plan(T=(11,), targets=targets, design="grid")
    entries = (entry_of("mlp"),)
    with Store.create_or_resume(tmp_path / "a.sqlite", plan.experiment(entries)) as store:
        jobs = card_jobs(plan, entries, store)
    found = [[q.target for q in job.questions] for job in jobs]
    assert found == [["and3", "and2", "xor2", "or2", "parity3"], ["or3", "and4"]]


def test_learners_outside_the_engine_come_first(tmp_path):
    """Their one job starts at once, before every job of the engine: also short ones on a grid."""
    entries = (entry_of("mlp"), entry_of("lstm"), entry_of("tree"))
    plan = Plan(T=(11, 200), targets=("and3", "xor2"))
    with Store.create_or_resume(tmp_path / "a.sqlite", plan.experiment(entries)) as store:
        jobs = card_jobs(plan, entries, store)
    assert [job.panel.family for job in jobs].index("tree") == 0
    assert [job.travels for job in jobs] == [False] + [True] * (len(jobs) - 1)
    asked = [(q.target, q.T) for q in jobs[0].questions]
    assert asked == [("and3", 11), ("and3", 200), ("xor2", 11), ("xor2", 200)]


def test_memorised_runs_end_early_where_there_are_steps_unless_told_otherwise():
    assert Plan().panel(entry_of("mlp"), "and3").stop_memorised
    assert not Plan().panel(entry_of("tree"), "and3").stop_memorised
    assert not Plan(stop_memorised=False).panel(entry_of("mlp"), "and3").stop_memorised
