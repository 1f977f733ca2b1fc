"""General head == Transformer layer == PyTorch, compared at the scores and at the outputs."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    Block,
    FactoredScore,
    Head,
    Linear,
    Rowwise,
    Softmax,
    attend,
    attention_scale,
    bilinear_scores,
    causal_mask,
    padding_mask,
)
from capax.attention.parts.activations import (
    gelu_and_slope,
    normal_below,
    normal_density,
    sigmoid,
    tanh,
)
from capax.errors import InputError

T, d, H, k = 11, 15, 5, 3  # d = H k, as PyTorch wants
# One program for all operations of a call, and for all heads or layers of one kind.
run = eqx.filter_jit(lambda model, *inputs, **options: model(*inputs, **options))
scores_of = eqx.filter_jit(lambda model, *inputs: model.scores(*inputs))
TOLERANCE = {np.float32: 1e-6, np.float64: 1e-12}
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def weights(dtype, seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: (rng.normal(size=shape) / math.sqrt(shape[-2])).astype(dtype)  # noqa: E731
    return draw(T, d), draw(H, d, k), draw(H, d, k), draw(H, d, k), draw(H, k, d)


def torch_attention(X, W_Q, W_K, W_V, W_C, biases=None):
    """Outputs, weights and scores of `nn.MultiheadAttention` with the same parameters."""
    torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64
    module = torch.nn.MultiheadAttention(
        d, H, bias=biases is not None, batch_first=True, dtype=dtype
    )
    stacked = [np.concatenate(list(W.transpose(0, 2, 1))) for W in (W_Q, W_K, W_V)]
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.tensor(np.concatenate(stacked)))
        module.out_proj.weight.copy_(torch.tensor(W_C.reshape(H * k, d).T.copy()))
        if biases is not None:
            module.in_proj_bias.copy_(torch.tensor(np.concatenate([b.ravel() for b in biases[:3]])))
            module.out_proj.bias.copy_(torch.tensor(biases[3]))
        x = torch.tensor(X)[None]
        Y, a = module(x, x, x, need_weights=True, average_attn_weights=False)
        q, key, _ = torch.nn.functional.linear(
            x[0], module.in_proj_weight, module.in_proj_bias
        ).chunk(3, dim=-1)
        split = lambda M: M.reshape(T, H, k).transpose(0, 1)  # noqa: E731
        scores = split(q) @ split(key).transpose(1, 2) / math.sqrt(k)
    return Y[0].numpy(), a[0].numpy(), scores.numpy()


def general_heads(W_Q, W_K, W_V, W_C, score):
    for h in range(H):
        ends = (Linear(jnp.asarray(W[h])) for W in (W_V, W_C))
        yield Head(score(W_Q[h], W_K[h]), Softmax(), *ends)


@eqx.filter_jit
def at_every_token(head, X):
    """Scores, outputs and weights of a head whose z is each of the tokens."""
    theta = jax.vmap(lambda z: head.score(X, z))(X)
    return theta, *jax.vmap(lambda z: head(X, z, return_weights=True))(X)


@DTYPES
@pytest.mark.parametrize("kind", ["bilinear", "factored"])
def test_general_head_is_the_layer_is_pytorch(dtype, kind):
    X, *W = weights(dtype)
    layer = AttentionLayer(*map(jnp.asarray, W), scale="sqrt")
    Y, a = map(np.asarray, run(layer, X, return_weights=True))
    scores = np.asarray(scores_of(layer, X))
    scale = attention_scale(k, "sqrt")
    score = {
        "bilinear": lambda Q, K: BilinearScore(jnp.asarray(dtype(scale) * (Q @ K.T))),
        "factored": lambda Q, K: FactoredScore(jnp.asarray(Q), jnp.asarray(K), "sqrt"),
    }[kind]
    tolerance = TOLERANCE[dtype]
    total = np.zeros((T, d), dtype)
    for h, head in enumerate(general_heads(*W, score)):
        theta, outputs, used = at_every_token(head, X)
        np.testing.assert_allclose(theta, scores[h], atol=tolerance)
        np.testing.assert_allclose(used, a[h], atol=tolerance)
        total += np.asarray(outputs)
    np.testing.assert_allclose(total, Y, atol=tolerance)

    Y_torch, a_torch, scores_torch = torch_attention(X, *W)
    np.testing.assert_allclose(scores, scores_torch, atol=tolerance)
    np.testing.assert_allclose(a, a_torch, atol=tolerance)
    np.testing.assert_allclose(Y, Y_torch, atol=tolerance)
    assert Y.dtype == dtype


@DTYPES
def test_practical_attention_with_biases_is_pytorch(dtype):
    X, *W = weights(dtype)
    rng = np.random.default_rng(1)
    biases = [rng.normal(size=(H, k)).astype(dtype) for _ in range(3)]
    b_O = rng.normal(size=d).astype(dtype)
    no_mlp = (jnp.zeros(shape, dtype) for shape in ((d, 1), (1,), (1, d), (d,)))
    parts = map(jnp.asarray, (*W[:3], *biases, W[3], b_O))
    block = Block(None, *parts, None, *no_mlp)
    Y, a = eqx.filter_jit(lambda block, X: block.attention(X, X))(block, X)
    Y_torch, a_torch, scores_torch = torch_attention(X, *W, biases=[*biases, b_O])
    tolerance = 2 * TOLERANCE[dtype]
    np.testing.assert_allclose(scores_of(block, X, X), scores_torch, atol=tolerance)
    np.testing.assert_allclose(a, a_torch, atol=tolerance)
    np.testing.assert_allclose(Y, Y_torch, atol=tolerance)
    np.testing.assert_allclose(run(block, X, X)[0], X + np.asarray(Y), atol=tolerance)


@pytest.mark.parametrize("activation", ["identity", "relu", "gelu", "tanh"])
def test_layer_against_plain_loops(activation):
    """Definition 3.2, written out with NumPy loops."""
    X, W_Q, W_K, W_V, W_C = weights(np.float64)
    sigma = {
        "identity": lambda x: x,
        "relu": lambda x: np.maximum(x, 0),
        "gelu": np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
        "tanh": np.tanh,
    }[activation]
    want = np.zeros((T, d))
    for h in range(H):
        for i in range(T):
            theta = np.array([X[i] @ W_Q[h] @ W_K[h].T @ X[t] for t in range(T)])
            a = np.exp(theta) / np.exp(theta).sum()
            want[i] += sigma(sum(a[t] * (X[t] @ W_V[h]) for t in range(T))) @ W_C[h]
    layer = AttentionLayer(*map(jnp.asarray, (W_Q, W_K, W_V, W_C)), activation=activation)
    np.testing.assert_allclose(run(layer, X), want, atol=1e-12)


def test_layer_given_W_QK_directly():
    X, W_Q, W_K, W_V, W_C = map(jnp.asarray, weights(np.float64))
    W_QK = jnp.asarray(np.einsum("hdr,her->hde", W_Q, W_K))
    direct = AttentionLayer.from_W_QK(W_QK, W_V, W_C, activation="relu")
    factored = AttentionLayer(W_Q, W_K, W_V, W_C, activation="relu")
    np.testing.assert_allclose(scores_of(direct, X), scores_of(factored, X), atol=1e-12)
    np.testing.assert_allclose(run(direct, X), run(factored, X), atol=1e-12)


@DTYPES
def test_permutation_equivariance(dtype):
    X, *W = weights(dtype)
    layer = AttentionLayer(*map(jnp.asarray, W), activation="gelu")
    order = np.random.default_rng(3).permutation(T)
    Y, a = map(np.asarray, run(layer, X, return_weights=True))
    Y_moved, a_moved = run(layer, X[order], return_weights=True)
    np.testing.assert_allclose(Y_moved, Y[order], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(a_moved, a[:, order][:, :, order], atol=TOLERANCE[dtype])


def first_head(W):
    W_Q, W_K, W_V, W_C = (jnp.asarray(one[0]) for one in W)
    return Head(FactoredScore(W_Q, W_K), Softmax(), Linear(W_V), Linear(W_C))


def test_head_is_permutation_invariant_in_its_tokens():
    X, *W = weights(np.float64)
    head = first_head(W)
    order = np.random.default_rng(4).permutation(T)
    np.testing.assert_allclose(run(head, X[order], X[2]), run(head, X, X[2]), atol=1e-12)


def test_a_head_from_parts_of_ones_own():
    """Any score, any phi_in, any phi_out; z may live in another space than the tokens."""
    rng = np.random.default_rng(6)
    X, z = jnp.asarray(rng.normal(size=(7, 3))), jnp.asarray(rng.normal(size=2))
    head = Head(
        score=lambda X, z: -jnp.sum((X[:, :2] - z[None, :]) ** 2, axis=-1),
        norm=Softmax(0.5),
        phi_in=Rowwise(lambda x: jnp.tanh(x) * x[0]),
        phi_out=lambda u: jnp.sum(u**2),
    )
    theta = -((np.asarray(X)[:, :2] - np.asarray(z)) ** 2).sum(1) / 0.5
    a = np.exp(theta) / np.exp(theta).sum()
    u = a @ (np.tanh(X) * np.asarray(X)[:, :1])
    assert float(head(X, z)) == pytest.approx(float((u**2).sum()), rel=1e-12)


def test_key_mask_is_deleting_tokens():
    X, *W = weights(np.float64)
    layer = AttentionLayer(*map(jnp.asarray, W), activation="relu")
    keep = padding_mask(T, 7)
    np.testing.assert_allclose(np.asarray(run(layer, X, keep))[:7], run(layer, X[:7]), atol=1e-12)
    head = first_head(W)
    np.testing.assert_allclose(run(head, X, X[0], mask=keep), run(head, X[:7], X[0]), atol=1e-12)


def test_causal_mask_hides_the_future():
    X, *W = weights(np.float64)
    layer = AttentionLayer(*map(jnp.asarray, W))
    Y, a = map(np.asarray, run(layer, X, causal_mask(T), return_weights=True))
    assert np.all(np.triu(a[0], 1) == 0)
    for i in (0, 4, T - 1):
        np.testing.assert_allclose(Y[i], np.asarray(run(layer, X[: i + 1]))[i], atol=1e-12)


def test_scale_is_chosen_in_one_place():
    assert attention_scale(16) == attention_scale(16, "paper") == 1.0
    assert attention_scale(16, "sqrt") == 0.25
    X, *W = map(jnp.asarray, weights(np.float64))
    scaled = np.asarray(scores_of(AttentionLayer(*W, scale="sqrt"), X))
    plain = scores_of(AttentionLayer(*W), X)
    np.testing.assert_allclose(scaled * math.sqrt(k), plain, rtol=1e-12)


def test_scores_of_one_pair():
    X, W_Q, W_K, *_ = weights(np.float64)
    W_QK = W_Q[0] @ W_K[0].T
    want = [float(X[1] @ W_QK @ x) for x in X]
    scores = jax.jit(bilinear_scores)(X, X[1], W_QK)
    np.testing.assert_allclose(scores, want, atol=1e-13)


def test_attend_is_the_weighted_mean():
    values = jnp.asarray([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(attend(jnp.asarray([0.25, 0.75]), values), [0.25, 1.5])


def test_lemma_4_3_constant_one_holds_and_two_opposite_tokens_attain_it():
    """|f - f'| <= C_N B_phi |Score - Score'|_inf, C_N = 1, attained to first order at x, -x."""
    delta = 1e-4
    X = jnp.asarray([[1.0], [-1.0]])
    heads = [
        Head(BilinearScore(jnp.asarray([[s]])), Softmax(), Linear(jnp.ones((1, 1))), lambda u: u[0])
        for s in (0.0, delta)
    ]
    z = jnp.ones(1)
    ratio = abs(float(heads[0](X, z)) - float(heads[1](X, z))) / delta
    assert 0.9999 < ratio <= 1.0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: attention_scale(4, "log"), "scale"),
        (lambda: attention_scale(0), "d_head"),
        (lambda: padding_mask(3, 4), "length"),
        (lambda: causal_mask(0), "T"),
    ],
)
def test_mistakes_are_named(make, named):
    with pytest.raises(InputError, match=f"^{named}: wanted"):
        make()


def test_functions_by_polynomials_are_near_the_true_ones():
    """In float32 against float64 over all of their range; in float64 they are XLA's own."""
    x = np.concatenate([np.linspace(-20, 20, 20_001), [-1e4, 1e4, 0.0]])
    erf = np.vectorize(math.erf)
    below, density = 0.5 * (1 + erf(x / math.sqrt(2))), np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    wanted = (np.tanh(x), 0.5 + 0.5 * np.tanh(x / 2), x * below, below + x * density)

    def found(x):
        return tanh(x), sigmoid(x), *gelu_and_slope(x)

    for number, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        for ours, true in zip(jax.jit(found)(x.astype(number)), wanted, strict=True):
            np.testing.assert_allclose(ours, true, rtol=tolerance, atol=tolerance)
    for ours, true in ((normal_density, density), (normal_below, below)):
        np.testing.assert_allclose(jax.jit(ours)(x.astype(np.float32)), true, rtol=0, atol=2e-7)
