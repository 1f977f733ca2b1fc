"""Laws: recovered where they hold, told apart where the data allow it, and only there."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from capax.analysis.scaling import LAWS, Point, fit_scaling
from capax.errors import InputError

TS = (50, 100, 200, 300, 400, 600, 800)
LONG = (50, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def measured(law, Ts, *, width=1.15, seed=None):
    """Points on a law, or scattered around it as their intervals say."""
    rng = np.random.default_rng(seed)
    points = []
    for T in Ts:
        m = law(T)
        spread = math.log(width) / 2 / 1.96
        value = m if seed is None else m * math.exp(spread * rng.standard_normal())
        points.append(Point(T, value, value / math.sqrt(width), value * math.sqrt(width)))
    return tuple(points)


@pytest.mark.parametrize(
    ("name", "law", "values"),
    [
        ("constant", lambda _: 61.0, (61.0,)),
        ("log", lambda T: 7 + 11 * math.log(T), (7.0, 11.0)),
        ("linear", lambda T: 30 + 0.2 * T, (30.0, 0.2)),
        ("power", lambda T: 5 + 2 * (T**0.5 - 1) / 0.5, (5.0, 2.0, 0.5)),
    ],
)
def test_exact_points_give_back_their_law(name, law, values):
    scaling = fit_scaling(measured(law, LONG))
    fit = next(f for f in scaling.fits if f.law == name)
    assert fit.chi2 == pytest.approx(0.0, abs=1e-9)
    assert [p.value for p in fit.parameters] == pytest.approx(values, rel=1e-6)
    assert fit.predict(np.array([70.0]))[0] == pytest.approx(law(70), rel=1e-6)
    assert scaling.best.law == name
    assert sum(f.weight for f in scaling.fits) == pytest.approx(1.0)


@pytest.mark.parametrize("law", ["log", "power"])
def test_least_squares_against_a_general_minimiser(law):
    points = measured(lambda T: 7 + 11 * math.log(T), TS, seed=3)
    fit = next(f for f in fit_scaling(points).fits if f.law == law)

    def chi2(values):
        total = 0.0
        for p in points:
            c = values[2] if law == "power" else 0.0
            rising = math.log(p.T) if abs(c) < 1e-9 else (p.T**c - 1) / c
            total += ((p.m_star - values[0] - values[1] * rising) / p.error) ** 2
        return total

    start = [p.value for p in fit.parameters]
    found = minimize(chi2, start, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-9})
    assert fit.chi2 == pytest.approx(found.fun, abs=0.01)  # the exponent is on a grid of 0.01


def test_aic_and_weights_from_their_definition():
    points = measured(lambda T: 7 + 11 * math.log(T), TS, seed=5)
    fits = fit_scaling(points).fits
    for fit in fits:
        assert fit.aic == pytest.approx(fit.chi2 + 2 * len(fit.parameters))
    raw = {fit.law: math.exp(-fit.aic / 2) for fit in fits}
    assert {f.law for f in fits} == set(LAWS)
    for fit in fits:
        assert fit.weight == pytest.approx(raw[fit.law] / sum(raw.values()))


def test_parameter_intervals_cover_the_truth():
    """Slope of the log law, 200 repetitions at 95%: fewer than 180 hits has probability < 1e-3."""
    hits = exponents = 0
    for seed in range(200):
        fits = fit_scaling(measured(lambda T: 7 + 11 * math.log(T), TS, seed=seed)).fits
        slope = next(f for f in fits if f.law == "log").parameters[1]
        c = next(f for f in fits if f.law == "power").parameters[2]
        hits += slope.low <= 11 <= slope.high
        exponents += (-9 if c.low is None else c.low) <= 0 <= (9 if c.high is None else c.high)
    assert hits >= 180 and exponents >= 180


def test_a_clear_logarithm_is_called_one():
    verdict = fit_scaling(measured(lambda T: 7 + 11 * math.log(T), LONG)).verdict
    assert verdict.startswith(
        "The log law describes the thresholds best: m* = a + b ln T with a = 7"
    )
    assert "Ruled out: constant, linear." in verdict or "Ruled out: linear, constant." in verdict
    assert "includes 0 (log)" in verdict and "1 (linear)" not in verdict


def test_a_power_between_log_and_linear_is_called_one():
    verdict = fit_scaling(measured(lambda T: 5 + T**0.5, LONG)).verdict
    assert verdict.startswith("The power law describes the thresholds best")
    assert "log" in verdict.split("Ruled out:")[1]


def test_a_law_with_the_smaller_weight_is_not_called_the_best():
    found = fit_scaling(measured(lambda T: 20 + 40 * (T**0.1 - 1), LONG, width=1.2))
    assert [fit.law for fit in found.fits[:2]] == ["power", "log"]
    wanted = "The log law describes the thresholds not clearly worse than a power law with a free"
    assert found.verdict.startswith(wanted)


def test_indistinct_laws_are_said_to_be_indistinct():
    """Neighbouring T and wide intervals: all laws are nearly the same function."""
    points = measured(lambda T: 40 + 0.02 * T, (100, 110, 120, 130, 140), width=1.6)
    verdict = fit_scaling(points).verdict
    assert "constant (weight" in verdict and "log (weight" in verdict
    assert "not distinguishable" in verdict and "Ruled out" not in verdict
    assert "[open, open], which includes 0 (log) and 1 (linear)" in verdict


def test_three_different_T_are_needed():
    with pytest.raises(InputError, match="points: wanted at least three different T"):
        fit_scaling(measured(lambda _: 9.0, (50, 50, 100)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [((0, 5.0, 4.0, 6.0), "T: wanted"), ((9, 5.0, 5.5, 6.0), "interval: wanted")],
)
def test_impossible_points(fields, message):
    with pytest.raises(InputError, match=message):
        Point(*fields)
