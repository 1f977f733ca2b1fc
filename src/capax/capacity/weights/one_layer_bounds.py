"""One layer with [CLS] read-out by its tables: a token acts by its (position, symbol) only.

Scores and values of a token depend on (position, symbol) only, so the head is a linear class on
fixed features, however the tables arose (`table_norms`). The maps after the attention (MLP,
LayerNorm, read-out) are covered as in Theorem 4.7; a LayerNorm there costs its factor
1/sqrt(eps_0).
"""

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from capax.attention.block import LAYER_NORM_EPSILON, LayerNorm
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import matrix_norms
from capax.capacity.magnitude import log_sum
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.layer_pieces import (
    Inputs,
    Shape,
    matrix_piece,
    only_frobenius,
    score_piece,
)
from capax.capacity.network.network_bounds import (
    LayerNorms,
    ResidualBlock,
    layer_norms,
    mlp_stage,
    read_out_stage,
)
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import Stage, compose
from capax.capacity.weights.assumptions import inputs_for
from capax.capacity.weights.measured import ALMOST_ZERO, Quantities, matrix_of, matrix_quantities
from capax.capacity.weights.table_norms import (
    FEATURE_NORM,
    score_table_norm,
    value_reach,
    value_table_norms,
)

Array = Float[np.ndarray, "..."]


def head_tables(model: Transformer, h: int) -> tuple[Array, float, Array, Array]:
    """Scores g[t, c], g_* and values v[t, c, :], v_* (through W_O) of head h, constants included.

    Where the weights sum to one, the first head carries b_O and the [CLS] residual: a constant may
    be added to all values. The key bias is a constant in all scores; it matters only to a Norm
    that is not shift-invariant, and is always in them.
    """
    block = model.blocks[0]
    symbols = _plain(model.embed)[None] + _plain(model.position)[:, None]  # [T, A, d]
    X, cls = _normed(block.ln1, symbols), _normed(block.ln1, _plain(model.cls))
    W_Q, W_K, W_V, W_O = (_plain(W)[h] for W in (block.W_Q, block.W_K, block.W_V, block.W_O))
    scale = attention_scale(W_Q.shape[1], block.scale)
    query = (cls @ W_Q + _plain(block.b_Q)[h]) * scale
    key, shift = W_K @ query, float(_plain(block.b_K)[h] @ query)
    constant = _plain(block.b_V)[h] @ W_O
    if h == 0 and block.norm.stochastic:
        constant = constant + stream_constant(model)
    W = W_V @ W_O
    return X @ key + shift, float(cls @ key) + shift, X @ W + constant, cls @ W + constant


def stream_constant(model: Transformer) -> Array:
    """The parts of the [CLS] row besides its heads: its residual and b_O."""
    return _plain(model.blocks[0].b_O) + _plain(model.cls)


def _plain(array: object) -> Array:
    return np.asarray(array, np.float64)


def _normed(ln: LayerNorm | None, x: Array) -> Array:
    if ln is None:
        return x
    centred = x - x.mean(axis=-1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    return unit * _plain(ln.gain) + _plain(ln.bias)


def table_quantities(model: Transformer) -> Quantities:
    """Score norm, value norms and reach of every head, and the constant that no head carries."""
    norm = model.blocks[0].norm
    rows: Quantities = {}
    for h in range(model.spec.heads):
        g, g_cls, v, v_cls = head_tables(model, h)
        score = score_table_norm(g, g_cls, norm.shift_invariant)
        rows[f"h{h} table_F"] = max(score, ALMOST_ZERO)
        # no sum of absolute entries: it would count feature weights, not the rows of the table
        norms = replace(value_table_norms(v, v_cls), norm_1_1=math.inf)
        rows |= matrix_quantities(f"h{h} V", norms)
        rows[f"h{h} reach"] = max(value_reach(v, v_cls, norm.stochastic).radius, ALMOST_ZERO)
    if not norm.stochastic:
        rows |= matrix_quantities("constant", matrix_norms(stream_constant(model)[None, :]))
    return rows


def one_layer_class(model: Transformer, block: ResidualBlock, q: Quantities) -> FunctionClass:
    """Corollary 4.5 on the tables of every head, then MLP and read-out as in Theorem 4.7."""
    spec = model.spec
    inputs = inputs_for(model.blocks[0].norm, FEATURE_NORM, 1.0)
    ln = layer_norms("layer_norm", LAYER_NORM_EPSILON) if spec.layer_norm else LayerNorms()
    constant = None if model.blocks[0].norm.stochastic else matrix_of(q, "constant")

    def build(sample: Sample) -> tuple[Piece, ...]:
        N_v, log_B = sample.sequences, math.log(FEATURE_NORM)
        pieces = [p for h in range(spec.heads) for p in _table_pieces(model, q, h, inputs, sample)]
        sizes = [math.log(q[f"h{h} V_2"]) + log_B for h in range(spec.heads)]
        if constant is not None:
            one = Shape(1, spec.d)
            pieces.append(matrix_piece("b_O + [CLS]", constant, 0.0, 0.0, 1, spec.d, one))
            sizes.append(math.log(constant.norm_2))
        mlp, log_B = mlp_stage(block, log_sum(sizes), N_v, "", ln)
        read = read_out_stage(q["w_2"], spec.d, log_B, N_v, ln)
        return compose([Stage(0.0, tuple(pieces)), mlp, read])

    return FunctionClass(
        statement=f"Corollary 4.5 on token tables (one layer, H = {spec.heads})",
        build=build,
        norms=q,
        assumptions=(INDEPENDENT,),
        latex=r"\frac1{\epsilon^2}\Big[\sum_i(\alpha_i^2C_i)^{1/3}\Big]^3",
        formula="(1/eps^2) [sum over heads, MLP, read-out of (alpha^2 C)^(1/3)]^3",
        notes=("a LayerNorm after the attention costs 1/sqrt(eps_0) = 316",)
        if spec.layer_norm
        else (),
        weighting=inputs.weighting,
        read_outs=1,
    )


def _table_pieces(
    model: Transformer, q: Quantities, h: int, inputs: Inputs, sample: Sample
) -> tuple[Piece, Piece]:
    """Scores and values of head h: every table has alphabet T + 1 rows."""
    d, rows = model.spec.d, model.spec.alphabet * model.spec.T + 1
    scores = score_piece(
        only_frobenius(q[f"h{h} table_F"]), math.log(q[f"h{h} reach"]), inputs.weighting, sample,
        sample.cls_pairs, inputs.log_pair, Shape(1, rows), f"h{h} scores",
    )  # fmt: skip
    V = matrix_of(q, f"h{h} V")
    log_b = math.log(FEATURE_NORM)
    values = matrix_piece(f"h{h} V", V, log_b, 0.0, sample.sequences, d, Shape(rows, d))
    return scores, values
