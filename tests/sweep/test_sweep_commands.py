"""The commands sweep, thresholds and export as a user types them."""

import json
from functools import partial

import pandas as pd

from typed_command import typed

EXPERIMENT = """
name = "typed"
[model]
family = "simulated"
threshold = 9.0
growth = 7.0
[training]
restarts = 3
[panels.threshold]
T = [10, 30, 100, 300]
[panels.threshold.search]
m_low = 5
m_high = 200
batch = 32
max_trials = 64
[scales.quick]
"""


def test_from_an_experiment_file_to_a_table(tmp_path, monkeypatch, warm_commands):
    monkeypatch.chdir(tmp_path)
    capax = partial(warm_commands.capax, folder=tmp_path)
    (tmp_path / "typed.toml").write_text(EXPERIMENT)
    done = capax("sweep", "typed.toml", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["store"] == "out/typed-quick.sqlite" and summary["resumed_trials"] == 0
    assert "trials" in done.stderr  # the progress bar

    again = json.loads(typed("sweep", "typed.toml", "--json").stdout)
    assert again["resumed_trials"] == again["trials"] == summary["trials"]

    shown = json.loads(capax("thresholds", summary["store"], "--json").stdout)
    (found,) = shown["curves"]
    assert [row["T"] for row in found["thresholds"]] == [10, 30, 100, 300]
    assert {"T", "m_star", "low", "high", "floor", "trials"} <= set(found["thresholds"][0])
    assert {"law", "parameters", "weights", "verdict"} <= set(found["fit"])

    exported = capax("export", summary["store"], "--out", "runs.parquet", "--json")
    rows = json.loads(exported.stdout)["runs"]
    assert rows == summary["runs"] == len(pd.read_parquet(tmp_path / "runs.parquet"))

    for arguments, message in (
        (("sweep", "typed.toml", "--scale", "qick"), "did you mean 'quick'"),
        (("sweep", "typed.toml", "--address", "auto"), "address: needs --on ray as well"),
    ):
        refused = typed(*arguments)
        assert refused.returncode == 2 and refused.stdout == ""
        assert refused.stderr.startswith("error: ") and len(refused.stderr.splitlines()) == 1
        assert message in refused.stderr


def test_the_human_table_names_law_and_verdict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typed.toml").write_text(EXPERIMENT)
    assert typed("sweep", "typed.toml", "--store", "s.sqlite").returncode == 0
    shown = typed("thresholds", "s.sqlite").stdout
    assert "95% interval" in shown and "weight" in shown and "a + b ln T" in shown
