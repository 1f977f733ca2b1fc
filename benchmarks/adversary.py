"""Tampered weights files by the thousand: `python benchmarks/adversary.py [files] [seed]`.

Each file is judged by `capax verify` and, when accepted, by brute force over all 2^T inputs in
extended precision. Stops at the first accepted file whose certificate is false.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compiler"))

import test_adversarial_files as suite

STEP = 11 * 20


def main() -> None:
    """Run and report, with a line of progress every few hundred files."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 10_010
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    tried, accepted, start = Counter(), Counter(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, files, STEP):
            part = range(first, min(first + STEP, files))
            found = suite.judge_files(Path(folder), part, seed)
            tried, accepted = tried + found[0], accepted + found[1]
            seconds = time.perf_counter() - start
            print(f"{sum(tried.values())} files, {seconds:.0f} s", file=sys.stderr, flush=True)
    print(f"{sum(tried.values())} tampered files, {sum(accepted.values())} accepted, none of them")
    print("contradicts its certificate. Accepted of tried, by kind:")
    for name in sorted(tried):
        print(f"  {name:18} {accepted[name]:5} of {tried[name]}")


if __name__ == "__main__":
    main()
