"""Proof files: accepted by two checkers, and never when the statement is false."""

import hashlib
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from arb_check import accepted
from changed_proofs import FORMULAS, T, answer, forged, mutated, proved, statement_is_true
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tampering import write

import capax
from capax.boolean import SparseFunction, from_table
from capax.compiler import ENCODINGS, save_compiled
from capax.errors import InputError
from capax.proving import capax_check
from capax.proving.proof_files import prove
from capax.proving.run_checker import CHECKER, check_proof


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return partial(proved, tmp_path_factory.mktemp("proofs"))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_compiled_networks_have_proofs_that_both_checkers_accept(made, formula, encoding):
    path, text = made(formula, encoding)
    told = capax_check.check(text, path.read_bytes())
    assert told.startswith(f"On all 2^{T} inputs") and told.endswith("on the stored weights.")
    assert accepted(text, path) and statement_is_true(text, path)


def test_random_functions_and_real_values(tmp_path):
    rng = np.random.default_rng(1)
    for i in range(6):
        support = tuple(rng.choice(T, 3, replace=False).tolist())
        values = rng.integers(0, 2, 8) if i < 4 else rng.normal(size=8)
        f = SparseFunction(support, values.astype(float), T)
        path = save_compiled(
            tmp_path / "f.safetensors", capax.compile(f, T, encoding=ENCODINGS[i % 4])
        )
        text = prove(path).text
        assert accepted(text, path) and statement_is_true(text, path)
        assert (json.loads(text.splitlines()[0])["margin"] is None) == (i >= 4)


def test_a_long_context_is_checked_in_seconds_and_names_its_function(tmp_path):
    f = from_table(0x9D31, (3, 500, 501, 999), 1000)
    path = save_compiled(tmp_path / "f.safetensors", capax.compile(f, 1000, encoding="trainable"))
    proof = prove(path)
    proof.write(tmp_path / "f.proof")
    found = check_proof(tmp_path / "f.proof", path)
    assert found["status"] == "proved" and found["line"] is found["reason"] is None
    assert "2^1000" in found["statement"] and "0x9d31" in found["statement"]
    assert "[3, 500, 501, 999]" in found["statement"]


def test_the_checker_is_one_short_file_of_plain_python(made, tmp_path):
    path, text = made("x1 & x4", "trainable")
    code = CHECKER.read_text()
    assert len(code.splitlines()) <= 500
    imported = set(re.findall(r"^(?:from|import) (\w+)", code, re.M))
    assert imported <= set(sys.stdlib_module_names)
    alone = tmp_path / "elsewhere.py"
    alone.write_text(code)
    (tmp_path / "p.proof").write_text(text)
    command = [sys.executable, "-I", "-S", alone, tmp_path / "p.proof", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("proved: On all 2^5 inputs")
    lines = text.splitlines()
    (tmp_path / "p.proof").write_text("\n".join([*lines[:-1], lines[-2]]))
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["status"] == "refused" and found["statement"] is None
    assert found["line"] == 5 and "is not proved" in found["reason"]


@settings(max_examples=120)
@given(n=st.integers(0, 2**70), e=st.integers(0, 80), bits=st.integers(1, 300))
def test_exp_is_enclosed(n, e, bits):
    low, high = capax_check.exp_between(n, e, bits)
    assume(n >> e < 10**4)
    with mpmath.workdps(150):
        true = mpmath.exp(-mpmath.mpf(n) / 2**e) * mpmath.mpf(2) ** bits
        assert low <= true <= high
    assert low >= 0 and high - low <= 2


@settings(max_examples=100)
@given(
    units=st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=1, max_size=5),
    ends=st.tuples(*[st.integers(-30, 30)] * 2).map(sorted),
)
def test_ranges_of_units_hold_every_point_and_are_attained(units, ends):
    units = [(Fraction(b, 2), Fraction(w)) for b, w in units]
    low, high = (Fraction(x, 3) for x in ends)
    least, most = capax_check.ridge(units, (low, high))
    steps = [low + (high - low) * Fraction(i, 60) for i in range(61)]
    steps += [-b for b, _ in units if low <= -b <= high]
    values = [sum(w * max(l + b, 0) for b, w in units) for l in steps]
    assert least == min(values) and most == max(values)


MUTATIONS = st.sampled_from(["digit", "drop", "twice", "swap", "null", "swap ends", "cut"])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    formula=st.sampled_from(FORMULAS[:3]), encoding=st.sampled_from(ENCODINGS),
    how=MUTATIONS, seed=st.integers(0, 10**6),
)  # fmt: skip
def test_changed_proofs_are_refused_with_a_line_unless_they_are_true(
    made, formula, encoding, how, seed
):
    path, text = made(formula, encoding)
    changed = mutated(text, how, np.random.default_rng(seed))
    found = answer(changed, path.read_bytes())
    if found["status"] == "proved":
        assert statement_is_true(changed, path)
    else:
        assert 1 <= found["line"] <= text.count("\n") + 2 and found["reason"]


def test_a_proof_of_other_weights_is_refused_at_its_first_line(made):
    (_, text), (path, _) = made("x1 & x4", "bag"), made("x1 & x4", "trainable")
    found = answer(text, path.read_bytes())
    assert found["line"] == 1 and "not the weights" in found["reason"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    formula=st.sampled_from(FORMULAS[:3]), encoding=st.sampled_from(ENCODINGS),
    seed=st.integers(0, 10**6), size=st.sampled_from([1e-12, 1e-3, 0.1, 3.0]),
)  # fmt: skip
def test_changed_weights_with_a_forged_hash_are_proved_only_if_true(
    made, formula, encoding, seed, size
):
    path, changed = forged(*made(formula, encoding), np.random.default_rng(seed), size)
    found = answer(changed, path.read_bytes())
    if found["status"] == "proved":
        assert statement_is_true(changed, path)
    else:
        assert found["line"] >= 1


def tightened(text: str, factor: float) -> str:
    """The same proof with a statement that asks for more than the network gives."""
    header, *lines = [json.loads(line) for line in text.splitlines()]
    header["margin"] = str(float(header["margin"]) * factor)
    return "\n".join(map(json.dumps, (header, *lines))) + "\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_statements_that_ask_a_little_too_much_are_refused(made, encoding):
    path, text = made("x1 & x4", encoding)
    assert answer(tightened(text, 1 - 1e-9), path.read_bytes())["status"] == "proved"
    found = answer(tightened(text, 1 + 1e-9), path.read_bytes())
    assert found["status"] == "refused" and "margin" in found["reason"]
    header, *lines = [json.loads(line) for line in text.splitlines()]
    for row, line in enumerate(lines):
        for side, step in ((0, 1e-9), (1, -1e-9)):  # ends a hair inside the range are false
            moved = json.loads(json.dumps(line))
            moved["ends"][0][side] += step * (1 + abs(moved["ends"][0][side]))
            tried = [header, *lines[:row], moved, *lines[row + 1 :]]
            found = answer("\n".join(map(json.dumps, tried)), path.read_bytes())
            assert found["status"] == "refused" and found["line"] == row + 2


FALSE_HEADERS = {
    "table": "0x7",
    "support": [1, 3],
    "T": 6,
    "bits": 0,
    "error": "1e-9",
    "margin": "0",
    "proof": "capax-proof-0",
    "weights": "0" * 64,
}


@pytest.mark.parametrize("field", FALSE_HEADERS)
def test_every_field_of_the_statement_is_checked(made, field):
    path, text = made("x1 & x4", "deterministic")
    header, *lines = [json.loads(line) for line in text.splitlines()]
    header[field] = FALSE_HEADERS[field]
    found = answer("\n".join(map(json.dumps, (header, *lines))), path.read_bytes())
    assert found["status"] == "refused"
    del header[field]
    found = answer("\n".join(map(json.dumps, (header, *lines))), path.read_bytes())
    assert found["line"] == 1 and "wanted the fields" in found["reason"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("norm", "Sparsemax"), ("scale", "sqrt"), ("activation", "tanh"), ("kind", "PaperStack")],
)
def test_networks_that_the_proof_does_not_cover_are_refused(made, name, value):
    path, text = made("x1 & x4", "deterministic")
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    content = json.loads(header["__metadata__"]["capax"])
    fields = content["module"]["fields"]
    if name == "kind":
        content["module"]["kind"] = value
    elif name == "norm":
        fields["norm"]["kind"] = value
    else:
        fields[name]["value"] = value
    header["__metadata__"]["capax"] = json.dumps(content)
    head = json.dumps(header).encode()
    forged = len(head).to_bytes(8, "little") + head + data[8 + size :]
    old = json.loads(text.splitlines()[0])["weights"]
    found = answer(text.replace(old, hashlib.sha256(forged).hexdigest()), forged)
    assert found["status"] == "refused" and found["line"] == 1 and "weights" in found["reason"]


def test_a_network_that_is_wrong_somewhere_has_no_proof(tmp_path):
    compiled = capax.compile("x1 & x4", T)
    claims = compiled.certificate.to_json() | {"table": "0xe"}
    path = write(tmp_path / "w.safetensors", compiled.model, claims)
    with pytest.raises(InputError, match="proved to decide as its table"):
        prove(path)
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    assert check_proof(tmp_path / "none", path)["line"] == 1


def test_the_commands(tmp_path, warm_commands):
    save_compiled(tmp_path / "w.safetensors", capax.compile("x1 & x4", T))
    run = partial(warm_commands.capax, folder=tmp_path)
    done = run("prove", "w.safetensors", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["out"] == "w.proof" and told["lines"] == 5
    good = run("check", "w.proof", "w.safetensors", "--json")
    assert good.returncode == 0 and json.loads(good.stdout)["statement"] == told["statement"]
    text = (tmp_path / "w.proof").read_text()
    (tmp_path / "w.proof").write_text(text.replace('"table": "0x8"', '"table": "0x9"'))
    bad = run("check", "w.proof", "w.safetensors")
    assert bad.returncode == 1 and "REFUSED: line 2: the error may exceed" in bad.stdout
    assert run("check").returncode == 2
    assert run("check", "--print-checker").stdout == CHECKER.read_text()
    assert math.isclose(float(json.loads(text.splitlines()[0])["margin"]), 0.5, rel_tol=1e-3)
