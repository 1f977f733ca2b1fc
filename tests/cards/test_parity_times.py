"""The time axis of a card: rates from trials that do not count, times from those that do."""

import json
from dataclasses import replace

import pytest

import capax
from capax.analysis.times import run_times, solve_times
from capax.cards.answers.card_rows import Card, from_json
from capax.cards.answers.parity_rows import TimeRow
from capax.cards.answers.time_rows import NO_STEPS, time_rows
from capax.cards.card import beside_references
from capax.cards.measuring.parity_times import best_rate, time_jobs, time_panel
from capax.cards.protocol.plan import Plan
from capax.cli.experiments.card_table import show_card
from capax.errors import InputError
from capax.learners.names import entry_of
from capax.report.card_page import card_page
from capax.report.page import render_page
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial
from capax.terminal import Terminal

PLAN = Plan(T=(3,), rates=(1e-3, 1e-2), parity_steps=400, parity_trials=6)
ENTRIES = (entry_of("mlp"), entry_of("lasso"))
STEPS = {1e-3: (300, None), 1e-2: (None, 350, 100, 150, 150, 200, 250, None)}
"""Steps by rate and number; two trials of each choose the rate, and fewer steps decide."""


def told(store, s, rate, steps, first=0):
    """Outcomes of a panel, written by hand."""
    panel = time_panel(PLAN, ENTRIES[0], 3, s, rate, 1)
    for number, at in enumerate(steps, start=first):
        spec = {
            "steps": 400, "eval_every": 50, "mode": "online", "batch_size": 256,
            "task": {"function": f"parity{s}", "p": 0.5},
        }  # fmt: skip
        name = f"{s}-{rate}-{number}"
        run = Run(name, 0, "solved" if at else "failed", at, at or 400, 0.1, spec)
        store.add(Outcome(Trial(panel.name, 3, 256, number, name, None), at is not None, (run,)))


@pytest.fixture
def store(tmp_path):
    with Store.create_or_resume(tmp_path / "card.sqlite", PLAN.experiment(ENTRIES)) as opened:
        for rate, steps in STEPS.items():
            told(opened, 2, rate, steps)
        told(opened, 3, 1e-3, (100, 100, 350))
        told(opened, 3, 1e-2, (100, 200))
        yield opened


def test_rates_come_from_trials_that_do_not_count(store):
    mlp = ENTRIES[0]
    assert best_rate(PLAN, mlp, 3, 2, store) == 1e-3  # 700 steps in all, the other 750
    told(store, 2, 1e-3, (100, 150, 150, 200, 250, None), first=2)
    two, three, *others = time_rows(PLAN, ENTRIES, store)
    assert (two.rate, two.median, two.solved, two.censored) == (1e-3, 150, 5, 1)
    whole = run_times(store, time_panel(PLAN, mlp, 3, 2, 1e-3, 1).name)[0]
    counted = replace(whole, after=whole.after[2:], by=whole.by[2:])
    found = solve_times(counted)
    assert (two.low, two.high) == (found.median.low, found.median.high) and two.note == ""
    assert (three.rate, three.median, three.note) == (1e-3, 350, "unfinished, 1 of 6 runs")
    assert [(row.learner, row.note) for row in others] == [("lasso", NO_STEPS)] * 2
    assert two.words == f"150 [{two.low}, open], 5 of 6"


def test_jobs_ask_for_what_the_store_lacks(store):
    (first,) = time_jobs(PLAN, ENTRIES, store, scored=False)
    assert first.finished  # both rates have their two trials for both s
    (job,) = time_jobs(PLAN, ENTRIES, store, scored=True)
    wanted = {q.panel.name: q.most_trials - q.num_done for q in job.questions}
    assert sorted(wanted.values()) == [5, 6] and all("lr = 0.001" in name for name in wanted)
    trial = job.questions[0].take()
    assert (trial.index, trial.spec.mode, trial.spec.batch_size) == (2, "online", 256)
    assert trial.spec.optimiser.lr == 1e-3 and trial.spec.model.T == 3


def test_a_card_of_times_from_end_to_end(tmp_path):
    """Trained: three bits, a rate, one trial; the same call trains nothing more."""
    protocol = {"parity_steps": 50, "parity_trials": 1, "tuning_trials": 1, "rates": (0.01,)}
    how = {"T": (3,), "targets": ["times"], "store": tmp_path / "card.sqlite", **protocol}
    made = capax.card("mlp", "tree", references=False, validation_size=64, **how)
    assert [(row.learner, row.s, row.solved + row.censored) for row in made.times] == [
        ("mlp", 2, 1), ("mlp", 3, 1), ("tree", 2, 0), ("tree", 3, 0),
    ]  # fmt: skip
    assert made.rows == () and made.unanswered == ()
    again = capax.card("mlp", "tree", references=False, validation_size=64, minutes=0.0, **how)
    assert again.times == made.times


CARD = Card(
    (), (), times=(
        TimeRow("mlp", 10, 2, 350, 300, 450, 9, 1, 5000, 256, 1e-3),
        TimeRow("mlp", 20, 2, None, 900, None, 2, 8, 5000, 256, 1e-3),
        TimeRow("<b>", 10, 2, 90, 50, None, 1, 0, 5000, 256, None, "unfinished, 1 of 10 runs"),
        TimeRow("tree", 10, 2, None, None, None, 0, 0, 5000, 256, None, NO_STEPS),
    ), measured=("mlp", "<b>", "tree"),
)  # fmt: skip


def test_table_page_picture_and_file(capsys):
    show_card(Terminal(), CARD)
    text = " ".join(capsys.readouterr().out.split())
    for words in ("350 [300, 450], 9 of 10", "> 5000, 2 of 10", f"tree: {NO_STEPS}", "of 256"):
        assert words in text
    page = render_page(card_page(CARD, "capax card"))
    assert "Which learners learn parity" in page and "<b>" not in page and "350 [300, 450]" in page
    assert CARD.plot() is not None
    again = from_json(json.dumps(CARD.to_dict()), "card.json")
    assert again.times == CARD.times
    assert len(CARD.unanswered) == 1
    assert [row.T for row in CARD.only((), (20,)).times] == [20]


def test_references_stand_beside_only_under_the_same_protocol(monkeypatch):
    other = replace(CARD, protocol=PLAN.model_dump(mode="json"), measured=())
    monkeypatch.setitem(beside_references.__globals__, "reference_card", lambda: other)
    own = Card((), (), times=(replace(CARD.times[0], learner="mine"),), measured=("mine",))
    plan = PLAN.model_copy(update={"T": (10, 20)})
    assert beside_references(own, plan).names == ("mine", "mlp", "<b>", "tree")
    longer = plan.model_copy(update={"parity_steps": 800})
    assert beside_references(own, longer).names == ("mine",)


def test_steps_are_whole_looks():
    with pytest.raises(InputError, match="parity_steps: wanted a multiple of parity_every = 50"):
        Plan(parity_steps=120)
