"""Bounds for a model: each module of `capax.attention`, measured by its type.

`measure(module)` returns the quantities, the statement that covers them and the assumptions; a type
without a statement is refused in one line that names the supported types.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from capax.attention.head import Head, Linear
from capax.attention.layer import AttentionLayer
from capax.attention.parts.activations import activation_lipschitz
from capax.attention.parts.scores import BilinearScore, FactoredScore, attention_scale
from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.stack import PaperBlock, PaperStack
from capax.attention.transformer import Transformer
from capax.capacity.linear.norms import (
    MatrixNorms,
    finite_matrix,
    finite_vector,
    matrix_norms,
    norm_2,
    norms_QK,
    norms_VO,
    upper,
)
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import linear_head, scalar_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, mlp_head, multi_head
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.weights.assumptions import inputs_for, weighting_of
from capax.capacity.weights.measured import (
    MeasuredModel,
    Quantities,
    matrix_of,
    matrix_quantities,
    token_assumptions,
)
from capax.capacity.weights.table_norms import value_reach
from capax.capacity.weights.token_features import Features, token_features
from capax.capacity.weights.transformer_bounds import measure_transformer
from capax.errors import InputError, require

SUPPORTED = "ClsScalar, ClsMLP, AttentionLayer, Head, PaperStack, Transformer"


@singledispatch
def measure(module: Any, *, B_X: float = 1.0) -> MeasuredModel:
    """The quantities of a module and its class. B_X: token length of a module without an encoding.

    Raises InputError for a type without a statement, NaN weights, or a normalizer that is not
    Lipschitz (Assumption 4.1).
    """
    del B_X
    raise InputError(f"module: no bound for {type(module).__name__}; supported: {SUPPORTED}")


def _absorbed_scores(model: ClsScalar | ClsMLP, features: Features) -> float:
    """||kappa||: the score of a token is kappa.phi with kappa = M W_K W_Q^T x_CLS."""
    W_Q, W_K = finite_matrix(model.W_Q, "W_Q"), finite_matrix(model.W_K, "W_K")
    scale = attention_scale(W_Q.shape[1], model.scale)
    kappa = scale * (features.absorb(W_K) @ features.query(W_Q))
    return _positive(upper(float(np.linalg.norm(kappa))), "W_QK")


def _positive(value: float, name: str) -> float:
    require(value > 0, name, "a matrix that is not zero", "a norm of 0")
    return value


def _possible(model: ClsScalar | ClsMLP, W: Float[np.ndarray, "d k"]) -> float:
    """B_phi: how far W^T x lies from one centre, over every token that can occur.

    If the weights do not sum to one, the centre is 0.
    """
    W_jax = jnp.asarray(W, model.W_V.dtype)
    tokens = [model.encoding(jnp.full(model.T, bit, jnp.int32)) for bit in (0, 1)]
    rows = [np.asarray(X @ W_jax, np.float64) for X in tokens]
    tables = np.stack([row[:-1] for row in rows], axis=1)  # [T, 2, k]
    return _positive(value_reach(tables, rows[0][-1], model.norm.stochastic).radius, "W_V")


def _inputs(model: ClsScalar | ClsMLP, features: Features) -> Inputs:
    """The query [CLS] never changes and is absorbed in the scores: B_z = 1."""
    return inputs_for(model.norm, features.B_X, 1.0, features.r_X)


def _known(model: ClsScalar | ClsMLP, features: Features) -> dict[str, Any]:
    """The inputs of a head, and d, the number of coordinates of a feature vector."""
    d = model.encoding.d if features.M is None else len(features.M)
    return {"inputs": _inputs(model, features), "d": d}


@measure.register
def _(model: ClsScalar, *, B_X: float = 1.0) -> MeasuredModel:
    del B_X
    features = token_features(model.encoding)
    known = _known(model, features)
    c = finite_matrix(model.W_C, "W_C") @ finite_vector(model.w, "w")
    W_V = finite_matrix(model.W_V, "W_V")
    quantities = {"W_QK_F": _absorbed_scores(model, features)}
    if model.activation == "identity":
        v = W_V @ c
        quantities["v_2"] = _positive(upper(norm_2(features.absorb(v[:, None])[:, 0])), "v")
        quantities["B_phi"] = _possible(model, v[:, None])

        def build(q: Quantities) -> FunctionClass:
            return linear_head(q["W_QK_F"], q["v_2"], B_phi=q["B_phi"], one_query=True, **known)
    else:
        norms = matrix_norms(features.absorb(W_V), "W_V")
        quantities |= _nonzero_quantities("W_V", norms)
        quantities["c_2"] = _positive(upper(float(np.linalg.norm(c))), "W_C w")
        quantities["B_phi"] = _possible(model, W_V)
        slope, k = activation_lipschitz(model.activation), W_V.shape[1]

        def build(q: Quantities) -> FunctionClass:
            return scalar_head(
                q["W_QK_F"], q["W_V_2"], q["W_V_21"], q["c_2"], k=k, W_V_F=q["W_V_F"],
                L_sigma=slope, B_phi=q["B_phi"], one_query=True, **known,
            )  # fmt: skip

    return MeasuredModel("ClsScalar", quantities, build, model.T, features.alphabet, model.norm)


@measure.register
def _(model: ClsMLP, *, B_X: float = 1.0) -> MeasuredModel:
    del B_X
    features = token_features(model.encoding)
    known = _known(model, features)
    values = finite_matrix(model.W_V, "W_V") @ finite_matrix(model.W_1, "W_1")
    U = np.vstack([features.absorb(values), finite_vector(model.b_1, "b_1")[None, :]])
    quantities = {
        "W_QK_F": _absorbed_scores(model, features),
        **_nonzero_quantities("U", matrix_norms(U, "U")),
        "w_2": _positive(upper(norm_2(model.w_2, "w_2")), "w_2"),
        "reach": _possible(model, values),
    }
    b_2 = abs(float(model.b_2))
    if b_2 > 0:
        quantities["b_2"] = upper(b_2)
    hidden = values.shape[1]

    def build(q: Quantities) -> FunctionClass:
        return mlp_head(
            q["W_QK_F"], matrix_of(q, "U"), q["w_2"], hidden=hidden, reach=q["reach"],
            b_2=q.get("b_2"), one_query=True, **known,
        )  # fmt: skip

    return MeasuredModel("ClsMLP", quantities, build, model.T, features.alphabet, model.norm)


def _nonzero_quantities(name: str, norms: MatrixNorms) -> Quantities:
    _positive(norms.norm_F, name)
    return matrix_quantities(name, norms)


@measure.register
def _(layer: AttentionLayer, *, B_X: float = 1.0) -> MeasuredModel:
    """A full layer of H heads on tokens of length B_X."""
    require(
        layer.activation == "identity",
        "activation",
        "identity (for others use ClsScalar or PaperStack)",
        layer.activation,
    )
    scale = attention_scale(layer.W_Q.shape[2], layer.scale)
    quantities: Quantities = {}
    W_Q, W_K, W_V, W_C = (np.asarray(W) for W in (layer.W_Q, layer.W_K, layer.W_V, layer.W_C))
    pairs = [(norms_QK(W_Q[h], W_K[h], scale), norms_VO(W_V[h], W_C[h])) for h in range(len(W_Q))]
    for h, (qk, vo) in enumerate(pairs):
        quantities |= _nonzero_quantities(f"h{h} W_QK", qk)
        quantities |= _nonzero_quantities(f"h{h} W_VO", vo)
    inputs, d, d_out = inputs_for(layer.norm, B_X), W_Q.shape[1], W_C.shape[2]

    def build(q: Quantities) -> FunctionClass:
        rows = [
            ResidualHead(matrix_of(q, f"h{h} W_QK", qk.rank), matrix_of(q, f"h{h} W_VO", vo.rank))
            for h, (qk, vo) in enumerate(pairs)
        ]
        cls = multi_head(rows, d=d, d_out=d_out, inputs=inputs, full=True)
        return _on_tokens(cls, B_X)

    return MeasuredModel("AttentionLayer", quantities, build, norm=layer.norm, B_X=B_X)


def _on_tokens(cls: FunctionClass, B_X: float) -> FunctionClass:
    """The same class with the assumption about its tokens printed."""
    return replace(cls, assumptions=(*cls.assumptions, *token_assumptions(B_X)))


@measure.register
def _(head: Head, *, B_X: float = 1.0) -> MeasuredModel:
    """A head built from Linear maps, all of them trained: f = (W_V W_out)^T sum_t a_t x_t."""
    linear = isinstance(head.phi_in, Linear) and isinstance(head.phi_out, Linear)
    require(linear, "phi_in, phi_out", "Linear maps (others have no known constants)", "a function")
    W_V, W_out = (np.asarray(phi.W) for phi in (head.phi_in, head.phi_out))  # type: ignore[attr-defined]
    qk, (d_z, d) = _score_norms(head.score)
    vo, d_out = norms_VO(W_V, W_out), W_out.shape[1]
    quantities = {**_nonzero_quantities("W_QK", qk), **_nonzero_quantities("W_VO", vo)}
    inputs = inputs_for(head.norm, B_X)

    def build(q: Quantities) -> FunctionClass:
        if d_out == 1:
            width = d if d_z == d else None
            cls = linear_head(q["W_QK_F"], q["W_VO_F"], inputs=inputs, d=width, rank=qk.rank)
            return _on_tokens(cls, B_X)
        row = ResidualHead(matrix_of(q, "W_QK", qk.rank), matrix_of(q, "W_VO", vo.rank))
        return _on_tokens(multi_head([row], d=d, d_z=d_z, d_out=d_out, inputs=inputs), B_X)

    return MeasuredModel("Head", quantities, build, norm=head.norm, B_X=B_X)


def _score_norms(score: Any) -> tuple[MatrixNorms, tuple[int, int]]:
    """The norms of W_QK, and the widths of context and token."""
    if isinstance(score, BilinearScore):
        d_z, d = score.W_QK.shape
        return matrix_norms(score.W_QK, "W_QK"), (d_z, d)
    if isinstance(score, FactoredScore):
        scale = attention_scale(score.W_Q.shape[1], score.scale)
        widths = (score.W_Q.shape[0], score.W_K.shape[0])
        return norms_QK(score.W_Q, score.W_K, scale), widths
    raise InputError(f"score: wanted BilinearScore or FactoredScore, got {type(score).__name__}")


@measure.register
def _(stack: PaperStack, *, B_X: float = 1.0) -> MeasuredModel:
    del B_X
    features = token_features(stack.encoding)
    require(
        features.M is None, "encoding", "a fixed encoding (a stack trains its own)", "trainable"
    )
    quantities = {"w_2": _positive(upper(norm_2(stack.w, "w")), "w")}
    for i, block in enumerate(stack.blocks):
        scale = attention_scale(block.W_Q.shape[1], block.scale)
        qk = norms_QK(block.W_Q, block.W_K, scale)
        quantities |= _nonzero_quantities(f"L{i} W_QK", qk)
        for name, W in (("W_V", block.W_V), ("W_C", block.W_C)):
            quantities |= _nonzero_quantities(f"L{i} {name}", matrix_norms(W, name))

    def build(q: Quantities) -> FunctionClass:
        layers = [_paper_layer(block, q, f"L{i} ") for i, block in enumerate(stack.blocks)]
        return paper_network(layers, q["w_2"], B_X=features.B_X)

    return MeasuredModel("PaperStack", quantities, build, stack.T, 2, stack.blocks[0].norm)


def _paper_layer(block: PaperBlock, q: Quantities, label: str) -> PaperLayer:
    (d, rank), k, d_out = block.W_Q.shape, block.W_V.shape[1], block.W_C.shape[1]
    return PaperLayer(
        matrix_of(q, f"{label}W_QK", rank),
        matrix_of(q, f"{label}W_V"),
        matrix_of(q, f"{label}W_C"),
        d,
        k,
        activation_lipschitz(block.activation),
        weighting_of(block.norm),
        d_out,
    )


@measure.register
def _(model: Transformer, *, B_X: float = 1.0) -> MeasuredModel:
    del B_X
    return measure_transformer(model)
