"""Fourier coefficients of a truth table, and degree, influences and sensitivity from them.

f(x) = sum_S c_S chi_S(x),  chi_S(x) = (-1)^(sum_{i in S} x_i),  c_S = E[f chi_S], x uniform.
Subsets S of the support are numbered like rows: bit i of the number says whether variable i is in.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.boolean.functions import SparseFunction, only_bits, row_weights
from capax.boolean.traits.bias import row_probabilities

_ROUNDING = 1e-12


def fourier_coefficients(f: SparseFunction) -> Float[np.ndarray, " rows"]:
    """c_S for each of the 2^s subsets S, by the fast Walsh-Hadamard transform (exact for 0/1)."""
    only_bits(f)
    c = f.table.copy()
    for i in range(f.s):
        pairs = c.reshape(-1, 2, 1 << i)
        c = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return c / c.size


def degree(f: SparseFunction) -> int:
    """Largest |S| with c_S != 0: the degree of f as a real polynomial (0 for constants)."""
    c = np.abs(fourier_coefficients(f))
    present = c > _ROUNDING * max(float(np.abs(f.table).max()), 1e-300)
    return int(row_weights(f.s)[present].max(initial=0))


def influences(f: SparseFunction, p: float = 0.5) -> Float[np.ndarray, " s"]:
    """Inf_i = E[(f(x) - f(x with bit i flipped))^2], bits i.i.d. Bernoulli(p).

    For a Boolean f: the chance that flipping bit i changes the value; at p = 1/2 it is
    4 sum_{S contains i} c_S^2.
    """
    only_bits(f)
    weights = row_probabilities(f.s - 1, p) if f.s else np.empty(0)
    pairs = [f.split(i) for i in range(f.s)]
    return np.array([float(weights @ (high - low) ** 2) for low, high in pairs], dtype=np.float64)


def sensitivities(f: SparseFunction) -> Int[np.ndarray, " rows"]:
    """For each row, the number of variables whose flip changes the value."""
    only_bits(f)
    count = np.zeros(f.table.size, dtype=np.int64)
    for i in range(f.s):
        count += f.table != f.table[np.arange(f.table.size) ^ (1 << i)]
    return count


@dataclass(frozen=True)
class Properties:
    """Properties of a function, computed from its table; positions refer to its exact support."""

    support: tuple[int, ...]
    is_boolean: bool
    is_symmetric: bool
    is_monotone: bool
    degree: int
    sensitivity: int
    average_sensitivity: float
    influences: dict[int, float]
    fourier: dict[tuple[int, ...], float]


def properties(f: SparseFunction) -> Properties:
    """All properties of f after dropping irrelevant variables; `fourier` lists c_S != 0."""
    g = f.relevant()
    c, sensitive = fourier_coefficients(g), sensitivities(g)
    present = np.flatnonzero(np.abs(c) > _ROUNDING).tolist()
    return Properties(
        support=g.support,
        is_boolean=g.is_boolean,
        is_symmetric=g.is_symmetric,
        is_monotone=g.is_monotone,
        degree=degree(g),
        sensitivity=int(sensitive.max()),
        average_sensitivity=float(sensitive.mean()),
        influences=dict(zip(g.support, influences(g).tolist(), strict=True)),
        fourier={_members(g.support, number): float(c[number]) for number in present},
    )


def _members(support: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(x for i, x in enumerate(support) if number >> i & 1)
