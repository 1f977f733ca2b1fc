"""Checkpoints that people use: what is read from them, and what their numbers do not say."""

import json

import numpy as np
import pytest
import reactions
import real_files
import torch

from capax.audit.auditing import audit
from capax.audit.comparing import compare, larger_share
from capax.audit.reading.opening import open_checkpoint
from typed_command import typed

ROW_KEYS = {"layer", "head", "W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21",
            "ratio_to_random"}  # fmt: skip
FACT_KEYS = {"family", "layers", "heads", "kv_heads", "head_width", "scale", "positions", "rows"}
CONTROLS = ("SCEPTR_shuffled_data", "SCEPTR_synthetic_data")


def test_rxnmapper_every_tensor_is_the_one_torch_reads():
    folder = real_files.rxnmapper()
    truth = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    tensors = open_checkpoint(folder).tensors
    assert tensors.keys() == truth.keys()
    for name, value in truth.items():
        np.testing.assert_array_equal(tensors[name].load(), value.numpy())


def test_rxnmapper_is_composed_twelve_times_and_covered_once():
    found = audit(real_files.rxnmapper())
    assert (found.facts.family, found.facts.layers, found.facts.heads) == ("ALBERT", 12, 8)
    assert len(found.rows) == 96
    assert found.rows[85]["W_QK_F"] == found.rows[5]["W_QK_F"]
    assert sum(row["capacity_share"] for row in found.rows) == pytest.approx(1)


def test_sceptr_is_refused_without_the_place_of_norms_and_read_with_it():
    folder = real_files.sceptr()
    done = typed("audit", folder)
    assert done.returncode == 2 and "--norm first, last or none" in done.stderr
    payload = json.loads(typed("audit", folder, "--norm", "last", "--json").stdout)
    assert payload.keys() >= FACT_KEYS and payload["rows"][0].keys() >= ROW_KEYS
    assert (payload["layers"], payload["heads"], payload["head_width"]) == (3, 8, 8)
    assert payload["sources"]["heads"].endswith("initargs.nhead")


def test_sceptr_controls_are_not_told_apart_by_norms():
    """Trained on shuffled or synthetic data: the norms of heads overlap, and the table says so."""
    here = audit(real_files.sceptr(), norm="last")
    for control in CONTROLS:
        there = audit(real_files.sceptr(control), norm="last")
        summary = compare(here, there)["summary"]
        assert all(0.2 < entry["larger_here"] < 0.8 for entry in summary.values())


def test_larger_share_counts_ties_half():
    assert larger_share([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert larger_share([3.0], [1.0, 2.0]) == 1.0


def test_smollm2_says_what_it_read():
    found = audit(real_files.smollm2())
    facts = found.facts
    assert (facts.layers, facts.heads, facts.kv_heads, facts.head_width) == (30, 9, 3, 64)
    assert (facts.scale, facts.limit, facts.family) == (0.125, 8192, "Llama")
    assert len(found.rows) == 270 and not found.not_counted
    assert all(row["W_QK_F_max"] >= row["W_QK_F"] * (1 - 1e-5) for row in found.rows)
    assert all(1 <= row["stable_rank"] <= 64 for row in found.rows)
    assert sum(row["capacity_share"] for row in found.rows) == pytest.approx(1)


def test_rxnmapper_reads_its_head_among_those_that_look_things_up(tmp_path):
    """Layer 10, head 5, which the product reads: its weight on one token far away stands out.

    Plain sharpness belongs to heads that look at the neighbour; `far_peak` leaves those out.
    """
    (tmp_path / "reactions.txt").write_text(reactions.pieces())
    text = tmp_path / "reactions.txt"
    found = audit(real_files.rxnmapper(), text=text, split="spaces", lines=True, take_out=2)
    order = sorted(found.rows, key=lambda row: -row["far_peak"])
    rank = [(row["layer"], row["head"]) for row in order].index((10, 5))
    assert rank < 12, rank
    row = order[rank]
    others = [r["far_peak"] for r in found.rows]
    assert row["far_peak"] > 2 * np.median(others)
    assert row["n95"] < row["n95_random"] / 2
