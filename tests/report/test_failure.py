"""The anatomy of failure: what failed runs of a store compute, on the page."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import store_cases

from capax.analysis.formulas import failed_runs
from capax.attention.checkpoint import save
from capax.attention.transformer import Transformer, TransformerSpec
from capax.report.build import build_page
from capax.report.failure import failure_section
from capax.sweep.storage.store import Store

T = 11


def constant_model(folder, bias: float) -> bytes:
    """A Transformer that always answers alike, whatever its attention does."""
    spec = TransformerSpec(T=T, d=6, heads=2, mlp_width=5)
    model = Transformer.init(spec, key=jax.random.key(3))
    ends = (0 * model.w, jnp.asarray(bias, jnp.float32))
    model = eqx.tree_at(lambda m: (m.w, m.b), model, ends)
    return save(folder / "m.safetensors", model).read_bytes()


def test_failed_runs_say_what_they_learnt_instead(tmp_path):
    never, always = constant_model(tmp_path, -1.0), constant_model(tmp_path, 1.0)
    trials = []
    for number, (weights, step) in enumerate([(never, None), (always, None), (never, 300)]):
        curves = store_cases.accuracy_curves(0.5, 0.6 if step is None else 1.0)
        run = store_cases.stored_run(T, 19, number, 0, curves, solved_step=step)
        trials.append(("maps", T, 19, number, [store_cases.with_parameters(run, weights)]))
    wanted = store_cases.experiment(
        maps=store_cases.grid([19], trials=3, T=[T], keep_parameters=True)
    )
    path = store_cases.write(tmp_path / "kept.sqlite", wanted, trials)
    page = build_page([path])
    (part,) = [section for section in page.sections if section.kicker == "Failures"]
    failed = [runs[0].run_id for *_, runs in trials[:2]]
    assert all(run_id in part.html for run_id in failed)
    assert trials[2][-1][0].run_id not in part.html  # a solved run has nothing to explain
    assert "constant" in part.html and "all of them" in part.html
    with Store.read(path) as store:
        found = failed_runs(store, most=1)
    assert found.kept == 2 and found.tally()[0][:2] == ("constant", 1)
    assert "1 of them" in failure_section(found, anchor="a").html
    hostile = dataclasses.replace(found.runs[0].anatomy, formula="<b>" + "x1 & " * 40)
    run = dataclasses.replace(found.runs[0], anatomy=hostile)
    html = failure_section(dataclasses.replace(found, runs=(run,)), anchor="a").html
    assert "<b>" not in html and "..." in html
