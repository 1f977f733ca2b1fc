"""What proof files must show: `python benchmarks/proof_files.py [--functions N] [--changes N]`.

Every function of 3 bits in every encoding, and random ones of 4 bits: proved and accepted by the
checker in a process of its own at T = 1000, with the longest check; at T = 12 by the second checker
of the tests too (its tokens are dense). Then changed proofs and forged weights at T = 5: how many
are refused, and whether one is accepted that is false. Needs python-flint.
"""

import argparse
import hashlib
import json
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
from capax.proving.compiled_proof import prove  # noqa: E402
from capax.proving.run_checker import check_proof  # noqa: E402

KINDS = ("digit", "drop", "twice", "swap", "null", "swap ends", "cut")


def say(**row) -> None:
    print(json.dumps(row), flush=True)


def functions(folder: Path, T: int, most: int, second: bool) -> None:
    rng = np.random.default_rng(0)
    tables = [(3, [r >> i & 1 for i in range(8)]) for r in range(256)][:most]
    tables += [(4, rng.integers(0, 2, 16).tolist()) for _ in range(min(50, most))]
    for encoding in ENCODINGS:
        count, longest = Counter(), 0.0
        for s, table in tables:
            support = tuple(sorted(rng.choice(T, s, replace=False).tolist()))
            f = SparseFunction(support, np.array(table, float), T)
            path = save_compiled(folder / "f.safetensors", capax.compile(f, T, encoding=encoding))
            proof = prove(path)
            file = proof.write(folder / "f.proof")
            began = time.perf_counter()
            found = check_proof(file, path)["status"]
            longest = max(longest, time.perf_counter() - began)
            count[found] += 1
            if second:
                count["second checker"] += accepted(proof.text, path)
        say(encoding=encoding, T=T, longest_check_s=round(longest, 2), **count)


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
    options.add_argument("--changes", type=int, default=10_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        functions(Path(name), 1000, chosen.functions, False)
        functions(Path(name), 12, chosen.functions, True)
        changes(Path(name), chosen.changes)
