"""Sections 2 to 4 on small instances: one function for each statement.

An upper bound of a covering number is checked from two sides. A packing, whose size is a lower
bound for every cover, is not larger than the bound. And a cover that is proved here is not larger
than the bound, which proves the bound on this instance with a hidden constant of 1.
"""

import itertools
import math

import numpy as np

from capax.attention.numpy_block import (
    attention,
    longest_row,
    softmax,
    spectral,
)
from capax.capacity.complexity.generalization import lemma_2_2
from capax.capacity.covers.covering_classes import cover_of_parameters, cover_on_sample
from capax.capacity.linear.linear_classes import (
    log_cover_lower,
    log_cover_matrix_21,
    log_cover_vector,
)
from capax.capacity.network.head_bounds import attention_head
from capax.capacity.network.head_lipschitz import head_distance
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.paper_network import paper_network
from capax.capacity.network.sample_points import Sample
from capax.statements.forms import inequalities
from capax.statements.forms.head_shattering import shatter
from capax.statements.forms.printed_bounds import (
    corollary_4_5_printed,
    lemma_4_6_two_stages,
    lemma_a_12,
    theorem_4_2_split,
    theorem_4_7_equal_layers,
)
from capax.statements.forms.sign_packing import SignPacking, trained_position_outputs
from capax.statements.instances.check_instances import (
    KEY,
    SMALL_CLASS,
    all_hold,
    between_packing_and_paper,
    coin_tail,
    equal_norms_layer,
    random_blocks,
)
from capax.statements.instances.small_instance import SmallInstance, compared


def definition_2_1() -> SmallInstance:
    """Exact covering numbers against all subsets of a class of five functions on three points."""
    distances = np.abs(SMALL_CLASS[:, None] - SMALL_CLASS[None]).max(axis=2)
    radii = (0.1, 0.4, 0.6, 1.0)
    found = [cover_on_sample(SMALL_CLASS, eps).exact for eps in radii]
    by_hand = [_smallest_cover(distances <= eps) for eps in radii]
    named = [_by_parameters(eps) for eps in radii]
    text = f"five functions on three points, eps = {radii}: N = {found}, all subsets {by_hand}"
    return SmallInstance(found == by_hand == named, text)


def _by_parameters(eps: float) -> int | None:
    return cover_of_parameters(lambda i, z: SMALL_CLASS[i][z], range(5), range(3), eps).exact


def _smallest_cover(near: np.ndarray) -> int:
    sizes = (
        size
        for size in range(1, len(near) + 1)
        for chosen in itertools.combinations(range(len(near)), size)
        if near[list(chosen)].any(axis=0).all()
    )
    return next(sizes)


def lemma_2_2_on_coins() -> SmallInstance:
    """Two constant functions, fair labels, m = 2000: probability of an error above the bound."""
    m, delta = 2000, 0.1
    gap = lemma_2_2(math.log(2), m, delta, external=False).value
    text = f"two constants, fair labels, m = {m}, bound {gap:.3f}: P(violation) <= delta"
    return compared(coin_tail(m, gap), delta, text)


def definition_3_1() -> SmallInstance:
    """The general head on a random instance against its formula in NumPy."""
    import jax

    from capax.attention import BilinearScore, Head, Linear, Softmax

    rng = np.random.default_rng(KEY)
    X, z, W_QK, W_V = (rng.normal(size=shape) for shape in ((5, 3), (3,), (3, 3), (3, 2)))
    with jax.enable_x64(True):
        tokens, query, scores, values = map(jax.device_put, (X, z, W_QK, W_V))
        head = Head(BilinearScore(scores), Softmax(), Linear(values), lambda u: u)
        y = np.asarray(head(tokens, query))
    wanted = softmax(X @ W_QK.T @ z) @ X @ W_V
    return compared(float(np.abs(y - wanted).max()), 1e-12, "random head, T = 5: distance")


def definition_3_2() -> SmallInstance:
    """A layer of one head on a random instance against its formula in NumPy."""
    import jax

    from capax.attention import AttentionLayer

    rng = np.random.default_rng(KEY)
    X = rng.normal(size=(5, 3))
    W_Q, W_K, W_V = (rng.normal(size=(3, 2)) for _ in range(3))
    W_C = rng.normal(size=(2, 3))
    with jax.enable_x64(True):
        parts = (jax.device_put(M[None]) for M in (W_Q, W_K, W_V, W_C))
        Y = np.asarray(AttentionLayer(*parts, activation="tanh")(jax.device_put(X)))
    wanted = np.tanh(softmax(X @ W_Q @ (X @ W_K).T) @ X @ W_V) @ W_C
    return compared(float(np.abs(Y - wanted).max()), 1e-12, "random layer, T = 5: distance")


def assumption_4_1_softmax() -> SmallInstance:
    """||J||_{1,1} of softmax on random scores, and the verdict of the library's own check."""
    from capax.attention import Softmax
    from capax.capacity.weights.assumptions import assumption_4_1

    rng = np.random.default_rng(KEY)
    sizes = [inequalities.softmax_jacobian_size(rng.normal(0, 3, 6)) for _ in range(200)]
    answers = assumption_4_1(Softmax(), rng.normal(size=(3, 2)), rng.normal(size=(6, 3)))
    found = compared(max(sizes), 2 * (1 - 1 / 6), "200 random scores, T = 6: ||J||_1,1")
    return SmallInstance(found.holds and all(a.holds for a in answers), found.text)


def theorem_4_2() -> SmallInstance:
    """A finite class of scores and values: the product of two smallest covers covers the head."""
    rng = np.random.default_rng(KEY)
    X = rng.uniform(-1, 1, (3, 4, 2))  # 3 sequences of 4 tokens
    X /= np.linalg.norm(X, axis=2).max()
    scores = np.einsum("itd,ad->ait", X, rng.normal(size=(14, 2)))
    inner = rng.normal(size=(14, 2))
    values = np.einsum("itd,bd->bit", X, inner)
    B_in, eps, alpha = float(np.linalg.norm(inner, axis=1).max()), 1.2, 0.5

    def centres(table: np.ndarray, radius: float) -> np.ndarray:
        return table[list(cover_on_sample(table.reshape(len(table), -1), radius).centres)]

    sizes: list[int] = []

    def size(table: np.ndarray, radius: float) -> float:
        sizes.append(len(centres(table, radius)))
        return math.log(sizes[-1])

    log_cover = theorem_4_2_split(
        lambda e: size(scores, e), lambda e: size(values, e), eps, alpha, B_in=B_in, B_X=1.0
    )
    kept = centres(scores, alpha * eps / (2 * B_in)), centres(values, (1 - alpha) * eps)
    heads = np.einsum("ait,bit->abi", softmax(scores), values).reshape(-1, 3)
    cover = np.einsum("ait,bit->abi", softmax(kept[0]), kept[1]).reshape(-1, 3)
    radius = np.abs(heads[:, None] - cover[None]).max(axis=2).min(axis=1).max()
    text = f"{len(heads)} heads, {math.exp(log_cover):.0f} centres: radius of the product cover"
    return compared(float(radius), eps, text)


def lemma_4_3() -> SmallInstance:
    """Random heads, our constant 1 (and so the paper's 2)."""
    sides = []
    for Z, _, (W, V) in random_blocks():
        theta = [Z @ M.W_QK.T @ Z[-1] for M in (W, V)]
        phi = [Z @ M.W_V for M in (W, V)]
        left = np.linalg.norm(softmax(theta[0]) @ phi[0] - softmax(theta[1]) @ phi[1])
        right = head_distance(
            float(np.abs(theta[0] - theta[1]).max()),
            float(np.linalg.norm(phi[0] - phi[1], axis=1).max()),
            B_phi=float(np.linalg.norm(phi[0], axis=1).max()),
        )
        sides.append(inequalities.Sides(float(left), right.value))
    return all_hold(sides, "pairs of random heads")


def proposition_4_4() -> SmallInstance:
    """T = 1024: all sign patterns of 10 inputs, with outward rounding."""
    found = shatter(1024)
    text = f"T = 1024: {found.patterns} sign patterns of {found.inputs} inputs, margin"
    return SmallInstance(found.verified, f"{text} {found.margin:.6f}")


def corollary_4_5() -> SmallInstance:
    """The packing of sign patterns <= our cover <= the paper's bound, corrected, constant 1."""
    made = SignPacking(400, B_X=2.0)
    eps = 0.999 * made.h
    inputs, sample = Inputs(B_X=2.0), Sample(made.m, 3)
    ours = attention_head(made.c, 1.0, 1.0, k=1, inputs=inputs, d=made.d).cover(sample, eps).value
    sizes = {"d": made.d, "m": made.m, "T": 3, "B_X": 2.0}
    paper = corollary_4_5_printed(1.0, 1.0, made.c, eps, **sizes)
    return between_packing_and_paper(made.log_size, ours, paper, "2^400 heads")


def lemma_4_6() -> SmallInstance:
    """Lower bound by a packing, our cover, the paper's two stages."""
    B_W, B_X, eps, d_1, N = 4.0, 1.0, 0.5, 3, 50
    lower = log_cover_lower(B_W, B_X, eps, N)  # one row alone
    ours = log_cover_matrix_21(B_W, B_X, eps, N, d_1)
    paper = lemma_4_6_two_stages(B_X, B_W, eps, d_1, N)
    return between_packing_and_paper(lower, ours, paper, "3 rows, 50 points, B_X B_W/eps = 8")


def theorem_4_7() -> SmallInstance:
    """Two equal layers: our recursion is not larger than the paper's formula, corrected."""
    layer = equal_norms_layer(1.0, 2.0)
    ours = paper_network([layer, layer], 1.0).cover(Sample(100, 20), 0.5).value
    paper = theorem_4_7_equal_layers(1.0, 2.0, 2, 1.0, 0.5, d=8, k=4, m=100, T=20)
    return compared(ours, paper, "two layers, C_2 = 1, C_21 = 2, m = 100, T = 20: ours <= paper")


def section_2_linear() -> SmallInstance:
    """Recalled: ln N of a linear class is at most (B_X B_W/eps)^2 ln(2N + 1), ours."""
    found = [(log_cover_vector(a, 1.0, 1.0, N), a * a * math.log(2 * N + 1)) for a, N in
             ((2.0, 10), (5.0, 100), (20.0, 400))]  # fmt: skip
    return SmallInstance(all(x <= y for x, y in found), f"(ln N, bound) = {np.round(found, 1)}")


def section_4_2_residual() -> SmallInstance:
    """x + f(x) W_C: the Lipschitz constant of Lemma A.14 grows by at most 1."""
    sides = []
    for Z, Y, (W, _) in random_blocks():
        gain = 1 + spectral(W.W_V @ W.W_C) * (1 + 4 * spectral(W.W_QK))
        left = longest_row(Z + attention(Z, W) @ W.W_C - Y - attention(Y, W) @ W.W_C)
        sides.append(inequalities.Sides(left, gain * longest_row(Z - Y)))
    return all_hold(sides, "pairs of inputs")


def section_a_5_trained_positions() -> SmallInstance:
    """Trained positions: all 2^8 sign vectors are told apart, so ln N >= T ln 2."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=8)))
    outputs = np.stack([trained_position_outputs(row) for row in signs])
    right = bool((np.sign(outputs) == signs).all())
    return SmallInstance(right, f"T = 8: {len(signs)} sign vectors, ln N >= 8 ln 2 = 5.545")


def section_a_6_equal_heads() -> SmallInstance:
    """H equal heads cost H^3 times one in the paper's bound."""
    one, many = (lemma_a_12([(1.0, 1.0, 2.0)] * H, 0.3, d=8, m=9, T=9) for H in (1, 5))
    return compared(abs(many / one - 125), 1e-9, "5 heads: distance of the ratio from 5^3")


CAPACITY_CHECKS = {
    "2.1": definition_2_1,
    "2.2": lemma_2_2_on_coins,
    "3.1": definition_3_1,
    "3.2": definition_3_2,
    "4.1": assumption_4_1_softmax,
    "4.2": theorem_4_2,
    "4.3": lemma_4_3,
    "4.4": proposition_4_4,
    "4.5": corollary_4_5,
    "4.6": lemma_4_6,
    "4.7": theorem_4_7,
    "Section 2": section_2_linear,
    "Section 4.2": section_4_2_residual,
    "Section A.5": section_a_5_trained_positions,
    "Section A.6": section_a_6_equal_heads,
}
