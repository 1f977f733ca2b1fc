"""Figure 2 from a store: the thresholds of the analysis, laws with bands, the floor below."""

import numpy as np
import pytest
import store_cases
from figure_cases import LENGTHS

from capax.analysis.scaling import Point, fit_scaling
from capax.analysis.summary import summarise
from capax.analysis.threshold import thresholds
from capax.boolean.disagreement import union_sample_size
from capax.boolean.parser import parse
from capax.figures.stored_thresholds import prediction_error, threshold_scaling
from capax.figures.threshold_scaling import draw_threshold_scaling
from capax.sweep.store import Store


def test_a_simulated_sweep_becomes_figure_2(tmp_path):
    with Store.read(store_cases.simulated_store(tmp_path / "s.sqlite")) as store:
        data, found, summary = threshold_scaling(store), thresholds(store), summarise(store)
    assert [(q.T, q.m_star, q.low, q.high) for q in data.points] == [
        (t.T, t.m_star, t.low, t.high) for t in found
    ]
    assert [q.T for q in data.points] == list(LENGTHS)
    for rates, point in zip(data.rates, data.points, strict=True):
        assert sum(rates.total) == point.trials
    weights = [law.weight for law in data.laws]
    assert weights == sorted(weights, reverse=True)
    assert summary["fit"]["verdict"] in data.verdict
    assert (data.p, data.references, data.task) == (None, (), "simulated learner")
    draw_threshold_scaling(data)


def test_references_stand_in_their_order_below_the_union_bound(tmp_path, monkeypatch):
    known = {53: 24, 101: 27}  # stands in for the simulation, which has tests of its own
    monkeypatch.setattr("capax.analysis.threshold.floor", lambda _f, T, _p, _target: known[T])
    with Store.read(store_cases.threshold_store(tmp_path / "s.sqlite")) as store:
        data = threshold_scaling(store)
    names = [reference.name for reference in data.references]
    assert names == ["best learner", "one rule left", "union bound"]
    best, one_left, union = (reference.m for reference in data.references)
    assert best.tolist() == list(known.values())
    assert np.all(best <= one_left) and np.all(one_left <= union)
    p = 2 ** (-1 / 3)
    assert data.p == pytest.approx(p)
    assert union.tolist() == [union_sample_size(parse("and3"), T, 0.2, p) for T in (53, 101)]
    assert "times what the best learner needs" in data.verdict
    assert data.laws == ()


def test_the_band_of_a_law_is_the_spread_of_refits():
    """Oracle: refit 4000 noisy copies. Their spread has relative error 1/sqrt(8000), 1.1%; the
    tolerance of 8% is 7 standard errors, so a wrong alarm at 3 places has probability < 1e-10."""
    T = np.array([53.0, 101.0, 307.0, 809.0])
    points = tuple(
        Point(int(t), 40 + 5 * np.log(t), 35 + 5 * np.log(t), 46 + 5 * np.log(t)) for t in T
    )
    errors = np.array([point.error for point in points])
    grid = np.array([53.0, 200.0, 809.0])
    generator = np.random.default_rng(7)
    columns = {"log": np.log, "linear": np.asarray}
    for fit in fit_scaling(points).fits:
        if fit.law not in columns:
            continue
        design = np.stack([np.ones(4), columns[fit.law](T)], axis=1)
        noisy = fit.predict(T)[:, None] + errors[:, None] * generator.standard_normal((4, 4000))
        values = np.linalg.lstsq(design / errors[:, None], noisy / errors[:, None], rcond=None)[0]
        refits = np.stack([np.ones(3), columns[fit.law](grid)], axis=1) @ values
        assert prediction_error(fit, grid, points) == pytest.approx(refits.std(axis=1), rel=0.08)


def test_the_power_law_has_no_band():
    points = tuple(Point(T, 50.0, 45.0, 56.0) for T in (53, 101, 307, 809))
    power = next(fit for fit in fit_scaling(points).fits if fit.law == "power")
    assert prediction_error(power, np.array([100.0]), points) is None
