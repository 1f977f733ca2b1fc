"""Targets that separate learners, with computed measures of their difficulty.

In the staircase one bit is found at a time: x0 alone correlates with the label, then x1 given x0,
and so on (leap 1). In its variant the first step is a parity, so that two bits must be found at
once (leap 2); size, balance and degree are the same.
"""

from dataclasses import dataclass
from functools import lru_cache

from capax.boolean.parser import parse
from capax.boolean.traits.bias import balancing_probability
from capax.boolean.traits.fourier import properties
from capax.boolean.traits.leap import leap
from capax.errors import InputError

TARGETS: dict[str, str] = {
    "and3": "and3",
    "or3": "or3",
    "maj5": "maj5",
    "xor2": "xor2",
    "parity3": "parity3",
    "staircase": "x0 ^ (x1 & ~(x2 & ~x3))",
    "shuffled": "x0 ^ x1 ^ (x2 & ~x3)",
}


@dataclass(frozen=True)
class CardTarget:
    """A rule to be learned: its formula, the p that balances its labels, and its measures."""

    name: str
    function: str
    s: int
    p: float
    leap: int
    degree: int
    sensitivity: int


@lru_cache(maxsize=256)
def target_of(text: str) -> CardTarget:
    """A target by name, or any formula that Capax reads, at balanced labels; measured once."""
    function = TARGETS.get(text, text)
    f = parse(function)
    if not f.is_boolean or f.s == 0:
        raise InputError(f"target: wanted a Boolean function that is not constant, got {text}")
    p = balancing_probability(f)
    known = properties(f)
    return CardTarget(text, function, f.s, p, leap(f, p), known.degree, known.sensitivity)
