"""What is evidence for m* and what is not: trouble, success that falls with m, other protocols."""

import numpy as np
import pytest

import capax
from capax.analysis.floor import Protocol
from capax.cards.answers.read_card import threshold_at
from capax.cards.answers.reference_card import reference_card
from capax.cards.measuring import run_card
from capax.cards.measuring.card_question import (
    NO_ANSWER,
    CardQuestion,
    card_protocol,
    lowest,
)
from capax.cards.measuring.looks import (
    BestLook,
    broken_m,
    coarse_answer,
    evidence,
    look_at,
    open_range,
    racing,
    scouts_between,
    stored_looks,
    usable_range,
)
from capax.cards.measuring.rounds import Rounds, counts_at
from capax.cards.protocol.plan import REFERENCE, TUNING_SEEDS, Plan
from capax.learners.names import entry_of
from capax.learners.zoo.version_space import version_space
from capax.sweep.searching.counts import NOTHING, Counts
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run

SMALL = {"T": (20,), "accuracies": (1.0,), "validation_size": 512, "references": False}


def out_of_memory(function):
    """The best learner, which cannot hold more than 300 examples."""
    found = version_space(function)

    def fit(X, y, *, key):
        if len(X) > 300:
            raise MemoryError("300 examples are all that fit")
        return found(X, y, key=key)

    return fit


def forgetful(function):
    """The best learner, which answers nonsense where it saw more than 300 examples."""
    found = version_space(function)

    def fit(X, y, *, key):
        if len(X) > 300:
            return lambda inputs: np.zeros(len(inputs), int)
        return found(X, y, key=key)

    return fit


def hopeless(X, y):
    del X, y
    raise RuntimeError("no")


@pytest.mark.parametrize("learner", [out_of_memory, forgetful])
def test_failures_at_large_m_do_not_put_m_star_beyond(learner, tmp_path):
    """m* is about 20; both learners fail in every trial at the largest m, 640."""
    made = capax.card(learner, store=tmp_path / "c.sqlite", m_high=640, **SMALL)
    (row,) = made.rows
    assert row.m_star is not None, made.notes
    assert row.m_star < 2 * row.floor
    assert row.high is not None and row.high <= 300
    assert made.unanswered == ()
    failed = sum(trouble.trials for trouble in made.troubles)
    assert (failed > 0) == (learner is out_of_memory)


def test_a_learner_that_never_works_has_no_answer(tmp_path):
    made = capax.card(hopeless, store=tmp_path / "c.sqlite", m_high=64, **SMALL)
    (row,) = made.rows
    assert (row.m_star, row.low, row.high) == (None, None, None)
    assert made.note(row) == NO_ANSWER
    assert len(made.unanswered) == 1
    assert "RuntimeError: no" in made.troubles[0].reason


def looks(**by_m):
    """`m40="ox"`: a trial that passed and one that had trouble; `-` is one that failed."""
    value = {"o": BestLook(1.0, 1), "-": BestLook(0.5, 1), "x": BestLook(0.0, 0, trouble=True)}
    return {(int(m[1:]), i): value[c] for m, seen in by_m.items() for i, c in enumerate(seen)}


def test_an_m_is_broken_by_most_of_its_trials():
    assert broken_m(looks(m10="x", m20="xx", m30="xox", m40="xo", m50="xxo-", m60="ox")) == {20, 30}
    assert set(evidence(looks(m10="x", m30="xo-"))) == {(30, 1), (30, 2)}


def test_the_range_shrinks_to_where_a_learner_works():
    assert usable_range({}, 5, 640) == (5, 640)
    assert usable_range({}, 700, 640) == (639, 640)
    assert usable_range(looks(m640="xx"), 10, 640) == (10, 80)  # the geometric mean
    assert usable_range(looks(m640="xx", m80="o"), 10, 640) == (10, 226)
    assert usable_range(looks(m640="xx", m80="o", m226="xx"), 10, 640) == (10, 134)
    assert usable_range(looks(m134="o", m200="xx"), 10, 640) == (10, 134)  # near enough
    assert usable_range(looks(m135="o", m203="xx"), 10, 640) == (10, 165)  # not yet
    assert usable_range(looks(m5="xx", m8="xx", m40="-"), 4, 640) == (9, 640)
    assert usable_range(looks(m20="o", m30="xx", m40="o"), 4, 640) == (4, 640)
    assert usable_range(looks(m12="xx"), 10, 640) is None  # no m is left between 10 and 12


def test_scouts_leave_at_least_two_values_of_m():
    passed = {(40, 0): BestLook(1.0, 1)}
    assert open_range(passed, (1.0,), low=200, high=640) == (159, 160)


def outcome(trial, accuracy, reason=""):
    curves = {"validation_accuracy": [] if reason else [accuracy]}
    run = Run(trial.trial_id, 0, "failed", None, 1, 0.1, {}, curves, "plain", reason)
    return Outcome(trial, accuracy == 1.0, (run,))


def asked(plan, learner):
    """The scored trials of a played learner: m -> its accuracy, or the reason it fails."""
    question = CardQuestion(plan, entry_of("tree"), "and3", 11)
    trials = []
    while (trial := question.take()) is not None:
        trials.append(trial)
        said = learner(trial)
        made = (0.0, said) if isinstance(said, str) else (said, "")
        question.record(outcome(trial, *made))
    return question, trials


def test_a_question_has_the_trials_it_was_promised():
    """Two more for each accuracy but one; half as many again for a learner that is fitted."""
    plan = Plan(T=(11,), m_high=64, max_trials=8, more_trials=2, precision=1.0001)
    _, trials = asked(plan, lambda trial: 0.6 if trial.index % 5 == 4 else 1.0)
    assert len(trials) == 1.5 * (8 + 2 + 2)


def test_an_accuracy_is_left_where_its_trials_took_the_work_they_may():
    """At the least trials, not before; the work is examples x steps. The lower ones go on, with
    trials of their own, whose work is counted apart."""
    plan = Plan(T=(11,), m_high=64, max_trials=48, precision=1.0001)
    search = plan.search(4, 64)
    long = {(64, i): BestLook(float(i % 3 > 0), 1000) for i in range(3)}
    assert len(Rounds(search, (1.0,), long, {}, effort=1e5).next_round(NOTHING)) == 1
    long[64, 3] = BestLook(1.0, 1000)
    assert not Rounds(search, (1.0,), long, {}, effort=64 * 4e3).next_round(NOTHING)
    assert Rounds(search, (1.0,), long, {}, effort=64 * 4e3 + 1).next_round(NOTHING)
    for more in (2e4, 9e4, 2e5):  # a round takes no more than is left, small m first
        asked = Rounds(search, (1.0,), long, {}, effort=64 * 4e3 + more).next_round(NOTHING)
        whole = Rounds(search, (1.0,), long, {}).next_round(NOTHING)
        assert list(asked) == sorted(asked, reverse=True) == list(whole[-len(asked) :])
        assert len(asked) == 1 or 1000 * sum(asked) <= more
        rest = whole[: -len(asked)]
        assert not rest or 1000 * (sum(asked) + rest[-1]) > more
    for most, asks in ((12, True), (13, False)):  # less than three times the effort in all
        nearly = search.model_copy(update={"max_trials": most})
        left = Rounds(nearly, (1.0,), long, {}, effort=64 * 4e3).next_round(NOTHING)
        assert bool(left) == asks
    both = Rounds(search, (1.0, 0.9), long, {}, effort=64 * 4e3)
    assert both.next_round(NOTHING) and set(both.aims.values()) == {0.9}
    both.effort += 1
    assert both.next_round(NOTHING) and 1.0 in both.aims.values()
    long |= {(64, i): BestLook(0.95, 1000, aim=0.9) for i in range(4, 8)}
    assert both.next_round(NOTHING) and set(both.aims.values()) == {1.0}
    both.effort -= 1
    assert not both.next_round(NOTHING)


def test_a_trial_is_counted_with_the_steps_of_its_aim():
    """Those at 90 % end after 100 steps, so ten times as many fit into the work that is left."""
    search = Plan(T=(11,), m_high=64, max_trials=48, precision=1.0001).search(4, 64)
    looks = {(m, i): BestLook(0.95 * (m > 30), 100, aim=0.9) for m in (20, 60) for i in range(3)}
    slow = {cell: look._replace(steps=1000) for cell, look in looks.items()}
    work = 100 * sum(m for m, _ in looks)
    for known, fit in ((looks, True), (slow, False)):
        effort = work * known[60, 0].steps // 100 + 5e4
        whole = Rounds(search, (0.9,), known, {}).next_round(NOTHING)
        asked = Rounds(search, (0.9,), known, {}, effort=effort).next_round(NOTHING)
        assert (asked == whole) == fit and asked


def test_a_trial_says_nothing_about_more_than_it_aimed_at():
    """Neither that it passed nor that it did not: those that pass may have gone on to 100 %."""
    ended = {(30, i): BestLook(look, 200, aim=0.95) for i, look in enumerate((0.96, 1.0, 0.6))}
    whole = {(40, 0): BestLook(1.0, 200), (40, 1): BestLook(0.97, 1000)}
    looks = {**ended, **whole}
    assert counts_at(looks, 1.0) == Counts((40,), (1,), (2,)) == counts_at(looks, 0.99)
    assert counts_at(looks, 0.95) == Counts((30, 40), (2, 2), (3, 2))
    assert coarse_answer(ended, {}, 1.0) == "perhaps m* > 30, 3 trials"
    near = {cell: look._replace(accuracy=0.96) for cell, look in ended.items()}
    assert coarse_answer({}, {1e-3: near}, 1.0) == "perhaps m* <= 30, 3 tuning trials"
    assert "40" in coarse_answer(looks, {}, 1.0) and "2 trials" in coarse_answer(looks, {}, 1.0)


def test_trials_of_a_round_end_at_the_accuracy_it_aims_at(tmp_path):
    """As part of their identity, in this process, in another one and in the store."""
    plan = Plan(T=(11,), m_high=64, precision=1.0001, rates=(1e-3,), effort=1.0)
    question = CardQuestion(plan, entry_of("mlp"), "and3", 11)
    aims, heard = [], {}
    with Store.create_or_resume(tmp_path / "a.sqlite", plan.experiment((question.entry,))) as store:
        while (trial := question.take()) is not None:
            again = question._family.trial(question.panel_of(trial), 11, trial.m, trial.index)
            assert again.spec == trial.spec
            curves = {"validation_accuracy": [0.5 + 0.496 * (trial.m >= 30)]}
            fields = trial.spec.run(0).model_dump(mode="json")
            run = Run(trial.trial_id, 0, "failed", None, 1000, 0.1, fields, curves, "module")
            outcome = Outcome(trial, False, (run,))
            question.record(outcome)
            if trial.index < TUNING_SEEDS:
                store.add(outcome)
                aims.append(trial.spec.success.accuracy)
                heard[trial.m, trial.index] = look_at(outcome)
        assert stored_looks(store, question.name, 11) == heard == question.scores
    assert set(aims) == {1.0, 0.99, 0.95}
    assert [look.aim for look in heard.values()] == aims
    unreached = threshold_at(plan, "and3", 11, 1.0, question.scores)
    assert unreached.high is None and unreached.trials == aims.count(1.0)


def test_a_round_is_shared_by_the_accuracies():
    """Same outcomes: one search with the whole round. Other outcomes: each near its own m*, and the
    trials that ask for the plateau where the highest accuracy wants them."""
    search = Plan(T=(11,), precision=1.0001).search(4, 640)
    same = {(m, i): BestLook(float(m > 40), 100) for m in (20, 60) for i in range(6)}
    alone = Rounds(search, (1.0,), same, {}).next_round(NOTHING)
    together = Rounds(search, (1.0, 0.99, 0.95), same, {})
    assert together.next_round(NOTHING) == alone and set(together.aims.values()) == {1.0}
    apart = {(m, i): BestLook(0.6 if m < 15 else 0.96 if m < 100 else 1.0, 100)
             for m in (8, 30, 80, 160) for i in range(4)}  # fmt: skip
    shared = Rounds(search, (1.0, 0.95), apart, {})
    both = shared.next_round(NOTHING)
    assert any(8 <= m <= 30 for m in both) and any(80 <= m <= 160 for m in both)
    most = max(set(both), key=both.count)
    assert both.count(most) >= 4 and most >= 160  # the plateau at 100 %, which serves both
    assert shared.aims[most] == 1.0
    spent = {(500, i): BestLook(float(i % 2), 100) for i in range(search.max_trials)}
    assert Rounds(search, (1.0,), spent, {}).next_round(NOTHING) == ()


def test_a_lower_accuracy_asks_for_its_plateau_where_the_highest_cannot():
    """100 % is reached from 500 examples on, where few trials of a round may ask for the plateau:
    95 %, which is reached from 30 on, has its own, and they end at 95 %."""
    search = Plan(T=(11,), precision=1.0001).search(4, 640)
    apart = {(m, i): BestLook(0.6 if m < 15 else 0.96 if m < 300 else 1.0, 1000)
             for m in (8, 30, 200, 500) for i in range(4)}  # fmt: skip
    shared = Rounds(search, (1.0, 0.95), apart, {})
    both = shared.next_round(NOTHING)
    assert any(m > 300 and shared.aims[m] == 1.0 for m in both)
    cheap = [m for m in both if shared.aims[m] == 0.95]
    most = max(set(cheap), key=cheap.count)
    assert cheap.count(most) >= 4 and 15 <= most < 200
    settled = Rounds(search, (1.0, 0.95), {c: k for c, k in apart.items() if c[0] < 300}, {})
    assert all(settled.aims[m] == 1.0 for m in settled.next_round(NOTHING) if m > 300)


def test_what_reaches_an_accuracy_anyway_aims_at_it():
    """Where 100 % is likely, trials of the lower accuracies aim at it too; elsewhere at their own.
    Hints of tuning trials that ended at 99 % count for 100 %, but are no evidence."""
    search = Plan(T=(11,), precision=1.0001).search(4, 640)
    looks = {(m, i): BestLook(0.6 if m < 15 else 0.96 if m < 60 else 1.0, 100)
             for m in (8, 30, 100, 200) for i in range(4)}  # fmt: skip
    shared = Rounds(search, (1.0, 0.95), looks, {})
    left = {accuracy: (counts_at(looks, accuracy), NOTHING) for accuracy in (1.0, 0.95)}
    asked = {1.0: (40, 640), 0.95: (30, 40, 100)}
    aims = {m: shared._aim(m, left, asked) for m in (30, 40, 100, 640)}
    assert aims == {30: 0.95, 40: 1.0, 100: 1.0, 640: 1.0}
    hints = {(m, 10**6): BestLook(0.992 * (m > 40), 100, aim=0.99) for m in (20, 80)}
    first = Rounds(search, (1.0, 0.99), {}, hints).next_round(NOTHING)
    assert first and 640 not in first
    assert counts_at(hints, 1.0) == NOTHING


def test_trouble_now_and_then_costs_a_trial_and_no_more():
    plan = Plan(T=(11,), m_high=64, max_trials=8, accuracies=(1.0,), precision=1.0001)

    def flaky(trial):
        return "a crash" if trial.index % 3 == 2 else float(trial.m >= 20)

    question, trials = asked(plan, flaky)
    assert question.finished
    assert len({(t.m, t.index) for t in trials}) == len(trials)  # no number is used twice
    assert max(trial.m for trial in trials) == 64
    assert len(evidence(question.scores)) <= 12 < len(question.scores) < 24


def test_reference_rows_stand_beside_rows_of_the_same_protocol_alone(tmp_path):
    """The reference learners were measured without noise, at random supports, with 1000 steps."""
    quick = {"T": (20,), "m_high": 64, "max_trials": 8, "accuracies": (1.0,), "minutes": 0.0}
    same = capax.card("tree", store=tmp_path / "a.sqlite", **quick)
    assert set(same.names) > {"tree", "transformer"}
    assert same.remarks == ()
    other = {"noise": 0.2, "support": "contiguous", "steps": 10, "eval_every": 10}
    made = capax.card("tree", store=tmp_path / "b.sqlite", **quick, **other)
    assert made.names == ("tree",)
    (remark,) = made.remarks
    assert remark == ("reference learners are not shown: they were measured with "
                      "support = random, not contiguous, noise = 0.0, not 0.2, steps = 1000, "
                      "not 10, eval_every = 100, not 10")  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("rates", (1e-3,)), ("tuning_trials", 1), ("validation_size", 64), ("stop_memorised", False)],
)
def test_every_field_that_changes_a_trial_keeps_reference_rows_away(field, value):
    assert Plan().differs_from(reference_card().protocol) is None
    assert REFERENCE.differs_from(reference_card().protocol) is None
    assert field in Plan(**{field: value}).differs_from(reference_card().protocol)
    assert (
        Plan(m_high=64, max_trials=9, design="grid").differs_from(Plan().model_dump(mode="json"))
        is None
    )


def test_the_first_trials_give_a_first_idea():
    assert coarse_answer({}, {}, 1.0) == "no trial yet"
    assert coarse_answer({}, {1e-3: looks(m40="x")}, 1.0) == "1 tuning trial failed"
    assert coarse_answer({}, {1e-3: looks(m40="-")}, 1.0) == "perhaps m* > 40, 1 tuning trial"
    seen = {1e-3: looks(m20="-", m40="o", m80="ox"), 1e-2: looks(m40="-")}
    assert coarse_answer({}, seen, 1.0) == "perhaps 20 < m* <= 40, 3 tuning trials"
    assert coarse_answer(looks(m640="oo"), seen, 1.0) == "perhaps m* <= 640, 2 trials"
    assert coarse_answer(looks(m640="o-"), seen, 1.0) == "perhaps m* > 640, 2 trials"


def test_the_middle_rate_is_looked_at_first_at_every_m():
    question = CardQuestion(Plan(T=(11,)), entry_of("mlp"), "and3", 11)
    question.begin()
    first = [(t.spec.optimiser.lr, t.m) for t in question._waiting[:4]]
    assert [rate for rate, _ in first[:3]] == [1e-3] * 3
    assert first[0][1] > first[1][1] > first[2][1]
    assert first[3][0] == 3e-3


def test_a_question_goes_on_where_some_trials_fail_and_ends_where_most_do():
    """More than 24 trials with trouble: a third of all is no reason to give up, most of them is."""
    plan = Plan(T=(11,), m_high=64, max_trials=48, accuracies=(1.0,), precision=1.0001)
    question, _ = asked(plan, lambda t: "a crash" if t.index % 3 == 2 else float(t.m >= 20))
    assert question.finished and len(question.scores) - len(evidence(question.scores)) > 24

    def broken_in_the_middle(trial):  # works at both ends, where m* is not
        return "a crash" if 10 < trial.m < 60 else float(trial.m >= 60)

    question, trials = asked(plan, broken_in_the_middle)
    assert question.note == NO_ANSWER and not question.finished
    assert 24 < len(trials) < 64
    half = CardQuestion(plan, entry_of("tree"), "and3", 11, looks(m20="xo" * 25))
    more = CardQuestion(plan, entry_of("tree"), "and3", 11, looks(m20="xo" * 25 + "x"))
    assert half._usable is not None and more._usable is None


class Meanwhile(float):
    """An accuracy; whenever somebody looks at it, another trial comes in."""

    looks: dict

    def _comes_in(self):
        self.looks[1000 + len(self.looks), 0] = BestLook(1.0, 1)

    def __ge__(self, other):
        self._comes_in()
        return float(self) >= other

    def __bool__(self):
        self._comes_in()
        return False


def test_a_question_tells_how_it_stands_while_another_thread_adds_to_it():
    """The thread of a job hears outcomes, the main thread draws the line of progress: it raised
    "dictionary changed size during iteration" on a GPU, where outcomes come by hundreds."""
    plan = Plan(T=(11,))
    made = {}
    for kept in (made, *(tuning := {rate: {} for rate in plan.rates}).values()):
        for i in range(3):
            one = Meanwhile(0.5)
            one.looks = kept
            kept[20, TUNING_SEEDS + i] = BestLook(one, 1, trouble=one)
    tuned = CardQuestion(plan, entry_of("mlp"), "and3", 11, {}, tuning)
    assert "tuning trial" in tuned.so_far and tuned.num_done > 12
    scored = CardQuestion(plan, entry_of("mlp"), "and3", 11, made, tuning)
    assert scored.num_solved >= 0 and "trial" in scored.so_far and len(made) > 3


def test_what_a_store_remembers_is_what_was_heard(tmp_path):
    """Trials with two restarts, with a reason of their own, and with a run that failed."""
    plan = Plan(T=(11,), m_high=64)
    tree = entry_of("tree")
    question = CardQuestion(plan, tree, "and3", 11)
    question.begin()
    made = [question.take() for _ in range(5)]
    heard = {}
    with Store.create_or_resume(tmp_path / "a.sqlite", plan.experiment((tree,))) as store:
        for trial, (reason, troubles) in zip(
            made,
            [
                ("", ("", "")),
                ("", ("a crash", "")),
                ("no data", ()),
                ("", ("",)),
                ("", ("no GPU",)),
            ],
            strict=True,
        ):
            path = "plain" if trial is not made[4] else "lanes"  # why the engine took its path
            runs = tuple(
                Run(f"{trial.trial_id}{i}", i, "failed", None, 3, 0.1, {},
                    {"validation_accuracy": [0.5 + 0.1 * i, 0.4]}, path, why)
                for i, why in enumerate(troubles)
            )  # fmt: skip
            outcome = Outcome(trial, False, runs, reason)
            store.add(outcome)
            heard[trial.m, trial.index] = look_at(outcome)
        assert stored_looks(store, question.name, 11) == heard
    assert [look.trouble for look in heard.values()] == [False, True, True, False, False]
    assert [look.accuracy for look in heard.values()] == [0.6, 0.6, 0.0, 0.5, 0.5]


def test_tuning_trials_that_are_known_are_not_asked_again():
    plan = Plan(T=(11,), tuning_trials=3)
    mlp = entry_of("mlp")
    whole = CardQuestion(plan, mlp, "and3", 11)
    whole.begin()
    wanted = [(t.panel, t.m, t.index) for t in whole._waiting]
    assert {index for _, _, index in wanted} == {TUNING_SEEDS}
    known = {rate: {} for rate in plan.rates}
    for trial in whole._waiting[:-2]:
        known[trial.spec.optimiser.lr][trial.m, trial.index] = BestLook(0.5, 1)
    rest = CardQuestion(plan, mlp, "and3", 11, None, known)
    rest.begin()
    assert [(t.panel, t.m, t.index) for t in rest._waiting] == wanted[-2:]
    for trial in whole._waiting[-2:]:
        known[trial.spec.optimiser.lr][trial.m, trial.index] = BestLook(0.5, 1)
    after = CardQuestion(plan, mlp, "and3", 11, None, known)
    after.begin()
    assert {t.index for t in after._waiting} == {TUNING_SEEDS + 1}
    assert len({t.panel for t in after._waiting}) == 2  # half of the four rates


def test_a_rate_is_not_chosen_anew_where_trials_count():
    """A store of before: all rates were tried twice, the best is in work, and stays."""
    plan = Plan(T=(11,))
    tuning = {
        rate: {(m, TUNING_SEEDS + i): BestLook(0.9 if rate == 1e-2 and i else 0.5, 1)
               for m in (16, 32) for i in (0, 1)}
        for rate in plan.rates
    }  # fmt: skip
    question = CardQuestion(plan, entry_of("mlp"), "and3", 11, looks(m40="o"), tuning)
    trial = question.take()
    assert trial.index < TUNING_SEEDS and trial.spec.optimiser.lr == 1e-2


def test_rates_race_on_and_the_next_scouts_lie_where_the_better_ones_pass():
    best = {(m, TUNING_SEEDS): BestLook(1.0 if m > 20 else 0.6, 1) for m in (10, 20, 160)}
    less = {cell: BestLook(look.accuracy - 0.1, 1) for cell, look in best.items()}
    least = {cell: BestLook(look.accuracy - 0.2, 1) for cell, look in best.items()}
    tuning = {1e-4: least, 1e-3: best, 1e-2: less, 1e-1: least}
    assert racing(tuning, 0) == tuple(tuning)
    assert racing(tuning, 1) == (1e-3, 1e-2)
    assert scouts_between([best, less], (10, 20, 160), 0.95) == (34, 57, 95)
    assert scouts_between([less], (10, 20, 160), 0.95) == (10, 20, 160)  # none passed
    assert scouts_between([{(10, 0): BestLook(1.0, 1)}], (10, 20), 0.95) == (10, 20)


def test_the_most_trials_of_a_question():
    """Four scouts per rate and tuning seed, the search, and what two accuracies add."""
    plan = Plan(T=(11,), max_trials=40, more_trials=12, tuning_trials=2)
    question = CardQuestion(plan, entry_of("mlp"), "and3", 11)
    most = 4 * 2 * len(plan.rates) + 40 + 2 * 12
    assert (question.most_trials, question.num_done, question.num_running) == (most, 0, 0)
    trial = question.take()
    assert question.num_running == 1
    question.record(outcome(trial, 0.5))
    assert (question.most_trials, question.num_done, question.num_running) == (most, 1, 0)
    assert question.panel_of(trial).optimiser == {"lr": trial.spec.optimiser.lr}
    assert question.panel_of(trial).in_pieces and question.panel_of(trial).examine_from == 0.9
    known = CardQuestion(plan, entry_of("mlp"), "and3", 11, looks(m20="o" * most))
    assert known.most_trials == most + 1  # more are known than were thought of: one is to come
    plain = CardQuestion(plan, entry_of("tree"), "and3", 11)
    assert plain.most_trials == 1.5 * (40 + 2 * 12)
    assert plain.panel_of(plain.take()).optimiser == {}
    plain.record(outcome(plain._family.trial(plain.at(None), 11, 64, 7), 1.0))
    assert (plain.num_done, plain.num_solved) == (1, 1)
    assert not plain.panel_of(trial).in_pieces


def test_the_protocol_of_a_card_is_that_of_its_plan(tmp_path, monkeypatch):
    plan = Plan(noise=0.1, support="contiguous", validation_size=512)
    assert card_protocol(plan, 0.99) == Protocol(
        noise=0.1, supports="contiguous", accuracy=0.99, validation_size=512
    )
    assert [lowest(fewest) for fewest in (3, 8, 9, 20)] == [4, 4, 4, 10]
    monkeypatch.setattr(run_card, "cache_folder", lambda: tmp_path)
    tree = (entry_of("tree"),)
    one, other = (run_card.default_store(p, tree) for p in (plan, Plan()))
    assert one.parent == other.parent == tmp_path / "cards" and one.parent.is_dir()
    assert one != other == run_card.default_store(Plan(), tree) and one.suffix == ".sqlite"
