"""BERT's blocks put LayerNorm behind the sum: its recursion against perturbed networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.network.network_bounds import residual_network
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.block_norms import BlockWeights, block_norms, folded, stream_norms
from capax.capacity.weights.checkpoint_norms import checkpoint_blocks, whole_network
from capax.errors import InputError

D, N, H, K, T, EPS = 4, 5, 2, 2, 4, 0.05
ARRAYS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "W_1", "b_1", "W_2", "b_2")


def unit(X):
    centred = X - X.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPS)


def block(rng, scale):
    def draw(*shape):
        return rng.normal(size=shape) * scale

    shapes = {
        "W_Q": (H, D, K), "W_K": (H, D, K), "W_V": (H, D, K), "W_O": (H, K, D), "b_Q": (H, K),
        "b_K": (H, K), "b_V": (H, K), "b_O": (D,), "W_1": (D, N), "b_1": (N,), "W_2": (N, D),
        "b_2": (D,),
    }  # fmt: skip
    norms = {name: (1 + draw(D), draw(D)) for name in ("ln_1", "ln_2")}
    return BlockWeights(**{n: draw(*s) for n, s in shapes.items()}, **norms, post=True)


def forward(blocks, start):
    """BERT: X = LN(X + Att(X)), X = LN(X + MLP(X)); `start` is what the first LayerNorm sees."""
    hat = unit(start)
    for b in blocks:
        X = hat * b.ln_1[0] + b.ln_1[1]
        read = np.zeros_like(X) + b.b_O
        for h in range(H):
            scores = (X @ b.W_Q[h] + b.b_Q[h]) @ (X @ b.W_K[h] + b.b_K[h]).T
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            read += weights @ (X @ b.W_V[h] + b.b_V[h]) @ b.W_O[h]
        Y = unit(X + read) * b.ln_2[0] + b.ln_2[1]
        hat = unit(Y + np.maximum(Y @ b.W_1 + b.b_1, 0) @ b.W_2 + b.b_2)
    return hat


def effective(blocks):
    found = {}
    for i, b in enumerate(blocks):
        for h in range(H):
            W_K = folded(b.W_K[h], b.b_K[h], b.ln_1)[:-1]
            W_VO = folded(b.W_V[h], b.b_V[h], b.ln_1) @ b.W_O[h]
            W_VO[-1] += b.b_O * (h == 0)
            found[f"L{i} h{h} W_QK"] = folded(b.W_Q[h], b.b_Q[h], b.ln_1) @ W_K.T
            found[f"L{i} h{h} W_VO"] = W_VO
        found[f"L{i} W_1"] = folded(b.W_1, b.b_1, b.ln_2)
        found[f"L{i} W_2"] = np.vstack([b.W_2, b.b_2])
        for j, ln in ((1, b.ln_1), (2, b.ln_2)):
            found[f"L{i} skip_{j}"] = np.vstack([np.diag(ln[0]), ln[1]])
    return found


def moved(b, rng, size):
    name = str(rng.choice([*ARRAYS, "ln_1", "ln_2"]))
    value = getattr(b, name)
    if isinstance(value, tuple):
        new = tuple(part + size * rng.normal(size=D) for part in value)
    else:
        new = value + size * rng.normal(size=value.shape)
    return replace(b, **{name: new})


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 0.5), st.floats(-6, 1))
def test_amplifications_of_post_layer_norm_blocks(seed, log_scale, log_size):
    rng = np.random.default_rng(seed)
    old = [block(rng, math.exp(log_scale)) for _ in range(2)]
    index = int(rng.integers(2))
    new = [moved(b, rng, math.exp(log_size)) if i == index else b for i, b in enumerate(old)]
    classes = []
    for blocks in (old, new):
        norms = [block_norms(b) for b in blocks]
        classes.append(residual_network(norms, 1.0, shape="post_layer_norm", layer_norm_eps=EPS))
    first, second = (cls.build(Sample(1, T - 1)) for cls in classes)
    a, b = effective(old), effective(new)
    bound = 0.0
    for p, q in zip(first, second, strict=True):
        if p.name != "w":
            sizes = ((p, a[p.name]), (q, b[p.name]))
            log_b = max(x.log_size - math.log(np.linalg.norm(W)) for x, W in sizes)
            step = float(np.linalg.norm(b[p.name] - a[p.name]))
            bound += step * math.exp(log_b + max(p.log_amplification, q.log_amplification))
    X, w = rng.normal(size=(T, D)), rng.normal(size=D)
    w /= np.linalg.norm(w)
    difference = np.abs((forward(old, X) - forward(new, X)) @ w).max()
    assert difference <= bound * (1 + 1e-6) + 1e-9


def test_the_stream_norms_bound_the_stream():
    rng = np.random.default_rng(0)
    gain, offset = rng.normal(size=7), rng.normal(size=7)
    G = np.vstack([np.diag(gain), offset])
    norms = stream_norms((gain, offset))
    assert norms.norm_2 >= np.linalg.norm(G, 2)
    assert norms.norm_F == pytest.approx(np.linalg.norm(G))
    assert norms.norm_2_1 == pytest.approx(np.linalg.norm(G, axis=0).sum())
    assert norms.norm_1_1 == pytest.approx(np.abs(G).sum())


def bert(d=6, n=11):
    rng, at, weights = np.random.default_rng(0), "bert.encoder.layer.0.", {}
    shapes = {
        "attention.self.query": (d, d), "attention.self.key": (d, d),
        "attention.self.value": (d, d), "attention.output.dense": (d, d),
        "intermediate.dense": (n, d), "output.dense": (d, n),
    }  # fmt: skip
    for name, shape in shapes.items():
        weights[f"{at}{name}.weight"] = rng.normal(size=shape)
        weights[f"{at}{name}.bias"] = rng.normal(size=shape[0])
    for name in (f"{at}attention.output", f"{at}output", "bert.embeddings"):
        weights[f"{name}.LayerNorm.weight"] = 3.0 * np.ones(d)
        weights[f"{name}.LayerNorm.bias"] = np.zeros(d)
    return weights


def test_bert_goes_through_its_own_recursion():
    blocks = checkpoint_blocks(bert(), 2)
    network = whole_network(blocks)
    assert "post-LN" in network.statement
    assert network.status == "comparison"
    pieces = {p.name: p for p in network.build(Sample(10, 5))}
    assert pieces["L0 skip_1"].num_parameters == 12
    # LayerNorm behind the MLP stretches what the MLP adds: 1/sqrt(1e-12), in a pre-LN block 1
    assert pieces["L0 W_2"].log_amplification == pytest.approx(-0.5 * math.log(1e-12))


def test_the_two_forms_are_not_mixed_up():
    post = checkpoint_blocks(bert(), 2)
    with pytest.raises(InputError, match="shape: wanted post_layer_norm exactly for blocks"):
        residual_network(post, 1.0, shape="layer_norm")
    with pytest.raises(InputError, match="shape"):
        residual_network([replace(post[0], skip_1=None, skip_2=None)], 1.0, shape="post_layer_norm")
