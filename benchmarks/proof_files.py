"""What proof files must show: `python benchmarks/proof_files.py [--functions N] [--changes N]`.

Every function of 3 bits in every encoding, and 200 random ones of 4 bits, at T = 1000: proved and
accepted by the checker in a process of its own, with its time; with --second also by the second
checker of the tests (python-flint). Then changed proofs and forged weights at T = 5: how many are
refused, and whether one is accepted that is false. With --out a second call goes on.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

FOLDERS = ("tests/proving", "tests/compiler", "tests", "benchmarks")
sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in FOLDERS]
from changed_proofs import (  # noqa: E402
    FORMULAS,
    fates,
    forged,
    mutated,
    proved,
    statement_is_true,
)
from kept_rows import add_options, run  # noqa: E402

import capax  # noqa: E402
from capax.boolean import SparseFunction  # noqa: E402
from capax.compiler import ENCODINGS, save_compiled  # noqa: E402
from capax.proving.proof_files import prove  # noqa: E402
from capax.proving.run_checker import check_proof  # noqa: E402

KINDS = ("digit", "drop", "twice", "swap", "null", "swap ends", "cut")
TURN = 250
"""Changed files of one job."""


def functions(T: int, most: int, random: int, second: bool) -> dict:
    """Jobs: every function of 3 bits and random ones of 4 bits, in every encoding."""
    rng = np.random.default_rng(0)
    tables = [(3, [r >> i & 1 for i in range(8)]) for r in range(256)][:most]
    tables += [(4, rng.integers(0, 2, 16).tolist()) for _ in range(random)]
    supports = [tuple(sorted(rng.choice(T, s, replace=False).tolist())) for s, _ in tables]
    return {
        f"{encoding} {i} T={T}{' second' if second else ''}": (encoding, T, support, table, second)
        for i, (support, (_, table)) in enumerate(zip(supports, tables, strict=True))
        for encoding in ENCODINGS
    }


def one_function(encoding, T, support, table, second) -> dict:
    """Whether both checkers accept, and their seconds."""
    f = SparseFunction(support, np.array(table, float), T)
    with tempfile.TemporaryDirectory() as name:
        path = save_compiled(Path(name) / "f.safetensors", capax.compile(f, T, encoding=encoding))
        proof = prove(path)
        file = proof.write(Path(name) / "f.proof")
        began = time.perf_counter()
        row = {"accepted": check_proof(file, path)["status"] == "proved"}
        row["check_s"] = round(time.perf_counter() - began, 2)
        if second:
            from arb_check import accepted

            began = time.perf_counter()
            row["second"] = accepted(proof.text, path)
            row["second_s"] = round(time.perf_counter() - began, 2)
    return row


def one_turn(seed: int) -> dict:
    """So many changed files: what became of them."""
    with tempfile.TemporaryDirectory() as name:
        made = [proved(Path(name), formula, e) for formula in FORMULAS[:3] for e in ENCODINGS]
        return fates(
            made, KINDS, TURN, np.random.default_rng(seed),
            changed=mutated, forged=forged, is_true=statement_is_true, least=-12,
        )  # fmt: skip


def told(rows: list[dict]) -> None:
    """The totals."""
    functions = [row for row in rows if "accepted" in row]
    changes = Counter()
    for row in rows:
        changes.update({} if "accepted" in row else {k: n for k, n in row.items() if k != "job"})
    for encoding in ENCODINGS:
        mine = [row for row in functions if row["job"].startswith(encoding + " ")]
        if mine:
            seconds = [row["second"] for row in mine if "second" in row]
            print(json.dumps({
                "encoding": encoding, "functions": len(mine),
                "accepted": sum(row["accepted"] for row in mine),
                "longest_check_s": max(row["check_s"] for row in mine),
                "by_the_second_checker": f"{sum(seconds)} of {len(seconds)}",
            }))  # fmt: skip
    print(json.dumps({"changed": sum(n for k, n in changes.items() if ": " in k), **changes}))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--functions", type=int, default=256)
    options.add_argument("--random", type=int, default=200)
    options.add_argument("--T", type=int, default=1000)
    options.add_argument("--changes", type=int, default=10_000)
    options.add_argument("--second", action="store_true", help="Arb too (python-flint)")
    add_options(options)
    chosen = options.parse_args()
    turns = {f"changes {i}": (i,) for i in range(chosen.changes // TURN)}
    jobs = functions(chosen.T, chosen.functions, chosen.random, chosen.second)
    told(run(one_turn, turns, chosen) + run(one_function, jobs, chosen))
