"""The alarm: what it reads, what it says, runs it ends, and the file of runs in work."""

import json
import math

import numpy as np
import pytest

from capax.errors import InputError
from capax.training import train
from capax.training.alarm.alarm import Alarm, from_json, shipped_alarm
from capax.training.alarm.features import FEATURES, KINDS, NEEDED, features, has_series
from capax.training.alarm.giving_up import GiveUp
from capax.training.alarm.live_file import LiveFile, live_runs
from capax.training.specs.progress_names import KNOWING


def curves(n=40, seed=0):
    rng = np.random.default_rng(seed)
    names = [name for kind in KINDS for name in NEEDED[kind]]
    made = {name: rng.uniform(0.1, 0.9, n) for name in names}
    return made | {"step": np.arange(1, n + 1) * 10.0}


def constant(kind="blind", median=100.0, sigma=0.5, ceiling=1.0):
    k = len(FEATURES[kind])
    return Alarm(kind, (0.0,) * k, (1.0,) * k, (0.0,) * k, math.log(median), sigma, ceiling)


@pytest.mark.parametrize("kind", KINDS)
def test_features_know_nothing_of_later_looks(kind):
    whole = features(curves(), 17, kind)
    for k in (1, 2, 7, 40):
        part = {name: values[:k] for name, values in curves().items()}
        np.testing.assert_allclose(features(part, 17, kind)[-1], whole[k - 1], rtol=1e-9)


def test_a_blind_alarm_reads_nothing_that_knows_the_support():
    plain = curves()
    assert not set(NEEDED["loss"] + NEEDED["blind"]) & KNOWING
    assert set(NEEDED["knowing"]) <= KNOWING
    changed = plain | {name: 1 - plain[name] for name in NEEDED["knowing"]}
    np.testing.assert_array_equal(features(plain, 9, "blind"), features(changed, 9, "blind"))
    without = {name: x for name, x in plain.items() if name not in KNOWING}
    assert has_series(without, "blind") and not has_series(without, "knowing")
    with pytest.raises(InputError, match="a knowing alarm needs position_relevant, which was not"):
        features(without, 9, "knowing")


def test_a_recent_value_is_the_mean_of_the_last_fifth_and_a_trend_starts_at_half():
    x = curves()
    column = FEATURES["blind"].index("movement")
    rows = features(x, 9, "blind")
    assert rows[11, column] == pytest.approx(np.log(x["weight_movement"][9:12]).mean())
    gap = rows[:, FEATURES["blind"].index("position_gap")]
    assert rows[11, FEATURES["blind"].index("position_trend")] == pytest.approx(gap[11] - gap[5])


def test_a_forecast_is_the_law_that_the_coefficients_say():
    alarm = constant(median=100, sigma=0.5, ceiling=0.8)
    said = alarm.forecast(curves(), 17, limit=1000)  # step 400: 600 are left
    assert said.chance == pytest.approx(0.8 / (1 + 6.0 ** (-1 / 0.5)))
    # 0.8 / (1 + (100 / r)^2) = 1/2 at r = 100 / sqrt(0.6)
    assert said.median == pytest.approx(400 + 100 / math.sqrt(0.6), abs=1)
    assert constant(ceiling=0.4).forecast(curves(), 17, 1000).median is None
    assert from_json(json.loads(json.dumps(alarm.to_json()))) == alarm
    with pytest.raises(InputError, match="alarm: not the coefficients of an alarm"):
        from_json({"kind": "blind"})


def test_the_shipped_alarms_say_what_they_were_fitted_on():
    for kind in KINDS:
        alarm = shipped_alarm(kind)
        assert alarm.kind == kind and alarm.about["runs"] > 100 and alarm.about["device"]
        rows = features(curves(), 17, kind)
        assert (alarm.chance(rows, 1e9) >= alarm.chance(rows, 10.0)).all()


def test_moments_come_once_each():
    rule = GiveUp(constant(), 0.1)
    asked = [step for step in range(10, 1281, 10) if rule.asks(step, 10, 1280)]
    assert asked == [20, 40, 80, 160, 320, 640]
    with pytest.raises(InputError, match="give_up_below: wanted a chance between 0 and 1"):
        GiveUp(constant(), 1.0)


def test_a_run_without_hope_leaves_early_and_is_otherwise_the_same(
    online_trial, four_slots, tmp_path
):
    trial = online_trial(restarts=2)
    live = LiveFile(tmp_path / "live")
    (whole,) = train([trial], hardware=four_slots, measure_progress=True, live=live)
    seen = live_runs(tmp_path / "live")
    live.close()
    assert not (tmp_path / "live").exists()
    hopeless, hopeful = GiveUp(constant(median=1e9), 0.1), GiveUp(constant(median=1e-3), 0.1)
    (cut,) = train([trial], hardware=four_slots, give_up=hopeless)
    (kept,) = train([trial], hardware=four_slots, give_up=hopeful)
    assert [run.steps for run in whole.runs] == [30, 30] == [run.steps for run in kept.runs]
    assert [run.steps for run in cut.runs] == [10, 10]
    for a, b, told in zip(cut.runs, whole.runs, seen, strict=True):
        assert a.outcome == "failed" and a.run_id == b.run_id == told.run_id and told.is_over
        for name, column in a.evals.items():
            np.testing.assert_array_equal(column, b.evals[name][:1], err_msg=name)
        for name, values in b.evals.items():
            np.testing.assert_allclose(told.curves[name], values, rtol=1e-5)


def test_the_live_file_of_a_run_that_is_being_written(trial_of, tmp_path):
    path = tmp_path / "live"
    live = LiveFile(path, most=1)
    first, second = trial_of(1).run(0), trial_of(2).run(0)
    for step in (10, 20):
        live.look(first, (float(step), 0.7, 0.5, 0.5, 512.0, 0.1), False)
        live.look(second, (float(step), 0.6, 0.5, 0.5, 512.0, 0.1), False)
    live.look(first, (30.0, math.nan, 0.5, 0.5, 512.0, 0.1), True)
    live.look(second, (30.0, 0.6, 0.5, 0.5, 512.0, 0.1), False)
    with path.open("a") as file:
        file.write('{"run": "half a l')
    (a, b) = live_runs(path)
    assert a.run_id == first.run_id and a.is_over and a.curves["step"] == [10, 20, 30]
    assert math.isnan(a.curves["loss"][-1])
    assert b.run_id == second.run_id and not b.is_over and b.curves["step"] == [30]
    live.close()
    path.write_text("something else\n")
    with pytest.raises(InputError, match="not a file of runs in training"):
        live_runs(path)
    LiveFile(tmp_path / "no" / "folder").look(first, (10.0,), False)  # training goes on
