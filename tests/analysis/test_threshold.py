"""Thresholds and tables of a store."""

import json

import numpy as np
import pandas as pd
import pytest

from capax.analysis.reference.threshold_curves import threshold_panels
from capax.analysis.summary import answer, summarise
from capax.analysis.tables.frames import curves_frame, export, runs_frame, trials_frame
from capax.analysis.threshold import threshold_of, threshold_panel, thresholds
from capax.errors import InputError
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.known_families import family_of
from capax.sweep.families.simulated import SimulatedLearner, SimulatedSpec
from capax.sweep.running.runner import run_sweep
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.curve import CurveGrid, estimate
from capax.sweep.storage.store import Store

LEARNER = {"threshold": 9.0, "growth": 7.0, "spread": 0.2}
FIELDS = {
    "name": "simulated",
    "model": {"family": "simulated", **LEARNER},
    "training": {"restarts": 2},
    "panels": {
        "curves": {"T": [5], "search": {"method": "grid", "m": [5, 40], "trials": 2}},
        "threshold": {
            "T": [1000, 10, 30, 100, 300],
            "search": {"m_low": 5, "m_high": 200, "batch": 32, "max_trials": 160},
        },
    },
    "scales": {"quick": {}},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    experiment = build_experiment(FIELDS)
    path = tmp_path_factory.mktemp("store") / "s.sqlite"
    with Store.create_or_resume(path, experiment) as opened:
        run_sweep(experiment, opened)
        yield opened


def test_thresholds_contain_the_truth(store):
    """Five intervals at 95% (nearer 97%): the key is fixed; at most one may miss."""
    found = thresholds(store)
    truth = {
        T: SimulatedSpec(**LEARNER).true_threshold(T) for T in FIELDS["panels"]["threshold"]["T"]
    }
    assert [t.T for t in found] == sorted(truth)
    assert sum((t.low or 0) <= truth[t.T] <= (t.high or 999) for t in found) >= 4
    for t in found:
        assert t.counts.trials == t.trials and t.floor is None and t.ratio is None
        assert t.isotonic is not None
        assert (t.low or 0) * 0.8 <= t.isotonic <= (t.high or 999) * 1.25


def test_the_summary_has_the_promised_keys(store):
    payload = summarise(store)
    for row in payload["thresholds"]:
        assert {"T", "m_star", "low", "high", "status", "floor", "trials"} <= set(row)
    assert {"status", "law", "left", "ruled_out", "weights", "verdict"} <= set(payload["fit"])
    assert payload["fit"]["left"] == "log" and payload["fit"]["settled"]
    assert {"constant", "linear"} <= set(payload["fit"]["ruled_out"])
    json.dumps(payload)
    assert set(payload["fit"]["weights"]) == {"constant", "log", "linear", "power"}
    slope = payload["fit"]["parameters"][1]
    reach = slope["high"] - slope["low"]  # twice the 95% interval: the key is fixed, not chosen
    assert slope["low"] - reach / 2 <= LEARNER["growth"] <= slope["high"] + reach / 2


def test_the_right_panel_is_chosen(store):
    assert threshold_panel(store.experiment).name == "threshold"
    assert threshold_panel(store.experiment, "curves").name == "curves"
    with pytest.raises(InputError, match="panel: wanted 'x'; the panels are curves, threshold"):
        threshold_panel(store.experiment, "x")


def test_stores_without_an_answer(tmp_path):
    experiment = build_experiment(FIELDS)
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as empty:
        with pytest.raises(InputError, match="no finished trials of threshold yet"):
            thresholds(empty)
        assert len(runs_frame(empty)) == len(trials_frame(empty)) == len(curves_frame(empty)) == 0


def test_two_thresholds_are_too_few_for_a_law(tmp_path):
    panels = {"threshold": {**FIELDS["panels"]["threshold"], "T": [10, 30]}}
    experiment = build_experiment({**FIELDS, "panels": panels})
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as opened:
        run_sweep(experiment, opened)
        fit = summarise(opened)["fit"]
    assert fit["law"] is None and "Too few" in fit["verdict"]


def test_words_only_where_there_is_evidence():
    """Nothing solved, everything solved, levelled off at 60%: bounds and words, but no number."""
    tried = (16, 62, 250, 993)
    never = threshold_of("p", 30, Counts(tried, (0,) * 4, (4,) * 4))
    assert (never.m_star, never.status, never.ratio) == (None, "> 993", None)
    always = threshold_of("p", 30, Counts(tried, (30,) * 4, (30,) * 4))
    assert (always.m_star, always.status, always.ratio) == (None, "<= 16", None)
    levelled = threshold_of("p", 30, Counts(tried, (2, 60, 61, 59), (100,) * 4))
    assert levelled.m_star is None
    assert levelled.status == "does not reach 80 % for any m tried"


def test_a_length_that_never_reaches_the_target_is_named_and_the_rest_compared(store):
    found = thresholds(store)
    flat = threshold_of("threshold", 3000, Counts((20, 60, 180), (5, 60, 61), (100,) * 3))
    said, whole = answer((*found, flat)), answer(found)
    assert said.unreached == (3000,) and not said.settled and whole.settled
    wanted = "At T = 3000 success does not reach 80 % for any m tried. At the other T: "
    assert said.verdict.startswith(wanted + whole.verdict)
    assert "success falls with T" in said.verdict


def test_frames_hold_every_run(store):
    runs, trials, curves = runs_frame(store), trials_frame(store), curves_frame(store)
    assert runs["run_id"].is_unique and trials["trial_id"].is_unique
    assert trials["runs"].sum() == len(runs)
    assert len(trials) == store.select("SELECT count(*) AS n FROM trials")[0]["n"]
    solved = runs.groupby("trial_id")["outcome"].apply(lambda o: (o == "solved").any())
    assert (solved == trials.set_index("trial_id")["solved"].loc[solved.index]).all()
    assert {"run_id", "step", "validation_accuracy"} <= set(curves.columns)
    assert len(curves) == len(runs)  # one evaluation each


def test_a_panel_counts_from_its_first_finished_trial_on(tmp_path):
    experiment = build_experiment(FIELDS)
    panel = experiment.panels[1]
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as opened:
        assert threshold_panels(opened) == ()
        trial = family_of(panel).trial(panel, 10, 13, 0)
        opened.add(next(iter(SimulatedLearner()(iter([trial])))))
        assert [found.name for found in threshold_panels(opened)] == ["threshold"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_export_round_trip(store, tmp_path, ending):
    path = tmp_path / f"runs.{ending}"
    assert export(store, path) == len(runs_frame(store))
    read = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    assert list(read["run_id"]) == list(runs_frame(store)["run_id"])
    with pytest.raises(InputError, match=r"out: wanted a name ending in .csv or .parquet"):
        export(store, tmp_path / "runs.xlsx")
    folder = tmp_path / f"folder.{ending}"
    folder.mkdir()
    with pytest.raises(InputError, match="wanted a file name, got a folder"):
        export(store, folder)


@pytest.mark.parametrize("plateau", [1.0, 0.9])
def test_a_curve_that_rises_at_once_lies_in_its_interval_wherever_it_rises(plateau):
    """A smooth model alone misses the ends of the cell: nothing was tried inside it."""
    tried, trials = (8, 16, 32, 64, 128, 256), 20
    hits, smooth = [], []
    for centre in (33, 36, 45, 58, 63):
        learner = SimulatedSpec(shape="normal", spread=0.01, threshold=centre, lapse=1 - plateau)
        for seed in range(4):
            random = np.random.default_rng([centre, seed])
            solved = tuple(int(random.binomial(trials, learner.success(m))) for m in tried)
            counts = Counts(tried, solved, (trials,) * len(tried))
            found = threshold_of("p", 9, counts)
            narrow = estimate(CurveGrid.fitted(counts), counts)
            truth = learner.true_threshold()
            hits.append((found.low or 0) <= truth <= (found.high or np.inf))
            smooth.append((narrow.low or 0) <= truth <= (narrow.high or np.inf))
            assert found.low is None or found.low - 1 in (0, *tried)
            assert found.high is None or found.high in tried
    assert np.mean(hits) >= 0.9 > np.mean(smooth)
