"""The score radius where it is attained, term by term, and where float64 alone would miss it."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from capax.audit.heads import distance
from capax.audit.heads.attend import scores
from capax.audit.heads.distance import largest_over_distances
from capax.audit.heads.folding import factors, fold, softmax_keys
from capax.audit.heads.gram_norms import spectral
from capax.audit.heads.head_sizes import head_sizes
from capax.audit.layouts.attention_layer import Attention, DistanceVectors, Norm, Rotary
from capax.errors import InputError

D, K, SCALE = 7, 4, 0.3
R = math.sqrt(D)
CLOSE = 3e-9  # the radius is raised by 1e-9
E = np.eye(D)
F = np.eye(K)


def head(W_Q=None, W_K=None, b_Q=None, b_K=None, norm=None, **changes):
    """One head; matrices not given are zero."""
    zero = np.zeros((D, K))
    W_Q, W_K = (zero if W is None else W for W in (W_Q, W_K))
    made = Attention(
        layer=0, W_Q=W_Q[None], W_K=W_K[None], W_V=zero[None], W_O=zero.T[None], scale=SCALE,
        norm=Norm("rms", np.ones(D)) if norm is None else norm,
        b_Q=None if b_Q is None else b_Q[None], b_K=None if b_K is None else b_K[None],
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def radius(attention):
    return head_sizes(attention, 0, 64).score_radius


def attained(attention, X, Y=None, rel=CLOSE):
    """The largest score of these rows is the radius, up to its rounding up."""
    S = np.abs(scores(attention, 0, X, Y)).max()
    assert S <= radius(attention) <= S * (1 + rel)


def test_without_biases_it_is_d_times_the_spectral_norm():
    rng = np.random.default_rng(0)
    W_Q, W_K = rng.normal(size=(2, D, K))
    gain = rng.normal(size=D)
    made = head(W_Q, W_K, norm=Norm("rms", gain))
    U, top, Vt = np.linalg.svd((gain[:, None] * W_Q) @ (gain[:, None] * W_K).T)
    assert radius(made) == pytest.approx(SCALE * D * top[0], rel=CLOSE)
    attained(made, R * U[:, :1].T, R * Vt[:1])
    negative = dataclasses.replace(made, scale=-SCALE)
    assert radius(negative) == radius(made)


def test_behind_a_layer_norm_rows_are_centred():
    rng = np.random.default_rng(1)
    W_Q, W_K = 5 + rng.normal(size=(2, D, K))
    made = head(W_Q, W_K, norm=Norm("layer", np.ones(D)))
    C = np.eye(D) - 1 / D
    U, top, Vt = np.linalg.svd(C @ W_Q @ W_K.T @ C)
    assert radius(made) == pytest.approx(SCALE * D * top[0], rel=CLOSE)
    attained(made, R * U[:, :1].T, R * Vt[:1])


def test_every_term_of_the_biases_counts():
    a, b, c, e = 2.0, 3.0, 5.0, 7.0
    made = head(a * E[:, :1] @ F[:1], c * E[:, :1] @ F[:1], b * F[0], e * F[0])
    assert radius(made) == pytest.approx(SCALE * (R * a + b) * (R * c + e), rel=CLOSE)
    attained(made, R * E[:1])
    only_keys = head(a * E[:, :1] @ F[:1], None, b * F[0], e * F[0])
    attained(only_keys, R * E[:1])
    only_queries = head(None, c * E[:, :1] @ F[:1], b * F[0], e * F[0])
    attained(only_queries, R * E[:1])


def test_the_offset_of_a_norm_is_a_bias_on_both_sides():
    W = 2.0 * E[:, :1] @ F[:1]
    made = head(W, W, norm=Norm("rms", np.ones(D), offset=3.0 * E[0]))
    assert radius(made) == pytest.approx(SCALE * (2 * R + 6) ** 2, rel=CLOSE)
    attained(made, R * E[:1])


def test_distances_up_to_the_limit_count_and_frequencies_beyond_it_do_not(monkeypatch):
    """Contexts of 64 tokens hardly turn; longer ones would turn by a quarter at once."""
    slow, quick = (np.array([theta]) for theta in (1e-6, math.pi / 2))
    rotary = Rotary(1, ((64, slow), (math.inf, quick)))
    A, B = np.diag([4.0, 0.0]), np.diag([0.0, 25.0])
    assert largest_over_distances(A, B, rotary, 64)[0] == pytest.approx(10 * math.sin(63e-6))
    assert largest_over_distances(A, B, rotary, 65)[0] == pytest.approx(10)
    monkeypatch.setattr(distance, "MOST_DISTANCES", 64)
    assert largest_over_distances(A, B, rotary, 64) is not None
    assert largest_over_distances(A, B, rotary, 65) is None


@pytest.mark.parametrize("pairs", ["halves", "adjacent"])
@pytest.mark.parametrize("factor", [1.0, 1.7])
def test_a_quarter_turn_attains_the_radius_of_rotary_positions(pairs, factor):
    """W_Q on the first coordinate of a plane, W_K on the second: 0 at D = 0, all at D = 1."""
    rotary = Rotary(1, ((math.inf, np.array([math.pi / 2])),), pairs, factor)
    first, second = (int(side[0]) for side in rotary.coordinates())
    W_Q, W_K = 2 * E[:, :1] @ F[first : first + 1], 5 * E[:, :1] @ F[second : second + 1]
    made = head(W_Q, W_K, 3 * F[first], 7 * F[second], rotary=rotary)
    truth = SCALE * factor**2 * (2 * R + 3) * (5 * R + 7)
    assert radius(made) == pytest.approx(truth, rel=CLOSE)
    attained(made, np.tile(R * E[:1], (2, 1)), rel=1e-8)
    sizes = head_sizes(made, 0, 64)
    assert (sizes.W_QK_F, sizes.D_max % 2) == (0.0, 1)
    W = SCALE * factor**2 * math.hypot(2, 3) * math.hypot(5, 7)
    assert sizes.W_QK_F_max == pytest.approx(W, rel=1e-12)


def test_coordinates_that_do_not_turn_keep_their_length():
    rotary = Rotary(1, ((math.inf, np.array([1.0])),), "halves", 3.0)
    W = E[:, :1] @ F[2:3]
    made = head(W, W, rotary=rotary)
    assert radius(made) == pytest.approx(SCALE * D, rel=CLOSE)
    attained(made, R * E[:1])
    normalised = head(W, W, rotary=rotary, q_gain=np.ones(K), k_gain=2 * F[2])
    assert radius(normalised) == pytest.approx(2 * SCALE * K, rel=CLOSE)
    attained(normalised, R * E[:1])


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_normalised_queries_attain_k_times_the_gains(factor):
    rotary = Rotary(2, ((math.inf, np.array([math.pi / 2, 0.0])),), "halves", factor)
    g_Q, g_K = np.array([3.0, 0.1, 0.2, 0.1]), np.array([0.3, 0.1, 5.0, 0.1])
    made = head(E[:, :1] @ F[:1], E[:, :1] @ F[2:3], rotary=rotary, q_gain=g_Q, k_gain=g_K)
    assert radius(made) == pytest.approx(SCALE * factor**2 * K * 15, rel=CLOSE)
    attained(made, np.tile(R * E[:1], (2, 1)), rel=1e-8)
    for one in ("q_gain", "k_gain"):
        with pytest.raises(InputError, match="norms of q and k in layer 0: wanted both or neither"):
            dataclasses.replace(made, **{one: None})
    still = dataclasses.replace(made, rotary=None)
    assert radius(still) == pytest.approx(SCALE * K * 1.0, rel=CLOSE)  # 0.2 * 5 in one coordinate


@pytest.mark.parametrize("both", [False, True])
def test_vectors_of_the_distance_are_attained(both):
    vectors = np.zeros((2 * 3 - 1, K))
    vectors[4] = 2 * F[0]  # i - j = 2
    vectors[1] = F[0]
    W_K = 5 * E[:, 1:2] @ F[:1] if both else None  # x^ cannot serve both: W_Q W_K^T is 0 there
    made = head(3 * E[:, :1] @ F[:1], W_K, 7 * F[0], 11 * F[0] if both else None,
                distance_vectors=DistanceVectors(vectors, both))  # fmt: skip
    X = np.tile(R * E[:1], (3, 1))
    Y = np.tile(R * E[1:2], (3, 1))
    attained(made, X, Y)
    one = scores(dataclasses.replace(made, distance_vectors=None), 0, X, Y)
    q, k = 3 * R + 7, (5 * R + 11 if both else 0.0)
    S = scores(made, 0, X, Y) - one
    np.testing.assert_allclose(S[2, 0], SCALE * 2 * (q + k))
    np.testing.assert_allclose(S[0, 1], SCALE * (q + k))
    np.testing.assert_allclose(S[1, 0], 0.0, atol=1e-12)


def test_a_bias_per_distance_adds_its_largest_size():
    W = E[:, :1] @ F[:1]
    bias = np.array([[1.0, -9.0, 4.0], [100.0, 0.0, 0.0]])
    made = head(W, W, distance_bias=bias)
    assert radius(made) == pytest.approx(SCALE * D + 9, rel=CLOSE)


def test_a_soft_cap_caps_and_serves_alone():
    W = E[:, :1] @ F[:1]
    assert radius(head(W, W, soft_cap=1.5)) == 1.5
    assert radius(head(W, W, soft_cap=50.0)) == pytest.approx(SCALE * D, rel=CLOSE)
    unknown = Rotary(1, factor=None)
    assert radius(head(W, W, rotary=unknown, soft_cap=5.0)) == 5.0


def test_no_radius_without_a_norm_or_a_known_factor():
    W = E[:, :1] @ F[:1]
    assert radius(dataclasses.replace(head(W, W), norm=None)) is None
    assert radius(head(W, W, rotary=Rotary(1, factor=None))) is None
    gains = {"q_gain": np.ones(K), "k_gain": np.ones(K)}
    assert radius(head(W, W, rotary=Rotary(1, factor=None), **gains)) is None
    bare = dataclasses.replace(head(W, W, **gains), norm=None)
    assert radius(bare) == pytest.approx(SCALE * K, rel=CLOSE)  # the norms of q and k suffice


def test_what_float64_loses_is_added():
    """W_Q W_K^T = -2^-40 exactly, and its square is lost in the Gram matrices."""
    lost = 2.0**-40
    W_Q, W_K = np.zeros((2, D, K))
    W_Q[0, :2], W_K[0, :2] = (1, -1), (1, 1 + lost)
    assert radius(head(W_Q, W_K)) >= SCALE * D * lost
    assert radius(head(W_Q, W_K)) < 1e-4  # sqrt(unit roundoff) of the factors, not more
    tiny, b_K, vectors = 2.0**-60, np.ones(K), DistanceVectors(np.ones((1, K)))
    for order in itertools.permutations((1, tiny, -1, tiny)):  # one loses both, however it is added
        W_Q[0] = order
        assert radius(head(W_Q, None, None, b_K)) >= SCALE * R * 2 * tiny
        assert radius(head(None, W_Q, b_K)) >= SCALE * R * 2 * tiny
        assert radius(head(W_Q, distance_vectors=vectors)) >= SCALE * R * 2 * tiny
        assert radius(head(None, None, W_Q[0], b_K)) >= SCALE * 2 * tiny
    rotary = Rotary.plain(np.zeros(1))
    wide = np.array([[1.0, 2.0**-27, 0, 0], [1.0, -(2.0**-27), 0, 0]])  # 1 + 2^-54 is lost
    W = np.vstack([wide, np.zeros((D - 2, K))])
    exact = 2.0  # ||W||^2: columns are orthogonal
    assert radius(head(W, W, rotary=rotary)) >= SCALE * D * exact


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_folding_gives_the_matrix_behind_the_norm(kind, dtype):
    rng = np.random.default_rng(4)
    W, b, gain, offset = (rng.normal(size=n).astype(dtype) for n in ((D, K), K, D, D))
    folded = fold(W, b, Norm(kind, gain, offset))
    assert folded.dtype == np.float64
    x = rng.normal(size=(20, D))
    x -= x.mean(axis=1, keepdims=True) if kind == "layer" else 0.0
    truth = (x * gain + offset) @ W.astype(np.float64) + b
    np.testing.assert_allclose(np.hstack([x, np.ones((20, 1))]) @ folded, truth, rtol=1e-12)
    if kind == "layer":
        np.testing.assert_allclose(folded[:-1].sum(axis=0), 0.0, atol=1e-12)
    else:
        np.testing.assert_allclose(folded[:-1], gain.astype(np.float64)[:, None] * W, rtol=1e-15)
    np.testing.assert_array_equal(fold(W, None, None)[-1], np.zeros(K))
    np.testing.assert_array_equal(fold(W, b, None), np.vstack([W, b]))


def test_softmax_sees_the_key_bias_only_where_keys_turn():
    W_Q = 2 * E[:, :1] @ F[:1]
    plain = head(W_Q, None, None, 3 * F[0])
    assert head_sizes(plain, 0).W_QK_F == 0.0
    turned = dataclasses.replace(plain, rotary=Rotary.plain(np.ones(2)))
    assert math.isclose(head_sizes(turned, 0, 8).W_QK_F, SCALE * 6)
    K_ = factors(plain, 0).K
    np.testing.assert_array_equal(softmax_keys(K_, plain), K_[:-1])
    np.testing.assert_array_equal(softmax_keys(K_, turned), K_)


def test_cross_attention_folds_the_norm_of_its_keys_into_keys_and_values():
    rng = np.random.default_rng(6)
    W = rng.normal(size=(4, 1, D, K))
    other = Norm("layer", rng.normal(size=D), rng.normal(size=D))
    made = dataclasses.replace(head(), W_Q=W[0], W_K=W[1], W_V=W[2], key_norm=other)
    part = factors(made, 0)
    np.testing.assert_array_equal(part.Q, fold(W[0, 0], None, made.norm))
    np.testing.assert_array_equal(part.K, fold(W[1, 0], None, other))
    np.testing.assert_array_equal(part.V, fold(W[2, 0], None, other))


def test_frequencies_that_change_with_the_context_are_all_searched():
    """Short contexts turn fast, long ones slowly; beyond the last known context nothing is said."""
    A = B = np.diag([1.0, 0.0])
    B = np.diag([0.0, 1.0])
    slow, fast = np.array([math.pi / 2 / 90]), np.array([math.pi / 2 / 3])
    two = Rotary(1, ((10.0, fast), (math.inf, slow)))
    assert largest_over_distances(A, B, two, 5) == (pytest.approx(1.0), 3)
    assert largest_over_distances(A, B, two, 100)[0] == pytest.approx(1.0)
    late = Rotary(1, ((10.0, 0 * fast), (math.inf, slow)))
    assert largest_over_distances(A, B, late, 100) == (pytest.approx(1.0), 90)
    assert largest_over_distances(A, B, late, 60)[1] == 59
    assert largest_over_distances(A, B, late, 100, window=40)[1] == 39
    ending = Rotary(1, ((10.0, fast),))
    assert largest_over_distances(A, B, ending, 10) == (pytest.approx(1.0), 3)
    assert largest_over_distances(A, B, ending, 11) is None
    assert largest_over_distances(A, B, Rotary(1), 5) is None


@pytest.mark.parametrize("rank", [K, K - 2, 0])
@pytest.mark.parametrize("grown", [1e-12, 1.0, 1e9])
def test_norm_of_a_product_by_cholesky_and_where_a_factor_is_singular(rank, grown):
    """Also with columns of very unlike lengths, whose Gram matrix is nearly singular."""
    rng = np.random.default_rng(3)
    left = grown * rng.normal(size=(D, rank)) @ rng.normal(size=(rank, K))
    for lengths in (np.ones(K), 10.0 ** -np.arange(0, 4 * K, 4)):
        Q, right = left * lengths, rng.normal(size=(D, K))
        wanted = np.linalg.norm(Q @ right.T, 2)
        found = spectral(Q.T @ Q, right.T @ right)
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-7 * grown)
