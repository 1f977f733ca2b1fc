"""Fitting an alarm: a known law found again, held-out scores, calibration; `capax watch`."""

import json
import math

import numpy as np
import pytest

from capax.analysis.reference.reference_stores import add_reference
from capax.analysis.times.alarm_fit import WatchedRun, fit_alarm, held_out, moments, watched_runs
from capax.errors import InputError
from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial
from capax.training.alarm.features import FEATURES, NEEDED
from capax.training.alarm.live_file import live_path
from typed_command import typed

LIMIT, EVERY = 1280, 10


def learner(number, T=8, s=2, limit=LIMIT):
    """Times are log-logistic about a hidden speed, which only `stable_rank` shows, with noise."""
    rng = np.random.default_rng(number)
    speed = rng.normal()
    time = math.exp(5.5 - 1.2 * speed + 0.3 * rng.logistic())
    solved = EVERY * math.ceil(time / EVERY) if time <= limit else None
    steps = np.arange(EVERY, (solved or limit) + 1, EVERY)
    names = [name for kind in ("loss", "blind", "knowing") for name in NEEDED[kind]]
    curves = {name: np.full(len(steps), 0.5) for name in names}
    curves |= {"step": steps.astype(float), "stable_rank": np.exp(np.full(len(steps), speed))}
    curves["loss"] = 0.69 + 0.01 * rng.normal(size=len(steps))
    return WatchedRun(
        T, s, limit, EVERY, solved, {k: list(map(float, v)) for k, v in curves.items()}
    )


@pytest.fixture(scope="module")
def runs():
    return [learner(100 * T + i, T, s) for T in (8, 12) for s in (2, 3) for i in range(60)]


def test_the_fit_finds_the_feature_that_tells(runs):
    alarm = fit_alarm(runs, "blind")
    weights = dict(zip(FEATURES["blind"], alarm.weights, strict=True))
    assert weights.pop("rank") < -0.6
    assert abs(weights.pop("log_step")) < 0.6  # what is left shrinks as time passes
    assert max(map(abs, weights.values())) < 0.25


def test_the_fit_is_a_stationary_point_of_the_likelihood(runs):
    """The penalised likelihood written once more, one row at a time, falls in every direction."""
    alarm, rows = fit_alarm(runs, "blind"), moments(runs, "blind")
    x = np.clip((rows.x - np.array(alarm.mean)) / np.array(alarm.scale), -3, 3)

    def value(w, b, sigma, c):
        total = 0.0
        for i in range(len(x)):
            F = lambda r: c / (1 + math.exp(-(math.log(max(r, 1e-9)) - b - x[i] @ w) / sigma))  # noqa: B023, E731
            inside = F(rows.high[i]) - F(rows.low[i]) if rows.solved[i] else 1 - F(rows.low[i])
            total += rows.weight[i] * math.log(inside)
        prior = 1e-3 * (math.log(c / (1 - c)) - 3) ** 2
        return total / rows.weight.sum() - 0.01 * w @ w - prior

    w, b, s, c = np.array(alarm.weights), alarm.intercept, alarm.sigma, alarm.ceiling
    best = value(w, b, s, c)
    rank = np.eye(len(w))[FEATURES["blind"].index("rank")] * 0.1
    for other in ((w + rank, b, s, c), (w - rank, b, s, c), (w, b + 0.1, s, c), (w, b - 0.1, s, c),
                  (w, b, s * 1.1, c), (w, b, s / 1.1, c), (w, b, s, c - 0.02)):  # fmt: skip
        assert value(*other) < best


def test_held_out_alarms_are_calibrated_and_beat_what_knows_less(runs):
    judged = held_out(runs, lambda run: run.T)
    assert judged.brier("blind") < 0.8 * judged.brier("loss")
    gap, error = judged.difference("blind", "constant")
    assert gap < -2 * error
    assert abs(gap - (judged.brier("blind") - judged.brier("constant"))) < 1e-12
    rows = judged.calibration("blind", bins=4)
    assert sum(row["low"] <= row["chance"] <= row["high"] for row in rows) >= len(rows) - 1
    with pytest.raises(InputError, match="runs: wanted runs of at least two settings, got 1"):
        held_out(runs[:60], lambda run: run.T)


def test_moments_are_before_the_run_is_solved_and_weigh_one_run():
    run = learner(7)
    rows = moments([run], "loss")
    assert rows.weight.sum() == pytest.approx(1)
    if run.solved_step:
        np.testing.assert_allclose(LIMIT - rows.left + rows.high, run.solved_step)
    assert (rows.left < LIMIT).all()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("watched") / "parity.sqlite"
    experiment = load_experiment(experiment_path("parity"), "smoke")
    (panel,) = experiment.panels
    with Store.create_or_resume(path, experiment) as opened:
        for i in range(4):
            run = learner(i)
            spec = {"steps": LIMIT, "eval_every": EVERY,
                    "task": {"function": "parity2", "T": 8}}  # fmt: skip
            outcome = "solved" if run.solved_step else "failed"
            steps = int(run.curves["step"][-1])
            curves = run.curves | {"weight_movement": run.curves["loss"]}
            made = Run(f"{i}run", 0, outcome, run.solved_step, steps, 0.1, spec, curves)
            trial = Trial(panel.name, 5, 64, i, f"{i}trial", None)
            opened.add(Outcome(trial, outcome == "solved", (made,)))
        opened.close_job(panel.name, 5)
    return path


def test_runs_of_a_store_are_read_with_their_progress(store):
    with Store.read(store) as opened:
        found = watched_runs(opened)
    assert [run.solved_step for run in found] == [learner(i).solved_step for i in range(4)]
    assert found[0].s == 2 and found[0].curves["step"] == learner(0).curves["step"]


def test_a_reference_keeps_few_looks_of_few_runs(store, tmp_path, monkeypatch):
    monkeypatch.setattr("capax.analysis.reference.reference_stores._FEW", 3)  # four are many
    made = add_reference(store, "small", folder=tmp_path)
    with Store.read(made.path) as opened:
        rows = opened.select("SELECT run_id, curves, solved_step FROM runs ORDER BY run_id")
    sizes = [len(json.loads(row["curves"]).get("step", ())) for row in rows]
    assert 0 < max(sizes[:2]) <= 40 and sizes[2:] == [0, 0]
    for i, row in enumerate(rows[:2]):
        kept, whole = json.loads(row["curves"]), learner(i).curves
        assert kept["step"][-1] == whole["step"][-1]
        at = [whole["step"].index(step) for step in kept["step"]]
        np.testing.assert_allclose(kept["loss"], [whole["loss"][k] for k in at], rtol=1e-3)


def test_watch_shows_runs_in_work_and_what_was_said_about_one(store, tmp_path):
    live = live_path(store)
    run = learner(1)
    names = list(run.curves)
    lines = [{"run": "abcdef0123", "T": 8, "limit": LIMIT, "function": "parity2", "restart": 0,
              "names": names}]  # fmt: skip
    lines += [{"run": "abcdef0123", "row": [run.curves[n][k] for n in names]} for k in range(3)]
    live.write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        found = json.loads(typed("watch", str(store), "--json").stdout)
    finally:
        live.unlink()
    (row,) = found["runs"]
    assert row["step"] == 3 * EVERY and 0 <= row["chance"] <= 1 and found["finished"] == 4
    assert found["alarm"] == "blind" and found["about"]["runs"]
    assert "No run is in training." in typed("watch", str(store)).stdout
    picture = tmp_path / "run.png"
    shown = typed("watch", str(store), "--run", "1ru", "--knows-support", "--plot", str(picture))
    assert "half by step" in shown.stdout and picture.stat().st_size > 1000
    for wrong, words in ((("--run", "zzz"), "no run with an id that begins with 'zzz'"),
                         (("--plot", "x.png"), "run: wanted a run to draw")):  # fmt: skip
        failed = typed("watch", str(store), *wrong)
        assert failed.returncode == 2 and words in failed.stderr


def test_a_run_without_steps_cannot_be_watched(tmp_path):
    experiment = load_experiment(experiment_path("parity"), "smoke")
    with Store.create_or_resume(tmp_path / "fits.sqlite", experiment) as opened:
        made = Run("fit", 0, "solved", None, 0, 0.1, {"learner": "tree"})
        opened.add(Outcome(Trial(experiment.panels[0].name, 5, 64, 0, "t", None), True, (made,)))
    failed = typed("watch", tmp_path / "fits.sqlite", "--run", "fit")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.strip().endswith("the run 'fit' was not trained in steps")
