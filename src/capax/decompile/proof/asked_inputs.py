"""Verdicts by running the model: about all inputs where these are few, else by a search.

Transformers of any depth are run in float64 with a bound of the rounding (`every_input`): that is a
proof in real arithmetic. Other models are asked, and the verdict is about their numbers as given.
"""

from dataclasses import replace

import numpy as np

from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.decompile.machine.every_input import every_input
from capax.decompile.proof.counterexample import search_by_asking
from capax.decompile.proof.verdict import AllInputs, Status, unknown
from capax.decompile.reading.oracle import Oracle
from capax.errors import InputError

ENUMERATED = 22
"""Where no proof decides, up to 2^22 inputs are all asked about."""
ATTACKED = 64
"""Up to so many bits a network without a proof is searched for a counterexample."""


def few_inputs(model: Oracle, f: SparseFunction, found: AllInputs) -> AllInputs:
    """The verdict on all of at most 2^22 inputs, where `found` is open."""
    if f.alphabet**model.T > 1 << ENUMERATED:
        return found
    return run_all(model, f) or enumerated(model, f, found)


def run_all(model: Oracle, f: SparseFunction) -> AllInputs | None:
    """A Transformer on all inputs in float64; None where rounding leaves the verdict open."""
    if not isinstance(model.model, Transformer):
        return None
    found = every_input(model.model, f, threshold=model.threshold)
    if found is None or not found.decided:
        return None
    method = f"all 2^{model.T} inputs run in float64, off by at most {found.error:.2g}"
    if found.margin < 0:
        given = numbers(model, found.bits[None])
        if given is None or (given[0] > model.threshold) == (f(found.bits) > 0.5):
            return None  # as run it decides otherwise
        wrong = tuple(np.flatnonzero(found.bits).tolist())
        return AllInputs("refuted", None, found.margin, wrong, 0.0, None, 0.0, method)
    below = found.real_margin - found.error32
    return AllInputs(
        "proved", found.real_margin, found.margin, None, 1.0, (0, model.T - f.s), 1.0, method,
        float32_margin=below if below > 0 else None,
    )  # fmt: skip


def enumerated(model: Oracle, f: SparseFunction, found: AllInputs) -> AllInputs:
    """Ask about all inputs, in the order of the numbers they stand for, up to the first that
    differs. The margin is that of the numbers as the model gave them."""
    T, A, block = model.T, f.alphabet, 1 << 16
    least = np.inf
    for start in range(0, A**T, block):
        rows = np.arange(start, min(start + block, A**T))
        X = (rows[:, None] // A ** np.arange(T) % A).astype(np.uint8)
        values = numbers(model, X)
        if values is None:
            return replace(found, method=f"{found.method}; a number among them is NaN")
        wrong = np.flatnonzero((values > model.threshold) != (f(X) > 0.5))
        if len(wrong):
            first = X[wrong[0]] if A > 2 else np.flatnonzero(X[wrong[0]])
            method = f"{start + int(wrong[0]) + 1} of {A}^{T} inputs asked"
            shown = tuple(int(t) for t in first)
            return replace(found, status="refuted", counterexample=shown, method=method)
        least = min(least, float(np.abs(values - model.threshold).min()))
    every = (0, T - f.s) if A == 2 else None
    method = f"all {A}^{T} inputs asked"
    return AllInputs("proved", least, least, None, 1.0, every, 1.0, method, asked_all=True)


def attacked(
    oracle: Oracle, f: SparseFunction, rng: np.random.Generator, p: float, reason: str
) -> AllInputs:
    """A network without a proof: a search for a counterexample, by its own numbers."""
    if not ENUMERATED < oracle.T <= ATTACKED or f.alphabet > 2:
        return unknown(reason)
    found = search_by_asking(oracle, f, rng, p)
    if found is None:
        return unknown(reason)
    method = f"{reason}; {found.inputs} inputs searched"
    ones = tuple(np.flatnonzero(found.bits).tolist()) if found.margin < 0 else None
    status: Status = "open" if ones is None else "refuted"
    return AllInputs(status, None, found.margin, ones, 0.0, None, 0.0, method)


def numbers(oracle: Oracle, X: np.ndarray) -> np.ndarray | None:
    """The model's numbers as run; None where one of them is NaN, which confirms nothing."""
    try:
        return oracle.values(X)
    except InputError:
        return None
