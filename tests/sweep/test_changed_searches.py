"""A store goes on with other search settings: what is known is kept and is not repeated."""

import pytest
from experiments_for_tests import fields

from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.simulated import SimulatedFamily
from capax.sweep.running.job import jobs_of
from capax.sweep.running.question import in_range
from capax.sweep.running.runner import run_sweep
from capax.sweep.searching.search import AdaptiveSearch, GridSearch, Progress
from capax.sweep.storage.store import Store


def asking(T=(7, 31), **search):
    panels = {"threshold": {"T": list(T), "search": search}}
    return build_experiment(fields(panels=panels, scales={}))


NARROW = {"m_low": 5, "m_high": 20, "batch": 6, "min_trials": 12, "max_trials": 12}
WIDE = {"m_low": 13, "m_high": 90, "batch": 6, "min_trials": 12, "max_trials": 30}


def sweep(path, experiment, stop_after=None):
    """Run, or die after some trials; all trials of the store by (T, m, number)."""
    with Store.create_or_resume(path, experiment) as store:

        def report(status):
            if stop_after is not None and status.trials >= stop_after:
                raise KeyboardInterrupt

        try:
            run_sweep(experiment, store, report=report)
        except KeyboardInterrupt:
            assert stop_after is not None
        rows = store.select("SELECT T, m, number, solved, trial_id FROM trials")
        return {tuple(row)[:3]: tuple(row)[3:] for row in rows}


@pytest.mark.parametrize(
    "after",
    [WIDE, {**NARROW, "max_trials": 24, "min_trials": 24}, {"method": "grid", "m": [11, 40]}],
)
def test_new_settings_keep_every_known_trial_and_count_it(tmp_path, after):
    path = tmp_path / "s.sqlite"
    before = sweep(path, asking(**NARROW))
    both = sweep(path, asking(**after))
    assert before.items() <= both.items() and len(both) > len(before)
    with Store.read(path) as store:
        assert store.unfinished() == ()
        assert store.experiment.panels[0].search == asking(**after).panels[0].search
    if after.get("max_trials"):  # the known trials count towards the budget
        assert len(both) <= 2 * after["max_trials"]
    assert sweep(path, asking(**after)) == both  # nothing more to do


@pytest.mark.parametrize("killed_at", [3, 9, 14, 27, 31])
def test_a_changed_search_that_is_killed_ends_as_if_nothing_had_happened(tmp_path, killed_at):
    """Also when the first search was itself interrupted, with holes in its numbers."""
    whole, killed = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    for path in (whole, killed):
        sweep(path, asking(**NARROW), stop_after=17)
    expected = sweep(whole, asking(**WIDE))
    sweep(killed, asking(**WIDE), stop_after=17 + killed_at)
    assert sweep(killed, asking(**WIDE)) == expected


def test_holes_in_the_numbers_are_filled():
    given = {(11, 0): True, (11, 2): False}
    progress = Progress(GridSearch(m=(11, 13), trials=4), restarts=1, known={}, given=given)
    cells = []
    while (cell := progress.take()) is not None:
        cells.append(cell)
    assert cells == [(13, 0), (13, 1), (13, 2), (13, 3), (11, 1), (11, 3)]  # the largest m first


def test_other_T_and_panels_join_and_old_ones_stay(tmp_path):
    path = tmp_path / "s.sqlite"
    before = sweep(path, asking(**NARROW))
    more = sweep(path, asking(T=(31, 101), **NARROW))
    assert before.items() <= more.items() and {T for T, _, _ in more} == {7, 31, 101}
    grid = {"curves": {"T": 11, "search": {"method": "grid", "m": [5, 40], "trials": 3}}}
    sweep(path, build_experiment(fields(panels=grid, scales={})))
    with Store.read(path) as store:
        panels = {panel.name: sorted(panel.T) for panel in store.experiment.panels}
        assert panels == {"curves": [11], "threshold": [7, 31, 101]}
        assert store.unfinished() == ()


def test_unfinished_T_are_named(tmp_path):
    path = tmp_path / "s.sqlite"
    sweep(path, asking(**NARROW), stop_after=17)
    with Store.read(path) as store:
        (left,) = store.unfinished()
        assert (left.T, left.trials) == (31, 5) and str(left) == "T = 31 (5 trials so far)"
    sweep(path, asking(**NARROW))
    sweep(path, asking(**WIDE), stop_after=25)  # another search makes all T unfinished again
    with Store.read(path) as store:
        assert [job.T for job in store.unfinished()] == [7, 31]


def test_m_that_make_no_sense_are_out_of_range(tmp_path):
    def panel(**search):
        given = {"function": "and3", "family": "transformer", "T": [300], "search": search}
        return build_experiment(given).panels[0]

    search, note = in_range(panel(), 300)
    assert isinstance(search, AdaptiveSearch) and 15 <= search.m_low <= 25 and note == ""
    nothing, why = in_range(panel(m_high=12), 300)
    assert nothing is None and "out of range" in why and "m <= 12" in why
    assert in_range(panel(method="grid", m=[5]), 300) == (panel(method="grid", m=[5]).search, "")
    experiment = build_experiment(
        {"function": "and3", "family": "transformer", "T": [300], "search": {"m_high": 12}}
    )
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        assert run_sweep(experiment, store).finished_jobs == 1
        assert [job.finished for job in jobs_of(experiment, store)] == [True]
        assert "out of range" in str(store.unfinished()[0])


def test_ambiguous_draws_are_unsolved_trials_with_a_reason(tmp_path):
    """m = 4 of T = 300 always leaves several rules: nothing trains, nothing dies."""
    given = {
        "task": {"function": "and3", "max_tries": 20, "validation_size": 100},
        "model": {"family": "mlp", "width": 3},
        "training": {"steps": 2, "eval_every": 2, "restarts": 2},
        "T": 300,
        "search": {"method": "grid", "m": [4, 90], "trials": 2},
    }
    experiment = build_experiment({"name": "few", **given})
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        run_sweep(experiment, store)
        rows = store.select("SELECT m, solved, reason FROM trials ORDER BY m, number")
        runs = store.select("SELECT DISTINCT m FROM runs JOIN trials USING (trial_id)")
        assert store.unfinished() == ()
    assert [(row["m"], row["solved"]) for row in rows] == [(4, 0), (4, 0), (90, 0), (90, 0)]
    assert all("left several placements" in row["reason"] for row in rows[:2])
    assert [row["reason"] for row in rows[2:]] == ["", ""] and [r["m"] for r in runs] == [90]


def test_a_T_that_cannot_be_done_does_not_end_the_others(tmp_path, monkeypatch):
    from capax.errors import InfeasibleError
    from capax.sweep.families import known_families

    class Small(SimulatedFamily):
        def learner(self, panel, T):
            def refuse(trials):
                next(trials)
                raise InfeasibleError("memory: T = 7 is too much")
                yield

            return refuse if T == 7 else super().learner(panel, T)

    monkeypatch.setitem(known_families._FAMILIES, "simulated", Small())
    for jobs_at_once in (1, 2):
        experiment, path = asking(**NARROW), tmp_path / f"{jobs_at_once}.sqlite"
        with Store.create_or_resume(path, experiment) as store:
            run_sweep(experiment, store, jobs_at_once=jobs_at_once)
            (stopped,) = store.unfinished()
            assert stopped.T == 7 and stopped.note == "stopped: memory: T = 7 is too much"
            assert len(store.known("threshold", 31)) == 12
