"""The anatomy of failure: what failed runs of a store compute, on the page."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import store_cases

from capax.analysis.tables.formulas import failed_runs
from capax.attention.checkpoint import save
from capax.attention.transformer import Transformer, TransformerSpec
from capax.report.build import build_page
from capax.report.failure import failure_section
from capax.report.page import render_page
from capax.sweep.storage.store import Store

pytestmark = pytest.mark.usefixtures("without_layout")

T = 11


def constant_model(folder, bias: float) -> bytes:
    """A Transformer that always answers alike, whatever its attention does."""
    spec = TransformerSpec(T=T, d=6, heads=2, mlp_width=5)
    model = Transformer.init(spec, key=jax.random.key(3))
    ends = (0 * model.w, jnp.asarray(bias, jnp.float32))
    model = eqx.tree_at(lambda m: (m.w, m.b), model, ends)
    return save(folder / "m.safetensors", model).read_bytes()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store with two runs that failed and one that did not; its path and its trials."""
    tmp_path = tmp_path_factory.mktemp("failures")
    never, always = constant_model(tmp_path, -1.0), constant_model(tmp_path, 1.0)
    trials = []
    for number, (weights, step) in enumerate([(never, None), (always, None), (never, 300)]):
        curves = store_cases.accuracy_curves(0.5, 0.6 if step is None else 1.0)
        run = store_cases.stored_run(T, 19, number, 0, curves, solved_step=step)
        trials.append(("maps", T, 19, number, [store_cases.with_parameters(run, weights)]))
    wanted = store_cases.experiment(
        maps=store_cases.grid([19], trials=3, T=[T], keep_parameters=True)
    )
    return store_cases.write(tmp_path / "kept.sqlite", wanted, trials), trials


@pytest.fixture(scope="module")
def built(kept):
    return build_page([kept[0]])


def test_failed_runs_say_what_they_learnt_instead(kept, built):
    (path, trials), page = kept, built
    (part,) = [section for section in page.sections if section.kicker == "Failures"]
    failed = [runs[0].run_id for *_, runs in trials[:2]]
    assert all(run_id in part.html for run_id in failed)
    assert trials[2][-1][0].run_id not in part.html  # a solved run has nothing to explain
    assert "constant" in part.html and "all of them" in part.html
    with Store.read(path) as store:
        found = failed_runs(store, most=1)
    assert found.kept == 2 and found.tally()[0][:2] == ("constant", 1)
    assert "1 of them" in failure_section(found, anchor="a").html
    html = section_of(found, formula="<b>x1")
    assert "<b>" not in html and "&lt;b&gt;x1" in html
    assert "a function of 3 bits: <code>x2, x7, x10</code>" in section_of(
        found, formula="<b>" + "x10 & ~x2 | ~x7 & " * 9
    )
    html = section_of(found, formula="x3", kind="no short formula", agreement=0.812)
    assert "the nearest agrees on 81%" in html and html.count("<code>x3") == 1  # in its row


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_the_section_in_a_browser(built, width, scheme, tmp_path, open_file):
    """Nothing is wider than the page; the name of a run stays whole and leads to its row."""
    path = tmp_path / "report.html"
    path.write_text(render_page(built), encoding="utf-8")
    page = open_file(path, width, 800, color_scheme=scheme)
    part = page.locator("section", has_text="What did failed runs learn instead?")
    assert part.locator("tbody tr").first.inner_text().split("\t")[0] == "constant"
    part.locator("summary").click()
    link = part.locator("a[data-trace]").first
    assert link.bounding_box()["height"] < 30  # one line
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    link.click()
    assert "1 run of 1 trial" in page.locator("#runs .count").inner_text()
    assert page.locator("#runs .run-id").first.inner_text().startswith(link.inner_text())


def section_of(found, **changes):
    """The section of one run whose anatomy is changed."""
    anatomy = dataclasses.replace(found.runs[0].anatomy, **changes)
    run = dataclasses.replace(found.runs[0], anatomy=anatomy)
    return failure_section(dataclasses.replace(found, runs=(run,)), anchor="a").html
