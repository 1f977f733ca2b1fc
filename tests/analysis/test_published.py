"""The published points: what was read off the figures, and how thresholds compare with them."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, chi2, hypergeom

from capax.analysis.reference.published import (
    beside_published,
    beside_published_replicates,
    beside_published_times,
    crossing_step,
    published,
    published_laws,
    resampled_threshold,
)
from capax.analysis.reference.published_runs import beside_published_runs
from capax.analysis.tables.threshold_tables import as_csv, as_latex
from capax.analysis.threshold import threshold_of
from capax.errors import InputError
from capax.reading import existing_store
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.simulated import SimulatedSpec
from capax.sweep.searching.counts import Counts
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial
from typed_command import typed

SIZES = tuple(range(50, 201, 10))


def test_the_points_that_travel_are_those_of_the_paper():
    found = published()
    assert [q.T for q in found.figure2] == [*range(100, 801, 50), 900, 1000, 1100]
    assert all(q.low <= q.m_star <= q.high for q in found.figure2)
    at = {q.T: q for q in found.figure2}
    assert (at[600].m_star, at[600].low, at[600].high) == (94.1, 84.1, 104.1)
    assert [q.T for q in found.figure2 if q.at_most] == [100]
    assert found.figure3["solved"] == {"50": 24, "200": 40} and found.figure3["replicates"] == 40
    assert len(found.figure3["unsolved_accuracy"]["50"]) == 40 - 24
    assert all(len(steps) == 10 for steps in found.figure4["steps"].values())
    assert "read off the figure" in found.provenance


def test_the_published_range_does_not_tell_log_from_linear():
    """Chi-squares of PAPER.md 3.6; all of them fit 17 points with 15 degrees of freedom."""
    alone = published_laws()
    assert alone == pytest.approx({"log": 10.6, "linear": 10.4, "sqrt": 6.8}, abs=0.06)
    assert all(chi2.sf(value, 15) > 0.7 for value in alone.values())
    whole = published_laws(with_smallest=True)
    assert whole == pytest.approx({"log": 20.7, "linear": 10.5, "sqrt": 8.3}, abs=0.06)


def test_the_resampled_estimator_against_its_exact_law():
    """P[first m with a share of 80 %] by the binomial law; 4.5 standard errors of the mean."""
    counts = Counts((50, 60, 70, 80), (20, 29, 34, 40), (40, 40, 40, 40))
    reach = [1 - binom.cdf(31, 40, k / 40) for k in counts.solved]
    none_before = np.cumprod([1.0, *(1 - r for r in reach[:-1])])
    law = none_before * reach
    mean = float(law @ np.array(counts.m))
    spread = math.sqrt(float(law @ (np.array(counts.m) - mean) ** 2))
    found = resampled_threshold(counts, resamples=4000)
    assert found.m_star == pytest.approx(mean, abs=4.5 * spread / math.sqrt(4000))
    assert found.deviation == pytest.approx(spread, rel=0.1) and found.unreached == 0


def test_the_resampled_estimator_where_there_is_nothing_to_say():
    assert resampled_threshold(Counts((50, 60), (3, 5), (5, 5))) is None  # too few trials
    assert resampled_threshold(Counts((50, 60), (3, 9), (40, 40))) is None  # never reached
    half = resampled_threshold(Counts((50, 60), (0, 33), (40, 40)), resamples=400)
    assert half.m_star == 60 and 0 < half.unreached < 200
    exact = resampled_threshold(Counts((50,), (40,), (40,)))
    assert (exact.m_star, exact.deviation) == (50, 0)
    with pytest.raises(InputError, match="resamples"):
        resampled_threshold(Counts((50,), (40,), (40,)), resamples=1)


def drawn(scale, seed, lengths):
    """40 trials at each m of the paper's grid; m* = scale times the published number."""
    dice, stars = np.random.default_rng(seed), {q.T: q.m_star for q in published().figure2}
    found = []
    for T in lengths:
        learner = SimulatedSpec(threshold=scale * stars[T], spread=0.15)
        solved = tuple(int(dice.binomial(40, learner.success(m))) for m in SIZES)
        found.append(threshold_of("p", T, Counts(SIZES, solved, (40,) * len(SIZES))))
    return found


LENGTHS = (100, 300, 400, 600, 800, 1100)


def test_the_same_thresholds_agree_and_others_do_not():
    same = beside_published(drawn(1.0, 3, LENGTHS))
    assert same.agrees and same.within_two >= 5 and same.p_value > 0.05
    assert "No difference is shown from the paper's Figure 2 at 6 T" in same.verdict
    other = beside_published(drawn(0.75, 3, LENGTHS))
    assert not other.agrees and other.p_value < 0.01 and other.lean < -2
    assert "Differs from the paper's Figure 2 at 6 T" in other.verdict
    first = other.rows[0]  # the paper's smallest m sufficed: to need less is no difference
    assert first.T == 100 and first.deviations == 0 and first.agrees
    assert beside_published(drawn(1.0, 3, ())) is None


def test_the_p_value_from_its_definition():
    found = beside_published(drawn(0.9, 5, LENGTHS))
    differences = []
    for row in found.rows:
        spread = math.hypot(
            max(row.resampled.deviation, 10 / math.sqrt(12)),
            max(row.published.deviation, 10 / math.sqrt(12)),
        )
        difference = row.resampled.m_star - row.published.m_star
        differences.append((max(0, difference) if row.T == 100 else difference) / spread)
    assert [row.deviations for row in found.rows] == pytest.approx(differences)
    assert found.chi_square == pytest.approx(sum(d**2 for d in differences))
    assert found.lean == pytest.approx(sum(differences) / math.sqrt(6))
    both = chi2.sf(found.chi_square, 6), chi2.sf(found.lean**2, 1)
    assert found.p_value == pytest.approx(min(1, 2 * min(both)))
    assert found.within_two == sum(abs(d) <= 2 for d in differences)


def test_less_than_the_smallest_m_of_the_paper_is_no_difference():
    """At T = 100 the paper's smallest m sufficed; ours needs 30, which the paper did not try."""
    sizes = (20, 30, 40, 50)
    counts = Counts(sizes, (2, 39, 40, 40), (40,) * 4)
    found = threshold_of("p", 100, counts)
    (row,) = beside_published([found]).rows
    assert (row.mine.m, row.mine.low, row.mine.high) == (found.m_star, found.low, found.high)
    assert row.resampled.m_star == 30 and row.deviations == 0 and row.agrees


def test_few_trials_are_compared_by_intervals_alone():
    counts = Counts((40, 60, 80, 100), (0, 4, 5, 5), (5, 5, 5, 5))
    found = beside_published([threshold_of("p", 300, counts)])
    assert found.p_value is None and "too few trials at each m" in found.verdict


def test_simulated_agreement_has_its_level():
    """True thresholds as published: a difference is claimed about once in twenty sweeps. 10 sweeps
    at a conservative 5 %: 4 or more have probability below 0.002."""
    wrong = sum(not beside_published(drawn(1.0, seed, (300, 900))).agrees for seed in range(10))
    assert wrong < 4


def test_replicates_by_fishers_exact_test():
    found = beside_published_replicates(32, 40)
    law = hypergeom(80, 24 + 32, 40)  # ours among all, given how many were solved in all
    chances = law.pmf(np.arange(41))
    assert found.p_value == pytest.approx(chances[chances <= chances[32] * (1 + 1e-7)].sum())
    assert "32 of 40 replicates solved at m = 50 against 24 of 40" in found.verdict
    assert beside_published_replicates(40, 40, m=200).p_value == 1
    for call in (lambda: beside_published_replicates(3, 2), lambda: beside_published_replicates(
        1, 2, m=60)):  # fmt: skip
        with pytest.raises(InputError):
            call()


def test_times_by_ranks():
    theirs = published().figure4["steps"]["10"]
    assert beside_published_times(theirs, 10).p_value > 0.9
    late = beside_published_times([2000.0] * 5 + [None] * 5, 10)
    assert late.p_value < 0.001 and "5 of 10 seeds" in late.verdict
    never = beside_published_times([None] * 10, 10)
    assert never.p_value < 0.001 and "no seed" in never.verdict
    with pytest.raises(InputError, match="T: wanted one of 10, 15"):
        beside_published_times([3.0], 12)
    with pytest.raises(InputError, match="at least one seed"):
        beside_published_times([], 10)


def test_where_a_loss_crosses():
    step, loss = np.array([10.0, 20, 30]), np.array([0.7, 0.35, 0.34])
    assert crossing_step(step, loss) == 30 and crossing_step(step, loss, 0.1) is None


def test_runs_beside_the_published_runs_by_their_command(tmp_path):
    """By hand: the share of a store's trials, and the median of the first losses below 0.35."""
    shown = json.loads(typed("reference", "compare", "figure4", "--json").stdout)["comparisons"]
    with Store.read(existing_store("figure4")) as store:
        for T, row in zip((10, 15), shown, strict=True):
            curves = [
                json.loads(run["curves"])
                for run in store.select(
                    "SELECT curves FROM runs JOIN trials USING (trial_id) WHERE T = ?", T
                )
            ]
            firsts = [
                next((s for s, x in zip(c["step"], c["loss"], strict=True) if x < 0.35), np.inf)
                for c in curves
            ]
            assert f"T = {T}: median {np.median(firsts):.0f} steps" in row["ours"]
    shown = json.loads(typed("reference", "compare", "figure3", "--json").stdout)["comparisons"]
    assert [row["test"] for row in shown] == ["Fisher's exact test"] * len(shown) and shown
    (tmp_path / "other.toml").write_text('family = "simulated"\nT = [10]\n')
    store = tmp_path / "other.sqlite"
    typed("sweep", tmp_path / "other.toml", "--store", store)
    refused = typed("reference", "compare", store)
    assert refused.returncode == 2 and "no runs of Figure 3" in refused.stderr


@pytest.mark.parametrize(("function", "mode"), [("parity3", "full_batch"), ("and3", "online")])
def test_other_runs_are_not_those_of_figure_4(tmp_path, function, mode):
    """Parity on a fixed sample, and another function on fresh samples, both at T = 10."""
    panel = {"T": [10], "search": {"method": "grid", "m": [64], "trials": 1}}
    fields = {"name": "n", "function": function, "training": {"mode": mode}, "panels": {"p": panel}}
    plan = build_experiment({**fields, "model": {"family": "transformer"}})
    run = Run("r", 0, "solved", 1, 1, 0.1, {}, {"step": [1.0], "loss": [0.1]})
    with Store.create_or_resume(tmp_path / "s.sqlite", plan) as store:
        store.add(Outcome(Trial("p", 10, 64, 0, "t", None), True, (run,)))
        with pytest.raises(InputError, match="no runs of Figure 3"):
            beside_published_runs(store)


def test_the_points_by_their_command():
    shown = json.loads(typed("reference", "show", "published", "--json").stdout)
    assert shown["figure2"][4] == {"T": 300, "m_star": 69.2, "low": 61.6, "high": 76.8}
    assert (
        shown["figure4"]["steps"]["10"][0] == 155 and "read off the figure" in shown["provenance"]
    )
    assert "24 of 40 replicates solved" in typed("reference", "show", "published").stdout
    refused = typed("reference", "show", "publishd")
    assert refused.returncode == 2 and "did you mean" in refused.stderr


def test_a_reference_is_a_store_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert existing_store("paper").name == "paper.sqlite"
    (tmp_path / "paper").write_text("a file of the user comes first")
    assert existing_store("paper").resolve() == tmp_path / "paper"
    for name in ("papper", "paper.sqlite", "../reference/paper", ""):
        with pytest.raises(InputError, match="file not found"):
            existing_store(name)


def test_tables_for_a_spreadsheet_and_for_a_paper():
    best = {"m": 24, "is_floor": False}
    row = {"T": 100, "m_star": 56, "low": 51, "high": 70, "status": "closed", "floor": best,
           "ratio": 56 / 24, "trials": 400}  # fmt: skip
    open_row = {**row, "T": 200, "m_star": None, "high": None, "status": "> 150", "floor": None,
                "ratio": None}  # fmt: skip
    curve = {
        "name": "50 % & more",
        "store": "s",
        "verdict": "Too few T.",
        "thresholds": [row, open_row],
    }
    head, first, second = as_csv([curve]).splitlines()
    assert head.split(",")[:6] == ["curve", "T", "m_star", "low", "high", "status"]
    assert first.split(",")[1:8] == ["100", "56", "51", "70", "closed", "24", "True"]
    assert second.split(",")[1:] == ["200", "", "51", "", "> 150", "", "", "", "400"]
    assert as_csv([{**curve, "name": ""}]).splitlines()[1].startswith("s,100,")
    text = as_latex([curve, {**curve, "name": "two"}])
    assert text.count(r"\\") == 5 and "\n50 \\% \\& more & 100 & 56 & 51--70 & 24 & 400" in text
    assert "200 & -- & $>$ 150 & -- & 400" in text and "% two: Too few T." in text
    assert as_latex([curve]).startswith(r"\begin{tabular}{rrcrr}")
