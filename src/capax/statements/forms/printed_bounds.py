"""The paper's capacity bounds with its own constants, as printed and as corrected.

The paper writes "<~" and hides a constant factor and logarithms of quantities other than d, m, T.
Every function here returns the right side without that factor, in nats. It is the number to compare
with ours, and a counterexample has to exceed it by any factor. Zhang's constant 36 is written in
the paper (Lemma A.10) and is kept.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, Unpack

from scipy.integrate import quad

from capax.capacity.arguments import check_count, check_positive, check_probability
from capax.capacity.linear.linear_classes import zhang_bound
from capax.errors import require

Version = Literal["main text", "appendix", "corrected"]


def dudley_printed(
    log_cover: Callable[[float], float], A: float, m: int, *, delta: float, c: float = 12.0
) -> float:
    """Lemma A.2 at one delta: c (delta + int_delta^A sqrt(ln N(eps)/m) d eps).

    The paper's c is "some constant"; 12 is proved: 4 delta + 12 int_delta^{A/2} is a textbook bound
    (`capacity.complexity.chaining.dudley`), and 4 <= 12, A/2 <= A.
    """
    check_positive("A", A)
    check_count("m", m)
    area = quad(lambda e: math.sqrt(log_cover(e) / m), delta, A, limit=200)[0] if delta < A else 0.0
    return c * (delta + area)


def rademacher_printed(C: float, A: float, m: int, *, c: float = 12.0) -> float:
    """Corollary A.3 as printed: c sqrt(C/m) (1 + log(A sqrt(m/C))); negative for small A."""
    check_positive("C", C)
    scale = math.sqrt(C / m)
    return c * scale * (1 + math.log(A / scale))


def rademacher_corrected(C: float, A: float, m: int, *, c: float = 12.0) -> float:
    """Corollary A.3: c min(A, sqrt(C/m) (1 + max(0, log(A sqrt(m/C))))).

    The infimum over delta of delta + sqrt(C/m) log(A/delta) is at delta = sqrt(C/m) only if that is
    at most A; otherwise it is at delta = A, where the integral is empty.
    """
    check_positive("C", C)
    scale = math.sqrt(C / m)
    return c * min(A, scale * (1 + max(0.0, math.log(A / scale))))


def deviation_printed(R: float, m: int, delta: float, *, L: float = 1.0, b: float = 1.0) -> float:
    """Theorem A.4 as printed: |risk - empirical risk| <= 4 L R + 2 b sqrt(log(1/delta)/(2m))."""
    check_probability("delta", delta)
    return 4 * L * R + 2 * b * math.sqrt(math.log(1 / delta) / (2 * m))


def deviation_corrected(R: float, m: int, delta: float, *, L: float = 1.0, b: float = 1.0) -> float:
    """Theorem A.4, both sides at once: 2 L R + 3 b sqrt(log(4/delta)/(2m)).

    One side holds with probability 1 - delta/2 at log(4/delta) (two uses of McDiarmid, for the
    supremum and for the empirical R); the other side is the same statement for -loss.
    """
    check_probability("delta", delta)
    return 2 * L * R + 3 * b * math.sqrt(math.log(4 / delta) / (2 * m))


def lemma_a_5(C: float, A: float, m: int, delta: float, *, L: float = 1.0, b: float = 1.0) -> float:
    """Lemma 2.2 = A.5 from the corrected A.3 and A.4, both with their constants."""
    return deviation_corrected(rademacher_corrected(C, A, m), m, delta, L=L, b=b)


def split_value(alphas: Sequence[float], betas: Sequence[float], C: float) -> float:
    """Lemma A.8: min of sum alpha_i/x_i^2 subject to sum beta_i x_i = C is gamma^3/C^2.

    gamma = sum alpha_i^(1/3) beta_i^(2/3); `capacity.linear.allocation` gives the minimiser.
    """
    gamma = math.fsum(a ** (1 / 3) * b ** (2 / 3) for a, b in zip(alphas, betas, strict=True))
    return gamma**3 / C**2


def theorem_4_2_split(
    log_cover_score: Callable[[float], float], log_cover_in: Callable[[float], float], eps: float,
    alpha: float, *, B_in: float, B_X: float, L_out: float = 1.0, C_norm: float = 2.0,
) -> float:  # fmt: skip
    """Theorem 4.2 for any split and any two covers.

    ln N(Score, alpha eps/(C_norm L_out B_in B_X)) + ln N(in, (1 - alpha) eps/L_out).
    """
    require(0 < alpha < 1, "alpha", "a share strictly between 0 and 1", alpha)
    score = alpha * eps / (C_norm * L_out * B_in * B_X)
    return log_cover_score(score) + log_cover_in((1 - alpha) * eps / L_out)


class Sizes(TypedDict):
    """Width d of the tokens, m sequences of T tokens; L_sigma is 1 unless given."""

    d: int
    m: int
    T: int
    L_sigma: NotRequired[float]


class DepthSizes(Sizes):
    """Sizes of a deep network: those of one head, and the width k of the heads."""

    k: int


def corollary_4_5_printed(
    B_V_21: float, B_V: float, B_QK_21: float, eps: float, *, B_X: float = 1.0,
    version: Version = "corrected", **sizes: Unpack[Sizes],
) -> float:  # fmt: skip
    """Corollary 4.5: (L B_X)^2 (B_V21^(2/3) + second^(2/3))^3 log/eps^2, in three versions.

    second = B_QK21 B_V (main text, with log(mT)), B_QK21 B_V B_X (appendix, log(dmT)),
    2 B_QK21 B_V B_X^2 (corrected): scores move by ||x_tau|| ||W_QK z||, both of length B_X.
    """
    check_positive("eps", eps)
    second = {
        "main text": B_QK_21 * B_V,
        "appendix": B_QK_21 * B_V * B_X,
        "corrected": 2 * B_QK_21 * B_V * B_X**2,
    }[version]
    without_d = math.log(sizes["m"] * sizes["T"])
    log_term = without_d if version == "main text" else log_size(sizes)
    return _stretched(B_X, eps, sizes) * _cubed(B_V_21, second) * log_term


def lemma_4_6_two_stages(
    B_X: float, B_W: float, eps: float, d_1: int, N: int, *, share: float = 0.5
) -> float:
    """Lemma 4.6 by the steps of its proof: row lengths by Maurey, then rows by Zhang.

    ceil((B_X B_W/e_1)^2) ln(2 d_1 + 1) + 36 (B_X B_W/e_2)^2 ln(2 ceil(4 B_X B_W/e_2 + 2) N + 1),
    e_1 = share eps, e_2 = (1 - share) eps; inputs in R^{d_2} (printed: R^{d_1}).
    """
    require(0 < share < 1, "share", "a share strictly between 0 and 1", share)
    profile = math.ceil((B_X * B_W / (share * eps)) ** 2) * math.log(2 * d_1 + 1)
    return profile + zhang_bound(B_W, B_X, (1 - share) * eps, N)


def lemma_a_11(
    B_V_21: float, B_V: float, B_QK_21: float, eps: float, *, B_X: float = 1.0, B_P: float = 0.0,
    printed: bool = False, **sizes: Unpack[Sizes],
) -> float:  # fmt: skip
    """Lemma A.11: fixed positions; Corollary 4.5 at B = B_X + B_P. As printed one factor B less."""
    B = B_X + B_P
    second = 2 * B_QK_21 * B_V * (B if printed else B**2)
    return _stretched(B, eps, sizes) * _cubed(B_V_21, second) * log_size(sizes)


def lemma_a_12(
    heads: Sequence[tuple[float, float, float]], eps: float, *, B_X: float = 1.0,
    printed: bool = False, **sizes: Unpack[Sizes],
) -> float:  # fmt: skip
    """Lemma A.12: H heads with (B_V21, B_V, B_QK21) each, one cube around the sum over heads.

    H equal heads cost H^3 times one. As printed the second term lacks B_X^2.
    """
    factor = 1.0 if printed else B_X**2
    parts = [x for V_21, V, QK_21 in heads for x in (V_21, 2 * QK_21 * V * factor)]
    return _stretched(B_X, eps, sizes) * _cubed(*parts) * log_size(sizes)


@dataclass(frozen=True)
class LayerBounds:
    """Bounds on the norms of one layer: spectral B_QK, B_V, B_C and (2,1)."""

    B_QK: float
    B_V: float
    B_C: float
    B_QK_21: float
    B_V_21: float
    B_C_21: float

    def gain(self, L_sigma: float = 1.0) -> float:
        """L B_C B_V (1 + 4 B_QK): by how much the layer stretches a change of its input."""
        return L_sigma * self.B_C * self.B_V * (1 + 4 * self.B_QK)


def theorem_a_17(
    layers: Sequence[LayerBounds], B_w: float, eps: float, *, printed: bool = False,
    **sizes: Unpack[DepthSizes],
) -> float:  # fmt: skip
    """Theorem A.17: depth in full, inputs of length at most 1.

    log(dmT)/eps^2 (B_w^(2/3) + sum_i (B_w alpha_i)^(2/3) [B_C21^(2/3) + d^(2/3) (2 L B_C B_V
    B_QK21)^(2/3) + k^(2/3) (L B_C B_V21)^(2/3)])^3, alpha_i = product of the gains of the layers
    j > i. As printed B_w is missing in the sum, and the product runs over j < i.
    """
    check_positive("eps", eps)
    d, k, L_sigma = sizes["d"], sizes["k"], sizes.get("L_sigma", 1.0)
    total = B_w ** (2 / 3)
    for i, layer in enumerate(layers):
        others = layers[:i] if printed else layers[i + 1 :]
        alpha = math.prod(other.gain(L_sigma) for other in others)
        inside = (
            layer.B_C_21 ** (2 / 3)
            + (2 * d * L_sigma * layer.B_C * layer.B_V * layer.B_QK_21) ** (2 / 3)
            + (k * L_sigma * layer.B_C * layer.B_V_21) ** (2 / 3)
        )
        total += ((1.0 if printed else B_w) * alpha) ** (2 / 3) * inside
    return log_size(sizes) / eps**2 * total**3


def summed_errors(gains: Sequence[float], errors: Sequence[float], *, printed: bool) -> float:
    """eps^(L+1) of the recursion eps^(i+1) = gain_i eps^(i) + e_i, as printed or corrected.

    The error of layer i passes through the layers j > i; the paper prints the product over j < i.
    """
    parts = zip(range(len(gains)), errors, strict=True)
    return math.fsum(e * math.prod(gains[:i] if printed else gains[i + 1 :]) for i, e in parts)


def theorem_4_7_equal_layers(
    C_2: float, C_21: float, depth: int, B_w: float, eps: float, **sizes: Unpack[DepthSizes]
) -> float:
    """Theorem 4.7: Theorem A.17 (corrected) for equal bounds in all layers, and B_X <= 1.

    The paper's (C_2 L)^{O(L)} is (L C_2^2 (1 + 4 C_2))^{2(depth - 1)} here, written out.
    """
    layer = LayerBounds(C_2, C_2, C_2, C_21, C_21, C_21)
    return theorem_a_17([layer] * depth, B_w, eps, **sizes)


def log_size(sizes: Sizes) -> float:
    """log(dmT)."""
    return math.log(sizes["d"] * sizes["m"] * sizes["T"])


def _stretched(B: float, eps: float, sizes: Sizes) -> float:
    """(L_sigma B/eps)^2."""
    return (sizes.get("L_sigma", 1.0) * B / eps) ** 2


def _cubed(*parts: float) -> float:
    """(sum of x^(2/3))^3."""
    return math.fsum(x ** (2 / 3) for x in parts) ** 3
