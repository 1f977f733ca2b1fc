"""Time and memory of compile, certify and verify as T grows: `python benchmarks/compiler.py`."""

import resource
import tempfile
import time
from pathlib import Path

from capax.compiler import compile, save_compiled, verify

FORMULAS = ("x2 & x3 & x8", "x2 ^ x3 ^ x8", "(x2 & x3) | (~x2 & x8)")
LENGTHS = (10, 1_000, 100_000, 1_000_000)


def peak_megabytes() -> float:
    """Largest resident set of this process so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(formula: str, T: int, folder: Path) -> tuple[float, float, float]:
    """Seconds to compile and certify, to save, and to verify from the weights."""
    start = time.perf_counter()
    compiled = compile(formula, T)
    made = time.perf_counter()
    path = save_compiled(folder / "weights.safetensors", compiled)
    saved = time.perf_counter()
    assert verify(path).ok
    return made - start, saved - made, time.perf_counter() - saved


def main() -> None:
    """Print one line for each formula and length."""
    print(f"{'formula':<24}{'T':>9}{'compile s':>11}{'save s':>9}{'verify s':>10}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for formula in FORMULAS:
            for T in LENGTHS:
                made, saved, checked = measure(formula, T, Path(folder))
                row = f"{formula:<24}{T:>9}{made:>11.2f}{saved:>9.2f}{checked:>10.2f}"
                print(f"{row}{peak_megabytes():>9.0f}")


if __name__ == "__main__":
    main()
