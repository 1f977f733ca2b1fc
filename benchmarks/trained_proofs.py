"""Proof files of trained networks: `python benchmarks/trained_proofs.py FOLDER t50 t300`.

FOLDER holds the runs of `decompile_runs.py`. Each solved run is proved (`capax.prove`) with its
target, and the file is checked in a process of its own; with --second the files are then checked
by the checker of the tests (Arb, python-flint). --train: the runs are trained where they are
missing. --changes N changes proofs and weights of small networks at random. With --out a second
call goes on.
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
from decompile_runs import paths, read, train_models  # noqa: E402
from kept_rows import add_options, run  # noqa: E402

from capax.errors import InputError  # noqa: E402
from capax.proving.cell_search import CELLS  # noqa: E402
from capax.proving.run_checker import check_proof  # noqa: E402
from capax.proving.trained_proof import EASES, prove_trained, trained_text, with_margin  # noqa: E402

TURN = 250
"""Changed files of one job."""


def _eased(text: str, file: Path, path: Path) -> tuple[str, dict]:
    """The proof with the largest margin that the checker accepts, and its answer."""
    for ease in EASES:
        eased = with_margin(text, ease)
        file.write_text(eased)
        found = check_proof(file, path)
        if found["status"] == "proved":
            break
    return eased, found


def one(path: Path, cells: int, file: Path) -> dict:
    """What proving and checking one run gave, with times."""
    _, task, outcome = read(path)
    row = {"run": f"{path.parent.name}/{path.stem}", "outcome": outcome}
    if outcome != "solved":
        return row
    began, busy = time.perf_counter(), time.process_time()
    try:
        text = trained_text(path, task.target.relevant(), cells)
    except InputError as error:
        told = str(error).split(": ")[-1]
        return row | {"proved": False, "told": told, "prove_s": time.perf_counter() - began}
    between, busy = time.perf_counter(), round(time.process_time() - busy, 1)
    text, found = _eased(text, file, path)
    return row | {
        "proved": True, "accepted": found["status"] == "proved", "reason": found["reason"],
        "margin": json.loads(text.split("\n", 1)[0])["margin"],
        "leaves": text.count('"far"'), "bytes": len(text),
        "prove_s": round(between - began, 1), "prove_cpu_s": busy,
        "check_s": round(time.perf_counter() - between, 1),
    }  # fmt: skip


def one_second(path: Path, file: Path) -> dict:
    """What the second checker says of a file, and its time."""
    from arb_trained import accepted

    began = time.perf_counter()
    told = accepted(file.read_text(), path)
    return {"second": told, "second_s": round(time.perf_counter() - began, 1)}


def one_turn(seed: int) -> dict:
    """So many changed proofs and forged weights of small networks: what became of them."""
    from changed_proofs import fates
    from changed_transformers import HOW, NETWORKS, changed, forged, is_true
    from small_transformers import saved

    made = []
    with tempfile.TemporaryDirectory() as folder:
        for activation, number in NETWORKS:
            path, f = saved(Path(folder), number, activation, 2)
            made.append((path, prove_trained(path, f).text))
        rng, checks = np.random.default_rng(seed), {"forged": forged, "is_true": is_true}
        return fates(made, HOW, TURN, rng, changed=changed, least=-7, **checks)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("names", nargs="*")
    options.add_argument("--number", type=int, default=0)
    options.add_argument("--train", action="store_true")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--cells", type=int, default=CELLS)
    options.add_argument("--second", action="store_true")
    options.add_argument("--keep", type=Path, help="folder of the proofs; without it they go")
    options.add_argument("--changes", type=int, default=0, help="changed files of small networks")
    add_options(options)
    chosen = options.parse_args()
    if chosen.train:
        train_models(chosen.folder, chosen.number, chosen.names)
    files = [
        p
        for name in chosen.names
        for p in paths(chosen.folder, name, chosen.number)[chosen.first :]
    ]
    with tempfile.TemporaryDirectory() as passing:
        keep = chosen.keep or Path(passing)
        names = {
            f"{p.parent.name}/{p.stem}": (p, keep / f"{p.parent.name}-{p.stem}.proof")
            for p in files
        }
        rows = run(one, {n: (p, chosen.cells, file) for n, (p, file) in names.items()}, chosen)
        done = [
            row["job"] for row in rows if row.get("accepted") and names[row["job"]][1].is_file()
        ]
        jobs = {f"{n} second": names[n] for n in done} if chosen.second else {}
        second = run(one_second, jobs, chosen)
    turns = run(one_turn, {f"changes {i}": (i,) for i in range(chosen.changes // TURN)}, chosen)
    total = sum((Counter({k: v for k, v in row.items() if k != "job"}) for row in turns), Counter())
    accepted = sum(bool(row.get("accepted")) for row in rows)
    changed = sum(n for k, n in total.items() if ": " in k)
    found = {"runs": len(rows), "accepted": accepted, "by both": sum(r["second"] for r in second)}
    print(json.dumps({**found, "changed": changed, **total}))
