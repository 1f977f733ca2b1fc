"""Verification accepts what was compiled and rejects every kind of tampering, with numbers."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from extended_forward import naive_outputs
from forward_pass import output
from safetensors import safe_open
from safetensors.numpy import save_file

import capax
from capax.compiler import load_compiled, save_compiled, verify
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import head_tables, readout_output
from one_line import one_line

FORMULAS = ("x1 & x4 & ~x6", "x1 ^ x4 ^ x6", "(x1 & x4) | (~x1 & x6)")
# Every encoding and every kind of read-out; the cheapest pairs that hold both.
NETWORKS = (
    *((FORMULAS[0], encoding) for encoding in ("deterministic", "incoherent")),
    *((FORMULAS[1], encoding) for encoding in ("deterministic", "trainable")),
    (FORMULAS[2], "bag"),
)

compiled_once = cache(capax.compile)


def saved(folder: Path, formula: str, T: int, **options) -> Path:
    return save_compiled(folder / "w.safetensors", compiled_once(formula, T, **options))


def rewrite(path: Path, change_arrays=None, change_header=None) -> Path:
    """A copy of the file with some arrays or some of its header changed, fingerprint untouched."""
    with safe_open(str(path), framework="np") as file:
        header = dict(file.metadata())
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    if change_arrays is not None:
        change_arrays(arrays)
    if change_header is not None:
        content = json.loads(header["capax"])
        change_header(content)
        header["capax"] = json.dumps(content)
    changed = path.with_name("changed.safetensors")
    save_file(arrays, str(changed), metadata=header)
    return changed


@pytest.mark.parametrize(("formula", "encoding"), NETWORKS)
def test_what_was_compiled_is_accepted(tmp_path: Path, formula: str, encoding: str):
    for T, method in ((9, "every one of the 2^9 inputs"), (40, "proven range")):
        verdict = verify(saved(tmp_path, formula, T, encoding=encoding))
        assert verdict.ok, verdict.failed
        assert method in verdict.method
        assert verdict.attacked_error <= verdict.worst_case_error
        assert {claim.status for claim in verdict.claims} == {"proved", "stated"}


@pytest.mark.parametrize(("formula", "encoding"), NETWORKS)
def test_one_weight_changed_by_one_percent_is_rejected(tmp_path, formula, encoding):
    path = saved(tmp_path, formula, 40, encoding=encoding)
    with safe_open(str(path), framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, array in arrays.items():
        where = np.flatnonzero(array.reshape(-1))
        if not where.size:
            continue  # a zero bias has no weight to change by a percentage
        spot = int(where[len(where) // 2])

        def scale(parts: dict[str, np.ndarray], name: str = name, spot: int = spot) -> None:
            flat = parts[name].reshape(-1)
            flat[spot] *= 1.01
            parts[name] = flat.reshape(parts[name].shape)

        verdict = verify(rewrite(path, scale))
        assert not verdict.ok, name
        numbers = [claim for claim in verdict.failed if claim.name != "fingerprint of the file"]
        assert numbers, f"{name}: only the fingerprint noticed"
        assert any(claim.claimed != claim.recomputed for claim in numbers)


def test_a_flipped_sign_and_a_wrong_table_are_rejected(tmp_path: Path):
    path = saved(tmp_path, "x1 & x4", 30)

    def flip(parts: dict[str, np.ndarray]) -> None:
        parts["W_V"][1] *= -1  # every norm stays the same

    names = {claim.name for claim in verify(rewrite(path, flip)).failed}
    assert {"worst_case_error", "wrong_decisions", "table"} <= names

    def lie(content: dict) -> None:
        content["metadata"]["certificate"]["table"] = "0xe"

    names = {claim.name for claim in verify(rewrite(path, None, lie)).failed}
    assert {"wrong_decisions", "table", "function"} <= names


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("worst_case_error", 0.1),
        ("worst_case_error", None),
        ("margin", 0.9),
        ("T", 31),
        ("d", 7),
        ("mlp_units", 3),
        ("eps", 0.01),
        ("norms", {}),
        ("function", "x1 ^ x4"),
        ("function", "x1 &"),
        ("function", 3),
        ("support", [4, 1, 9]),
        ("s", 3),
        ("family", "general"),
        ("family", None),
        ("encoding", "bag"),
        ("target", "values of f, decided at 1/2"),
        ("wrong_decisions", 1),
        ("statements", ["Proposition 5"]),
        ("sample_size", {"occam": 1}),
        ("capacity", None),
        ("paper_bounds", {}),
        ("sample_size_for", {"error": 0.1, "probability": 0.99}),
    ],
)
def test_a_false_claim_is_named(tmp_path: Path, field: str, value: object):
    path = saved(tmp_path, "x1 & x4", 30)

    def lie(content: dict) -> None:
        content["metadata"]["certificate"][field] = value

    verdict = verify(rewrite(path, None, lie))
    assert not verdict.ok
    named = {"support": "table"}.get(field, field)  # no such function is in the weights
    assert named in {claim.name for claim in verdict.failed}


@pytest.mark.parametrize("field", ["eps", "notes", "selection", "margin", "statements"])
def test_a_missing_field_is_refuted(tmp_path: Path, field: str):
    path = saved(tmp_path, "x1 & x4", 30)
    verdict = verify(
        rewrite(path, None, lambda content: content["metadata"]["certificate"].pop(field))
    )
    assert field in {claim.name for claim in verdict.failed}


def misfit(parts: dict[str, np.ndarray]) -> None:
    parts["W_K"] = parts["W_K"][:-1]


def broken(parts: dict[str, np.ndarray]) -> None:
    parts["W_K"][0] = np.nan


def other_kind(content: dict) -> None:
    content["metadata"] = {"kind": "x"}


def no_table(content: dict) -> None:
    content["metadata"]["certificate"]["table"] = "zz"


UNUSABLE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "text": lambda path: path.write_text("not weights"),
    "other": lambda path: save_file({"a": np.ones(2)}, str(path), metadata={"format": "pt"}),
    "misfit": lambda path: rewrite(path, misfit).replace(path),
    "nan": lambda path: rewrite(path, broken).replace(path),
    "kind": lambda path: rewrite(path, None, other_kind).replace(path),
    "module": lambda path: rewrite(path, None, lambda c: c.update(module=3)).replace(path),
    "table": lambda path: rewrite(path, None, no_table).replace(path),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_files_are_one_line_errors(name: str, tmp_path: Path):
    path = saved(tmp_path, "x1 & x4", 30).rename(tmp_path / name)
    UNUSABLE[name](path)
    with one_line(name):
        verify(path)


def test_files_come_back_as_they_were(tmp_path: Path):
    compiled = capax.compile("maj(x1, x5, x9)", 1000)
    file = load_compiled(save_compiled(tmp_path / "w.safetensors", compiled))
    assert file.intact and file.claims == compiled.certificate.to_json()
    bits = np.random.default_rng(0).integers(0, 2, 1000)
    assert output(file.model, bits) == output(compiled.model, bits)


# One attack per (T, encoding, formula): the certificate must equal the worst error found, since
# the all-active and all-inactive inputs are among the starts.
@pytest.mark.parametrize("T", [64, 10**6])
@pytest.mark.parametrize("encoding", ["deterministic", "trainable", "bag"])
def test_no_attack_beats_the_certificate(T: int, encoding: str):
    formulas = FORMULAS[:2] if T == 64 else (FORMULAS[0],)
    for formula in formulas:
        model, certificate, made = capax.compile(formula, T, encoding=encoding)
        tables, f = head_tables(model), made.function
        signed = certificate.mlp_units == 0
        targets = 2 * f.table - 1 if signed else f.table
        low, high = output_range(model, tables, f.support)
        error = np.maximum(np.abs(low - targets), np.abs(high - targets))
        rows = None if T == 64 else [int(error.argmax())]
        found = attack(
            tables,
            f.support,
            targets,
            lambda u, m=model: readout_output(m, u),
            rows=rows,
            restarts=2,
        )
        assert error.max() <= certificate.worst_case_error < error.max() + 1e-11
        # the attack is evaluated in plain float64: some 1e-15, which differ by machine
        assert found.error <= certificate.worst_case_error + 1e-12
        assert found.error >= certificate.worst_case_error - 1e-9
        if T == 64:
            far = abs(
                naive_outputs(model, found.bits[None])[0] - targets[_row(found.bits, f.support)]
            )
            assert abs(far - found.error) < 1e-9


def _row(bits: np.ndarray, support: tuple[int, ...]) -> int:
    return sum(int(bits[t]) << i for i, t in enumerate(support))
