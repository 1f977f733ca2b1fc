"""What proof files must show: `python benchmarks/proof_files.py [--functions N] [--changes N]`.

Every function of 3 bits in every encoding, and 200 random ones of 4 bits, at T = 1000: proved,
accepted by the checker in a process of its own and by the second checker of the tests, with the
longest checks (wall time: use no more workers than quiet cores). Then changed proofs and forged
weights at T = 5: how many are refused, and whether one is accepted that is false. Needs
python-flint.
"""

import argparse
import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / p) for p in ("proving", "compiler", ".")]
from arb_check import accepted  # noqa: E402
from tampering import arrays_of, with_arrays, write  # noqa: E402
from test_capax_check import FORMULAS, answer, mutated, proved, statement_is_true  # noqa: E402

import capax  # noqa: E402
from capax.boolean import SparseFunction  # noqa: E402
from capax.compiler import ENCODINGS, save_compiled  # noqa: E402
from capax.compiler.weights_file import load_compiled  # noqa: E402
from capax.proving.proof_files import prove  # noqa: E402
from capax.proving.run_checker import check_proof  # noqa: E402

KINDS = ("digit", "drop", "twice", "swap", "null", "swap ends", "cut")


def say(**row) -> None:
    print(json.dumps(row), flush=True)


def functions(T: int, most: int, random: int, workers: int) -> None:
    """Every function of 3 bits and random ones of 4 bits, in every encoding, by both checkers."""
    rng = np.random.default_rng(0)
    tables = [(3, [r >> i & 1 for i in range(8)]) for r in range(256)][:most]
    tables += [(4, rng.integers(0, 2, 16).tolist()) for _ in range(random)]
    supports = [tuple(sorted(rng.choice(T, s, replace=False).tolist())) for s, _ in tables]
    jobs = [
        (encoding, T, support, table)
        for encoding in ENCODINGS
        for support, (_, table) in zip(supports, tables, strict=True)
    ]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = pool.starmap(_one, jobs, chunksize=8)
    for encoding in ENCODINGS:
        mine = [row for job, row in zip(jobs, found, strict=True) if job[0] == encoding]
        say(
            encoding=encoding,
            T=T,
            functions=len(mine),
            accepted=sum(row[0] for row in mine),
            by_the_second_checker=sum(row[1] for row in mine),
            longest_check_s=round(max(row[2] for row in mine), 2),
            longest_second_s=round(max(row[3] for row in mine), 2),
        )


def _one(encoding: str, T: int, support: tuple[int, ...], table: list[int]) -> tuple:
    """(accepted, accepted by the second checker, seconds of each) of one function."""
    f = SparseFunction(support, np.array(table, float), T)
    with tempfile.TemporaryDirectory() as name:
        compiled = capax.compile(f, T, encoding=encoding)
        path = save_compiled(Path(name) / "f.safetensors", compiled)
        proof = prove(path)
        file = proof.write(Path(name) / "f.proof")
        began = time.perf_counter()
        first = check_proof(file, path)["status"] == "proved"
        between = time.perf_counter()
        second = accepted(proof.text, path)
        return first, second, between - began, time.perf_counter() - between


def changes(folder: Path, most: int) -> None:
    rng, count = np.random.default_rng(1), Counter()
    made = [proved(folder, formula, e) for formula in FORMULAS[:3] for e in ENCODINGS]
    for i in range(most):
        path, text = made[int(rng.integers(len(made)))]
        if i % 10 < 7:
            kind, changed = KINDS[i % 10], mutated(text, KINDS[i % 10], rng)
        elif i % 10 == 7:
            kind, changed = "another proof", made[int(rng.integers(len(made)))][1]
        else:
            kind, (path, changed) = "weights", forged(path, text, rng)
        found = answer(changed, path.read_bytes())
        ok = found["status"] == "refused" or statement_is_true(changed, path)
        named = found["status"] == "proved" or found["line"] >= 1
        count[f"{kind}: {found['status']}"] += 1
        count["FALSE AND ACCEPTED"] += not ok
        count["refused without a line"] += not named
    say(**count)


def forged(path: Path, text: str, rng: np.random.Generator) -> tuple[Path, str]:
    """One weight moved, and the hash in the proof made to fit."""
    file = load_compiled(path)
    arrays = arrays_of(file.model)
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    where = tuple(int(rng.integers(n)) for n in arrays[name].shape)
    arrays[name][where] += 10.0 ** rng.uniform(-12, 1) * rng.standard_normal()
    target = write(path.with_suffix(".forged"), with_arrays(file.model, arrays), file.claims)
    old = json.loads(text.splitlines()[0])["weights"]
    return target, text.replace(old, hashlib.sha256(target.read_bytes()).hexdigest())


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--functions", type=int, default=256)
    options.add_argument("--random", type=int, default=200)
    options.add_argument("--T", type=int, default=1000)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--changes", type=int, default=10_000)
    chosen = options.parse_args()
    functions(chosen.T, chosen.functions, chosen.random, chosen.workers)
    with tempfile.TemporaryDirectory() as name:
        changes(Path(name), chosen.changes)
