"""Appendix A on small instances: one function for each statement."""

import math

import numpy as np

from capax.attention.numpy_block import (
    softmax,
)
from capax.capacity.complexity.rademacher import rademacher_exact
from capax.capacity.covers.covering_classes import cover_on_sample
from capax.capacity.linear.allocation import allocate
from capax.capacity.linear.linear_classes import (
    log_cover_lower,
    log_cover_vector,
    zhang_bound,
)
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.head_bounds import attention_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.paper_network import paper_network
from capax.capacity.network.sample_points import Sample
from capax.statements.forms import inequalities
from capax.statements.forms.printed_bounds import (
    LayerBounds,
    deviation_corrected,
    dudley_printed,
    lemma_a_5,
    lemma_a_11,
    lemma_a_12,
    rademacher_corrected,
    split_value,
    theorem_a_17,
)
from capax.statements.forms.sign_packing import SignPacking
from capax.statements.instances.check_instances import (
    KEY,
    SMALL_CLASS,
    all_hold,
    between_packing_and_paper,
    coin_rademacher,
    coin_tail,
    equal_norms_layer,
    random_blocks,
)
from capax.statements.instances.small_instance import SmallInstance, compared


def definition_a_1() -> SmallInstance:
    """R of the constants 0 and 1 on m = 8 points is C(m - 1, m/2)/2^m."""
    m = 8
    value = rademacher_exact(np.array([np.zeros(m), np.ones(m)])).value
    exact = math.comb(m - 1, m // 2) / 2**m
    return SmallInstance(
        abs(value - exact) < 1e-15, f"{{0, 1}} on {m} points: R = {value:.6g}, exactly {exact:.6g}"
    )


def lemma_a_2() -> SmallInstance:
    """R of the small class against c inf_delta(...) with c = 12; N jumps at 0.4, 0.6 and 1."""
    jumps = (0.0, 0.4, 0.6, 1.0)
    sizes = [cover_on_sample(SMALL_CLASS, eps).exact for eps in (0.1, 0.4, 0.6, 1.0)]

    def log_cover(eps: float) -> float:
        return math.log(sizes[int(np.searchsorted(jumps, eps, side="right")) - 1] or 1)

    R = rademacher_exact(SMALL_CLASS).value
    found = min(dudley_printed(log_cover, 1.0, 3, delta=delta) for delta in jumps)
    return compared(R, found, "five functions on three points: R <= 12 inf(delta + integral)")


def corollary_a_3() -> SmallInstance:
    """The closed form is the infimum over delta of delta + sqrt(C/m) log(A/delta)."""
    worst = 0.0
    for C, A, m in ((1.0, 1.0, 100), (4.0, 1.0, 100), (1.0, 0.01, 4), (0.3, 2.0, 7)):
        scale = math.sqrt(C / m)
        deltas = np.geomspace(1e-6, A, 20_001)
        least = float((deltas + scale * np.log(A / deltas)).min())
        worst = max(worst, abs(rademacher_corrected(C, A, m, c=1.0) / least - 1))
    return compared(worst, 1e-6, "four settings: relative distance from the numerical infimum")


def theorem_a_4() -> SmallInstance:
    """Both sides at once on fair coins: P(violation) <= delta for m = 1..200, three deltas."""
    worst = max(
        coin_tail(m, deviation_corrected(coin_rademacher(m), m, delta)) / delta
        for m in (1, 2, 5, 20, 200)
        for delta in (0.9, 0.3, 0.05)
    )
    return compared(worst, 1.0, "two constants, fair labels: P(violation)/delta")


def lemma_a_5_on_coins() -> SmallInstance:
    """The same with R from the cover: ln N <= ln 2 <= C/eps^2 for eps <= 1."""
    m, delta = 10**6, 0.1
    gap = lemma_a_5(math.log(2), 1.0, m, delta)
    text = f"two constants, fair labels, m = {m}, bound {gap:.3f}: P(violation) <= delta"
    return compared(coin_tail(m, gap), delta, text)


def lemma_a_6() -> SmallInstance:
    """softmax(beta .): ||J||_{1,1} <= 2 beta (1 - 1/T), attained at equal scores."""
    rng = np.random.default_rng(KEY)
    sides = []
    for n in range(200):
        T, beta = 2 + n % 5, float(rng.choice([0.5, 1.0, 3.0]))
        theta = rng.normal(0, 2, (2, T))
        c_f = 2 * beta * (1 - 1 / T)
        sides.append(
            inequalities.simplex_map(lambda x, b=beta: softmax(b * x), c_f, theta[0], theta[1])
        )
    return all_hold(sides, "pairs of scores")


def corollary_a_7() -> SmallInstance:
    """The paper's 2, and 1, which two opposite scores attain in the limit."""
    rng = np.random.default_rng(KEY)
    pairs = [rng.normal(0, s, (2, T)) for T in (2, 3, 7) for s in (1e-3, 1.0, 9.0) for _ in "abcd"]
    pairs.append(np.array([[5e-5, -5e-5], [-5e-5, 5e-5]]))
    return all_hold([inequalities.softmax_distance(a, b, 1.0) for a, b in pairs], "pairs")


def lemma_a_8() -> SmallInstance:
    """The closed form against the library's split and against random feasible points."""
    rng = np.random.default_rng(KEY)
    alphas, betas, C = rng.uniform(0.1, 4, 4), rng.uniform(0.1, 4, 4), 1.7
    value = split_value(list(alphas), list(betas), C)
    log_alpha, log_beta = np.log(alphas), np.log(betas)
    split = math.exp(allocate(list(log_alpha), list(log_beta), math.log(C)).log_value)
    x = rng.dirichlet(np.ones(4), 4000) * C / betas
    least = float((alphas / x**2).sum(axis=1).min())
    holds = abs(split / value - 1) < 1e-12 and value <= least
    return SmallInstance(
        holds, f"4 terms: closed form {value:.6g}, split {split:.6g}, best of 4000 {least:.6g}"
    )


def lemma_a_9() -> SmallInstance:
    """Random vectors inside and outside of the ball."""
    rng = np.random.default_rng(KEY)
    pairs = [rng.normal(0, s, (2, d)) for s in (0.3, 1.0, 5.0) for d in (1, 2, 6) for _ in "abcdef"]
    return all_hold([inequalities.projection_distance(u, v) for u, v in pairs], "pairs")


def lemma_a_10() -> SmallInstance:
    """Packing <= our internal cover (proved) <= Zhang, on 48 settings: so Zhang's bound holds."""
    rows = [
        (log_cover_lower(a, 1.0, 1.0, N), log_cover_vector(a, 1.0, 1.0, N, internal=True), a, N)
        for a in (0.5, 1.0, 1.5, 3.0, 10.0, 40.0)
        for N in (1, 2, 5, 20, 100, 400, 1000, 10_000)
    ]
    holds = all(low <= ours <= zhang_bound(a, 1.0, 1.0, N) for low, ours, a, N in rows)
    return SmallInstance(holds, f"{len(rows)} settings: packing <= internal cover <= 36 ...")


def lemma_a_11_fixed_positions() -> SmallInstance:
    """Tokens of length 1 and positions of length 1: Corollary 4.5 at 2."""
    made = SignPacking(400, B_X=2.0)
    eps, sizes = 0.999 * made.h, {"d": made.d, "m": made.m, "T": 3}
    ours = attention_head(made.c, 1.0, 1.0, k=1, inputs=Inputs(B_X=2.0), d=made.d)
    paper = lemma_a_11(1.0, 1.0, made.c, eps, B_X=1.0, B_P=1.0, **sizes)
    value = ours.cover(Sample(made.m, 3), eps).value
    return between_packing_and_paper(made.log_size, value, paper, "2^400 heads, B_X = B_P = 1")


def lemma_a_12_heads() -> SmallInstance:
    """Three equal heads: our cover of the sum is not larger than the paper's H^3."""
    norms = MatrixNorms(2.0, 2.0, 2.0, 2.0), MatrixNorms(1.0, 1.0, 1.0, 1.0)
    ours = multi_head([ResidualHead(*norms)] * 3, d=8, inputs=Inputs(B_X=1.0))
    sizes = {"d": 8, "m": 100, "T": 20}
    paper = lemma_a_12([(1.0, 1.0, 2.0)] * 3, 0.3, **sizes)
    one = lemma_a_12([(1.0, 1.0, 2.0)], 0.3, **sizes)
    found = compared(ours.cover(Sample(100, 20), 0.3).value, paper, "three heads: ours <= paper")
    return SmallInstance(found.holds and abs(paper / one - 27) < 1e-9, found.text)


def lemma_a_13() -> SmallInstance:
    """Random heads on random tokens."""
    sides = [inequalities.weight_distance(Z, W, V) for Z, _, (W, V) in random_blocks()]
    return all_hold(sides, "pairs of random heads")


def lemma_a_14() -> SmallInstance:
    """Random heads; 2 in place of the paper's 4 holds as well."""
    sides = [inequalities.input_distance(Z, Y, W, 2.0) for Z, Y, (W, _) in random_blocks()]
    return all_hold(sides, "pairs of inputs, with constant 2")


def lemma_a_15() -> SmallInstance:
    """Random blocks with tanh."""
    sides = [inequalities.block_distance(Z, Y, W, V) for Z, Y, (W, V) in random_blocks()]
    return all_hold(sides, "pairs of random blocks")


def lemma_a_16() -> SmallInstance:
    """Two layers and a read-out."""
    rng = np.random.default_rng(KEY)
    sides = []
    for Z, _, (W, V) in random_blocks():
        w, v = rng.normal(size=(2, Z.shape[1]))
        sides.append(inequalities.scalar_distance(Z, (W, V), (V, W), w, v))
    return all_hold(sides, "pairs of networks")


def theorem_a_17_three_layers() -> SmallInstance:
    """Packing at depth 1, and three layers of different gains: ours <= paper, corrected."""
    made, B_w = SignPacking(400), 50.0
    layer = LayerBounds(made.c, 1.0, 1.0, made.c, 1.0, 1.0)
    sizes = {"d": made.d, "k": 1, "m": made.m, "T": 3}
    one = theorem_a_17([layer], B_w, 0.999 * made.h * B_w, **sizes)
    bounds = [LayerBounds(n, n, n, 2 * n, 2 * n, 2 * n) for n in (1.0, 0.5, 2.0)]
    layers = [equal_norms_layer(n, 2 * n) for n in (1.0, 0.5, 2.0)]
    ours = paper_network(layers, 3.0).cover(Sample(100, 20), 0.5).value
    paper = theorem_a_17(bounds, 3.0, 0.5, d=8, k=4, m=100, T=20)
    found = compared(ours, paper, "three layers: ours <= paper")
    text = f"2^400 networks: {made.log_size:.4g} <= {one:.4g}; {found.text}"
    return SmallInstance(made.log_size <= one and found.holds, text)


APPENDIX_A_CHECKS = {
    "A.1": definition_a_1,
    "A.2": lemma_a_2,
    "A.3": corollary_a_3,
    "A.4": theorem_a_4,
    "A.5": lemma_a_5_on_coins,
    "A.6": lemma_a_6,
    "A.7": corollary_a_7,
    "A.8": lemma_a_8,
    "A.9": lemma_a_9,
    "A.10": lemma_a_10,
    "A.11": lemma_a_11_fixed_positions,
    "A.12": lemma_a_12_heads,
    "A.13": lemma_a_13,
    "A.14": lemma_a_14,
    "A.15": lemma_a_15,
    "A.16": lemma_a_16,
    "A.17": theorem_a_17_three_layers,
}
