"""Numbers of heads against outside truths: closed forms, permutations, monotonicity."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.audit.heads.attend import scores, turned
from capax.audit.heads.capacity_share import Counted, capacity_shares
from capax.audit.heads.distance import waves_of
from capax.audit.heads.folding import factors
from capax.audit.heads.head_sizes import head_sizes
from capax.audit.heads.random_start import Start, _drawn, _median, _sizes, random_sizes, ratio
from capax.audit.heads.rows import _counted
from capax.audit.layouts.attention_layer import Attention, DistanceVectors, Norm, Rotary
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.sample_points import Sample
from capax.errors import InputError

D, K = 17, 6


def attention(seed=0, H=4, G=4, **changes):
    rng = np.random.default_rng(seed)
    made = Attention(
        layer=0, W_Q=rng.normal(size=(H, D, K)), W_K=rng.normal(size=(G, D, K)),
        W_V=rng.normal(size=(G, D, K)), W_O=rng.normal(size=(H, K, D)), scale=1 / math.sqrt(K),
        norm=Norm("rms", rng.normal(size=D)),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def rotation(rotary, distance, k):
    rows = np.zeros((k, distance + 1, k))
    rows[:, -1] = np.eye(k)
    return np.array([turned(one, rotary)[-1] for one in rows]).T


@pytest.mark.parametrize("pairs", ["halves", "adjacent"])
@pytest.mark.parametrize("k, planes", [(6, 3), (7, 2), (10, 3)])
def test_norm_at_every_distance_is_that_of_the_turned_matrix(pairs, k, planes):
    rng = np.random.default_rng(k)
    theta = np.array([1.0, 0.3, 0.02])[:planes]
    Q, K_, rotary = rng.normal(size=(9, k)), rng.normal(size=(5, k)), Rotary.plain(theta, pairs)
    waves = waves_of(Q.T @ Q, K_.T @ K_, rotary, theta)
    truth = [np.linalg.norm(Q @ rotation(rotary, D_, k).T @ K_.T) for D_ in range(130)]
    np.testing.assert_allclose(waves.norms_below(130), truth, rtol=1e-10)
    np.testing.assert_allclose(waves.norms_below(31), truth[:31], rtol=1e-10)
    np.testing.assert_allclose(waves.norms_at(np.arange(130)), truth, rtol=1e-12)


def test_scores_turn_by_the_distance_alone():
    """score(i, j) = x_i W_Q R_{i-j}^T W_K^T x_j: what the norm over distances is about."""
    rotary = Rotary.plain(np.array([1.0, 0.3, 0.02]))
    head = attention(rotary=rotary, norm=None, scale=1.0)
    X = np.random.default_rng(1).normal(size=(8, D))
    S = scores(head, 1, X)
    for i, j in [(7, 2), (3, 3), (5, 0)]:
        R = rotation(rotary, i - j, K)
        assert S[i, j] == pytest.approx(X[i] @ head.W_Q[1] @ R.T @ head.W_K[1].T @ X[j])


def test_turning_breaks_the_coordinatewise_bound_on_normalised_queries():
    """g_Q = (1, 0), g_K = (0, 1) in one plane: the products are 0, yet scores reach k/2."""
    rotary = Rotary.plain(np.array([math.pi / 2, 0.0, 0.0]))
    g_Q, g_K = np.zeros(K), np.zeros(K)
    first, second = rotary.coordinates()
    g_Q[first[0]], g_K[second[0]] = 1.0, 1.0
    head = attention(rotary=rotary, q_gain=g_Q, k_gain=g_K, scale=1.0)
    X = np.random.default_rng(2).normal(size=(60, D))
    X *= math.sqrt(D) / np.linalg.norm(X, axis=1, keepdims=True)
    largest = max(np.abs(scores(head, h, X)).max() for h in range(4))
    radius = head_sizes(head, 0, 60).score_radius
    assert (g_Q * g_K).max() * K < largest <= radius == pytest.approx(K, rel=2e-9)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_random_start_is_the_closed_form(kind):
    """E ||W_Q W_K^T||_F^2 = s^4 d^2 k (d - 1 for d behind a LayerNorm), times scale^2."""
    d, k, s = 301, 13, 0.02
    template = Attention(0, *(np.zeros((1, d, k)),) * 3, np.zeros((1, k, d)), 1 / math.sqrt(k),
                         Norm(kind, np.ones(d)))  # fmt: skip
    found = random_sizes(template, Start("normal", s, "", 1), "x", None)
    rows = d - 1 if kind == "layer" else d
    assert found["W_QK_F"] == pytest.approx(s * s * rows, rel=0.05)
    assert found["stable_rank"] < k


def test_the_start_has_the_sizes_of_the_families_own_code():
    """T5: 1/sqrt(d k), 1/sqrt(d), 1/sqrt(d), 1/sqrt(H k); PyTorch: Xavier's limit of the stacked
    [3 d, d] and 1/sqrt(d); GPT-2 divides its last matrix by sqrt(2 layers)."""
    d, k, H = 16, 9, 4
    assert _sizes(Start("t5", 3.0, "", 5), "T5", d, k, H) == pytest.approx(
        (3 / 12, 3 / 4, 3 / 4, 3 / 6), rel=1e-15
    )
    inside = math.sqrt(6 / (3 * d + d))
    assert _sizes(Start("torch", 1.0, "", 5), "torch.nn", d, k, H) == pytest.approx(
        (inside, inside, inside, 1 / 4), rel=1e-15
    )
    normal = Start("normal", 0.5, "", 8)
    assert _sizes(normal, "GPT-2", d, k, H) == (0.5, 0.5, 0.5, 0.125)
    assert _sizes(normal, "BERT", d, k, H) == (0.5,) * 4


@pytest.mark.parametrize(("kind", "group", "heads"), [("t5", 1, 6), ("torch", 2, 6), ("t5", 7, 7)])
def test_a_drawn_layer_has_the_shape_of_its_template_and_nothing_learned(kind, group, heads):
    d, k, H = 64, 25, 2 * group
    rng = np.random.default_rng(0)
    template = Attention(
        0, rng.normal(size=(H, d, k)), *(rng.normal(size=(2, 2, d, k))),
        rng.normal(size=(H, k, d)), 0.2, Norm("rms", 9 + rng.normal(size=d)), b_Q=np.ones((H, k)),
        distance_bias=np.ones((H, 50)), q_gain=np.full(k, 3.0), k_gain=np.full(k, 3.0),
        distance_vectors=DistanceVectors(np.ones((99, k))),
    )  # fmt: skip
    start = Start(kind, 2.0, "", 3)
    drawn = _drawn(template, start, "x")
    shapes = [drawn.W_Q.shape, drawn.W_K.shape, drawn.W_V.shape, drawn.W_O.shape]
    G = heads // group
    assert shapes == [(heads, d, k), (G, d, k), (G, d, k), (heads, k, d)]
    spread = 1 / math.sqrt(3) if kind == "torch" else 1.0  # of a uniform number in [-1, 1]
    matrices = (drawn.W_Q, drawn.W_K, drawn.W_V, drawn.W_O)
    for W, size in zip(matrices, _sizes(start, "x", d, k, H), strict=True):
        assert W.std() == pytest.approx(size * spread, rel=0.04)
        assert (np.abs(W).max() <= size) == (kind == "torch")
    assert drawn.distance_bias.std() == pytest.approx(2 / math.sqrt(d), rel=0.1)
    assert drawn.distance_vectors.vectors.std() == pytest.approx(2.0, rel=0.05)
    for gain in (drawn.norm.gain, drawn.q_gain, drawn.k_gain):
        assert (gain == 1).all()
    assert drawn.b_Q is None and drawn.key_norm is None


def test_a_median_leaves_out_what_is_not_known():
    assert _median([3.0, None, 1.0, 2.0]) == 2.0
    assert _median([None, None]) is None


def test_heads_permuted_give_rows_permuted():
    whole, order = attention(), [2, 0, 3, 1]
    moved = dataclasses.replace(
        whole, W_Q=whole.W_Q[order], W_K=whole.W_K[order], W_V=whole.W_V[order],
        W_O=whole.W_O[order],
    )  # fmt: skip
    for new, old in enumerate(order):
        assert head_sizes(moved, new) == head_sizes(whole, old)


@given(st.floats(1.0, 100.0), st.sampled_from(["W_Q", "W_K", "W_V", "W_O"]))
def test_no_number_falls_when_a_weight_is_scaled_up(factor, name):
    before = attention()
    after = dataclasses.replace(before, **{name: getattr(before, name) * factor})
    for quantity in ("W_QK_F", "W_QK_2", "W_VO_2", "W_VO_21", "score_radius"):
        grown = getattr(head_sizes(after, 2), quantity)
        assert grown >= getattr(head_sizes(before, 2), quantity) * (1 - 1e-12)


@given(st.floats(0.1, 10.0))
def test_a_basis_inside_the_head_changes_nothing(size):
    before = attention()
    M = size * np.linalg.qr(np.random.default_rng(3).normal(size=(K, K)))[0]
    after = dataclasses.replace(
        before, W_Q=before.W_Q @ M, W_K=before.W_K @ np.linalg.inv(M).T, W_V=before.W_V @ M,
        W_O=np.linalg.inv(M) @ before.W_O,
    )  # fmt: skip
    a, b = head_sizes(before, 1), head_sizes(after, 1)
    for quantity in ("W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21"):
        assert getattr(a, quantity) == pytest.approx(getattr(b, quantity), rel=1e-9)


def counted(head, h, **changes):
    sizes = head_sizes(head, h)
    base = Counted(sizes, ("", 0, h // head.group), head.group > 1, head.scale, D, K)
    return dataclasses.replace(base, **changes)


def test_shares_are_those_of_corollary_4_5():
    """The closed form of `capacity` for the same heads, piece by piece."""
    head, T = attention(), 50
    shares = capacity_shares([counted(head, h) for h in range(4)], T)
    alone = []
    for h in range(4):
        sizes = head_sizes(head, h)
        qk = MatrixNorms.known(norm_F=sizes.W_QK_F, norm_2_1=1.0)
        vo = MatrixNorms(sizes.W_VO_2, sizes.W_VO_2, sizes.W_VO_21, math.inf)
        B = math.sqrt(D + 1)
        cls = multi_head([ResidualHead(qk, vo)], d=D, inputs=Inputs(B_X=B, B_z=B), full=True)
        alone.append(math.exp(cls.log_C(Sample(10**6, T)) / 3))
    np.testing.assert_allclose(shares, np.array(alone) / sum(alone), rtol=2e-3)


def test_heads_of_size_zero_have_no_share():
    zero = np.zeros((1, D, K))
    none = attention(H=1, G=1, W_Q=zero, W_K=zero, W_V=zero, W_O=zero.transpose(0, 2, 1))
    assert capacity_shares([counted(none, 0)], 50) == [0.0]
    both = [counted(none, 0, group=("", 1, 0)), counted(attention(), 0)]
    assert capacity_shares(both, None) == [0.0, 1.0]


def test_norms_do_not_know_the_sign_of_the_scale():
    one, other = head_sizes(attention(scale=0.5), 1), head_sizes(attention(scale=-0.5), 1)
    assert one == other and one.W_QK_F > 0


def test_a_rotation_that_is_not_known_is_refused():
    X = np.ones((5, 4))
    theta = np.ones(2)
    for rotary in (Rotary(2), Rotary(2, ((4, theta),)), Rotary(2, ((9, theta),), factor=None)):
        with pytest.raises(InputError, match="rotary positions: wanted known frequencies"):
            turned(X, rotary)


def test_shares_sum_to_one_and_a_shared_layer_is_counted_once():
    plain = attention()
    assert sum(capacity_shares([counted(plain, h) for h in range(4)], 50)) == pytest.approx(1)
    twelve = [counted(plain, h, copies=12) for h in range(4)]
    assert 12 * sum(capacity_shares(twelve, 50)) == pytest.approx(1)


def test_grouped_keys_are_covered_once():
    """Two heads that share a key cost less than two heads with a copy of it each."""
    grouped = attention(H=2, G=1)
    copied = dataclasses.replace(grouped, W_K=np.repeat(grouped.W_K, 2, 0),
                                 W_V=np.repeat(grouped.W_V, 2, 0))  # fmt: skip
    other = attention(seed=9, H=1, G=1)  # a yardstick in the same sum
    yard = counted(other, 0, group=("", 1, 0), factored=True)
    one = [counted(grouped, h) for h in range(2)]
    two = [counted(copied, h, factored=True) for h in range(2)]
    assert capacity_shares([*one, yard], 50)[-1] > capacity_shares([*two, yard], 50)[-1]


@pytest.mark.parametrize(
    "sizes", [{"W_Q": 1e200}, {"W_Q": 1e100, "W_K": 1e100}, {"W_V": 1e100, "W_O": 1e100}]
)
def test_weights_beyond_float64_are_refused(sizes):
    made = attention()
    huge = {name: np.full(getattr(made, name).shape, size) for name, size in sizes.items()}
    with pytest.raises(InputError, match="norms within the range of float64"):
        head_sizes(dataclasses.replace(made, **huge), 0)


def test_rotary_and_grouped_heads_are_counted_by_their_factors():
    turning = {"rotary": Rotary.plain(np.ones(2))}
    for made, factored in ((attention(), False), (attention(**turning), True),
                           (attention(G=2), True), (attention(G=2, **turning), True)):  # fmt: skip
        one = _counted(made, 3, head_sizes(made, 3))
        assert one.factored == factored
        assert one.group == ("", 0, 3 // made.group)
        assert (one.d, one.k, one.copies, one.scale) == (D, K, 1, made.scale)


def test_ratios_need_both_numbers():
    sizes = head_sizes(attention(), 0)
    assert ratio(sizes, {"W_QK_F": 2 * sizes.W_QK_F}, "W_QK_F") == 0.5
    assert ratio(sizes, {"W_QK_F": 0.0}, "W_QK_F") is None
    assert ratio(sizes, {"W_QK_F": None}, "W_QK_F") is None
    bare = dataclasses.replace(sizes, score_radius=None)
    assert ratio(bare, {"score_radius": 1.0}, "score_radius") is None


def test_factored_shares_are_the_sum_of_their_four_pieces():
    """(alpha^2 C)^(1/3) of every factor, written out; the key and value of a group once."""
    head, T, B = attention(H=4, G=2), 50, math.sqrt(D + 1)
    sizes = [head_sizes(head, h) for h in range(4)]
    rows = 10**6 * T
    log_k, log_d = (2 * math.log(128 * n * rows + 1) for n in (K, D))

    def piece(alpha, norm, length, log):
        return (alpha**2 * norm**2 * length**2 * log) ** (1 / 3)

    held = []
    for h, own in enumerate(sizes):
        mates, s = [sizes[h - h % 2], sizes[h - h % 2 + 1]], head.scale
        part = own.parts
        keys = sum(s * mate.parts.Q_2 * B * mate.W_VO_2 * B for mate in mates)
        values = sum(mate.parts.O_2 for mate in mates)
        shared = piece(keys, part.K_21, B, log_k) + piece(values, part.V_21, B, log_k)
        query = piece(s * part.K_2 * B * own.W_VO_2 * B, part.Q_21, B, log_k)
        held.append(query + piece(1.0, part.O_21, part.V_2 * B, log_d) + shared / 2)
    found = capacity_shares([counted(head, h) for h in range(4)], T)
    np.testing.assert_allclose(found, np.array(held) / sum(held), rtol=1e-12)


def test_norms_of_the_factors_are_those_of_the_matrices():
    head = attention(b_K=np.random.default_rng(8).normal(size=(4, K)))
    part, parts = factors(head, 1), head_sizes(head, 1).parts
    for name, matrix in (("Q", part.Q), ("K", part.K[:-1]), ("V", part.V), ("O", part.O)):
        assert getattr(parts, f"{name}_2") == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-9)
        columns = np.linalg.norm(matrix, axis=0).sum()
        assert getattr(parts, f"{name}_21") == pytest.approx(columns, rel=1e-12)
