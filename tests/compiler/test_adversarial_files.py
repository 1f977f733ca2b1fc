"""Tampered weights files against brute force in extended precision: nothing false is accepted.

`benchmarks/adversary.py` is the long run: 10 000 files and more.
"""

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tampering
from extended_forward import extended_outputs
from naive_head import all_inputs, truth

import capax
from capax.attention import ClsScalar
from capax.boolean import parse
from capax.compiler import save_compiled, verify
from capax.compiler.certificate import worst_case
from capax.compiler.verified.verification import Verification
from capax.errors import CapaxError

FILES = 44
BASES = (
    ("x1 & x4 & ~x6", 9, {}),
    ("x1 | x4", 8, {}),
    ("maj(x0, x3, x5)", 7, {"encoding": "trainable"}),
    ("x1 & x4", 8, {"encoding": "bag"}),
    ("x1 & x2 & x4", 7, {"encoding": "incoherent"}),
    ("x1 ^ x4 ^ x6", 9, {}),
    ("x1 ^ x3", 12, {}),
    ("x1 ^ x4 ^ x6", 8, {"encoding": "trainable"}),
    ("(x1 & x4) | (~x1 & x6)", 8, {}),
    ("(x1 & x4) | (~x1 & x6)", 9, {"eps": 0.05}),
    ("(x1 & x4) | (~x1 & x6)", 8, {"encoding": "bag"}),
    ("x1 ^ x3", 6, {"encoding": "incoherent"}),
)
KINDS = (*tampering.WEIGHT_KINDS, tampering.metadata_lies, "swapped")


@cache
def base(number: int):
    formula, T, options = BASES[number]
    return capax.compile(formula, T, dtype=np.float64, **options)


def forged(path, number: int, kind, g: np.random.Generator):
    """A tampered file: the network in it and what it claims."""
    made = base(number)
    arrays, claims = tampering.arrays_of(made.model), made.certificate.to_json()
    if kind == "swapped":
        other = base(int(g.choice([n for n in range(len(BASES)) if n != number])))
        claims = other.certificate.to_json()
    else:
        kind(arrays, claims, g)
    model = tampering.with_arrays(made.model, arrays)
    tampering.write(path, model, claims)
    if kind in tampering.WEIGHT_KINDS and g.random() < 0.7:
        verdict = judged(path)
        if verdict is not None and not verdict.ok:
            claims = tampering.repaired(claims, verdict.failed)
            if g.random() < 0.3:  # an honest certificate for strange weights
                claims |= honest_numbers(verdict)
            tampering.write(path, model, claims)
    return model, claims


def honest_numbers(verdict: Verification) -> dict:
    numbers = {"worst_case_error": verdict.worst_case_error, "margin": verdict.margin, "eps": None}
    return {k: v for k, v in numbers.items() if v is None or np.isfinite(v)}


def judged(path) -> Verification | None:
    try:
        return verify(path)
    except CapaxError:
        return None


def contradiction(model, claims) -> str | None:
    """What the certificate says that brute force does not, or None."""
    T, signed = model.T, isinstance(model, ClsScalar)
    out, noise = extended_outputs(model)
    f = parse(claims["function"], T)
    bits = all_inputs(T)
    y = truth(f.table, f.support, bits)
    table = capax.compiler.certificate.certificate.function_from(
        claims["support"], claims["table"], T
    )
    if not np.array_equal(truth(table.table, table.support, bits), y):
        return "table and formula differ"
    target, cut = (2 * y - 1, 0.0) if signed else (y, 0.5)
    if np.abs(out - target).max() > claims["worst_case_error"] + noise:
        return f"error {np.abs(out - target).max()} above {claims['worst_case_error']}"
    margin = np.where(y > 0.5, out - cut, cut - out).min()
    if margin < claims["margin"] - noise:
        return f"margin {margin} below {claims['margin']}"
    if claims["wrong_decisions"] != 0 or claims["T"] != T or claims["d"] != model.encoding.d:
        return "sizes"
    if claims["eps"] is not None and np.abs(out - target).max() > claims["eps"] + noise:
        return "eps"
    for name in ("W_Q", "W_K", "W_V"):
        wide = np.asarray(getattr(model, name), np.float64).astype(np.longdouble)
        norm = float(np.sqrt((wide**2).sum()))
        if not np.isclose(claims["norms"][name]["frobenius"], norm, rtol=1e-8, atol=0):
            return f"norm of {name}"
    return None


def judge_files(folder: Path, files: range, seed: int) -> tuple[Counter, Counter]:
    """(tried, accepted) by kind; fails on the first accepted file that brute force contradicts."""
    path, accepted, tried = folder / "w.safetensors", Counter(), Counter()
    limit = worst_case.EXHAUSTIVE_T
    for i in files:
        g = np.random.default_rng([seed, i])
        number, kind = int(g.integers(len(BASES))), KINDS[i % len(KINDS)]
        # every other file is judged by ranges alone, as if it were too long to run every input
        worst_case.EXHAUSTIVE_T = limit if i // len(KINDS) % 2 else 0
        try:
            model, claims = forged(path, number, kind, g)
            verdict = judged(path)
        finally:
            worst_case.EXHAUSTIVE_T = limit
        name = kind if isinstance(kind, str) else kind.__name__
        tried[name] += 1
        if verdict is not None and verdict.ok:
            accepted[name] += 1
            found = contradiction(model, claims)
            assert found is None, (seed, i, name, BASES[number], found)
    return tried, accepted


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 2e-19, reason="no extended precision here")
def test_no_accepted_file_contradicts_its_certificate(tmp_path):
    tried, accepted = judge_files(tmp_path, range(FILES), seed=0)
    assert sum(tried.values()) == FILES
    assert accepted["metadata_lies"] + accepted["swapped"] == 0
    assert sum(accepted.values()) > FILES // 10  # harmless changes, honestly described, do pass


@pytest.mark.parametrize("number", range(len(BASES)))
def test_honest_files_are_accepted_both_ways(tmp_path, monkeypatch, number: int):
    path = save_compiled(tmp_path / "w.safetensors", base(number))
    for limit in (16, 0):
        monkeypatch.setattr(worst_case, "EXHAUSTIVE_T", limit)
        verdict = verify(path)
        assert verdict.ok, verdict.failed
    assert contradiction(base(number).model, base(number).certificate.to_json()) is None
