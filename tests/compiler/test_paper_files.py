"""Files of `--method paper`: they come back, every changed array and every lie is found."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import capax
from capax.attention import checkpoint
from capax.boolean import SparseFunction
from capax.compiler.paper.paper_file import MATRICES, load_paper, save_paper
from capax.compiler.paper.paper_method import compile_paper
from capax.compiler.weights_file import PAPER, kind_of, read_parts
from capax.errors import InputError
from one_line import one_line

ENCODINGS = ("deterministic", "trainable", "bag", "incoherent")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("formula", ["x1 & ~x6", "maj(x1,x5,x9)"])
def test_what_is_saved_is_verified(encoding, formula, tmp_path):
    made = compile_paper(formula, 12, encoding=encoding)
    path = save_paper(tmp_path / "p.safetensors", made)
    assert kind_of(path) == PAPER
    verdict = capax.verify(path)
    assert verdict.ok, verdict.failed
    assert verdict.worst_case_error == made.certificate.worst_case_error
    bits = np.random.default_rng(0).integers(0, 2, (50, 12))
    file = load_paper(path)
    assert np.array_equal(file.network(file.heads.outputs(bits)), made(bits))
    json.dumps(verdict.to_json())


def rewritten(path: Path, *, structure=None, claims=None, arrays=None) -> Path:
    """The file with parts of it replaced (an array of None: left out); its fingerprint fits."""
    old = read_parts(path, PAPER)
    parts = [
        {**was, **(new or {})} for was, new in zip(old, (structure, claims, arrays), strict=True)
    ]
    kept = {name: M for name, M in parts[2].items() if M is not None}
    text = json.dumps({"module": parts[0], "metadata": {"kind": PAPER, "certificate": parts[1]}})
    header = {"format": checkpoint.FORMAT, "capax": text}
    header["sha256"] = checkpoint.fingerprint(text, kept)
    save_file(kept, str(path), metadata=header)
    return path


@pytest.mark.parametrize("encoding", ["trainable", "incoherent"])
def test_every_array_matters(encoding, tmp_path):
    made = compile_paper("x1 & ~x6", 12, encoding=encoding)
    path = save_paper(tmp_path / "p.safetensors", made)
    arrays = read_parts(path, PAPER)[2]
    heads = {f"heads.{h}.{n}" for h in range(len(made.heads.heads)) for n in MATRICES}
    assert set(arrays) == heads | {"W_1", "W_2", "w", "positions"}
    for name, M in arrays.items():
        save_paper(path, made)
        doubled = rewritten(path, arrays={name: 2 * M})
        if (name, encoding) == ("positions", "incoherent"):
            with one_line("positions: wanted vectors of length 1"):
                capax.verify(doubled)
        else:
            assert not capax.verify(doubled).ok, name


def test_a_fault_that_keeps_all_norms_is_found(tmp_path):
    """A second-layer row negated at one bit on, where f = 1: same sizes, another function."""
    made = compile_paper("x1 ^ x6", 12)
    W_2 = made.network.W_2.copy()
    W_2[1] *= -1
    faulty = dataclasses.replace(made, network=dataclasses.replace(made.network, W_2=W_2))
    verdict = capax.verify(save_paper(tmp_path / "p.safetensors", faulty))
    assert {claim.name for claim in verdict.failed} >= {"worst_case_error", "table", "margin"}
    assert verdict.attacked_error > 0.1


LIES = {
    "function": "x1 | x6", "table": "0x7", "T": 13, "s": 3, "encoding": "bag", "heads": 2,
    "lemmas": ["B.4", "B.5"], "widths": [1, 1], "gamma": 0.5, "Delta": 0.1, "R": 1.0,
    "head_error": 0.0, "worst_case_error": 0.0, "margin": 0.6, "wrong_decisions": 1, "norms": {},
    "within_limits": False,
}  # fmt: skip


def test_every_lie_is_found(tmp_path):
    made = compile_paper("x1 ^ x6", 12)
    assert set(LIES) | {"support"} == set(made.certificate.to_json())
    for name, lie in LIES.items():
        for value in (lie, None):
            path = save_paper(tmp_path / "p.safetensors", made)
            try:
                verdict = capax.verify(rewritten(path, claims={name: value}))
            except InputError:
                assert name == "table"
                continue
            assert not verdict.ok and name in {c.name.split(".")[0] for c in verdict.failed}, name


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": {"w": None}},
        {"arrays": {"extra": np.ones(2)}},
        {"arrays": {"w": np.full(6, np.nan)}},
        {"arrays": {"w": np.ones(6, np.float32)}},
        {"arrays": {"W_1": np.ones((7, 4))}},
        {"arrays": {"W_2": np.ones(3)}},
        {"arrays": {"positions": np.ones((12, 2))}},
        {"arrays": {"positions": np.ones((5, 20))}},
        {"structure": {"T": 10**9}},
        {"structure": {"T": "12"}},
        {"structure": {"support": [1, 1]}},
        {"structure": {"support": [1, 99]}},
        {"structure": {"support": [6, 1]}},
        {"structure": {"encoding": "none"}},
        {"structure": {"vector": 1}},
        {"structure": {"gamma": -1.0}},
        {"claims": {"support": [1]}},
        {"claims": {"support": "x"}},
    ],
)
def test_unusable_files_are_one_line_errors(change, tmp_path):
    path = save_paper(tmp_path / "p.safetensors", compile_paper("x1 ^ x6", 12))
    with one_line("p.safetensors"):
        capax.verify(rewritten(path, **change))


def test_real_values_and_other_commands(tmp_path):
    f = SparseFunction((3, 8), np.array([0.5, -2.0, 7.0, 0.25]), 20)
    path = save_paper(tmp_path / "p.safetensors", compile_paper(f))
    assert capax.verify(path).ok
    for load in (capax.compiler.load_compiled, checkpoint.load):  # prove, decompile, export, bound
        with pytest.raises(InputError, match=r"got .?a network of the paper's Appendix B"):
            load(path)
