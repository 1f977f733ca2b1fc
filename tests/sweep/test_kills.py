"""Real commands, killed at random moments, end as if nothing had happened.

`benchmarks/kills.py` is the long run: 30 kills each of sweep, compile, report and export.
"""

import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import kills

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
SLOW_WRITER = """
import sys, time
from capax.files import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(20)

write_atomically(sys.argv[1], write)
"""


def test_three_kills_of_a_sweep_change_nothing(tmp_path, warm_commands, monkeypatch):
    """SIGKILL, SIGTERM and SIGINT in turn: `kill_sweep` compares stores, codes and messages."""

    def run(place, *arguments):  # those that are left alone share their imports
        done = warm_commands.capax(*arguments, folder=place.folder)
        assert done.returncode == 0, done.stderr

    monkeypatch.setattr(kills.Workplace, "run", run)
    count = kills.kill_sweep(kills.Workplace(tmp_path), EXPERIMENT, 3, random.Random(7))
    assert count["cut"] >= 2


def test_a_file_that_is_being_written_leaves_nothing_when_its_writer_is_killed(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    command = [sys.executable, "-c", SLOW_WRITER, target]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert target.read_bytes() == b"old"
