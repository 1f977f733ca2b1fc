"""Tables of runs: formulas of kept models, further columns, and what is left of a damaged store."""

import jax
import numpy as np
import pytest

from capax.analysis.tables import formulas
from capax.analysis.tables.run_columns import RunColumns
from capax.analysis.tables.salvaged import salvaged_frame
from capax.attention.checkpoint import save
from capax.attention.transformer import Transformer, TransformerSpec
from capax.data.examples import training_examples
from capax.data.task import TaskSpec
from capax.decompile.anatomy import Anatomy
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.storage.salvage import examine
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial

T = 5
TASK = {"function": "and2", "p": 0.3, "T": T, "m": 19, "seed": 4}
SPEC = {"task": TASK, "mode": "full_batch", "optimiser": {"lr": 0.1}, "T": T, "m": 19, "restart": 0}
PLAN = {
    "name": "toy",
    "function": "and2",
    "panels": {"maps": {"T": [T], "search": {"method": "grid", "m": [19], "trials": 3}}},
}


@pytest.fixture(scope="module")
def model():
    spec = TransformerSpec(T=T, d=4, heads=2, mlp_width=3)
    return jax.jit(lambda: Transformer.init(spec, key=jax.random.key(3)))()


def written(path, *trials):
    """A store of (runs of a trial, reason), trial by trial."""
    with Store.create_or_resume(path, build_experiment(PLAN)) as store:
        for index, (runs, reason) in enumerate(trials):
            trial = Trial("maps", T, 19, index, f"trial {index}", None)
            store.add(Outcome(trial, False, runs, reason))
    return path


def test_models_are_read_with_the_inputs_and_examples_of_their_own_task(
    tmp_path, monkeypatch, model
):
    """The models themselves, the law of their inputs, and examples only where these were fixed."""
    kept = save(tmp_path / "m.safetensors", model).read_bytes()
    runs = [
        Run(name, 0, outcome, None, 9, 0.1, {**SPEC, "mode": mode}, parameters=kept)
        for name, outcome, mode in (
            ("a", "failed", "full_batch"),
            ("b", "failed", "online"),
            ("c", "solved", "online"),
        )
    ]
    path, asked = written(tmp_path / "s.sqlite", *(((run,), "") for run in runs)), []

    def quick(found, target, *, p, data=None):
        asked.append((found, target.s, p, data))
        return Anatomy("constant", "0", 0.5, 0, 2, 0, None)

    monkeypatch.setattr(formulas, "quick_anatomy", quick)
    with Store.read(path) as store:
        assert list(formulas.formulas_of(store)) == ["a", "b", "c"]
        failed = formulas.failed_runs(store)
    assert [run.run_id for run in failed.runs] == ["a", "b"] and failed.kept == 2
    assert {(s, p) for _, s, p, _ in asked} == {(2, 0.3)}
    assert [data is None for *_, data in asked] == [False, True, True, False, True]
    np.testing.assert_array_equal(asked[0][-1].X, training_examples(TaskSpec(**TASK)).X)
    for found, *_ in asked:
        np.testing.assert_array_equal(found.w, model.w)


def test_settings_are_columns_once(tmp_path):
    """T, m and the restart are columns of every table."""
    run = Run("a", 0, "failed", None, 9, 0.1, SPEC)
    with Store.read(written(tmp_path / "s.sqlite", ((run,), ""))) as store:
        assert RunColumns.of(store, settings=True).names == (
            "mode", "optimiser.lr", "task.function", "task.p", "task.seed",
        )  # fmt: skip


def test_what_is_left_of_a_store_is_a_table_of_runs(tmp_path):
    """Runs with their trials; none where every trial ended without a run."""
    run = Run("a", 0, "failed", None, 9, 0.1, SPEC)
    one = salvaged_frame(examine(written(tmp_path / "s.sqlite", ((run,), ""), ((), "no data"))))
    assert (list(one["run_id"]), list(one["m"]), list(one["trial"])) == (["a"], [19], [0])
    assert len(salvaged_frame(examine(written(tmp_path / "n.sqlite", ((), "no data"))))) == 0
