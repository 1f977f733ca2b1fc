"""Steps to solve: quantiles with exact intervals, laws of time, and the command."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import approx_fprime, minimize
from scipy.special import erfc

from capax.analysis.times import RunTimes, frontier, run_times, solve_times, time_laws
from capax.analysis.times.solve_times import quantile
from capax.analysis.times.time_fits import TimeSample, fitted_line
from capax.errors import InputError
from capax.figures.experiments.times_against_length import draw_times
from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial
from typed_command import typed


def times(by, T=10, s=2, every=1.0, limit=10_000, panel="p", m=7):
    by = np.array(by, float)
    after = np.where(np.isfinite(by), by - every, float(limit))
    return RunTimes(panel, T, m, s, limit, after, by)


def chance_of_at_most(k, n, q):
    """P(Bin(n, q) <= k) in fractions."""
    return sum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize("q", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)])
@pytest.mark.parametrize("n", [3, 6, 17, 40])
def test_the_interval_of_a_quantile_is_the_narrowest_that_covers(n, q):
    """Ranks by exact fractions: one rank further inside would miss more than 2.5 % on that side."""
    found = quantile(times(range(10, 10 * n + 1, 10)), float(q))
    tail = Fraction(1, 40)
    lows = [rank for rank in range(1, n + 1) if chance_of_at_most(rank - 1, n, q) <= tail]
    highs = [rank for rank in range(1, n + 1) if 1 - chance_of_at_most(rank - 1, n, q) <= tail]
    assert found.low == (10 * max(lows) - 1 if lows else 0)
    assert found.high == (10 * min(highs) if highs else None)
    assert found.value == 10 * math.ceil(n * q)


def test_runs_that_were_stopped_count_as_longer():
    """Two of six are unsolved: the median is a number, its upper end and the last quartile open."""
    row = solve_times(times([100, 200, 300, 400, math.inf, math.inf]))
    assert (row.median.value, row.solved, row.censored) == (300, 4, 2)
    assert row.median.high is None and row.quartiles[2].value is None
    nobody = solve_times(times([math.inf] * 6, limit=500))
    assert nobody.median.value is None and nobody.median.low == 500
    assert nobody.share_low == 0 and nobody.share_high == pytest.approx(1 - 0.025 ** (1 / 6))
    everybody = solve_times(times([100] * 6))
    assert everybody.share_high == 1 and everybody.share_low == pytest.approx(0.025 ** (1 / 6))


def test_a_run_that_was_given_up_early_bounds_the_median_only_by_its_steps():
    given_up = RunTimes("p", 10, 7, 2, 1000, np.array([50.0] * 6), np.array([math.inf] * 6))
    assert solve_times(given_up).median.low == 50


NOISE = {
    "log-normal": lambda e: erfc(e / math.sqrt(2)) / 2,
    "log-logistic": lambda e: 1 / (1 + np.exp(e)),
    "Weibull": lambda e: np.exp(-np.exp(e)),
}
"""Probability of more than e."""


def naive_loss(point, samples, shape, x):
    """Minus log-likelihood of (start, exponent, log spread, logit never), cell by cell."""
    start, exponent, log_spread, logit_never = point
    never, total = 1 / (1 + math.exp(-logit_never)), 0.0
    for cell, at in zip(samples, x, strict=True):
        beyond, middle = NOISE[shape], start + exponent * at
        noise = lambda t: (np.log(t) - middle) / math.exp(log_spread)  # noqa: B023, E731
        early = np.where(cell.after > 0, beyond(noise(np.maximum(cell.after, 1e-9))), 1.0)
        solved = np.isfinite(cell.by)
        span = early[solved] - beyond(noise(cell.by[solved]))
        total -= np.log((1 - never) * span).sum()
        total -= np.log(never + (1 - never) * early[~solved]).sum()
    return total


def simulated(random, T, exponent, runs, limit=2000, never=0.1, every=20):
    true = 3 * T**exponent * np.exp(0.5 * random.standard_normal(runs))
    true[random.random(runs) < never] = math.inf
    by = np.where(true <= limit, np.ceil(true / every) * every, math.inf)
    return times(by, T=T, every=every, limit=limit)


@pytest.mark.parametrize("shape", NOISE)
def test_slopes_of_the_loss_are_its_differences(shape):
    """Two groups; runs solved before the first look, never solved, and far from the line."""
    random = np.random.default_rng(6)
    cells = [simulated(random, T, 1.2, 9) for T in (5, 20, 60)]
    sample = TimeSample.of(cells, [1.0, 2.0, 3.0], [0, 0, 1])
    assert np.isneginf(sample.after).any() and np.isposinf(sample.by).any()
    at = np.median(sample.by[sample.solved]) + random.normal(size=len(sample.by))

    def loss(point):
        return sample.loss(at + point[0] * sample.x, point[1:3], point[3:], shape)

    point = np.array([0.1, -0.5, 0.3, -2.0, 1.0])
    _, moved, rest = loss(point)
    wanted = approx_fprime(point, lambda p: loss(p)[0], 1e-6)
    np.testing.assert_allclose([moved @ sample.x, *rest], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("exponents", [(1.7, 1.7, 1.7), (1.7, 1.3, 1.7)], ids=["line", "bent"])
def test_the_ends_of_the_exponent_lose_what_chi_square_allows(exponents):
    """An optimiser and a likelihood of the test's own, at the best line and at both ends.

    Where the times bend, the ends lie where the loss is larger by the lack of fit.
    """
    random = np.random.default_rng(3)
    lengths = (10, 20, 40)
    cells = [simulated(random, T, a, 15) for T, a in zip(lengths, exponents, strict=True)]
    x = [math.log(T) for T in lengths]
    line = fitted_line(TimeSample.of(cells, x, [0, 0, 0]))
    shift = {"Weibull": math.log(math.log(2))}.get(line.shape, 0.0) * line.spread[0]
    rest = [line.start - shift, math.log(line.spread[0]), stats.logistic.ppf(line.never[0])]
    assert naive_loss(np.insert(rest, 1, line.exponent), cells, line.shape, x) == pytest.approx(
        line.loss, abs=1e-3
    )
    assert line.low < line.exponent < line.high
    lack = max(1.0, stats.chi2.isf(line.p_fit, 1))
    assert (line.p_fit > 0.05) == (exponents[1] == 1.7) and (lack > 3) == (exponents[1] != 1.7)
    for end in (line.low, line.high):
        found = minimize(
            lambda p, end=end: naive_loss(np.insert(p, 1, end), cells, line.shape, x),
            [line.start - shift + (line.exponent - end) * np.mean(x), *rest[1:]],
            method="Nelder-Mead",
            options={"xatol": 1e-3, "fatol": 1e-4, "maxiter": 250},
        )
        allowed = lack * stats.chi2.ppf(0.95, 1)
        assert 2 * (found.fun - line.loss) == pytest.approx(allowed, rel=0.02)


def test_laws_find_the_exponent_of_many_runs_and_join_several_s():
    random = np.random.default_rng(5)
    cells = [
        simulated(random, T, 0.9 * s, 150, limit=10**6, never=0.2)
        for s in (2, 3)
        for T in (8, 16, 32)
    ]
    cells = [
        RunTimes(f"parity/function=parity{s}", c.T, c.m, s, c.limit, c.after, c.by)
        for c, s in zip(cells, (2, 2, 2, 3, 3, 3), strict=True)
    ]
    two, three, joint = time_laws(cells)
    assert (two.s, three.s, joint.s, joint.panel) == (2, 3, None, "parity")
    for law, true in ((two, 1.8), (three, 2.7), (joint, 0.9)):  # four standard errors
        assert abs(law.exponent - true) < law.high - law.low < 0.3
    assert joint.never == pytest.approx(0.2, abs=0.06)
    assert joint.high < joint.of_queries  # T^s is told apart
    assert three.median(16, 3) == pytest.approx(3 * 16**2.7, rel=0.2)


def test_a_law_needs_two_lengths_with_solved_runs():
    assert time_laws([times([10, 20]), times([math.inf] * 2, T=20)]) == ()


def moved(cell, panel, **fields):
    return replace(cell, panel=panel, **fields)


def test_a_law_runs_over_any_axis_with_numbers():
    """Heads, at two T, in any order; the other axis of the panel keeps lines apart."""
    random = np.random.default_rng(8)
    cells = [
        moved(
            simulated(random, x, 1.2, 25, never=0.0, every=1), f"p/heads={x}/lr=0.01", T=T, leap=2
        )
        for T in (5, 10)
        for x in (64, 4, 16)
    ]
    first, second = time_laws(cells, "heads")
    assert [(w.T, w.panel, w.values) for w in (first, second)] == [
        (T, "p/lr=0.01", (4.0, 16.0, 64.0)) for T in (5, 10)
    ]
    assert first.low < 1.2 < first.high and first.formula == "t* = c heads^a"
    assert first.of_queries is None and first.median(16) == pytest.approx(3 * 16**1.2, rel=0.4)
    assert time_laws(cells, "lr") == ()  # one value
    assert time_laws(cells, "d") == ()  # no such axis
    batches = [
        moved(c, f"p/batch_size={m}", T=5, m=m) for c, m in zip(cells, (64, 8), strict=False)
    ]
    (law,) = time_laws(batches, "batch_size")
    assert (law.m, law.values) == (None, (8.0, 64.0))


def test_the_joint_law_is_of_parities():
    """A staircase of three bits has leap 1: it has a law of its own and none with the others."""
    random = np.random.default_rng(9)
    cells = [
        moved(simulated(random, T, 0.9 * s, 12, limit=10**6), f"p/function={name}", s=s, leap=leap)
        for name, s, leap in (("parity2", 2, 2), ("parity3", 3, 3), ("staircase3", 3, 1))
        for T in (8, 16)
    ]
    *single, joint = time_laws(cells)
    assert [(w.s, w.leap, w.of_queries) for w in single] == [(2, 2, 2), (3, 3, 3), (3, 1, 1)]
    assert joint.joins_s and joint == time_laws(cells[:4])[-1]


def test_the_frontier_is_what_no_smaller_sample_beats():
    """Against the definition, all pairs; unsolved medians are never on it."""
    random = np.random.default_rng(4)
    rows = [
        solve_times(times(random.integers(1, 40, 5), T=T, m=int(m)))
        for T in (5, 6)
        for m in 1 + random.permutation(8)
    ]
    rows.append(solve_times(times([math.inf] * 3, T=7, m=3)))
    known = [row for row in rows if row.median.value is not None]
    wanted = {
        (row.T, row.m)
        for row in known
        if not any(
            other.T == row.T
            and other.m != row.m
            and other.m <= row.m
            and other.median.value <= row.median.value
            for other in known
        )
    }
    assert [(row.T, row.m) for row in frontier(rows)] == sorted(wanted)
    for shown, rings in ((rows, len(wanted)), (rows[-1:], 0)):
        (axes,) = draw_times(shown, (), over="m").axes
        assert sum(line.get_markersize() == 9 for line in axes.lines) == rings


STEPS = {5: (20, 40, 60, None), 10: (80, 110, 120, 120), 20: (None, None, None, None)}
"""Steps of the first runs by T; a restart of an unsolved one is solved at once."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of the shipped experiment, its outcomes written by hand."""
    path = tmp_path_factory.mktemp("times") / "parity.sqlite"
    experiment = load_experiment(experiment_path("parity"), "smoke")
    panel = experiment.panels[0].name
    with Store.create_or_resume(path, experiment) as store:
        for T, all_steps in STEPS.items():
            for index, steps in enumerate(all_steps):
                trial = Trial(panel, T, 64, index, f"{T}-{index}", None)
                runs = (run(T, index, 0, steps), run(T, index, 1, 10)) if steps is None else ()
                store.add(Outcome(trial, True, runs or (run(T, index, 0, steps),)))
    return path


def run(T, index, restart, steps):
    spec = {"steps": 600, "eval_every": 20, "task": {"function": "parity2", "T": T}}
    outcome = "failed" if steps is None else "solved"
    made = 600 if steps is None else steps
    return Run(f"{T}-{index}-{restart}", restart, outcome, steps, made, 0.1, spec)


def test_times_of_a_store(store, tmp_path):
    """Rows of the command equal those counted by hand: first runs only, medians of four."""
    picture = tmp_path / "times.png"
    said = json.loads(typed("times", store, "--json", "--plot", picture).stdout)
    five, ten, twenty = said["rows"]
    assert (five["T"], five["s"], five["m"], five["limit"]) == (5, 2, 64, 600)
    assert (five["median"], five["solved"], five["censored"]) == (40, 3, 1)
    assert (five["lower_quartile"], five["upper_quartile"], five["high"]) == (20, 60, None)
    assert (ten["median"], ten["censored"]) == (110, 0)
    assert (twenty["median"], twenty["solved"], twenty["censored"]) == (None, 0, 4)
    (law,) = said["laws"]
    assert (law["s"], law["statistical_queries"], law["T"]) == (2, 2, [5, 10, 20])
    assert picture.stat().st_size > 10_000
    text = typed("times", store).stdout
    assert "> 600" in text and "3 of 4" in text and "statistical queries: a = 2" in text
    (left,) = said["unfinished"]  # the experiment asks for T = 5 alone
    assert (left["T"], left["trials"]) == (5, 4) and "The sweep has not ended (" in text
    experiment = load_experiment(experiment_path("parity"), "smoke")
    with Store.create_or_resume(store, experiment) as opened:
        for T in STEPS:
            opened.close_job(left["panel"], T)
    said = typed("times", store, "--over", "m").stdout
    assert "has not ended" not in said
    assert "No law: solved runs at two values of m are needed." in said
    assert said.count(" *") == 2 and "no smaller sample was as fast" in said


def test_a_function_of_symbols_is_read_with_its_alphabet(tmp_path):
    experiment = load_experiment(experiment_path("parity"), "smoke")
    task = {"function": "(x0 == 2) | (x2 == 1)", "T": 5, "alphabet": 3}
    only = Run("r", 0, "solved", 20, 20, 0.1, {"steps": 600, "eval_every": 20, "task": task})
    with Store.create_or_resume(tmp_path / "symbols.sqlite", experiment) as store:
        trial = Trial(experiment.panels[0].name, 5, 64, 0, "t", None)
        store.add(Outcome(trial, True, (only,)))
        (found,) = run_times(store)
        other = Trial("another", 5, 64, 0, "u", None)
        store.add(Outcome(other, True, (replace(only, run_id="r2", solved_step=40),)))
        (named,) = run_times(store, "another")
        assert (named.panel, named.by.tolist(), len(run_times(store))) == ("another", [40.0], 2)
        lost = replace(only, run_id="r3", outcome="diverged", solved_step=None, steps=20)
        store.add(Outcome(Trial("lost", 5, 64, 0, "v", None), False, (lost,)))
        (never,) = run_times(store, "lost")
        assert (never.after.tolist(), never.by.tolist()) == ([600.0], [math.inf])
    assert (found.s, found.after.tolist(), found.by.tolist()) == (2, [0.0], [20.0])


def test_bad_input_of_times(store, tmp_path):
    for q in (0.0, 1.0):
        with pytest.raises(InputError, match="q: wanted a number between 0 and 1"):
            quantile(times([10, 20]), q)
    for by in (10.0, 9.0):
        with pytest.raises(InputError, match="by: wanted later than after"):
            RunTimes("p", 10, 7, 2, 100, np.array([10.0]), np.array([by]))
    assert (
        "no finished runs of panel 'nothing'" in typed("times", store, "--panel", "nothing").stderr
    )
    assert typed("times", store, "--plot", tmp_path / "x.doc").returncode == 2
    assert "--over: wanted T, m or an axis" in typed("times", store, "--over", "heads").stderr
    fitted = typed("times", "paper")
    assert fitted.returncode == 2 and "no finished runs" in fitted.stderr
