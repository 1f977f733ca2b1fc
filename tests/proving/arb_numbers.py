"""Numbers and files of the second checkers: balls of Arb, a precision, a proof with its weights."""

import functools
import hashlib
import json
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
from flint import arb, fmpq
from safetensors import safe_open


def ball(x) -> arb:
    ratio = Fraction(x)
    return arb(fmpq(ratio.numerator, ratio.denominator))


def with_bits(bits: int):
    """Run a function with balls of so many bits."""

    def wrapped(function):
        @functools.wraps(function)
        def run(*arguments):
            before, flint.ctx.prec = flint.ctx.prec, bits
            try:
                return function(*arguments)
            finally:
                flint.ctx.prec = before

        return run

    return wrapped


def proof_and_weights(proof: str, weights: Path):
    """Header and lines of a proof, arrays and module of its weights; None for other weights."""
    header, *lines = [json.loads(line) for line in proof.splitlines() if line.strip()]
    if hashlib.sha256(weights.read_bytes()).hexdigest() != header["weights"]:
        return None
    with safe_open(str(weights), framework="np") as file:
        arrays = {n: file.get_tensor(n).astype(np.float64) for n in file.keys()}  # noqa: SIM118
        return header, lines, arrays, json.loads(file.metadata()["capax"])["module"]
