"""The formulas of twelve PyTorch models that were trained without Capax, and which are proved.

python benchmarks/torch_models.py out/torch_models
python benchmarks/decompile_torch.py out/torch_models
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch_models import made

from capax.boolean import parse
from capax.decompile.decompiling import Effort, decompile

SOLVED = 0.999
"""Accuracy on fresh inputs from which a model counts as solved."""


def main() -> None:
    """Print a line per model and write results.json; exit with 1 if a solved one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=int, default=2000)
    options = parser.parse_args()
    rows = [
        row_of(about, options) for about in json.loads((options.folder / "models.json").read_text())
    ]
    (options.folder / "results.json").write_text(json.dumps(rows, indent=1))
    solved = [row for row in rows if row["solved"]]
    right = sum(row["right"] for row in solved)
    proved = sum(row["status"] == "proved" for row in solved)
    print(f"{len(solved)} of {len(rows)} solved: formula right in {right}, proved in {proved}")
    raise SystemExit(right < len(solved))


def row_of(about: dict, options: argparse.Namespace) -> dict:
    model = made(about["name"])
    model.load_state_dict(torch.load(options.folder / about["file"], weights_only=True))
    start = time.perf_counter()
    found = decompile(model, T=about["T"], effort=Effort(cells=options.cells))
    row = {
        **about,
        "formula_read": found.formula.text,
        "right": same(found.function, parse(about["formula"], about["T"])),
        "solved": about["accuracy"] >= SOLVED,
        "agreement": found.agreement.value,
        "status": found.all_inputs.status,
        "margin": found.all_inputs.margin,
        "found_margin": found.all_inputs.found_margin,
        "proved_share": found.all_inputs.proved_share,
        "method": found.all_inputs.method,
        "seconds": time.perf_counter() - start,
    }
    print(
        f"{row['name']}: {row['accuracy']:.2%}, {row['formula_read']} "
        f"({'right' if row['right'] else 'WRONG'}), {row['status']}, margin {row['margin']}, "
        f"found {row['found_margin']}, {row['seconds']:.0f} s; {row['method']}",
        flush=True,
    )
    return row


def same(f, g) -> bool:
    """Whether two functions agree on all patterns of the bits of both."""
    bits = sorted({*f.support, *g.support})
    X = np.zeros((1 << len(bits), f.T), np.uint8)
    X[:, bits] = np.arange(1 << len(bits))[:, None] >> np.arange(len(bits)) & 1
    return bool(((f(X) > 0.5) == (g(X) > 0.5)).all())


if __name__ == "__main__":
    main()
