"""Counterexamples to printed forms of Appendix B.

`holds` refers to the printed form: it is False if the erratum is right.
"""

import numpy as np
from jaxtyping import Float

from capax.compiler.paper.bump_network import bump_network, symmetric_network
from capax.compiler.paper.paper_heads import PaperHeads, paper_heads
from capax.statements.instances.small_instance import SmallInstance, compared


def uneven_codes(T: int, s: int, Delta: float) -> Float[np.ndarray, "T T"]:
    """Unit vectors with v_0 . v_i = Delta for i = 1..s-1, and -Delta between the v_i.

    Then v_I . v_0 = 1 + (s-1) Delta but v_I . v_i = 1 + Delta - (s-2) Delta for the others.
    """
    gram = np.full((s, s), -Delta)
    gram[0, 1:] = gram[1:, 0] = Delta
    np.fill_diagonal(gram, 1.0)
    codes = np.eye(T)
    codes[:s, :s] = np.linalg.cholesky(gram)
    return codes


def worst_error(heads: PaperHeads) -> float:
    """The largest error of the heads over all patterns of the support, other bits 0 and 1."""
    s, T = heads.s, heads.T
    patterns = np.arange(1 << s)[:, None] >> np.arange(s) & 1
    worst = 0.0
    for rest in (0, 1):
        bits = np.full((1 << s, T), rest)
        bits[:, list(heads.support)] = patterns
        worst = max(worst, float(np.abs(heads.outputs(bits) - heads.wanted).max()))
    return worst


def b_2_uneven_scores() -> SmallInstance:
    """B.2, one head: s = 3, Delta = 0.05, T = 1000, gamma = 2/3."""
    codes = uneven_codes(1000, 3, 0.05)
    heads = paper_heads(1000, (0, 1, 2), gamma=2 / 3, codes=codes, printed=True)
    text = "B.2, s = 3, Delta = 0.05, T = 1000, gamma = 2/3: error <= gamma/4"
    return compared(worst_error(heads), heads.gamma / 4, text)


def leaning_codes(T: int, Delta: float) -> Float[np.ndarray, "T T"]:
    """v_0 . v_1 = -Delta, and every other vector has product Delta with both."""
    gram = np.eye(T)
    gram[0, 1] = gram[1, 0] = -Delta
    gram[:2, 2:], gram[2:, :2] = Delta, Delta
    share = 2 * Delta**2 / (1 - Delta)  # what the others share through v_0 and v_1
    gram[2:, 2:] += share * (1 - np.eye(T - 2))
    return np.linalg.cholesky(gram)


def b_2_wrong_tokens() -> SmallInstance:
    """B.2 at Delta = 0.34 < 1/s, s = 2, T = 65: other tokens score above the selected ones."""
    codes = leaning_codes(65, 0.34)
    key = codes[0] + codes[1]
    text = "B.2, s = 2, Delta = 0.34, T = 65: largest score of another token <= score inside I"
    return compared(float((codes[2:] @ key).max()), float((codes[:2] @ key).min()), text)


def b_2_heads_give_zero() -> SmallInstance:
    """B.2, s heads: W_V ends in e_2, W_C begins with e_1."""
    heads = paper_heads(6, (0, 2), vector=True, printed=True)
    text = "B.2, s = 2 heads, T = 6: error <= gamma/4"
    return compared(worst_error(heads), heads.gamma / 4, text)


def b_2_decreasing() -> SmallInstance:
    """B.2: the printed g must rise with the number of ones."""
    heads = paper_heads(6, (0, 2), printed=True)
    none, both = heads.wanted[0, 0], heads.wanted[-1, 0]
    return compared(float(none), float(both), "B.2, s = 2: g(no bit on) <= g(both bits on)")


def b_4_uneven_scores() -> SmallInstance:
    """B.4, one head: s = 3, Delta = 0.05, T = 1000, gamma = 1/3."""
    codes = uneven_codes(1000, 3, 0.05)
    heads = paper_heads(1000, (0, 1, 2), "bag", gamma=1 / 3, codes=codes, printed=True)
    text = "B.4, s = 3, Delta = 0.05, T = 1000, gamma = 1/3: error <= gamma/4"
    return compared(worst_error(heads), heads.gamma / 4, text)


def b_8_zero_at_its_points() -> SmallInstance:
    """B.8: the printed bump at the point itself."""
    network = bump_network(np.array([[0.0], [2.0]]), np.array([1.0, 3.0]), 0.5, printed=True)
    error = np.abs(network(np.array([[0.0], [2.0]])) - [1.0, 3.0]).max()
    return compared(float(error), 0.0, "B.8, points 0 and 2, values 1 and 3: error at the points")


def b_8_first_layer() -> SmallInstance:
    """B.8: the printed biases against the printed limit max(1, B)/delta."""
    network = bump_network(np.array([[-1.0], [1.0]]), np.array([1.0, 2.0]), 0.5, printed=True)
    text = "B.8, points -1 and 1, delta = 1/2: largest entry of W_1 <= max(1, B)/delta"
    return compared(network.norms()["W_1"], network.limits["W_1"], text)


def b_8_wide_bumps() -> SmallInstance:
    """B.8 with delta = 2: nu_delta(S - d_f) of S = 0, d_f = 1 should be 0."""
    delta, S = 2.0, 0.0
    nu = max((S - 1) / delta + 1, 0.0) - max((S - 1) / delta, 0.0)
    return compared(nu, 0.0, "B.8, delta = 2, d_f = 1: the indicator away from its point")


def b_5_narrow_bumps() -> SmallInstance:
    """B.5: bumps of delta = gamma/8 at an error of gamma/4."""
    gamma = 1.0
    network = bump_network(np.array([[0.0], [1.0]]), np.array([1.0, 2.0]), gamma / 8)
    error = abs(float(network(np.array([[gamma / 4]]))[0]) - 1.0)
    wide = symmetric_network(np.array([0.0, 1.0]), np.array([1.0, 2.0]), gamma)
    assert abs(float(wide(np.array([[gamma / 4]]))[0]) - 1.0) < 1e-12
    return compared(error, 0.0, "B.5, gamma = 1, g known to within 1/4, delta = 1/8: error")


def b_4_input_shapes() -> SmallInstance:
    """B.4: "V + diag(b)" with V of shape T x d, T = 4, d = 5; B.1: "V diag(b)"."""
    try:
        np.zeros((4, 5)) + np.diag(np.zeros(4))
    except ValueError:
        return SmallInstance(False, "B.4, V of shape 4 x 5 and diag(b) of shape 4 x 4: no sum")
    return SmallInstance(True, "the sum exists")


def mlp_shapes() -> SmallInstance:
    """f_tf+mlp: "y = softmax(...) X W_V W_C w" is a number, but y^T W_1 needs a vector."""
    y = np.atleast_1d(np.zeros(5) @ np.zeros(5))
    try:
        y @ np.zeros((5, 3))
    except ValueError:
        return SmallInstance(False, "f_tf+mlp, W_1 of shape 5 x 3 on y: the product does not exist")
    return SmallInstance(True, "the product exists")
