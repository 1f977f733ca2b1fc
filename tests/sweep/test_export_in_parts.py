"""An export holds a part of the runs at a time, and gives what one table of all would give."""

import csv
import io

import pandas as pd
import pytest
from experiments_for_tests import fields

from capax.analysis.tables import frames
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    plan = build_experiment(fields())
    with Store.create_or_resume(tmp_path_factory.mktemp("export") / "s.sqlite", plan) as opened:
        run_sweep(plan, opened)
        with opened._connection as connection:  # text that a table must quote
            connection.execute("UPDATE runs SET reason = 'a, \"b\"' WHERE restart = 0")
        yield opened


@pytest.mark.parametrize("size", [7, 10**6])
def test_parts_make_the_whole(store, tmp_path, monkeypatch, size):
    monkeypatch.setattr(frames, "_BATCH", size)
    whole = frames.runs_frame(store)
    further = {run: {"formula": f"x{i}"} for i, run in enumerate(whole["run_id"][::2])}
    rows = frames.export(store, tmp_path / "runs.csv", further)
    assert rows == len(whole) > 30
    whole["formula"] = [further.get(run, {}).get("formula", "") for run in whole["run_id"]]
    assert (tmp_path / "runs.csv").read_text() == whole.to_csv(index=False)
    assert frames.export(store, tmp_path / "runs.parquet", further) == rows
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "runs.parquet"), whole)


def test_a_part_is_all_that_is_held(store):
    sizes = [len(block["run_id"]) for block in store.blocks("SELECT run_id FROM runs", 7)]
    assert set(sizes[:-1]) == {7}
    assert sum(sizes) == len(frames.runs_frame(store))


def test_every_axis_is_a_column_and_on_request_every_setting(tmp_path):
    panels = {"threshold": {"T": [7], "search": {"method": "grid", "m": [5, 40], "trials": 2}}}
    axes = {"growth": [1.0, 2.0], "shape": {"wide": {"model": {"spread": 0.4}},
                                            "narrow": {"model": {"spread": 0.1}}}}  # fmt: skip
    plan = build_experiment(fields(axes=axes, panels=panels))
    with Store.create_or_resume(tmp_path / "s.sqlite", plan) as opened:
        run_sweep(plan, opened)
        whole = frames.runs_frame(opened)
        frames.export(opened, tmp_path / "axes.csv")
        rows = frames.export(opened, tmp_path / "all.parquet", settings=True)
    table = pd.read_csv(tmp_path / "axes.csv")
    assert list(table.columns) == [*whole.columns, "growth", "variant"]
    expected = {(g, v) for g in (1.0, 2.0) for v in ("wide", "narrow")}
    assert set(zip(table["growth"], table["variant"], strict=True)) == expected
    everything = pd.read_parquet(tmp_path / "all.parquet")
    assert rows == len(whole) == len(everything)
    spread = everything["learner.spread"].astype(float)
    assert ((spread == 0.4) == (everything["variant"] == "wide")).all()
    assert list(everything.columns).count("T") == 1


def test_cells_are_those_of_the_csv_module():
    """Every kind of value, once and again, and columns of several kinds."""
    columns = [
        ["a", 'say "x, y"', "", "a", "line\nbreak", "tab\tis not quoted", "\r", "ü"],
        ["a", None, "a", None, ",", "b", "", None],
        [1, None, -3, 2**40, 0, None, 7, 8],
        [0.0, -0.0, 1e-9, 1 / 3, 1e22, 2.0, 5e-324, 1.5],
        [True, False, True, True, False, False, True, True],
    ]
    told = io.StringIO(newline="")
    csv.writer(told).writerows(zip(*columns, strict=True))
    lines = map(",".join, zip(*map(frames._csv_cells, columns), strict=True))
    assert "\r\n".join([*lines, ""]) == told.getvalue()
