"""Gradient ascent against the score radius, for every family and every position scheme it reads.

For tiny random models (every gain, offset and bias random too) the largest |score| of every head is
searched through transformers' own forward pass: over inputs of the model, and over inputs of the
norms, which is all that the radius promises something about. Prints the ratio of the best score to
the radius, median and largest over heads. A ratio above 1 is a broken promise and ends the run.

    python benchmarks/score_radius.py [STEPS [MODEL ...]]
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

import tiny_models
import torch
from attacks import largest_scores

from capax.audit.auditing import audit

ROUNDING = 1e-5  # the norms of transformers compute in float32


def attacked(name: str, steps: int) -> str:
    """One row of the table."""
    model = tiny_models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found = audit(folder)
    rows = [row for row in found.rows if row["score_radius"] is not None]
    cells = []
    for inside in (False, True):
        best = largest_scores(model, found.rows, steps=steps, inside=inside)
        ratios = [
            best[row["part"], row["layer"], row["head"]] / row["score_radius"] for row in rows
        ]
        assert max(ratios) <= 1 + ROUNDING, (name, max(ratios))
        cells += [f"{median(ratios):.3f}", f"{max(ratios):.4f}"]
    return f"| {name} | {found.facts.positions} | {len(rows)} | {' | '.join(cells)} |"


def main(steps: int, names: list[str]) -> None:
    torch.set_num_threads(1)
    print("| model | positions | heads | inputs: median | largest | norms: median | largest |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        print(attacked(name, steps), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300, sys.argv[2:] or list(tiny_models.CONFIGS))
