"""Figure 2 from a store: the thresholds of the analysis, laws with bands, the floor below."""

from dataclasses import replace

import figure_cases
import numpy as np
import pytest
import store_cases
from figure_cases import LENGTHS

from capax.analysis.floor import Floor, describe
from capax.analysis.reference.published import published
from capax.analysis.summary import summarise
from capax.analysis.threshold import thresholds
from capax.boolean.best_possible.disagreement import union_sample_size
from capax.boolean.parser import parse
from capax.figures.experiments.reference_band import Context
from capax.figures.experiments.threshold_comparison import NamedCurve, draw_threshold_comparison
from capax.figures.experiments.threshold_scaling import draw_threshold_scaling
from capax.figures.stored.threshold_records import threshold_scaling
from capax.sweep.storage.store import Store


def test_a_simulated_sweep_becomes_figure_2(tmp_path):
    with Store.read(store_cases.simulated_store(tmp_path / "s.sqlite")) as store:
        data, found, summary = threshold_scaling(store), thresholds(store), summarise(store)
    assert [(q.T, q.m_star, q.low, q.high, q.status) for q in data.points] == [
        (t.T, t.m_star, t.low, t.high, t.status) for t in found
    ]
    assert [q.T for q in data.points] == list(LENGTHS)
    for rates, point in zip(data.rates, data.points, strict=True):
        assert sum(rates.total) == point.trials
    others = [law.weight for law in data.laws[1:]]
    assert others == sorted(others, reverse=True)
    first = data.laws[0]
    assert np.all(first.low <= first.m) and np.all(first.m <= first.high)
    assert all(law.low is None for law in data.laws[1:])
    out = [law.name.split()[0] for law in data.laws if law.ruled_out]
    assert sorted(out) == sorted(summary["fit"]["ruled_out"])
    assert summary["fit"]["verdict"] in data.verdict
    assert (data.p, data.references, data.task) == (None, (), "simulated learner")
    draw_threshold_scaling(data)


@pytest.mark.parametrize("is_floor", [True, False])
def test_references_stand_in_their_order_and_name_their_protocol(tmp_path, monkeypatch, is_floor):
    known = {53: 24, 101: 27}  # stands in for the simulation, which has tests of its own
    monkeypatch.setattr(
        "capax.analysis.threshold.floor",
        lambda _f, T, _p, _target, protocol: Floor(
            known[T], known[T], known[T], 0.81, 0.01, 0.78, 0.01, 800, is_floor, describe(protocol)
        ),
    )
    with Store.read(store_cases.threshold_store(tmp_path / "s.sqlite")) as store:
        data = threshold_scaling(store)
    names = [reference.name for reference in data.references]
    label = "best learner, 5 guesses, no redraw"  # five restarts unless a file says otherwise
    assert names == [label, "one rule left in 80%", "one rule, union bound"]
    best, one_left, union = (reference.m for reference in data.references)
    assert best.tolist() == list(known.values())
    assert np.all(best <= one_left) and np.all(one_left <= union)
    p = 2 ** (-1 / 3)
    assert data.p == pytest.approx(p)
    assert union.tolist() == [union_sample_size(parse("and3"), T, 0.2, p) for T in (53, 101)]
    closed = [q for q in data.points if q.status == "closed"]
    assert all(q.ratio == q.m_star / known[q.T] for q in closed)
    assert all(q.ratio is None for q in data.points if q not in closed)
    if closed:
        wanted = "times the floor under every learner" if is_floor else "not a floor"
        assert wanted in data.verdict
    assert data.laws == () and "Too few T" in data.verdict


def test_a_length_without_a_number_is_drawn_in_words(tmp_path):
    path = store_cases.plateau_store(tmp_path / "s.sqlite")
    with Store.read(path) as store:
        data = threshold_scaling(store)
    statuses = {q.T: q.status for q in data.points}
    assert statuses[53] == "closed" and statuses[101].startswith("does not reach 80 %")
    assert statuses[307].startswith("> ") and data.points[2].m_star is None
    figure = draw_threshold_scaling(data)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any("under 80%" in text for text in texts)
    assert "At T = 101 success does not reach 80 % for any m tried." in data.verdict


def test_a_comparison_draws_the_published_points_once():
    """18 points of the paper behind two curves that both compare with it, and not without one."""
    points = published().figure2
    compared = replace(figure_cases.threshold_scaling(), context=Context(None, points, ""))
    for curves, drawn in (([compared, compared], 1), ([figure_cases.threshold_scaling()], 0)):
        named = [NamedCurve(f"curve {i}", data) for i, data in enumerate(curves)]
        (axes,) = draw_threshold_comparison(named).axes
        bars = [found for found in axes.containers if len(found.lines[0].get_xdata()) == 18]
        assert len(bars) == drawn
        for found in bars:
            assert list(found.lines[0].get_xdata()) == [q.T for q in points]
            assert list(found.lines[0].get_ydata()) == [q.m_star for q in points]
