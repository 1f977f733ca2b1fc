"""Counterexamples to printed forms of Sections 2 to 4 and Appendix A.

`holds` refers to the printed form: it is False if the erratum is right.
"""

import math

import numpy as np
from scipy.stats import binom

from capax.statements.forms.head_shattering import inputs_of
from capax.statements.forms.printed_bounds import (
    LayerBounds,
    corollary_4_5_printed,
    deviation_printed,
    lemma_a_11,
    lemma_a_12,
    rademacher_printed,
    summed_errors,
    theorem_a_17,
)
from capax.statements.forms.sign_packing import SignPacking
from capax.statements.instances.small_instance import SmallInstance, compared


def a_17_without_B_w() -> SmallInstance:
    """A.17 at L = 1: 2^1000000 patterns +-0.4 B_w, B_w = 10^16."""
    made, B_w = SignPacking(10**6), 1e16
    layer = LayerBounds(made.c, 1.0, 1.0, made.c, 1.0, 1.0)
    sizes = {"d": made.d, "k": 1, "m": made.m, "T": 3}
    bound = theorem_a_17([layer], B_w, 0.999 * made.h * B_w, **sizes, printed=True)
    text = "A.17, L = 1, 2^1000000 functions apart: 10^6 ln 2 <= printed bound (constant 1)"
    return compared(made.log_size, bound, text)


def a_17_recursion() -> SmallInstance:
    """A.17: eps^(4) of the paper's own recursion with gains 1, 5, 10 and errors 1."""
    gains, error = (1.0, 5.0, 10.0), 0.0
    for gain in gains:
        error = gain * error + 1.0
    printed = summed_errors(gains, (1.0, 1.0, 1.0), printed=True)
    return compared(error, printed, "A.17, gains 1, 5, 10: error by recursion <= printed sum")


def a_17_wrong_product() -> SmallInstance:
    """A.17 with ||W_K^T W_Q||_{2,1} = 0 for every head of the packing, B_w = 1."""
    made = SignPacking(10**9)
    small = SignPacking(4)
    W = small.head(np.ones(4))
    printed_norm = float(np.linalg.norm(W.W_K.T @ W.W_Q, axis=0).sum())
    layer = LayerBounds(made.c, 1.0, 1.0, printed_norm, 1.0, 1.0)
    bound = theorem_a_17([layer], 1.0, 0.999 * made.h, d=made.d, k=1, m=made.m, T=3)
    text = f"A.17 with ||W_K^T W_Q||_2,1 = {printed_norm:g}: 10^9 ln 2 <= bound (constant 1)"
    return compared(made.log_size, bound, text)


def corollary_4_5_long_tokens() -> SmallInstance:
    """4.5 in both printed versions at B_X = 10^4: one needs B_X^4 more, the other B_X^2."""
    made = SignPacking(10**12, B_X=1e4)
    norms = {"d": made.d, "m": made.m, "T": 3, "B_X": made.B_X}
    found = [
        corollary_4_5_printed(1.0, 1.0, made.c, 0.999 * made.h, version=version, **norms)
        for version in ("main text", "appendix")
    ]
    text = f"4.5, B_X = 10^4: 10^12 ln 2 <= the larger version ({found[0]:.3g}, {found[1]:.3g})"
    return compared(made.log_size, max(found), text)


def a_11_long_tokens() -> SmallInstance:
    """A.11 at B_X + B_P = 10^4."""
    made = SignPacking(10**12, B_X=1e4)
    sizes = {"d": made.d, "m": made.m, "T": 3, "B_X": 5e3, "B_P": 5e3, "printed": True}
    bound = lemma_a_11(1.0, 1.0, made.c, 0.999 * made.h, **sizes)
    return compared(made.log_size, bound, "A.11, B_X + B_P = 10^4: 10^12 ln 2 <= printed bound")


def a_12_long_tokens() -> SmallInstance:
    """A.12 with one head at B_X = 10^4."""
    made = SignPacking(10**12, B_X=1e4)
    sizes = {"d": made.d, "m": made.m, "T": 3, "B_X": made.B_X, "printed": True}
    bound = lemma_a_12([(1.0, 1.0, made.c)], 0.999 * made.h, **sizes)
    return compared(made.log_size, bound, "A.12, one head, B_X = 10^4: 10^12 ln 2 <= printed bound")


def theorem_4_7_long_tokens() -> SmallInstance:
    """4.7, depth 1, C_2 = C_21 = c: B_X^2 C_21^2 log(dmT)/eps^2 with W_V = f/B_X, eps < h/B_X."""
    made = SignPacking(10**15, B_X=1e4)
    size = max(1.0, made.c)
    bound = (made.B_X * size * made.B_X / (0.999 * made.h)) ** 2 * math.log(made.d * made.m * 3)
    text = "4.7, one layer, B_X = 10^4: 10^15 ln 2 <= B_X^2 C_21^2 log(dmT)/eps^2"
    return compared(made.log_size, bound, text)


def norms_of_one() -> SmallInstance:
    """Remark after 4.7: with norms of 1 the paper's product over L layers is 5^L."""
    gain = LayerBounds(1.0, 1.0, 1.0, 1.0, 1.0, 1.0).gain()
    return compared(gain**10, 10.0, "product of ten gains at norms 1 <= 10 (not exponential)")


def sigmoid_at_zero() -> SmallInstance:
    """Definition 3.2 asks for sigma(0) = 0; the remark after 4.7 names sigmoids."""
    return compared(1 / (1 + math.exp(-0.0)), 0.0, "sigmoid(0) <= 0")


def a_3_negative() -> SmallInstance:
    """A.3 for one function, |f| <= 0.1, C = m = 1: R = 0, the printed right side is negative."""
    text = "A.3, A = 0.1, C = m = 1: R = 0 <= printed bound"
    return compared(0.0, rademacher_printed(1.0, 0.1, 1), text)


def a_4_one_sample() -> SmallInstance:
    """A.4 for one function, a fair coin as loss, m = 1, delta = 0.9: P(violation) <= delta."""
    allowed = deviation_printed(0.0, 1, 0.9)
    losses = np.arange(2)
    violated = float(binom.pmf(losses, 1, 0.5)[np.abs(losses - 0.5) > allowed].sum())
    text = f"A.4, m = 1, delta = 0.9, bound {allowed:.4f} on |risk - loss| = 1/2: P(violation)"
    return compared(violated, 0.9, text)


def a_9_printed_step() -> SmallInstance:
    """A.9, proof: (1/||u|| - alpha)^2 ||u||^2 + ... <= ||u - v||^2 through (1 - alpha^2)."""
    u, alpha, side = 2.0, 0.6, 0.1  # v = alpha u + side, orthogonal to u
    printed = (1 - alpha**2) * u**2 + side**2
    return compared(printed, (1 - alpha) ** 2 * u**2 + side**2, "A.9: printed step <= ||u - v||^2")


def lemma_4_6_shapes() -> SmallInstance:
    """4.6: W in R^{d_1 x d_2} on x in R^{d_1}, d_1 = 2, d_2 = 3."""
    return _multiplies(np.zeros((2, 3)), np.zeros(2), "4.6, W of shape 2 x 3 on x in R^2")


def proposition_4_4_index() -> SmallInstance:
    """4.4: the key vector printed with t instead of s gives every token the same score."""
    T = 8
    X = inputs_of(T)[0]
    scores = (T**2 * X[:, :2] * X[:, :2]).sum(1)
    weights = np.exp(scores - scores.max())
    return compared(0.5, float(weights[0] / weights.sum()), "4.4, T = 8: 1/2 <= weight on s = 0")


def section_2_logarithm() -> SmallInstance:
    """Section 2: N itself (not log N) <= (B_X B_W/eps)^2 log(B_X B_W m/eps) on m = 400 points."""
    m, ratio = 400, 20.0
    bound = ratio**2 * math.log(ratio * m)
    patterns = 2.0 ** int((ratio / 2) ** 2 - 1)  # w = sum of signed units, 2 eps apart
    return compared(patterns, bound, "Section 2, B_X B_W/eps = 20, m = 400: packing <= printed N")


def _multiplies(W: np.ndarray, x: np.ndarray, text: str) -> SmallInstance:
    try:
        x @ W.T
    except ValueError:
        return SmallInstance(False, f"{text}: the product does not exist")
    return SmallInstance(True, f"{text}: the product exists")
