"""Instances with known answers for verifiers: `python benchmarks/vnnlib_set.py FOLDER [--T 10 30]`.

Compiled heads of three functions, at full strength and with W_Q scaled down. A weaker head spreads
its attention, so its margin falls until it is wrong on some input: the same network gives true and
false properties, easy and close ones. Every answer is proved (`unsat`), shown by an input (`sat`)
or said to be unknown; T makes the instances longer. The layout is that of the yearly competition.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import equinox as eqx

import capax
from capax.proving.vnnlib import InstanceSet, verification

FORMULAS = {"and": "x0 & x2 & !x4", "majority": "maj(x1,x3,x5)", "selector": "x0 & x1 | !x0 & x2"}
STRENGTHS = (1.0, 0.6, 0.5, 0.4, 0.3, 0.2)


def instances(lengths: list[int]) -> InstanceSet:
    """All functions, lengths and strengths in one set."""
    found = InstanceSet({}, ())
    for T in lengths:
        for name, formula in FORMULAS.items():
            compiled = capax.compile(formula, T)
            for strength in STRENGTHS:
                weak = eqx.tree_at(lambda m: m.W_Q, compiled.model, compiled.model.W_Q * strength)
                label = f"{name}_T{T}_{round(100 * strength)}"
                found = found.joined(verification(weak, compiled.construction.function, label))
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--T", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    chosen = options.parse_args()
    made = instances(chosen.T)
    made.write(chosen.folder)
    print(json.dumps(Counter(i.answer for i in made.instances)))
