"""References: stores that keep every outcome; agreement only where the question is the same."""

import math

import numpy as np
import pytest

from capax.analysis.intervals import Interval, agree
from capax.analysis.reference.agreement import _same
from capax.analysis.reference.reference_stores import add_reference, reference, references
from capax.analysis.reference.threshold_curves import threshold_curves
from capax.analysis.threshold import thresholds
from capax.errors import InputError
from capax.figures.experiments.reference_band import context_of
from capax.figures.stored.threshold_records import curve_scaling
from capax.identity import digest
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.known_families import check_experiment
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial

LENGTHS, SIZES = (50, 100, 200, 400, 800), (30, 40, 50, 60, 70, 80, 90, 120)


@pytest.fixture(autouse=True)
def no_floor(monkeypatch):
    for place in ("threshold", "reference.agreement"):  # each has the name
        monkeypatch.setattr(f"capax.analysis.{place}.panel_floor", lambda *_: None)


def experiment(lengths=LENGTHS, reference="", **model):
    search = {"method": "grid", "m": list(SIZES), "trials": 20}
    panel = {"T": list(lengths), "search": search, "reference": reference}
    fields = {"name": "figure2", "function": "and3", "panels": {"threshold": panel}}
    return build_experiment({**fields, "model": {"family": "transformer", "heads": 4, **model}})


def invented(path, *, seed, scale=1.0, finished=True, lengths=LENGTHS, reference="", **model):
    """Outcomes drawn with m* = scale (12 + 10 ln T); nothing was trained."""
    plan, dice = experiment(lengths, reference, **model), np.random.default_rng(seed)
    with Store.create_or_resume(path, plan) as store:
        for T in lengths:
            star = scale * (12 + 10 * math.log(T))
            for m in SIZES:
                for k in range(20):
                    chance = 1 / (1 + math.exp(-math.log(4) - math.log(m / star) / 0.15))
                    name, solved = f"{path.stem}-{T}-{m}-{k}" + "x" * 40, dice.random() < chance
                    run = Run(name, 0, "solved" if solved else "failed", None, 1, 0.1, {"k": k})
                    trial = Trial("threshold", T, m, k, digest([T, m, k]), None)
                    store.add(Outcome(trial, bool(solved), (run,)))
            if finished:
                store.close_job("threshold", T)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one reference called paper."""
    scratch = tmp_path_factory.mktemp("reference")
    store = invented(scratch / "paper-run.sqlite", seed=1)
    add_reference(store, "paper", folder=scratch / "reference")
    return scratch / "reference"


def curve(path, folder):
    with Store.read(path) as store:
        return threshold_curves([store], references=folder)[0]


def test_a_reference_keeps_every_outcome_and_no_run(folder, tmp_path):
    store = invented(tmp_path / "again.sqlite", seed=1)
    made = add_reference(store, "again", command="capax sweep mine", folder=tmp_path / "n" / "r")
    assert (made.trials, made.runs, made.command) == (800, 800, "capax sweep mine")
    strange = add_reference(store, "strange", command="capax \udcff\x1b", folder=tmp_path / "r")
    assert strange.command == r"capax \u{dcff}\x1b"  # bytes of a terminal that are no text
    assert made.T == LENGTHS and "python" in made.versions
    assert made.path.stat().st_size < store.stat().st_size / 2
    with Store.read(store) as whole, Store.read(made.path) as small:
        assert thresholds(small) == thresholds(whole)
        assert small.select("SELECT * FROM runs") == []
    assert [entry.name for entry in references(folder)] == ["paper"]
    assert reference("paper", folder).command == "capax sweep figure2 --scale default"


def test_what_is_refused(folder, tmp_path):
    half = invented(tmp_path / "half.sqlite", seed=1, finished=False, lengths=(50,))
    with pytest.raises(InputError, match=r"not finished: threshold, T = 50"):
        add_reference(half, "half", folder=tmp_path)
    with pytest.raises(InputError, match="name: wanted letters"):
        add_reference(half, "../half", folder=tmp_path)
    for name, where in (("published", {"folder": tmp_path}), ("paper", {})):
        with pytest.raises(InputError, match="a name that is not used in the package"):
            add_reference(half, name, **where)
    with pytest.raises(InputError, match="did you mean 'paper'"):
        reference("papr", folder)
    assert references(tmp_path / "nowhere") == ()


def test_the_same_experiment_agrees_also_between_its_T(folder, tmp_path):
    """Another sample, other T: 3 comparisons at level 5% together; the seed is one of the 19."""
    found = curve(invented(tmp_path / "mine.sqlite", seed=2, lengths=(100, 300, 500)), folder)
    said = found.agreement
    assert said is not None and said.reference.name == "paper"
    assert found.name == "mine"  # the only panel of its store
    assert [row.T for row in said.rows] == [100, 300, 500] and all(r.agrees for r in said.rows)
    assert "Agrees with the reference paper (800 trials" in found.verdict
    names = ("name", "command", "device")
    assert [said.to_json()[n] for n in names] == [getattr(said.reference, n) for n in names]
    assert [row.T for row in said.published.rows] == [100, 300, 500]
    assert "from the paper's Figure 2 at 3 T: our intervals agree at" in found.verdict
    band = context_of(said).band
    assert band.name == "reference paper" and {T for T, _ in band.points} <= set(LENGTHS)
    assert np.all(band.low <= band.m) and np.all(band.m <= band.high)


def test_of_two_references_that_cover_as_much_the_longer_one_is_taken(folder, tmp_path):
    both = tmp_path / "both"
    add_reference(invented(tmp_path / "a.sqlite", seed=1, lengths=(100, 400)), "a", folder=both)
    add_reference(invented(tmp_path / "b.sqlite", seed=2, lengths=(100, 800)), "b", folder=both)
    add_reference(invented(tmp_path / "c.sqlite", seed=3, lengths=(100, 200)), "c", folder=both)
    mine = invented(tmp_path / "mine.sqlite", seed=4, lengths=(50, 100))
    assert curve(mine, both).agreement.reference.name == "b"
    assert curve(mine, folder).agreement.reference.name == "paper"


def test_other_T_come_from_the_reference_that_a_panel_names(folder, tmp_path):
    path = invented(tmp_path / "short.sqlite", seed=2, lengths=(10, 100), reference="paper")
    said = curve(path, folder)
    found = said.answer.thresholds
    assert [(t.T, t.reference) for t in found] == [
        *((10, ""), (50, "paper"), (100, ""), (200, "paper"), (400, "paper"), (800, "paper")),
    ]
    with Store.read(folder / "paper.sqlite") as store:
        theirs = {t.T: t for t in thresholds(store)}
    assert all(t.counts == theirs[t.T].counts for t in found if t.reference)
    assert "The trials at T = 50, 200, 400, 800 come from the reference paper." in said.verdict
    assert [row.T for row in said.agreement.rows] == [100]  # not with itself
    data = curve_scaling(said)
    assert [rates.T for rates in data.rates] == [10, 100]
    assert [point.T for point in data.points if point.reference] == [50, 200, 400, 800]


def test_what_stands_beside_is_no_part_of_an_experiment():
    assert experiment().digest == experiment(reference="paper").digest
    with pytest.raises(InputError, match=r"panels.threshold.reference: .* got 'nobody'"):
        check_experiment(experiment(reference="nobody"))


def test_another_experiment_is_no_reference(folder, tmp_path):
    path = invented(tmp_path / "w.sqlite", seed=2, lengths=(10,), reference="paper", d=32)
    with pytest.raises(InputError, match="reference: wanted a reference of the same task"):
        curve(path, folder)


def test_another_result_differs_and_is_told_where(folder, tmp_path):
    found = curve(invented(tmp_path / "off.sqlite", seed=2, scale=0.7), folder)
    rows = found.agreement.rows
    assert len(rows) == 5 and sum(not row.agrees for row in rows) >= 4
    assert "Differs from the reference paper" in found.verdict and " against " in found.verdict
    assert not found.agreement.published.agrees
    assert "Differs from the paper's Figure 2 at 4 T" in found.verdict
    # what is shown as ours is ours alone
    assert [row["m_star"] for row in found.to_json()["thresholds"]] == [r.mine.m for r in rows]


@pytest.mark.parametrize("model", [{"heads": 8}, {"layers": 2}, {"normalizer": "softmax"}])
def test_another_experiment_is_not_compared(folder, tmp_path, model):
    """Settings that differ: no comparison; a default written out does not differ."""
    path = invented(tmp_path / "other.sqlite", seed=2, lengths=(100, 300, 500), **model)
    said = curve(path, folder).agreement
    if "normalizer" in model:
        assert said.reference is not None
    elif "layers" in model:
        assert said is None
    else:
        assert said.reference is None and said.rows == () and said.published is not None


def test_agreement_of_intervals():
    seventy = Interval(70.0, 60.0, 80.0)
    assert agree(seventy, Interval(75.0, 66.0, 85.0)) and agree(seventy, seventy)
    assert not agree(seventy, Interval(110.0, 100.0, 120.0))
    near = Interval(85.0, 75.0, 97.0)
    assert not agree(seventy, near) and agree(seventy, near, comparisons=9)
    assert agree(Interval(None, 50.0, None), seventy)  # > 49 says nothing against 70
    assert not agree(Interval(None, 90.0, None), seventy)
    assert not agree(Interval(20.0, None, 30.0), seventy)
    assert str(Interval(None, 90.0, None)) == "no m* [90, open]"


def test_runs_that_are_drawn_as_curves_are_kept(tmp_path):
    """Every run of the curve panel, parameters of the first solved one, nothing of the search.

    The panel of the search is the one that others are compared with, though it comes second.
    """
    panels = {
        "curves": {"T": [50], "whole_curves": True, "keep_parameters": True,
                   "search": {"method": "grid", "m": [30, 60], "trials": 1}},
        "threshold": {"T": [50], "search": {"method": "grid", "m": list(SIZES), "trials": 1}},
    }  # fmt: skip
    fields = {"name": "both", "function": "and3", "panels": panels}
    plan = build_experiment({**fields, "model": {"family": "transformer", "heads": 4}})
    with Store.create_or_resume(tmp_path / "both.sqlite", plan) as store:
        for panel, m in (("threshold", 30), ("curves", 30), ("curves", 60)):
            name, outcome = f"{panel}-{m}", "solved" if m == 60 else "failed"
            run = Run(name, 0, outcome, None, 1, 0.1, {}, {"step": [1.0]}, parameters=name.encode())
            trial = Trial(panel, 50, m, 0, digest(name), None)
            store.add(Outcome(trial, m == 60, (run,)))
        for panel in panels:
            store.close_job(panel, 50)
    made = add_reference(tmp_path / "both.sqlite", "both", folder=tmp_path / "r")
    with Store.read(made.path) as small:
        kept = small.select(
            "SELECT run_id, panel FROM runs JOIN trials USING (trial_id) ORDER BY 1"
        )
        assert [tuple(row) for row in kept] == [("curves-30", "curves"), ("curves-60", "curves")]
        assert small.parameters("curves-60") == b"curves-60"
        assert len(small.select("SELECT * FROM parameters")) == 1
    assert made.runs == 3
    (compared,) = _same(made, plan.panels[1]).thresholds
    assert (compared.panel, compared.trials) == ("threshold", 1)
