"""Truncated and lying safetensors, GGUF, ONNX and configurations: one line, nothing eaten."""

import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from refusing import refused
from safetensors.torch import load_file, save_file

from capax.audit.auditing import audit
from capax.errors import InputError
from capax.report.audit_page import write_audit_page
from typed_command import typed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a checkpoint that nobody touches."""
    folder = tmp_path_factory.mktemp("whole")
    tiny_models.build("llama").save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(whole, tmp_path):
    """The weights of a copy of it, to be spoilt."""
    return Path(shutil.copytree(whole, tmp_path / "copy")) / "model.safetensors"


@pytest.mark.parametrize("kept", [0, 3, 8, 40, "half", -1])
def test_safetensors_cut_anywhere_is_refused(kept, checkpoint):
    raw = checkpoint.read_bytes()
    checkpoint.write_bytes(raw[: len(raw) // 2 if kept == "half" else kept])
    refused(checkpoint, "truncated|safetensors|unreadable")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
        {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]},
        {"dtype": "F33", "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": "4", "data_offsets": [0, 16]},
        {"dtype": "F32"},
        [],
    ],
)
def test_a_lying_table_of_contents_is_refused(entry, tmp_path):
    header = json.dumps({"a": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    refused(path, "a")


@pytest.mark.parametrize(
    "size, header, pattern",
    [
        (200_000, b"[" * 200_000, "not readable as JSON"),
        (2**63, b"{}", "wanted a safetensors file"),
    ],
    ids=["brackets", "sixteen exabytes"],
)
def test_a_header_that_nobody_can_read_is_refused(size, header, pattern, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", size) + header)
    refused(path, pattern)


def one_nan(weight):
    weight[0, 0] = float("nan")
    return weight


QUERY = "layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    "spoilt, pattern",
    [
        (one_nan, rf"{QUERY}: it has 1 NaN"),
        (lambda weight: weight.double() * 1e200, "norms within the range of float64"),
    ],
    ids=["nan", "too large"],
)
def test_nan_and_numbers_too_large_are_named(spoilt, pattern, checkpoint):
    state = load_file(checkpoint)
    save_file(state | {QUERY: spoilt(state[QUERY])}, checkpoint)
    refused(checkpoint, pattern)


@pytest.mark.parametrize(
    "index, pattern",
    [
        ({"weight_map": {"a": "../secret.safetensors"}}, "shards in its own folder"),
        ({"weight_map": {"a": "OUTSIDE/secret.safetensors"}}, "shards in its own folder"),
        ({"weight_map": {"a": ".."}}, "shards in its own folder"),
        ({"weight_map": {"a": ""}}, "shards in its own folder"),
        (
            {"weight_map": {"a": "absent.safetensors"}},
            "file not found .*absent.safetensors beside it",
        ),
        ({}, "weight_map"),
    ],
    ids=["up", "absolute", "folder", "empty", "absent", "none"],
)
def test_shards_outside_the_folder_are_not_opened(index, pattern, tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "secret.safetensors")
    folder = tmp_path / "model"
    folder.mkdir()
    text = json.dumps(index).replace("OUTSIDE", str(tmp_path))
    (folder / "model.safetensors.index.json").write_text(text)
    refused(folder, pattern)


def gguf_bytes(*, keys=b"", num_keys=0, tensors=b"", num_tensors=0, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys)
    return head + keys + tensors


def text(word):
    return struct.pack("<Q", len(word)) + word


@pytest.mark.parametrize(
    "raw",
    [
        b"GGUF",
        gguf_bytes(version=9),
        gguf_bytes(num_keys=2**60),
        gguf_bytes(num_keys=1, keys=struct.pack("<Q", 2**62)),
        gguf_bytes(num_keys=1, keys=text(b"a") + struct.pack("<IIQ", 9, 8, 2**60)),
        gguf_bytes(num_keys=1, keys=text(b"a") + struct.pack("<IIQ", 9, 4, 2**61)),
        gguf_bytes(num_keys=1, keys=text(b"a") + struct.pack("<IIQ", 9, 9, 2)),
        gguf_bytes(num_keys=1, keys=text(b"a") + struct.pack("<I", 77)),
        gguf_bytes(num_keys=2, keys=2 * (text(b"a") + struct.pack("<II", 4, 7))),
        gguf_bytes(num_tensors=1, tensors=text(b"t") + struct.pack("<I", 2**31)),
        gguf_bytes(num_tensors=1, tensors=text(b"t") + struct.pack("<IQIQ", 1, 2**45, 0, 0)),
        gguf_bytes(num_tensors=1, tensors=text(b"t") + struct.pack("<IQIQ", 1, 32, 999, 0)),
        gguf_bytes(num_tensors=1, tensors=text(b"t") + struct.pack("<IQIQ", 1, 33, 2, 0)),
    ],
)
def test_lying_gguf_headers_are_refused(raw, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(raw.ljust(24, b"\0") if len(raw) < 24 else raw)
    refused(path, "x.gguf|wanted")


@pytest.mark.parametrize("raw", [b"", b"\x08", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 40, b"PK"])
def test_bytes_that_are_no_onnx_are_refused(raw, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(raw)
    refused(path, "ONNX")


def test_names_with_markup_are_printed_as_they_are(tmp_path):
    save_file({"[red]attn[/red].\x1b[31mq": torch.ones(2, 2)}, tmp_path / "x.safetensors")
    done = typed("audit", tmp_path / "x.safetensors")
    assert done.returncode == 2
    assert "[red]attn[/red]" in done.stderr


def test_zero_weights_are_measured(checkpoint):
    state = load_file(checkpoint)
    save_file({name: torch.zeros_like(value) for name, value in state.items()}, checkpoint)
    rows = audit(checkpoint).rows
    assert {row["W_QK_F"] for row in rows} == {0.0}
    assert {row["capacity_share"] for row in rows} == {0.0}
    assert np.isfinite([row["stable_rank"] for row in rows]).all()


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": "4"},
        {"num_attention_heads": 0},
        {"num_attention_heads": True},
        {"hidden_size": 2**60},
        {"rope_parameters": {"rope_theta": "x"}},
        {"rope_parameters": []},
        {"num_key_value_heads": 3},
        {"model_type": ["llama"]},
        {"model_type": "\x1b[31m"},
        {"head_dim": 7},
        {"sliding_window": {}, "num_hidden_layers": 10**9},
    ],
)
def test_configurations_that_are_no_configuration(change, checkpoint):
    path = checkpoint.with_name("config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(checkpoint, "wanted|names fit")


def test_a_configuration_of_brackets(checkpoint):
    checkpoint.with_name("config.json").write_text("[" * 10**5)
    refused(checkpoint, "not readable as JSON")


FORMATS = ["x.pt", "x.safetensors", "x.gguf", "x.onnx", "x.bin", "x.safetensors.index.json"]


@pytest.mark.parametrize("name", FORMATS)
def test_devices_and_pipes_are_not_opened(name, tmp_path):
    (tmp_path / name).symlink_to("/dev/zero")
    refused(tmp_path / name, f"{name}: wanted a checkpoint, got 'a device, pipe or socket'")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    refused(tmp_path / name, "a device, pipe or socket")


def test_pipes_beside_the_weights_are_not_opened(checkpoint):
    text, tokenizer = (checkpoint.with_name(name) for name in ("text.txt", "tokenizer.json"))
    text.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="wanted a text file, got 'a device, pipe or socket'"):
        audit(checkpoint, text=text)
    text.unlink()
    text.write_text("a b c " * 100)
    os.mkfifo(tokenizer)
    with pytest.raises(InputError, match="wanted a regular file beside the weights"):
        audit(checkpoint, text=text)
    config = checkpoint.with_name("config.json")
    config.unlink()
    os.mkfifo(config)
    refused(checkpoint, "config.json: wanted a file, got 'a device, pipe or socket'")


def safetensors_bytes(entries, size=16, header=None):
    text = json.dumps(entries).encode() if header is None else header
    return struct.pack("<Q", len(text)) + text + bytes(size)


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
NEXT = {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}
TWICE = b'{"a": %s, "a": %s}' % (json.dumps(ONE).encode(), json.dumps(NEXT).encode())


@pytest.mark.parametrize(
    "raw, pattern",
    [
        (safetensors_bytes({"a": ONE, "b": ONE}), "'b': wanted bytes from 8 on .*another tensor"),
        (safetensors_bytes({"a": NEXT}), "no gap between tensors"),
        (safetensors_bytes({"a": ONE, "b": NEXT}, 24), "tensors that fill its 24 bytes"),
        (safetensors_bytes(None, header=TWICE), "the key 'a' occurs twice"),
        (safetensors_bytes({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                            for i in range(2**17 + 1)}, 0), "at most 131072 tensors, got 131073"),
    ],
    ids=["overlap", "gap", "rest", "key twice", "many empty"],
)  # fmt: skip
def test_tables_of_contents_that_safetensors_itself_refuses(raw, pattern, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(raw)
    refused(tmp_path / "x.safetensors", pattern)


@pytest.mark.usefixtures("without_layout")
def test_names_of_a_quarter_of_a_megabyte_are_cut(checkpoint, tmp_path):
    long = "layers.0.self_attn." + "a" * 2**18
    save_file(load_file(checkpoint) | {long: torch.ones(1)}, checkpoint)
    found = audit(checkpoint)
    assert found.not_counted == (long,)
    page = write_audit_page(found, (), tmp_path / "page.html").read_text()
    assert "a" * 4900 in page and "a" * 5001 not in page and len(page) < 10**6
    done = typed("audit", checkpoint)
    assert done.returncode == 0 and len(done.stdout) < 20_000
    assert "a" * 50 in done.stdout
