"""Writes the answers that are files of weights: `python course/solutions/weights.py FOLDER`."""

import sys
from pathlib import Path

import capax
from capax.compiler import save_compiled


def main(folder: Path) -> None:
    head = capax.compile("sym(00101; x2, x5, x8, x11)", T=12)  # 8 units or fewer: one ridge
    save_compiled(folder / "exercise_4.safetensors", head)
    model = {"layers": 1, "heads": 4, "d": 16, "mlp_width": 64}
    trained = capax.train("x2 & x7", T=10, m=200, steps=200, lr=0.01, restarts=3, model=model)
    trained.save(folder / "exercise_5.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
