"""The practical Transformer of `capax.attention`: one layer by its tables, deeper ones by (LN).

One layer with [CLS] read-out: scores and values of a token depend on (position, symbol) only, so
the head is a linear class on fixed features whatever produced the tables (`table_norms`). What
follows the attention (MLP, LayerNorm, read-out) is covered as in Theorem 4.7; a LayerNorm there
costs its factor 1/sqrt(eps_0).
"""

import math

import numpy as np
from jaxtyping import Float

from capax.attention.activations import activation_lipschitz
from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm
from capax.attention.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.capacity.linear.norms import MatrixNorms, finite_matrix, matrix_norms, upper
from capax.capacity.linear.pieces import Piece
from capax.capacity.magnitude import log_sum
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.layer_pieces import matrix_piece, score_piece
from capax.capacity.network.network_bounds import (
    ResidualBlock,
    matrix,
    mlp_stage,
    read_out_stage,
    residual_network,
)
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import Stage, compose
from capax.capacity.weights.assumptions import inputs_for, normalizer_assumption
from capax.capacity.weights.block_norms import BlockWeights, Fold, block_norms, folded
from capax.capacity.weights.measured import Measured
from capax.capacity.weights.table_norms import (
    FEATURE_NORM,
    score_table_norm,
    value_reach,
    value_table_norms,
)
from capax.errors import require

LOG_LN = -0.5 * math.log(LAYER_NORM_EPSILON)
Array = Float[np.ndarray, "..."]


def measure_transformer(model: Transformer) -> Measured:
    """The quantities of a Transformer: tables for one layer, matrix norms for more."""
    finite_matrix(model.embed, "embed")
    finite_matrix(model.position, "position")
    quantities = {"w_2": _read_out_norm(model)}
    blocks = [block_norms(_weights(block)) for block in model.blocks]
    one = len(blocks) == 1
    for i, block in enumerate(blocks):
        quantities |= _block_quantities(block, f"L{i} ", heads=not one)
    quantities |= _table_quantities(model) if one else _embedding_quantities(model)
    make = _one_layer_class if one else _deep_class
    checks = (normalizer_assumption(model.blocks[0].norm, model.spec.T + 1),)
    return Measured(
        f"Transformer ({len(blocks)} layer{'' if one else 's'})",
        quantities,
        lambda q: make(model, blocks, q),
        model.spec.T,
        model.spec.alphabet,
        checks,
    )


def _fold(ln: LayerNorm | None) -> Fold:
    return None if ln is None else (_plain(ln.gain), _plain(ln.bias))


def _plain(array: object) -> Array:
    return np.asarray(array, np.float64)


def _weights(block: Block) -> BlockWeights:
    names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_V", "b_O")
    inputs = inputs_for(block.norm, 1, 1.0)
    return BlockWeights(
        **{name: _plain(getattr(block, name)) for name in names},
        W_1=_plain(block.W_in),
        b_1=_plain(block.b_in),
        W_2=_plain(block.W_out),
        b_2=_plain(block.b_out),
        ln_1=_fold(block.ln1),
        ln_2=_fold(block.ln2),
        scale=attention_scale(block.W_Q.shape[-1], block.scale),
        L_sigma=activation_lipschitz(block.activation),
        C_N=inputs.C_N,
        ratio=inputs.ratio,
    )


def _read_out_norm(model: Transformer) -> float:
    w = folded(_plain(model.w)[:, None], _plain(model.b).reshape(1), _fold(model.ln_final), "w")
    norm = upper(float(np.linalg.norm(w)))
    require(norm > 0, "w", "a read-out that is not zero", "a norm of 0")
    return norm


def _block_quantities(block: ResidualBlock, label: str, heads: bool) -> dict[str, float]:
    rows: dict[str, float] = {}
    named = [
        (f"h{h} {n}", x) for h, p in enumerate(block.heads) for n, x in zip(QK_VO, p, strict=True)
    ]
    for name, norms in [*(named if heads else []), ("W_1", block.W_1), ("W_2", block.W_2)]:
        if norms is not None:
            rows |= _three(f"{label}{name}", norms)
    return rows


QK_VO = ("W_QK", "W_VO")


def _three(name: str, norms: MatrixNorms) -> dict[str, float]:
    """The three norms of a matrix; a zero matrix counts as 1e-12, the grid has no zero."""
    values = {"2": norms.norm_2, "F": norms.norm_F, "21": norms.norm_2_1}
    return {f"{name}_{key}": max(value, 1e-12) for key, value in values.items()}


def _norms(q: dict[str, float], name: str) -> MatrixNorms:
    return MatrixNorms(q[f"{name}_2"], q[f"{name}_F"], q[f"{name}_21"], math.inf)


def _rebuilt(block: ResidualBlock, q: dict[str, float], label: str, heads: bool) -> ResidualBlock:
    pairs = tuple(
        (_norms(q, f"{label}h{h} W_QK"), _norms(q, f"{label}h{h} W_VO"))
        for h in range(len(block.heads) if heads else 0)
    )
    W_1, W_2 = _norms(q, f"{label}W_1"), _norms(q, f"{label}W_2")
    sizes = (block.d, block.hidden, block.L_sigma, block.C_N, block.ratio)
    return ResidualBlock(pairs, W_1, W_2, *sizes)


# ---- deeper models ---------------------------------------------------------------------------


def _embedding_quantities(model: Transformer) -> dict[str, float]:
    parts = (model.position, model.embed, _plain(model.cls)[None, :])
    M = np.concatenate([_plain(part) for part in parts])
    tokens = _plain(model.embed)[None] + _plain(model.position)[:, None]
    longest = max(float(np.linalg.norm(tokens, axis=-1).max()), float(np.linalg.norm(M[-1])))
    return {**_three("embed", matrix_norms(M, "embed")), "B_X": upper(longest)}


def _deep_class(
    model: Transformer, blocks: list[ResidualBlock], q: dict[str, float]
) -> FunctionClass:
    spec = model.spec
    features, points = spec.T + spec.alphabet + 1, spec.alphabet * spec.T + 1
    embed = matrix(
        "embeddings", _norms(q, "embed"), 0.5 * math.log(2.0), 0.0, points, spec.d, features
    )
    rebuilt = [_rebuilt(block, q, f"L{i} ", heads=True) for i, block in enumerate(blocks)]
    shape = "layer_norm" if spec.layer_norm else "unbounded"
    eps = LAYER_NORM_EPSILON
    return residual_network(
        rebuilt, q["w_2"], B_X=q["B_X"], shape=shape, layer_norm_eps=eps, embedding=embed
    )


# ---- one layer -------------------------------------------------------------------------------


def head_tables(model: Transformer, h: int) -> tuple[Array, float, Array, Array]:
    """Scores g[t, c], g_* and values v[t, c, :], v_* (through W_O) of head h, constants included.

    The first head carries b_O and the [CLS] residual: weights sum to one, so a constant may be
    added to all values.
    """
    block = model.blocks[0]
    symbols = _plain(model.embed)[None] + _plain(model.position)[:, None]  # [T, A, d]
    X, cls = _normed(block.ln1, symbols), _normed(block.ln1, _plain(model.cls))
    W_Q, W_K, W_V, W_O = (_plain(W)[h] for W in (block.W_Q, block.W_K, block.W_V, block.W_O))
    scale = attention_scale(W_Q.shape[1], block.scale)
    query = (cls @ W_Q + _plain(block.b_Q)[h]) * scale
    key = W_K @ query  # the key bias adds a constant to all scores
    constant = _plain(block.b_V)[h] @ W_O
    if h == 0:
        constant = constant + _plain(block.b_O) + _plain(model.cls)
    W = W_V @ W_O
    return X @ key, float(cls @ key), X @ W + constant, cls @ W + constant


def _normed(ln: LayerNorm | None, x: Array) -> Array:
    if ln is None:
        return x
    centred = x - x.mean(axis=-1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    return unit * _plain(ln.gain) + _plain(ln.bias)


def _table_quantities(model: Transformer) -> dict[str, float]:
    inputs = inputs_for(model.blocks[0].norm, model.spec.T, 1.0)
    free = inputs.shift_invariant and inputs.stochastic
    require(
        free, "normalizer", "a shift-invariant one (softmax) for table norms", model.spec.normalizer
    )
    rows: dict[str, float] = {}
    for h in range(model.spec.heads):
        g, g_cls, v, v_cls = head_tables(model, h)
        rows[f"h{h} W_QK_F"] = max(score_table_norm(g, g_cls), 1e-12)
        rows |= _three(f"h{h} V", value_table_norms(v, v_cls))
        rows[f"h{h} reach"] = max(value_reach(v, v_cls).radius, 1e-12)
    return rows


def _one_layer_class(
    model: Transformer, blocks: list[ResidualBlock], q: dict[str, float]
) -> FunctionClass:
    spec = model.spec
    inputs = inputs_for(model.blocks[0].norm, spec.T, FEATURE_NORM, 1.0)
    log_ln = LOG_LN if spec.layer_norm else None
    block = _rebuilt(blocks[0], q, "L0 ", heads=False)

    def build(sample: Sample) -> tuple[Piece, ...]:
        N_v, pieces = sample.sequences, []
        for h in range(spec.heads):
            score, reach = q[f"h{h} W_QK_F"], q[f"h{h} reach"]
            V = _norms(q, f"h{h} V")
            pieces += [
                score_piece(score, reach, inputs, sample.cls_pairs, None, f"h{h} W_QK"),
                matrix_piece(f"h{h} V", V.norm_2_1, V.norm_F, FEATURE_NORM, 1.0, N_v, spec.d, None),
            ]
        heads = range(spec.heads)
        log_B = log_sum([math.log(q[f"h{h} V_2"] * FEATURE_NORM) for h in heads])
        mlp, log_B = mlp_stage(block, log_B, N_v, "", log_ln)
        read = read_out_stage(q["w_2"], spec.d, log_B, N_v, log_ln)
        return compose([Stage(0.0, tuple(pieces)), mlp, read])

    return FunctionClass(
        statement=f"Corollary 4.5 on token tables (one layer, H = {spec.heads})",
        build=build,
        norms=q,
        assumptions=(INDEPENDENT,),
        latex=r"\frac1{\epsilon^2}\Big[\sum_i(\alpha_i^2C_i)^{1/3}\Big]^3",
        formula="(1/eps^2) [sum over heads, MLP, read-out of (alpha^2 C)^(1/3)]^3",
        notes=("a LayerNorm after the attention costs 1/sqrt(eps_0) = 316",) if log_ln else (),
    )
