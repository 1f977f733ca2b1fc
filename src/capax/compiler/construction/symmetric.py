"""Symmetric functions by a head and at most 2 s ReLU units, with error zero (Proposition 5.1).

omega = 1, beta = 1. The head reads u_1 = sum_i nu_i (relevant positions) and u_2 = [CLS]. Let q be
the number of satisfied literals, n_- the number of negative ones, and

    lambda_j = (1 - delta_v)(j - 1/2 - n_-) + delta_v (s - 2 n_-).

Then l_j = u_1 - lambda_j u_2 = (1 - delta_v)(q - j + 1/2)/Z is negative for q < j and at least
gamma_j = min over q >= j of (1 - delta_v)(q - j + 1/2)/Z_max for q >= j, so

    relu(l_j/gamma_j) - relu(l_j/gamma_j - 1) = 1[q >= j]   exactly, on all 2^T inputs,

and f = phi(0) + sum_j (phi(j) - phi(j-1)) 1[q >= j]. Steps with phi(j) = phi(j-1) are dropped.
Without negated literals gamma_j = (1 - delta_v) / (2 Z(j, T-s)). With incoherent codes irrelevant
tokens can also move the numerator, by at most `additive_leak`: it is subtracted from gamma_j Z.
"""

import numpy as np
from jaxtyping import Float, Int

from capax.compiler.parts.literals import LiteralForm
from capax.compiler.parts.readouts import INSIDE, MLPReadout
from capax.compiler.parts.selection import Selection


def steps(form: LiteralForm) -> Int[np.ndarray, " steps"]:
    """The levels j at which phi jumps."""
    return np.flatnonzero(np.diff(form.phi)) + 1


def step_margins(selection: Selection, form: LiteralForm) -> Float[np.ndarray, " steps"]:
    """gamma_j for each step j: the smallest l_j for q >= j."""
    q, ones = form.classes()
    largest = selection.normaliser_range(ones)[1]
    height = (1 - selection.delta_v) * (q - steps(form)[:, None] + 0.5)
    signs = np.array(form.signs, dtype=np.float64)
    levels = cuts(selection, form)
    leak = selection.additive_leak(np.tile(signs, (len(levels), 1)), -levels)
    reached = np.where(height > 0, (height - leak[:, None]) / largest, np.inf)
    return reached.min(axis=1)


def cuts(selection: Selection, form: LiteralForm) -> Float[np.ndarray, " steps"]:
    """lambda_j for each step j."""
    negative, delta_v = form.num_negative, selection.delta_v
    tail = delta_v * (selection.s - 2 * negative)
    return (1 - delta_v) * (steps(form) - 0.5 - negative) + tail


def symmetric_readout(selection: Selection, form: LiteralForm) -> MLPReadout:
    """W_V = [sum_i nu_i P_i, v] and one pair of units per step."""
    levels, cut = steps(form), cuts(selection, form)
    gamma = INSIDE * step_margins(selection, form)
    jump = np.diff(form.phi)[levels - 1]
    pair = np.stack([1 / gamma, -cut / gamma])
    return MLPReadout(
        position_values=np.stack([form.signs, np.zeros(selection.s)], axis=1),
        cls_values=np.array([0.0, 1.0]),
        W_1=np.concatenate([pair, pair], axis=1),
        b_1=np.repeat([0.0, -1.0], len(levels)),
        w_2=np.concatenate([jump, -jump]),
        b_2=float(form.phi[0]),
    )
