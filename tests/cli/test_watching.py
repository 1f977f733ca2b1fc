"""Progress: nothing that matters is cut at 80 columns, and a log hears from us every minute."""

import io
import re
import time

import pytest
from rich.console import Console

from capax.cli.speaking import watching as module
from capax.cli.speaking.watching import InBars, InLines, _bars
from capax.progress import Stopwatch, clock, every_minute
from capax.sweep.running.job import Status


def status(trials, finished=0):
    return Status(trials, 2800, 1234, 128, 7023, 7, finished, "T = 300, 600")


@pytest.mark.parametrize("width", [80, 200])
def test_counts_and_times_are_never_cut(width, monkeypatch):
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(Stopwatch, "elapsed", 4321.0)
    with _bars(console) as progress:
        report = InBars(progress).sweep("an experiment with a very long name (beyond)")
        report(status(0))
        report(status(1400))
        with InBars(progress).single("[bold]writing the report"):
            pass
        progress.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", page.getvalue())
    last = [line for line in shown.splitlines() if "1400" in line][-1]
    assert "1400/2800, 1234 solved, 1:12:01, left <= 1:12:01" in last
    assert len(last.rstrip()) <= width
    assert "[bold]writing" in shown


def test_a_log_gets_a_line_now_and_then_also_without_news(capsys):
    with every_minute(0.05) as lines:
        watch = InLines(lines)
        with watch.single("loading"):
            pass
        report = watch.sweep("figure2 (quick)")
        began = time.monotonic()
        report(status(0))
        report(status(7))
        time.sleep(0.18)
        report(status(2800, finished=7))
        elapsed = time.monotonic() - began  # on a busy machine more than it slept
        time.sleep(0.1)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "loading" and told[1] == "figure2 (quick): 0 of at most 2800 trials"
    middle, last = told[2:-1], told[-1]
    assert 2 <= len(middle) <= elapsed / 0.05 + 1
    wanted = "7 of at most 2800 trials, 1234 solved, 7023 runs, at work: T = 300, 600, 0:00"
    assert all(wanted in line and " left" in line for line in middle)
    assert "2800 of at most 2800" in last and " left" not in last  # and nothing after the end


def test_a_pipe_gets_lines_and_a_terminal_bars(monkeypatch):
    with module.watching() as watch:
        assert isinstance(watch, InLines)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(module, "stderr", lambda: terminal)
    with module.watching() as watch:
        assert isinstance(watch, InBars)


def test_clock():
    assert [clock(s) for s in (0.0, 59.6, 61.0, 3600.0, 45296.0)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "12:34:56",
    ]


def test_a_finished_sweep_is_said_once(capsys):
    with every_minute(60.0) as lines:
        report = InLines(lines).sweep("figure2 (paper)")
        report(status(0))
        for _ in range(5):  # outcomes on their way to the store
            report(status(2800, finished=7))
        report(status(2))  # further trials of the same command
        report(status(2800, finished=7))
    told = capsys.readouterr().err.splitlines()
    counts = ["0 of at", "2800 of at", "2 of at", "2800 of at"]
    assert [line.split(": ")[1][: len(c)] for line, c in zip(told, counts, strict=True)] == counts


def test_every_stage_that_runs_has_its_line(capsys):
    with every_minute(0.05) as lines:
        watch = InLines(lines)
        reports = [watch.sweep(name) for name in ("figure2", "figure3")]
        for report in reports:
            report(status(1))
        time.sleep(0.12)
        both = capsys.readouterr().err.splitlines()[2:]
        reports[0](status(2800, finished=7))
        capsys.readouterr()
        time.sleep(0.12)
    told = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in both} == {"figure2", "figure3"}
    assert told and all(line.startswith("figure3: 1 of at most 2800") for line in told)


def test_a_log_hears_why_nothing_is_done_yet():
    nothing = Status(0, 256, 0, 0, 0, 1, 0)
    assert "0 runs, compiling and training the first, 0:00" in module.long(nothing, Stopwatch())
    assert "compiling" not in module.long(status(7), Stopwatch())


def test_a_card_says_how_long_it_may_take_before_and_after_its_first_trial(monkeypatch):
    from capax.cli.experiments.card_progress import before, estimate

    monkeypatch.setattr("capax.machine.num_cores", lambda: 2)
    none, one = (Status(t, 41, 0, 1, t, 1, 0) for t in (0, 1))
    assert before(none, None, None) == "1 cell, at most 41 trials to make"
    limited = before(none, 60.0, 5.0)
    assert "at most 60 s (--time-limit), so all of them at most 21:00" in limited
    assert limited.endswith("ends after --minutes 5")
    assert before(none, 1e308, None) == before(none, None, None)
    # one trial is in and one in work after a minute: 41 trials are 20.5 such minutes
    assert "first trial after 1:00; at this pace at most 20:30 in all" in estimate(
        one, 0, 60.0, None
    )
    assert "--minutes 5 ends it earlier" in estimate(one, 0, 60.0, 5.0)
    assert "--minutes" not in estimate(one, 0, 60.0, 30.0)
