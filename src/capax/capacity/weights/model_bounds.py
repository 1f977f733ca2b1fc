"""Does it apply to my model? Each module of `capax.attention` by its type, measured for bounds.

`measure(module)` answers with the quantities, the statement that covers them and the assumptions;
a type without a statement is refused in one line that names the types that have one.
"""

from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from capax.attention.activations import activation_lipschitz
from capax.attention.head import Head, Linear
from capax.attention.layer import AttentionLayer
from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.scores import BilinearScore, FactoredScore, attention_scale
from capax.attention.stack import PaperStack
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
from capax.capacity.network.head_bounds import attention_head, linear_head, scalar_head
from capax.capacity.network.multi_head_bounds import ResidualHead, mlp_head, multi_head
from capax.capacity.network.network_bounds import PaperLayer, paper_network
from capax.capacity.weights.assumptions import inputs_for, normalizer_assumption
from capax.capacity.weights.measured import Measured
from capax.capacity.weights.table_norms import value_reach
from capax.capacity.weights.token_features import Features, token_features
from capax.capacity.weights.transformer_bounds import measure_transformer
from capax.errors import InputError, require

SUPPORTED = "ClsScalar, ClsMLP, AttentionLayer, Head, PaperStack, Transformer"


@singledispatch
def measure(module: Any, *, B_X: float = 1.0) -> Measured:
    """The quantities of a module and its class. B_X: token length where the module has no encoding.

    Raises InputError for a type without a statement, NaN weights, or a normalizer that is not
    Lipschitz (Assumption 4.1).
    """
    del B_X
    raise InputError(f"module: no bound for {type(module).__name__}; there is one for {SUPPORTED}")


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
    """B_phi: the distance of W^T x from one centre, over every token that can occur."""
    W_jax = jnp.asarray(W, model.W_V.dtype)
    tokens = [model.encoding(jnp.full(model.T, bit, jnp.int32)) for bit in (0, 1)]
    rows = [np.asarray(X @ W_jax, np.float64) for X in tokens]
    tables = np.stack([row[:-1] for row in rows], axis=1)  # [T, 2, k]
    return _positive(value_reach(tables, rows[0][-1]).radius, "W_V")


@measure.register
def _(model: ClsScalar, *, B_X: float = 1.0) -> Measured:
    del B_X
    features = token_features(model.encoding)
    inputs = inputs_for(model.norm, model.T, features.B_X, 1.0, features.r_X)
    c = finite_matrix(model.W_C, "W_C") @ finite_vector(model.w, "w")
    W_V = finite_matrix(model.W_V, "W_V")
    quantities = {"W_QK_F": _absorbed_scores(model, features)}
    if model.activation == "identity":
        v = W_V @ c
        quantities["v_2"] = _positive(upper(norm_2(features.absorb(v[:, None])[:, 0])), "v")
        quantities["B_phi"] = _possible(model, v[:, None])

        def build(q: dict[str, float]) -> FunctionClass:
            return linear_head(q["W_QK_F"], q["v_2"], B_phi=q["B_phi"], inputs=inputs)
    else:
        norms = matrix_norms(features.absorb(W_V), "W_V")
        quantities |= _matrix_quantities("W_V", norms)
        quantities["c_2"] = _positive(upper(float(np.linalg.norm(c))), "W_C w")
        quantities["B_phi"] = _possible(model, W_V)
        slope, k = activation_lipschitz(model.activation), W_V.shape[1]

        def build(q: dict[str, float]) -> FunctionClass:
            return scalar_head(
                q["W_QK_F"], q["W_V_2"], q["W_V_21"], q["c_2"], k=k, W_V_F=q["W_V_F"],
                L_sigma=slope, B_phi=q["B_phi"], inputs=inputs,
            )  # fmt: skip

    checks = (normalizer_assumption(model.norm, model.T + 1),)
    return Measured("ClsScalar", quantities, build, model.T, features.alphabet, checks)


@measure.register
def _(model: ClsMLP, *, B_X: float = 1.0) -> Measured:
    del B_X
    features = token_features(model.encoding)
    inputs = inputs_for(model.norm, model.T, features.B_X, 1.0, features.r_X)
    values = finite_matrix(model.W_V, "W_V") @ finite_matrix(model.W_1, "W_1")
    U = np.vstack([features.absorb(values), finite_vector(model.b_1, "b_1")[None, :]])
    quantities = {
        "W_QK_F": _absorbed_scores(model, features),
        **_matrix_quantities("U", matrix_norms(U, "U")),
        "w_2": _positive(upper(norm_2(model.w_2, "w_2")), "w_2"),
        "reach": _possible(model, values),
    }
    b_2 = abs(float(model.b_2))
    if b_2 > 0:
        quantities["b_2"] = upper(b_2)
    hidden = values.shape[1]

    def build(q: dict[str, float]) -> FunctionClass:
        norms = MatrixNorms(q["U_2"], q["U_F"], q["U_21"], q["U_21"])
        return mlp_head(
            q["W_QK_F"], norms, q["w_2"], hidden=hidden, reach=q["reach"], b_2=q.get("b_2"),
            inputs=inputs,
        )  # fmt: skip

    checks = (normalizer_assumption(model.norm, model.T + 1),)
    return Measured("ClsMLP", quantities, build, model.T, features.alphabet, checks)


def _matrix_quantities(name: str, norms: MatrixNorms) -> dict[str, float]:
    values = {f"{name}_2": norms.norm_2, f"{name}_F": norms.norm_F, f"{name}_21": norms.norm_2_1}
    return {key: _positive(value, name) for key, value in values.items()}


@measure.register
def _(layer: AttentionLayer, *, B_X: float = 1.0) -> Measured:
    """A full layer of H heads on tokens of length B_X; sigma between W_V and W_C adds its slope."""
    require(
        layer.activation == "identity",
        "activation",
        "identity (for others use ClsScalar or PaperStack)",
        layer.activation,
    )
    scale = attention_scale(layer.W_Q.shape[2], layer.scale)
    quantities: dict[str, float] = {}
    W_Q, W_K, W_V, W_C = (np.asarray(W) for W in (layer.W_Q, layer.W_K, layer.W_V, layer.W_C))
    for h in range(len(W_Q)):
        quantities[f"h{h} W_QK_F"] = _positive(norms_QK(W_Q[h], W_K[h], scale).norm_F, "W_QK")
        vo = norms_VO(W_V[h], W_C[h])
        quantities |= {f"h{h} {k}": v for k, v in _matrix_quantities("W_VO", vo).items()}
    d, heads = layer.W_C.shape[2], layer.W_Q.shape[0]
    inputs = inputs_for(layer.norm, 1, B_X)

    def build(q: dict[str, float]) -> FunctionClass:
        rows = [
            ResidualHead(
                MatrixNorms.known(norm_F=q[f"h{h} W_QK_F"], norm_2_1=q[f"h{h} W_QK_F"]),
                MatrixNorms(q[f"h{h} W_VO_2"], q[f"h{h} W_VO_F"], q[f"h{h} W_VO_21"], np.inf),
            )
            for h in range(heads)
        ]
        return multi_head(rows, d=d, inputs=inputs, full=True)

    checks = (normalizer_assumption(layer.norm, 2),)
    return Measured("AttentionLayer", quantities, build, assumptions=checks)


@measure.register
def _(head: Head, *, B_X: float = 1.0) -> Measured:
    """A head built from Linear maps: phi_out is taken as fixed."""
    linear = isinstance(head.phi_in, Linear) and isinstance(head.phi_out, Linear)
    require(linear, "phi_in, phi_out", "Linear maps (others have no known constants)", "a function")
    W_V = matrix_norms(head.phi_in.W, "W_V")  # type: ignore[attr-defined]
    L_out = matrix_norms(head.phi_out.W, "phi_out").norm_2  # type: ignore[attr-defined]
    quantities = {"W_QK_F": _score_norm(head.score), **_matrix_quantities("W_V", W_V)}
    k = int(head.phi_in.W.shape[1])  # type: ignore[attr-defined]
    inputs = inputs_for(head.norm, 1, B_X)

    def build(q: dict[str, float]) -> FunctionClass:
        return attention_head(
            q["W_QK_F"], q["W_V_2"], q["W_V_21"], k=k, W_V_F=q["W_V_F"], L_out=L_out,
            inputs=inputs,
        )  # fmt: skip

    return Measured("Head", quantities, build, assumptions=(normalizer_assumption(head.norm, 2),))


def _score_norm(score: Any) -> float:
    if isinstance(score, BilinearScore):
        return _positive(matrix_norms(score.W_QK, "W_QK").norm_F, "W_QK")
    if isinstance(score, FactoredScore):
        scale = attention_scale(score.W_Q.shape[1], score.scale)
        return _positive(norms_QK(score.W_Q, score.W_K, scale).norm_F, "W_QK")
    raise InputError(f"score: wanted BilinearScore or FactoredScore, got {type(score).__name__}")


@measure.register
def _(stack: PaperStack, *, B_X: float = 1.0) -> Measured:
    del B_X
    features = token_features(stack.encoding)
    require(
        features.M is None, "encoding", "a fixed encoding (a stack trains its own)", "trainable"
    )
    quantities = {"w_2": _positive(upper(norm_2(stack.w, "w")), "w")}
    for i, block in enumerate(stack.blocks):
        scale = attention_scale(block.W_Q.shape[1], block.scale)
        qk = norms_QK(block.W_Q, block.W_K, scale)
        quantities |= {f"L{i} {k}": v for k, v in _matrix_quantities("W_QK", qk).items()}
        for name, W in (("W_V", block.W_V), ("W_C", block.W_C)):
            rows = _matrix_quantities(name, matrix_norms(W, name))
            quantities |= {f"L{i} {k}": v for k, v in rows.items()}
    sizes = [(b.W_V.shape, activation_lipschitz(b.activation), b.norm) for b in stack.blocks]

    def build(q: dict[str, float]) -> FunctionClass:
        layers = []
        for i, ((d, k), slope, norm) in enumerate(sizes):
            inputs = inputs_for(norm, stack.T, features.B_X)
            W_QK, W_V, W_C = (_norms_from(q, f"L{i} {name}") for name in ("W_QK", "W_V", "W_C"))
            layers.append(PaperLayer(W_QK, W_V, W_C, d, k, slope, inputs.C_N, inputs.ratio))
        return paper_network(layers, q["w_2"], B_X=features.B_X)

    checks = tuple(normalizer_assumption(b.norm, stack.T + 1) for b in stack.blocks[:1])
    return Measured("PaperStack", quantities, build, stack.T, None, checks)


def _norms_from(q: dict[str, float], name: str) -> MatrixNorms:
    return MatrixNorms(q[f"{name}_2"], q[f"{name}_F"], q[f"{name}_21"], q[f"{name}_21"])


@measure.register
def _(model: Transformer, *, B_X: float = 1.0) -> Measured:
    del B_X
    return measure_transformer(model)
