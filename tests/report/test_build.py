"""A report from stores: the right parts, honest findings, and the commands that write it."""

import contextlib
import dataclasses
import html
import json

import figure_cases as cases
import pytest
import store_cases

from capax.analysis.floor import Floor
from capax.errors import InputError
from capax.figures.stored.runs import stored_runs
from capax.report.build import _law_finding, build_page, write_report
from capax.report.reproduction import experiment_file
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store
from typed_command import typed

pytestmark = pytest.mark.usefixtures("without_layout")


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """A store of thresholds, one of curves, one of phase transitions."""
    best = Floor(24, 24, 25, 0.82, 0.01, 0.78, 0.01, 800, True, "best learner, 1 guess, no redraw")
    monkeypatch.setattr("capax.analysis.threshold.floor", lambda *_, **__: best)
    return [
        store_cases.threshold_store(tmp_path / "figure2.sqlite"),
        store_cases.curve_store(tmp_path / "figure3.sqlite"),
        store_cases.transition_store(tmp_path / "figure4.sqlite"),
    ]


def test_every_store_brings_its_parts_and_all_its_runs(stores):
    page = build_page(stores)
    kickers = [section.kicker for section in page.sections]
    assert kickers == ["Figure 2", "Figure 3, left", "Figure 4", "Settings", "Runs"]
    for path, payload in zip(stores, page.stores, strict=True):
        with Store.read(path) as store:
            wanted = {run.run_id for run in stored_runs(store)}
        assert {row[0] for row in payload["rows"]} == wanted
    assert [finding.value for finding in page.findings][-2:] == ["2 of 2", "1 of 2"]
    settings = page.sections[3].html
    assert "versions" in settings and "jax" in settings and "figure4" in settings


def test_of_a_large_store_the_first_trials_at_every_m_are_shown(stores, monkeypatch):
    (whole,) = build_page(stores[:1]).stores
    with Store.read(stores[0]) as store:
        cells = {(run.T, run.m) for run in stored_runs(store)}
        numbers = {run.run_id: run.number for run in stored_runs(store)}
    most = len(whole["rows"]) // 2
    monkeypatch.setattr("capax.report.records.MOST_RUNS", most)
    page = build_page(stores[:1])
    rows = page.stores[0]["rows"]
    names = [row[0] for row in rows]
    assert 0 < len(rows) <= most
    assert {(run["T"], run["m"]) for run in (dict(zip(whole["columns"], row, strict=True))
            for row in rows)} == cells  # fmt: skip
    shown = max(numbers[name] for name in names)
    assert {name for name, number in numbers.items() if number <= shown} == set(names)
    assert f"{len(rows)} of {len(whole['rows'])} runs: the first trials" in page.sections[-1].html
    assert f"{len(whole['rows'])} training runs" in page.lead


def test_stores_with_the_same_file_name_are_told_apart(tmp_path, stores):
    folder = tmp_path / "other"
    folder.mkdir()
    again = store_cases.curve_store(folder / "figure3.sqlite")
    page = build_page([stores[1], again])
    assert [store["name"] for store in page.stores] == ["figure3", "figure3-2"]
    anchors = [section.anchor for section in page.sections]
    assert len(anchors) == len(set(anchors))


def test_a_law_is_only_announced_when_its_rivals_are_far():
    data = cases.threshold_scaling()
    close = _law_finding(data)
    assert close.value == "law not settled" and "constant 0.25" in close.meaning
    clear = dataclasses.replace(
        data,
        laws=(data.laws[0], dataclasses.replace(data.laws[1], ruled_out=True)),
        status="settled",
        left="log",
    )
    found = _law_finding(clear)
    assert found.value == "log T" and "ruled out: constant" in found.meaning
    assert _law_finding(dataclasses.replace(data, status="none fits")).value == "no law fits"


@pytest.fixture
def variants(tmp_path):
    """A finished store with two variants, and one that was stopped at its second T."""
    panel = {"T": [10, 100, 1000], "search": {"method": "grid", "m": [20, 40, 60, 80], "trials": 9}}
    fields = {"family": "simulated", "axes": {"growth": [4.0, 8.0]}, **panel}
    paths = tmp_path / "both.sqlite", tmp_path / "half.sqlite"
    for path, stop_after in zip(paths, (None, 40), strict=True):
        plan = build_experiment({"name": "variants", **fields})
        with Store.create_or_resume(path, plan) as store:

            def report(status, stop_after=stop_after):
                if stop_after is not None and status.trials == stop_after:
                    raise KeyboardInterrupt

            with contextlib.suppress(KeyboardInterrupt):
                run_sweep(plan, store, report=report)
    return paths


def test_every_variant_and_store_has_its_name_in_one_picture_and_one_table(variants, tmp_path):
    page = build_page(variants)
    names = ["both/growth=4", "both/growth=8", "half"]
    comparison = page.sections[0]
    assert comparison.kicker == "Comparison"
    marks = [series["name"] for series in comparison.charts[0]["series"] if series.get("marks")]
    assert marks == names and all(name in comparison.html for name in names)
    kickers = [section.kicker for section in page.sections[1:4]]
    assert kickers == [f"Figure 2, {name}" for name in names]
    for name in names:
        assert any(finding.meaning.startswith(f"{name}: ") for finding in page.findings)
    by_name = {series["name"]: series for series in comparison.charts[0]["series"]}
    traced = by_name["both/growth=8"]["traces"][0]
    assert traced == {"store": "both", "panel": "growth=8", "T": 10}

    shown = json.loads(typed("thresholds", *map(str, variants), "--json").stdout)
    assert [curve["name"] for curve in shown["curves"]] == names
    for curve in shown["curves"]:  # the same verdict on the page and on the command line
        assert html.escape(curve["verdict"]) in comparison.html
    half = shown["curves"][2]
    assert "Unfinished: T = 100 (4 trials so far), T = 1000 (no trial yet)." in half["verdict"]
    assert [job["T"] for job in half["unfinished"]] == [100, 1000]

    out = tmp_path / "both.svg"
    stores = [word for path in variants for word in ("--store", str(path))]
    done = typed("figure", "2", *stores, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert [curve["name"] for curve in json.loads(done.stdout)["data"]["curves"]] == names
    assert all(name in out.read_text() for name in ("growth=4", "half"))


def test_one_panel_by_its_name(variants, tmp_path):
    both, _ = map(str, variants)
    shown = json.loads(typed("thresholds", both, "--panel", "growth=8", "--json").stdout)
    assert [curve["panel"] for curve in shown["curves"]] == ["growth=8"]
    refused = typed("thresholds", both, "--panel", "hh")
    assert "panel: wanted one of growth=4, growth=8, got 'hh'" in refused.stderr
    refused = typed(
        "figure", "4", "--store", both, "--store", both, "--out", str(tmp_path / "f.png")
    )
    assert "--store: this figure takes one store, got 2" in refused.stderr


def test_no_store_and_a_missing_store_are_refused(tmp_path):
    with pytest.raises(InputError, match="stores: wanted at least one"):
        build_page([])
    with pytest.raises(InputError, match="file not found"):
        write_report([tmp_path / "none.sqlite"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_without_the_experiments_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"--experiments: file not found: figure2.toml"):
        experiment_file(tmp_path, "figure2")


def test_report_command_writes_one_file_and_one_json_object(tmp_path, stores):
    out = tmp_path / "report.html"
    done = typed("report", *stores[1:], "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["bytes"] == out.stat().st_size
    assert summary["runs"] == 8
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_commands_refuse_bad_input_in_one_line(tmp_path, warm_commands):
    cases_ = {
        (
            "report",
            str(tmp_path / "none.sqlite"),
            "--out",
            str(tmp_path / "r.html"),
        ): "file not found",
        ("reproduce", "--out", str(tmp_path), "--experiments", str(tmp_path)): "--experiments",
        ("figure", "3", "--store", "none", "--out", str(tmp_path / "f.png")): "file not found",
    }
    for arguments, expected in cases_.items():
        real = arguments[0] == "reproduce"  # its only process
        start = warm_commands.capax if real else typed
        done = start(*arguments)
        assert done.returncode == 2
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("error: ") and expected in last
        assert "Traceback" not in done.stderr


def test_figure_command_draws_from_a_store(tmp_path, stores):
    out = tmp_path / "figure4.svg"
    done = typed("figure", "4", "--store", str(stores[2]), "--out", str(out), "--dark", "--json")
    assert done.returncode == 0, done.stderr
    assert [panel["T"] for panel in json.loads(done.stdout)["data"]["panels"]] == [11, 13]
    assert out.read_bytes().startswith(b"<?xml")
