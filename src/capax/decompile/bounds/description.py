"""The description length of a formula in bits: the prior of the Occam certificate.

    bits(f) = 1 + elias(s) + log2 C(T, s) + c(f)

One bit selects family or table. A table costs c = 2^s bits. A family needs 3 bits for its name
(and, or, parity, majority, threshold, the same with negated inputs, constant), 1 for a negation of
the whole, ceil(log2(s + 1)) for a threshold and s for the signs of the inputs where some are
negated. The support of a constant is one idle position. Every function takes its shortest
description; the lengths obey Kraft's inequality, so 2^-bits is a prior over all functions of T
bits, fixed before any data.
"""

import math

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.capacity.certificates.occam import elias_gamma_bits
from capax.decompile.reading.formula import unate_flips
from capax.errors import require

NAMED = 4.0
"""Bits for the name of a family and for the sign of the whole."""


def description_bits(f: SparseFunction, T: int) -> float:
    """Bits of the shortest description of a Boolean function of T bits."""
    require(f.is_boolean, "function", "a Boolean function", f)
    f = f.relevant()
    s = max(1, f.s)
    placed = 1 + elias_gamma_bits(s) + math.log2(math.comb(T, s))
    return placed + min(_family_bits(f), float(2**s))


def _family_bits(f: SparseFunction) -> float:
    """Bits for family, signs and threshold; infinite if no family fits."""
    rows = np.arange(f.table.size)
    odd = np.bitwise_count(rows) % 2
    if (f.table == odd).all() or (f.table == 1 - odd).all():
        return NAMED  # a parity, or a constant: the parity of no bits
    return min(_threshold_bits(f), _threshold_bits(_negated(f)))


def _threshold_bits(f: SparseFunction) -> float:
    flips = unate_flips(f)
    if flips is None:
        return math.inf
    turned = SparseFunction(f.support, f.table[np.arange(f.table.size) ^ flips], f.T)
    if not turned.is_symmetric:
        return math.inf
    least = int(np.argmax(turned.symmetric_values()))
    plain = least in (1, f.s, f.s // 2 + 1)
    bits = NAMED + (0 if plain else math.ceil(math.log2(f.s + 1)))
    return bits + (f.s if flips else 0)


def _negated(f: SparseFunction) -> SparseFunction:
    return SparseFunction(f.support, 1 - f.table, f.T)
