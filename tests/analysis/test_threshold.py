"""Thresholds, floors and tables of a store."""

import dataclasses
import math

import pandas as pd
import pytest

from capax.analysis.floor import floor
from capax.analysis.frames import curves_frame, export, runs_frame, trials_frame
from capax.analysis.summary import scaling_of, summarise
from capax.analysis.threshold import panel_floor, threshold_panel, thresholds
from capax.boolean.best_learner import best_learner
from capax.boolean.limits import fano
from capax.boolean.parser import parse
from capax.errors import InputError
from capax.sweep.runner import run_sweep
from capax.sweep.simulated import SimulatedSpec
from capax.sweep.spec import build_experiment
from capax.sweep.store import Store

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
    assert sum(t.low <= truth[t.T] <= t.high for t in found) >= 4
    for t in found:
        assert t.counts.trials == t.trials and t.floor is None
        assert t.isotonic is not None and t.low * 0.8 <= t.isotonic <= t.high * 1.25


def test_the_summary_has_the_promised_keys(store):
    payload = summarise(store)
    for row in payload["thresholds"]:
        assert {"T", "m_star", "low", "high", "floor", "trials"} <= set(row)
    assert {"law", "parameters", "weights", "verdict"} <= set(payload["fit"])
    assert payload["fit"]["law"] == "log"
    assert set(payload["fit"]["weights"]) == {"constant", "log", "linear", "power"}
    slope = payload["fit"]["parameters"][1]
    assert slope["low"] <= LEARNER["growth"] <= slope["high"]


def test_the_right_panel_is_chosen(store):
    assert threshold_panel(store.experiment).name == "threshold"
    assert threshold_panel(store.experiment, "curves").name == "curves"
    with pytest.raises(InputError, match="panel: wanted 'x', got the panels curves, threshold"):
        threshold_panel(store.experiment, "x")


def test_stores_without_an_answer(tmp_path):
    experiment = build_experiment(FIELDS)
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as empty:
        with pytest.raises(InputError, match="wanted finished trials of threshold, got none"):
            thresholds(empty)
        assert len(runs_frame(empty)) == len(trials_frame(empty)) == len(curves_frame(empty)) == 0


def test_two_thresholds_are_too_few_for_a_law(tmp_path):
    panels = {"threshold": {**FIELDS["panels"]["threshold"], "T": [10, 30]}}
    experiment = build_experiment({**FIELDS, "panels": panels})
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as opened:
        run_sweep(experiment, opened)
        fit = summarise(opened)["fit"]
    assert fit["law"] is None and "Too few" in fit["verdict"]


def test_a_threshold_with_an_open_side_is_left_out_and_named(store):
    found = thresholds(store)
    opened = (dataclasses.replace(found[0], low=None), *found[1:])
    all_of_them, without_the_first = scaling_of(found), scaling_of(opened)
    assert all_of_them is not None and without_the_first is not None
    assert "Left out" not in all_of_them.verdict
    assert without_the_first.verdict.endswith(f"interval open: T = {found[0].T}.")
    assert without_the_first.fits == scaling_of(found[1:]).fits


def test_frames_hold_every_run(store):
    runs, trials, curves = runs_frame(store), trials_frame(store), curves_frame(store)
    assert runs["run_id"].is_unique and trials["trial_id"].is_unique
    assert trials["runs"].sum() == len(runs)
    assert len(trials) == store.select("SELECT count(*) AS n FROM trials")[0]["n"]
    solved = runs.groupby("trial_id")["outcome"].apply(lambda o: (o == "solved").any())
    assert (solved == trials.set_index("trial_id")["solved"].loc[solved.index]).all()
    assert {"run_id", "step", "validation_accuracy"} <= set(curves.columns)
    assert len(curves) == len(runs)  # one evaluation each


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_export_round_trip(store, tmp_path, ending):
    path = tmp_path / f"runs.{ending}"
    assert export(store, path) == len(runs_frame(store))
    read = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    assert list(read["run_id"]) == list(runs_frame(store)["run_id"])
    with pytest.raises(InputError, match=r"out: wanted a name ending in .csv or .parquet"):
        export(store, tmp_path / "runs.xlsx")


def test_the_floor_of_a_panel_is_where_the_best_learner_reaches_the_target():
    """Independent draws, one above and two below: a floor right to within one example."""
    fields = {**FIELDS, "model": {}, "training": {}, "task": {"function": "and3"}}
    m = panel_floor(build_experiment(fields).panels[1], 20)
    p = 2 ** (-1 / 3)
    assert m == floor("and3", 20, p)
    above = best_learner(parse("and3"), 20, m + 1, p, draws=400, key=(5, 1)).identification
    below = best_learner(parse("and3"), 20, m - 2, p, draws=400, key=(5, 2)).identification
    assert above >= 0.8 >= below


def test_the_floor_of_a_function_that_cannot_be_simulated_is_fanos():
    assert floor("maj5", 10**6, 0.5) == math.ceil(fano(parse("maj5"), 10**6, 0.2, 0.5))
