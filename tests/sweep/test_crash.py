"""The sweep of the real command line, killed at random moments, ends as if nothing had happened."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

EXPERIMENT = """
name = "crash"
[model]
family = "simulated"
threshold = 20.0
growth = 3.0
seconds = 0.01
[training]
restarts = 3
[panels.threshold]
T = [10, 30, 100]
[panels.threshold.search]
m_low = 8
m_high = 120
batch = 16
min_trials = 48
max_trials = 64
[scales.quick]
"""
COMMAND = [sys.executable, "-m", "capax.cli", "sweep"]


def start(tmp_path, store):
    arguments = [*COMMAND, tmp_path / "crash.toml", "--store", tmp_path / store, "--jobs", "2"]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def contents(path):
    with closing(sqlite3.connect(path)) as connection:
        runs = connection.execute("SELECT run_id, outcome, restart FROM runs ORDER BY run_id")
        trials = connection.execute("SELECT trial_id, T, m, number, solved FROM trials ORDER BY 1")
        return runs.fetchall(), trials.fetchall()


def num_trials(path):
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_ten_kills_change_nothing(tmp_path):
    """SIGKILL ten times, each at a random moment after the process has added some trials."""
    (tmp_path / "crash.toml").write_text(EXPERIMENT)
    assert start(tmp_path, "whole.sqlite").wait() == 0
    whole = contents(tmp_path / "whole.sqlite")
    dice, path = random.Random(7), tmp_path / "killed.sqlite"
    per_life = len(whole[1]) / 14
    for _ in range(10):
        before, process = num_trials(path), start(tmp_path, "killed.sqlite")
        wanted = before + dice.uniform(0, 2) * per_life
        while num_trials(path) < wanted and process.poll() is None:
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        assert process.wait() in (-signal.SIGKILL, 0)
    assert num_trials(path) > 0
    assert start(tmp_path, "killed.sqlite").wait() == 0
    assert contents(path) == whole
