"""Changed proofs of compiled networks, and whether their statement is true."""

import functools
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
from extended_forward import extended_outputs
from naive_head import all_inputs
from tampering import arrays_of, with_arrays, write

import capax
from capax.attention import ClsScalar
from capax.compiler import save_compiled
from capax.compiler.weights_file import load_compiled
from capax.proving import capax_check
from capax.proving.proof_files import prove

T = 5
FORMULAS = ("x1 & x4", "x0 ^ x2 ^ x3", "(x1 & x4) | (~x1 & x2)", "1")


@functools.cache
def proved(folder: Path, formula: str, encoding: str):
    path = folder / f"{encoding}-{hashlib.sha256(formula.encode()).hexdigest()[:8]}.safetensors"
    save_compiled(path, capax.compile(formula, T, encoding=encoding))
    return path, prove(path).text


def statement_is_true(proof: str, path: Path) -> bool:
    """The first line, on all 2^T inputs in extended precision."""
    header, model = json.loads(proof.splitlines()[0]), load_compiled(path).model
    out, noise = extended_outputs(model)
    bits = all_inputs(T)
    rows = sum((bits[:, t] << i for i, t in enumerate(header["support"])), np.zeros(1 << T, int))
    table = header["table"]
    f = np.array(
        [int(table, 16) >> r & 1 if isinstance(table, str) else table[r] for r in rows], float
    )
    signed, boolean = isinstance(model, ClsScalar), header["margin"] is not None
    target, cut = (2 * f - 1 if signed and boolean else f), (0.0 if signed else 0.5)
    if np.abs(out - target).max() > float(header["error"]) + noise + 1e-15:
        return False
    far = np.where(f > 0.5, out - cut, cut - out).min()
    return not boolean or far >= float(header["margin"]) - noise - 1e-15 > -1e-15


def plainly_changed(text: str, how: str, at: int, rng: np.random.Generator) -> str | None:
    """Changes of text or of whole lines; None for a change inside of a line."""
    lines = text.splitlines()
    if how == "digit":
        places = [i for i, c in enumerate(text) if c.isdigit()]
        place = places[int(rng.integers(len(places)))]
        return text[:place] + str(rng.integers(10)) + text[place + 1 :]
    if how == "drop":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "swap":
        other = int(rng.integers(len(lines)))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        return text[: int(rng.integers(len(text)))] if how == "cut" else None
    return "\n".join(lines) + "\n"


def mutated(text: str, how: str, rng: np.random.Generator) -> str:
    lines = text.splitlines()
    at = int(rng.integers(len(lines)))
    plain = plainly_changed(text, how, at, rng)
    if plain is not None:
        return plain
    if at and json.loads(lines[at])["ends"]:
        line = json.loads(lines[at])
        g, side = rng.integers(len(line["ends"])), rng.integers(2)
        if how == "null":
            line["ends"][g][side] = None
        else:
            line["ends"][g].reverse()
        lines[at] = json.dumps(line)
    return "\n".join(lines) + "\n"


def answer(text: str, data: bytes) -> dict:
    """What `capax_check.answer` says of files with this content."""
    try:
        return {"status": "proved", "statement": capax_check.check(text, data)}
    except capax_check.Refused as refusal:
        return {"status": "refused", "line": refusal.line, "reason": refusal.reason}


def forged(path: Path, text: str, rng: np.random.Generator, size: float) -> tuple[Path, str]:
    """One weight of a compiled network moved, and the hash in the proof made to fit."""
    file = load_compiled(path)
    arrays = arrays_of(file.model)
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    where = tuple(int(rng.integers(n)) for n in arrays[name].shape)
    arrays[name][where] += size * rng.standard_normal()
    target = write(path.with_suffix(".forged"), with_arrays(file.model, arrays), file.claims)
    old = json.loads(text.splitlines()[0])["weights"]
    return target, text.replace(old, hashlib.sha256(target.read_bytes()).hexdigest())


def fates(made, kinds, turns: int, rng: np.random.Generator, *, changed, forged, is_true, least):
    """What became of so many changes: proofs changed, exchanged, or with weights forged.

    made: (weights, proof) pairs. least: log10 of the smallest change of a weight.
    """
    count: Counter = Counter()
    for i in range(turns):
        path, text = made[int(rng.integers(len(made)))]
        kind = (*kinds, "another proof", "weights", "weights")[i % (len(kinds) + 3)]
        if kind == "weights":
            path, text = forged(path, text, rng, float(10.0 ** rng.uniform(least, 1)))
        elif kind == "another proof":
            text = made[int(rng.integers(len(made)))][1]
        else:
            text = changed(text, kind, rng)
        found = answer(text, path.read_bytes())
        refused = found["status"] == "refused"
        count[f"{kind}: {found['status']}"] += 1
        count["FALSE AND ACCEPTED"] += not refused and not is_true(text, path)
        count["refused without a line"] += refused and found["line"] < 1
    return dict(count)
