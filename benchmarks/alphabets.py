"""Functions over M symbols: compiled, verified by exhaustion, proved at T = 1000, and read back.

    python benchmarks/alphabets.py --functions 200 --symbols 3 5

For each random function: the certified network at small T is run on all M^T inputs, its enclosed
outputs and the plain ones; the network at T = 1000 is proved, and decompiled back to the function.
Prints one line for each M and exits with 1 if a function fails.
"""

import argparse
import time

import numpy as np

import capax
from capax.boolean.functions import SparseFunction, all_patterns
from capax.compiler.proof.evaluation import output_bounds
from capax.compiler.proof.tables import head_tables, readout_output
from capax.decompile.decompiling import Effort

SMALL_T = {2: 10, 3: 6, 4: 5, 5: 4}
LONG_T = 1000
QUICK = Effort(pairs=300, fillers=4, fresh=200)


def random_function(seed: int, M: int, s: int, T: int) -> SparseFunction:
    """A random function of s symbols; every third one tells few classes of symbols apart."""
    rng = np.random.default_rng([seed, M])
    support = tuple(int(t) for t in rng.choice(T, s, replace=False))
    table = rng.integers(0, 2, M**s).astype(np.float64)
    if seed % 3 == 0:
        kind = rng.integers(0, 2, M)
        table = table[kind[all_patterns(s, M)] @ M ** np.arange(s)]
    return SparseFunction(support, table, T, alphabet=M).relevant()


def exhausted(f: SparseFunction) -> bool:
    """Every input at small T: plain and enclosed outputs decide as f does."""
    made = capax.compile(f, dtype=np.float64)
    tables, X = head_tables(made.model), all_patterns(f.T, f.alphabet)
    low, high = output_bounds(made.model, tables, X)
    plain = readout_output(made.model, tables.head(X))
    wanted, cut = f(X) > 0.5, made.model.threshold
    return all(((ends > cut) == wanted).all() for ends in (low, high, plain))


def proved_and_read_back(f: SparseFunction) -> tuple[bool, bool]:
    """At T = 1000: certified without a wrong decision; decompiled to the same function, proved."""
    made = capax.compile(f)
    certified = made.certificate.wrong_decisions == 0 and made.certificate.margin > 0
    found = capax.decompile(made.model, effort=QUICK)
    same = found.function == f.in_order() and found.all_inputs.status == "proved"
    return certified, same and capax.parse(
        found.formula.text, f.T, alphabet=f.alphabet
    ) == f.in_order()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--functions", type=int, default=200)
    options.add_argument("--symbols", type=int, nargs="+", default=[3, 5])
    given = options.parse_args()
    failed = 0
    for M in given.symbols:
        start, counts = time.process_time(), np.zeros(3, dtype=int)
        for seed in range(given.functions):
            s = 1 + seed % 2
            short = exhausted(random_function(seed, M, min(1 + seed % 3, SMALL_T[M]), SMALL_T[M]))
            results = (short, *proved_and_read_back(random_function(seed, M, s, LONG_T)))
            counts += results
            if not all(results):
                print(f"M = {M}, seed {seed}: {results}", flush=True)
        failed += int((counts < given.functions).sum())
        shown = ", ".join(f"{n} of {given.functions}" for n in counts)
        seconds = time.process_time() - start
        print(f"M = {M}: exhausted, proved, read back: {shown}; {seconds:.0f} s of CPU", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
