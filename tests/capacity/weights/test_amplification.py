"""Attacks on the recursion: move one parameter of a real module, measure what the output does.

Theory: two members of a class whose effective matrices differ by D_p in piece p differ in output by
at most sum_p alpha_p b_p ||D_p||_F (alpha_p the amplification, b_p the length of the points). The
effective matrices are written out here, naively. A parameter that no piece knows makes the right
side 0 and the test fail. CAPAX_ATTACKS sets the number of tries of each kind (a long run: 300).
"""

import math
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    Head,
    Linear,
    PaperBlock,
    PaperStack,
    TrainablePositions,
    Transformer,
    TransformerSpec,
)
from capax.attention.parts.normalizers import NORMALIZERS, normalizer
from capax.capacity.weights.block_norms import folded
from capax.capacity.weights.model_bounds import measure
from capax.capacity.weights.one_layer_bounds import head_tables
from capax.capacity.weights.table_norms import value_weights

ADMISSIBLE = [name for name in NORMALIZERS if name != "hardmax"]
seeds = st.integers(0, 2**32 - 1)
attack = settings(max_examples=int(os.environ.get("CAPAX_ATTACKS", "3")))


def array(value):
    return np.asarray(value, np.float64)


def draw(rng, *shape, scale=1.0):
    return jnp.asarray(rng.normal(size=shape) * scale)


run = eqx.filter_jit(lambda model, *inputs: model(*inputs))  # all operations in one program


def moved(model, rng, size):
    """The same module with one of its arrays moved."""
    leaves, tree = jax.tree.flatten(model, is_leaf=eqx.is_array)
    arrays = [i for i, leaf in enumerate(leaves) if eqx.is_array(leaf)]
    i = arrays[rng.integers(len(arrays))]
    leaves[i] = jnp.asarray(array(leaves[i]) + rng.normal(size=leaves[i].shape) * size)
    return jax.tree.unflatten(tree, leaves)


def allowed(pieces, old, new, norm_of):
    """sum_p alpha_p b_p ||D_p||_F over the pieces of the class that holds both modules."""
    total = 0.0
    for piece in pieces:
        step = float(np.linalg.norm(array(new[piece.name]) - array(old[piece.name])))
        log_b = piece.log_size - math.log(norm_of(piece.name))
        total += math.exp(min(piece.log_amplification + log_b, 600)) * step
    return total


def compare(model, other, effective, outputs, *, T=None, norm_of, which=0, **known):
    """Assert that the outputs differ by no more than the pieces allow."""
    first, second = measure(model, **known), measure(other, **known)
    q = {name: max(x, second.quantities[name]) for name, x in first.quantities.items()}
    cls = first.build(q)
    pieces = cls.decompositions(first.sample(1, T))[which]
    bound = allowed(pieces, effective(model), effective(other), lambda name: norm_of(q, name))
    difference = max(
        float(np.linalg.norm(a - b)) for a, b in zip(outputs(model), outputs(other), strict=True)
    )
    size = max(float(np.linalg.norm(a)) for a in outputs(model))
    assert difference <= bound * (1 + 1e-6) + 1e-9 * (1 + size)


def log_uniform(low, high):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


# ---- the practical Transformer ----------------------------------------------------------------


def fold(ln):
    return None if ln is None else (array(ln.gain), array(ln.bias))


def transformer_matrices(model):
    """Every piece of Theorem 4.7 (LN) as one matrix, biases as extra rows."""
    last = np.concatenate([array(model.position), array(model.embed), array(model.cls)[None]])
    found = {"embeddings": last}
    for i, b in enumerate(model.blocks):
        ln, k, norm = fold(b.ln1), b.W_Q.shape[2], b.norm
        for h in range(len(b.W_Q)):
            W_Q = folded(array(b.W_Q[h]), array(b.b_Q[h]), ln) / math.sqrt(k)
            W_K = folded(array(b.W_K[h]), array(b.b_K[h]), ln)
            W_VO = folded(array(b.W_V[h]), array(b.b_V[h]), ln) @ array(b.W_O[h])
            if h == 0 and norm.stochastic:
                W_VO[-1] += array(b.b_O)
            found[f"L{i} h{h} W_QK"] = W_Q @ (W_K[:-1] if norm.shift_invariant else W_K).T
            found[f"L{i} h{h} W_VO"] = W_VO
        found[f"L{i} b_O"] = array(b.b_O)
        found[f"L{i} W_1"] = folded(array(b.W_in), array(b.b_in), fold(b.ln2))
        found[f"L{i} W_2"] = np.vstack([array(b.W_out), array(b.b_out)])
    w = folded(array(model.w)[:, None], array(model.b).reshape(1), fold(model.ln_final))
    return {**found, "w": w}


def transformer_norm(q, name):
    return q["w_2"] if name == "w" else q[f"{name.replace('embeddings', 'embed')}_F"]


def table_matrices(model):
    """Scores and values of every head as weights on the features of (position, symbol)."""
    whole = transformer_matrices(model)
    found = {"W_1": whole["L0 W_1"], "W_2": whole["L0 W_2"], "w": whole["w"]}
    found["b_O + [CLS]"] = array(model.blocks[0].b_O) + array(model.cls)
    for h in range(model.spec.heads):
        g, g_cls, v, v_cls = head_tables(model, h)
        if model.blocks[0].norm.shift_invariant:
            g, g_cls = g - g_cls, 0.0
        found[f"h{h} scores"] = value_weights(g[:, :, None], np.array([g_cls]))
        found[f"h{h} V"] = value_weights(v, v_cls)
    return found


def table_norm(q, name):
    if name.endswith("scores"):
        return q[f"{name.split()[0]} table_F"]
    if name == "b_O + [CLS]":
        return q["constant_F"]
    return q["w_2"] if name == "w" else q[f"L0 {name}_F" if name.startswith("W_") else f"{name}_F"]


@attack
@given(
    seeds,
    st.sampled_from(ADMISSIBLE),
    st.sampled_from([(1, 0), (1, 1), (2, 0)]),
    st.booleans(),
    log_uniform(0.05, 2.0),
    log_uniform(1e-4, 3.0),
)
def test_transformers(seed, norm, kind, layer_norm, scale, size):
    (layers, which), T = kind, 3
    spec = TransformerSpec(
        T=T, d=4, heads=2, layers=layers, mlp_width=3, normalizer=norm, layer_norm=layer_norm,
        init_scale=scale,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    model = Transformer.init(spec, key=jax.random.key(seed % 97), dtype=jnp.float64)
    other = moved(model, rng, size)
    bits = [jnp.asarray(rng.integers(0, 2, T)) for _ in range(3)]
    tables = layers == 1 and which == 0
    compare(
        model, other, table_matrices if tables else transformer_matrices,
        lambda m: [array(run(m, b)) for b in bits],
        norm_of=table_norm if tables else transformer_norm, which=which,
    )  # fmt: skip


def test_scores_divided_by_the_root_of_their_width_are_measured_so():
    spec = TransformerSpec(T=3, d=8, heads=2, layers=2, mlp_width=3, init_scale=0.5)
    plain = spec.model_copy(update={"scale": "paper"})
    found = [measure(Transformer.init(s, key=jax.random.key(0), dtype=jnp.float64)).quantities
             for s in (spec, plain)]  # fmt: skip
    of_scores = [name for name in found[0] if "QK" in name]
    assert len(of_scores) >= 4
    for name, value in found[1].items():
        ratio = 2.0 if name in of_scores else 1.0  # heads of width 4
        assert math.isclose(value, ratio * found[0][name], rel_tol=1e-9), name


# ---- the paper's modules ----------------------------------------------------------------------


def product(block, h=None):
    W_Q, W_K = (array(W if h is None else W[h]) for W in (block.W_Q, block.W_K))
    return W_Q @ W_K.T


def by_frobenius(q, name):
    return q["w_2"] if name == "w" else q[f"{name.removesuffix(' (scores)')}_F"]


@attack
@given(seeds, st.sampled_from(ADMISSIBLE), log_uniform(0.1, 3.0), log_uniform(1e-4, 3.0))
def test_stacks(seed, norm, scale, size):
    rng, T = np.random.default_rng(seed), 3
    d, shapes = T + 3, ((T + 3, 2, 5), (5, 2, 4))  # widths change from layer to layer
    blocks = tuple(
        PaperBlock(
            draw(rng, n, 2, scale=scale), draw(rng, n, 2), draw(rng, n, k, scale=scale),
            draw(rng, k, out), norm=normalizer(norm),
        )
        for n, k, out in shapes
    )  # fmt: skip
    model = PaperStack(DeterministicPositions(T), blocks, draw(rng, 4))
    assert d == model.encoding.d
    other = moved(model, rng, size)

    def effective(m):
        found = {"w": m.w}
        for i, b in enumerate(m.blocks):
            found |= {f"L{i} W_QK": product(b), f"L{i} W_V": b.W_V, f"L{i} W_C": b.W_C}
        return found

    bits = [jnp.asarray(rng.integers(0, 2, T)) for _ in range(3)]
    compare(
        model, other, effective, lambda m: [array(run(m, b)) for b in bits], norm_of=by_frobenius
    )


@attack
@given(seeds, st.sampled_from(ADMISSIBLE), log_uniform(0.01, 100.0), log_uniform(1e-4, 10.0))
def test_layers_and_heads(seed, norm, scale, size):
    rng, T, d = np.random.default_rng(seed), 4, 5
    tokens = rng.normal(size=(3, T, d))
    tokens = tokens / np.linalg.norm(tokens, axis=2).max() * 1.7
    layer = AttentionLayer(
        *(draw(rng, 2, d, 2, scale=scale) for _ in range(3)), draw(rng, 2, 2, 3),
        norm=normalizer(norm),
    )  # fmt: skip

    def of_layer(m):
        pairs = {f"h{h} W_QK (scores)": product(m, h) for h in range(2)}
        return pairs | {f"h{h} W_VO": array(m.W_V[h]) @ array(m.W_C[h]) for h in range(2)}

    def rows(m):
        return [row for X in tokens for row in array(run(m, X))]

    compare(layer, moved(layer, rng, size), of_layer, rows, T=T, norm_of=by_frobenius, B_X=1.7)
    for width in (1, 3):
        parts = (BilinearScore(draw(rng, d, d, scale=scale)), normalizer(norm))
        head = Head(*parts, Linear(draw(rng, d, 2, scale=scale)), Linear(draw(rng, 2, width)))

        def of_head(m):
            values = array(m.phi_in.W) @ array(m.phi_out.W)
            return {"W_QK (scores)": m.score.W_QK, "W_VO": values, "v (read-out)": values}

        def read(m):
            return [array(run(m, X, X[0])) for X in tokens]

        def norm_of(q, name):
            return by_frobenius(q, "W_VO" if name.startswith("v") else name)

        compare(head, moved(head, rng, size), of_head, read, T=T, norm_of=norm_of, B_X=1.7)


@attack
@given(
    seeds,
    st.sampled_from(ADMISSIBLE),
    st.sampled_from(["identity", "relu", "mlp"]),
    st.booleans(),
    log_uniform(0.1, 10.0),
    log_uniform(1e-4, 10.0),
)
def test_read_outs(seed, norm, kind, trainable, scale, size):
    rng, T = np.random.default_rng(seed), 3
    d = 4 if trainable else T + 3
    encoding = (
        TrainablePositions(draw(rng, 2, d), draw(rng, T, d), draw(rng, d))
        if trainable
        else DeterministicPositions(T)
    )
    head = (draw(rng, d, 2, scale=scale), draw(rng, d, 2), draw(rng, d, 3))
    if kind == "mlp":
        rest = (draw(rng, 3, 4), draw(rng, 4), draw(rng, 4), draw(rng))
        model = ClsMLP(encoding, *head, *rest, norm=normalizer(norm))
    else:
        ends = (draw(rng, 3, 2), draw(rng, 2))
        model = ClsScalar(encoding, *head, *ends, activation=kind, norm=normalizer(norm))

    def absorb(m, W):
        e = m.encoding
        return (
            np.concatenate([array(e.P), array(e.E), array(e.v_CLS)[None]]) @ W if trainable else W
        )

    def effective(m):
        cls = array(m.encoding.v_CLS) if trainable else np.eye(d)[-1]
        kappa = absorb(m, array(m.W_K) @ (array(m.W_Q).T @ cls))
        found = {"W_QK (scores)": kappa}
        if kind == "mlp":
            U = np.vstack([absorb(m, array(m.W_V) @ array(m.W_1)), array(m.b_1)])
            return {**found, "U": U, "w_2 (read-out)": m.w_2, "b_2 (read-out)": m.b_2}
        c = array(m.W_C) @ array(m.w)
        values = absorb(m, array(m.W_V))
        return {**found, "v (read-out)": values @ c, "c (read-out)": c, "W_V": values}

    def norm_of(q, name):
        short = name.split()[0]
        return q.get(f"{short}_F", q.get(f"{short}_2", q.get(short)))

    bits = [jnp.asarray(rng.integers(0, 2, T)) for _ in range(3)]
    other = moved(model, rng, size)
    compare(model, other, effective, lambda m: [array(run(m, b)) for b in bits], norm_of=norm_of)
