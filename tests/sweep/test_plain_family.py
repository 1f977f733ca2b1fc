"""Any learner in a sweep: by name, by file, and what misbehaves is a failed run with its reason."""

from pathlib import Path

import pytest

from capax.errors import InputError
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.known_families import check_experiment, family_of
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store
from capax.sweep.storage.troubles import trouble_lines, troubles

BAD = Path(__file__).parents[1] / "learners" / "bad_learners.py"


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Every process imports the learner anew."""
    monkeypatch.setattr("capax.sweep.families.fit_pool.num_cores", lambda: 1)


def experiment(family, *, m=(20, 60), trials=2, **tables):
    search = {"method": "grid", "m": list(m), "trials": trials}
    task = {"reject_ambiguous": False, "validation_size": 211, **tables.pop("task", {})}
    return build_experiment(
        {
            "name": "learners",
            "task": task,
            "model": {"family": family, **tables.pop("model", {})},
            "panels": {"threshold": {"T": [11], "search": search}},
            "scales": {"quick": {}},
            **tables,
        }
    )


def swept(tmp_path, plan):
    path = tmp_path / "store.sqlite"
    with Store.create_or_resume(path, plan) as store:
        run_sweep(plan, store)
    with Store.read(path) as store:
        return store.select("SELECT outcome, reason, curves, path FROM runs")


def told(tmp_path):
    with Store.read(tmp_path / "store.sqlite") as store:
        return trouble_lines(troubles(store))


def test_a_tree_from_the_zoo_with_a_setting(tmp_path):
    pytest.importorskip("sklearn", reason="the tree is scikit-learn's")
    rows = swept(tmp_path, experiment("tree", m=(5, 200), trials=3, model={"max_depth": 7}))
    outcomes = [row["outcome"] for row in rows]
    assert len(outcomes) == 6
    assert outcomes.count("solved") >= 3
    assert {row["path"] for row in rows} == {"plain"}
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    "name, outcome, said",
    [
        ("raises", "failed", "bad_learners.py, line 16: KeyError: 'missing'"),
        ("nan", "diverged", "NaN in 211 of 211 answers"),
        ("hangs", "failed", "time limit of 0.3 s"),
    ],
)
def test_what_misbehaves_fails_and_the_sweep_goes_on(tmp_path, name, outcome, said):
    limit = 0.3 if name == "hangs" else 20.0
    plan = experiment(f"{BAD}:{name}", trials=1, training={"time_limit": limit})
    rows = swept(tmp_path, plan)
    assert [row["outcome"] for row in rows] == [outcome] * 2
    assert all(said in row["reason"] for row in rows)
    (line,) = told(tmp_path)
    assert line.startswith("threshold, T = 11: 2 of 2 runs failed: ")
    assert said in line


def test_a_learner_that_rolls_its_own_dice_is_told_so(tmp_path):
    family = f"{BAD}:not_deterministic"
    with pytest.raises(InputError, match="is not deterministic: two fits with the same data"):
        swept(tmp_path, experiment(family, trials=1))
    rows = swept(tmp_path / "..", experiment(family, trials=1, training={"deterministic": False}))
    assert len(rows) == 2


@pytest.mark.parametrize(
    "family, said",
    [
        ("treee", "model.family: unknown 'treee'; did you mean 'tree'?"),
        ("nowhere.py:build", "model.family: file not found: nowhere.py"),
        (f"{BAD}:nothing", "has no 'nothing'"),
    ],
)
def test_unknown_learners_are_refused_before_anything_runs(family, said):
    with pytest.raises(InputError) as raised:
        check_experiment(experiment(family))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "tables, said",
    [
        ({"training": {"stepz": 3}}, "stepz: unknown field of training"),
        ({"optimiser": {"momentum": 1}}, "momentum: unknown field of optimiser"),
        ({"task": {"seed": 3}}, "task.seed: set by the sweep"),
        ({"training": {"time_limit": -1}}, "time_limit"),
    ],
)
def test_impossible_settings_are_refused(tables, said):
    with pytest.raises(InputError) as raised:
        check_experiment(experiment("tree", **tables))
    assert said in str(raised.value)


def test_an_architecture_goes_to_the_engine():
    plan = experiment("mlp", model={"width": 13}, training={"steps": 20, "eval_every": 10})
    panel = plan.panels[0]
    trial = family_of(panel).trial(panel, 11, 20, 3)
    assert trial.spec.model.architecture == "mlp"
    assert trial.spec.task.seed == 3
    with pytest.raises(InputError, match="heads"):
        bad = experiment("linear_attention", model={"d": 6, "heads": 4})
        check_experiment(bad)


CONSTANT = "def fit(X, y):\n    return lambda Z: Z[:, 0] * 0\n"


def test_a_learner_that_was_edited_does_not_mix_with_its_old_trials(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(CONSTANT)

    def plan():
        return experiment(f"{mine}:fit", m=(5,), trials=1)

    with Store.create_or_resume(tmp_path / "s.sqlite", plan()) as store:
        before = store.experiment
    mine.write_text(CONSTANT + "# edited\n")
    with pytest.raises(InputError, match=r"mine\.py:fit has changed since .* choose another"):
        Store.create_or_resume(tmp_path / "s.sqlite", plan())
    mine.write_text(CONSTANT)
    with Store.create_or_resume(tmp_path / "s.sqlite", plan()) as store:
        assert store.experiment == before
    old = before.panels[0].model_copy(update={"source": ""})  # as stores were before
    without = before.model_copy(update={"panels": (old,)})
    with Store.create_or_resume(tmp_path / "old.sqlite", without):
        pass
    with Store.create_or_resume(tmp_path / "old.sqlite", plan()) as store:
        assert store.experiment.panels[0].source == before.panels[0].source != ""
