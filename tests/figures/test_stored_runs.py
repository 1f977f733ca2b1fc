"""Stores become figures: the right panels, the right runs, every number as it was stored."""

import pytest
import store_cases

from capax.errors import InputError
from capax.figures.stored.curves import learning_curves, parity_transition
from capax.figures.stored.runs import describe_task, panel_kind, panels_of, stored_runs
from capax.sweep.storage.store import Store


@pytest.mark.parametrize(
    ("panel", "kind"),
    [
        ({"T": [7], "search": {"method": "adaptive"}}, "thresholds"),
        (store_cases.grid([5, 9, 11, 17], trials=40, T=[7]), "thresholds"),
        (store_cases.grid([5, 9], T=[7]), "curves"),
        (store_cases.grid([5], T=[7], keep_parameters=True), "attention"),
        (store_cases.grid([5], trials=10, T=[7], training={"mode": "online"}), "transition"),
    ],
)
def test_the_settings_of_a_panel_say_what_it_is_for(panel, kind):
    assert panel_kind(store_cases.experiment(only=panel).panels[0]) == kind


def test_runs_come_back_as_they_were_stored(tmp_path):
    with Store.read(store_cases.curve_store(tmp_path / "s.sqlite")) as store:
        runs = stored_runs(store)
        assert [panel.name for panel in panels_of(store, "curves")] == ["curves"]
        assert stored_runs(store, "other") == []
    assert [(run.m, run.restart) for run in runs] == [(53, 0), (53, 1), (199, 0), (199, 1)]
    assert runs[0].spec["task"]["T"] == 307
    assert [run.final_accuracy for run in runs] == [0.8, 0.6, 0.7, 1.0]


def test_learning_curves_take_the_best_run_of_every_trial(tmp_path):
    with Store.read(store_cases.curve_store(tmp_path / "s.sqlite")) as store:
        data = learning_curves(store, thresholds={307: 67})
    assert (data.T, data.task, data.threshold) == (307, "3-bit AND", 67)
    last = {curve.m: curve.validation_accuracy[-1] for curve in data.curves}
    assert last == {199: 1.0, 53: 0.8}


def test_parity_panels_are_ordered_by_length_and_know_s(tmp_path):
    with Store.read(store_cases.transition_store(tmp_path / "s.sqlite")) as store:
        data = parity_transition(store)
    assert [(panel.T, panel.s, len(panel.runs)) for panel in data.panels] == [
        (11, 3, 2),
        (13, 3, 2),
    ]
    assert data.panels[1].summary() == "1 of 2 seeds solved, at step 100"
    assert data.has_attention


def test_parity_without_measured_attention(tmp_path):
    path = store_cases.transition_store(tmp_path / "s.sqlite", with_mass=False)
    with Store.read(path) as store:
        assert not parity_transition(store).has_attention


@pytest.mark.parametrize(
    ("write", "read", "figure"),
    [
        (store_cases.transition_store, learning_curves, "Figure 3"),
        (store_cases.curve_store, parity_transition, "Figure 4"),
    ],
)
def test_a_store_without_the_wanted_runs_says_so(tmp_path, write, read, figure):
    path = write(tmp_path / "s.sqlite")
    with Store.read(path) as store, pytest.raises(InputError, match=f"no runs .*{figure}"):
        read(store)


def test_tasks_in_words():
    assert describe_task({"task": {"function": "and3"}}) == "3-bit AND"
    assert describe_task({"task": {"function": "maj5"}}) == "5-bit majority"
    assert describe_task({"task": {"function": "x0 & ~x1"}}) == "x0 & ~x1"
    assert describe_task({"learner": {}}) == "simulated learner"


def test_figures_3_and_4_come_with_the_package():
    """Curves above and below the threshold, models with one head and with several, parities."""
    from capax.figures.paper.from_stores import DEFAULTS
    from capax.figures.stored.attention import _first

    with Store.read(DEFAULTS[3]) as store:
        curves = learning_curves(store)
        kept = {p.name: _first(store, p.name) for p in panels_of(store, "attention")}
    assert {curve.m for curve in curves.curves} == {50, 200} and curves.T == 300
    assert set(kept) == {"attention", "single_head"}
    assert all(run is not None and run.outcome == "solved" for run in kept.values())
    with Store.read(DEFAULTS[4]) as store:
        panels = parity_transition(store).panels
    assert [(panel.T, len(panel.runs)) for panel in panels] == [(10, 10), (15, 10)]
