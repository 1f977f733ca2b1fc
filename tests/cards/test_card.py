"""A card from end to end with quick learners, and what its parts promise."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import capax
from capax.analysis.floor import Protocol, floor
from capax.cards.answers.card_rows import Card, LawRow, Row, from_json, note_key
from capax.cards.answers.read_card import read_card
from capax.cards.answers.reference_card import write_reference
from capax.cards.measuring.card_jobs import card_jobs
from capax.cards.measuring.run_card import run_card
from capax.cards.protocol import matched_sizes
from capax.cards.protocol.matched_sizes import parameters_of
from capax.cards.protocol.plan import Plan
from capax.errors import InputError
from capax.learners.names import entry_of
from capax.sweep.storage.store import Store
from typed_command import typed

KEYS = ["learner", "target", "T", "accuracy", "m_star", "low", "high", "floor", "solved_share",
        "rate", "seconds"]  # fmt: skip
BAD = Path(__file__).parents[1] / "learners" / "bad_learners.py"


def patient(function):
    """The version-space learner, as a user would write it."""
    from capax.learners.zoo.version_space import version_space

    return version_space(function)


def test_the_version_space_learner_stands_on_the_floor(tmp_path):
    protocol = {"m_high": 128, "max_trials": 40, "validation_size": 512, "accuracies": (1.0,)}
    where = {"store": tmp_path / "card.sqlite", "references": False}
    made = capax.card(patient, T=(23,), **where, **protocol)
    (row,) = made.rows
    known = floor("and3", 23, 2 ** (-1 / 3), protocol=Protocol()).m
    assert row.floor == known
    assert (row.low or 0) <= known <= (row.high or 128)
    assert row.m_star is not None
    assert row.rate is None
    assert [w.law for w in made.laws] == [None]  # one T tells no law
    with Store.read(tmp_path / "card.sqlite") as store:
        before = store.select("SELECT count(*) AS n FROM trials")[0]["n"]
    assert capax.card(patient, T=(23,), **where, **protocol).rows == made.rows
    with Store.read(tmp_path / "card.sqlite") as store:
        assert store.select("SELECT count(*) AS n FROM trials")[0]["n"] == before


def test_the_command_prints_a_table_json_and_csv(tmp_path, monkeypatch):
    """A learner of the user's that fails always: no threshold, a reason, no traceback."""
    monkeypatch.setattr("capax.sweep.families.fit_pool.num_cores", lambda: 1)  # one process
    shown = ("--T", "5,7", "--m-high", "32", "--trials", "8", "--store", tmp_path / "a.sqlite")
    csv = tmp_path / "card.csv"
    made = typed("card", f"{BAD}:majority", *shown, "--json", "--csv", csv)
    assert made.returncode == 0, made.stderr
    data = json.loads(made.stdout)
    assert [list(row) for row in data["rows"]] == [KEYS] * 6
    assert list(data["laws"][0]) == ["learner", "target", "accuracy", "law", "p_value", "ruled_out"]
    assert all(row["m_star"] is None for row in data["rows"])
    assert csv.read_text().splitlines()[0] == ",".join([*KEYS, "note"])
    assert data["troubles"] == []  # to answer wrongly is no trouble
    shown = (*shown[:-1], tmp_path / "b.sqlite")
    table = typed("card", f"{BAD}:raises", *shown)
    assert "leap 1, degree 3, sensitivity 3" in table.stdout
    said = "trials failed: bad_learners.py, line 16: KeyError: 'missing'"
    assert said in " ".join(table.stdout.split())
    assert table.stdout.count("no answer") == 6  # every cell that was asked for says so
    assert table.returncode == 1
    assert "6 of 6 cells without an answer" in table.stderr


def test_a_card_that_had_no_time_says_so_in_every_cell(tmp_path):
    """The user's own learner is in the table, T by T, beside the reference learners."""
    mine = ("--mine", f"{BAD}:majority", "--T", "20,50", "--minutes", "0")
    made = typed("card", *mine, "--store", tmp_path / "a.sqlite")
    assert made.returncode == 1
    assert made.stdout.count("unfinished, no trial yet") == 6
    assert "transformer" in made.stdout
    assert "6 of 6 cells without an answer; the same command continues" in made.stderr
    assert "card: 0 of at most 192 trials" in made.stderr  # what is ahead, before it begins


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("mlpp",), "learner: unknown 'mlpp'; did you mean 'mlp'?"),
        (("tree", "--T", "a"), "T: wanted whole numbers separated by commas, got 'a'"),
        (("tree", "--T", "2"), "T: wanted at least s = 3 for and3, got [2]"),
        (("tree", "--T", "5,2147483647"), "T: wanted at most 100000, got 2147483647"),
        (("tree", "--target", "and3,nonsense"), "formula"),
        (("tree", "tree"), "learners: tree is named 2 times"),
        (("--mine", "nowhere.py:build"), "file not found: nowhere.py"),
        (("tree", "--html", "no/such/folder/card.html"), "does not exist"),
        (("tree", "--noise", "0.7"), "noise"),
        (("tree", "--target", "xor2,mixed", "--T", "2,5"), "T: wanted at least 3 for mixed parity"),
        (("--reference",), "--reference: give a store"),
    ],
)
def test_mistakes_end_in_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = typed("card", *arguments)
    assert made.returncode == 2
    assert said in made.stderr
    assert len(made.stderr.strip().splitlines()) == 1


def test_targets_with_inputs_of_one_kind_share_a_job(tmp_path):
    plan = Plan(targets=("and3", "maj5", "parity3", "xor2"), T=(11, 13))
    entries = (entry_of("mlp"), entry_of("tree"))
    with Store.create_or_resume(tmp_path / "s.sqlite", plan.experiment(entries)) as store:
        jobs = card_jobs(plan, entries, store)
    sizes = [len(job.questions) for job in jobs]
    assert sorted(sizes) == [1, 1, 3, 3, 8]  # p differs for and3 only; a tree has one job


def test_sizes_are_comparable():
    for T in (20, 100, 400):
        counts = {name: parameters_of(entry_of(name), T) for name in
                  ("transformer", "transformer2", "linear_attention", "deep_sets", "mlp", "cnn",
                   "lstm", "gru", "ssm", "mixer")}  # fmt: skip
        ratios = np.array(list(counts.values())) / counts["transformer"]
        assert ratios.min() > 0.75, counts
        assert ratios.max() < 1.33, counts
    for name in ("mlp", "mixer"):  # no other width comes nearer
        entry, wanted = entry_of(name), counts["transformer"]
        width = matched_sizes._matched(entry, T, wanted)
        own, *others = (matched_sizes._count(entry, T, n) for n in (width, width - 1, width + 1))
        assert own == counts[name] and all(abs(own - wanted) <= abs(n - wanted) for n in others)


def small_card():
    rows = tuple(
        Row(name, "and3", T, a, m, m - 3, m + 4, 20, 0.8, None, 0.1)
        for name, m in (("tree", 30), ("mlp", 90))
        for T in (20, 50)
        for a in (1.0, 0.95)
    )
    laws = (LawRow("tree", "and3", 1.0, "log", 0.4, ("linear",)),)
    notes = {note_key("tree", "and3", 20, 1.0): "closed"}
    return Card(rows, laws, (), notes, {"tree": {}}, {"and3": {"leap": 1}}, {"steps": 1000})


def test_a_card_survives_its_file_and_a_broken_file_is_told(tmp_path):
    path = write_reference(small_card(), {"device": "test"}, tmp_path / "reference.json")
    back = from_json(path.read_text(), "reference.json")
    assert back.rows == small_card().rows
    assert back.laws == small_card().laws
    assert back.protocol["device"] == "test"
    for text in ("[]", "{", '{"rows": [{"learner": 1}]}'):
        with pytest.raises(InputError, match=r"x\.json: not a card"):
            from_json(text, "x.json")


def test_my_learner_stands_among_the_reference_ones():
    mine = Card(small_card().rows[:2], (), measured=("tree",))
    joined = mine.joined(small_card().only(["and3"], [20, 50]))
    assert joined.names == ("tree", "mlp")
    assert len(joined.rows) == len(small_card().rows)
    assert joined.only(["and3"], [20]).rows == tuple(r for r in joined.rows if r.T == 20)
    assert joined.measured == ("tree",)


def is_complete(status):
    return status.finished_jobs == status.jobs


def one_trial(jobs, _):
    """A way to train that ends after a trial."""
    yield from itertools.islice(jobs[0].outcomes(), 1)


def test_a_budget_of_time_stops_and_the_next_call_goes_on(tmp_path):
    plan = Plan(T=(11,), m_high=64, max_trials=16, more_trials=0, accuracies=(1.0,))
    entries = (entry_of(patient),)
    with Store.create_or_resume(tmp_path / "s.sqlite", plan.experiment(entries)) as store:
        assert not is_complete(run_card(plan, entries, store, minutes=0.0))
        (row,) = store.select("SELECT count(*) AS n FROM trials")
        assert row["n"] == 0
        assert is_complete(run_card(plan, entries, store))
        assert read_card(plan, entries, store).rows[0].solved_share > 0


def test_an_architecture_is_tuned_searched_and_read(tmp_path):
    """The engine's lanes in a card: gradients in pieces, a whole validation set from 90 % on."""
    made = capax.card(
        "mlp",
        T=(5,),
        targets=("xor2",),
        store=tmp_path / "card.sqlite",
        references=False,
        rates=(1e-5, 1e-2),
        m_high=64,
        steps=40,
        eval_every=20,
        design="grid",
        grid_trials=3,
        accuracies=(0.95,),
        tuning_trials=1,
        validation_size=601,
    )
    assert [row.target for row in made.rows] == ["xor2"]
    assert {row.rate for row in made.rows} == {1e-2}  # 1e-5 learns nothing in 40 steps
    assert all(row.solved_share > 0.2 for row in made.rows)
    assert made.learners["mlp"]["parameters"]["5"] > 1000
    assert made.curves[0].step == (20.0, 40.0)


@pytest.mark.parametrize("design", ["adaptive", "grid"])
def test_a_finished_card_starts_nothing(tmp_path, design):
    """Its jobs are known to be finished before a way to train could start processes for them."""
    sizes = {"max_trials": 8, "more_trials": 0, "grid_trials": 2, "validation_size": 256}
    plan = Plan(T=(7,), m_high=32, accuracies=(1.0,), design=design, **sizes)
    entries = (entry_of(patient),)
    asked = []

    def way(jobs, should_stop):
        asked.append(len(jobs))
        for job in jobs:
            yield from job.outcomes(should_stop)

    with Store.create_or_resume(tmp_path / "s.sqlite", plan.experiment(entries)) as store:
        for _ in range(2):
            assert is_complete(run_card(plan, entries, store, way=way))
    assert asked == [1, 0]


def test_a_part_of_a_grid_is_no_measurement(tmp_path):
    """Solved trials finish first: what is there of a grid before its end would flatter."""
    grid = {"design": "grid", "grid_trials": 2, "tuning_trials": 1, "validation_size": 256}
    plan = Plan(T=(7,), m_high=32, accuracies=(1.0,), **grid)
    entries = (entry_of(patient),)
    with Store.create_or_resume(tmp_path / "s.sqlite", plan.experiment(entries)) as store:
        counts = []
        while not is_complete(run_card(plan, entries, store, way=one_trial)):
            counts.append(len(read_card(plan, entries, store).rows))
        assert len(counts) > 4
        assert set(counts) == {0}
        assert len(read_card(plan, entries, store).rows) == 1  # with the last trial it is one
