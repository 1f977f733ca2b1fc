"""The practical Transformer of `capax.attention`, by its matrices: Theorem 4.7 (LN) or (U).

Embeddings are one more piece: a token is M^T phi with a two-hot feature phi of length sqrt(2), and
only alphabet T + 1 of them exist. A model of one layer can also be taken apart by its tables
(`one_layer_bounds`); its class is the networks that satisfy both sets of norms, and the smaller
cover counts.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm
from capax.attention.parts.activations import activation_lipschitz
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.capacity.linear.norms import MatrixNorms, finite_matrix, matrix_norms, upper
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.layer_pieces import Shape, matrix_piece
from capax.capacity.network.network_bounds import ResidualBlock, residual_network
from capax.capacity.weights.assumptions import weighting_of
from capax.capacity.weights.block_norms import BlockWeights, Fold, block_norms, folded
from capax.capacity.weights.measured import (
    ALMOST_ZERO,
    MeasuredModel,
    Quantities,
    matrix_of,
    matrix_quantities,
)
from capax.capacity.weights.one_layer_bounds import one_layer_class, table_quantities
from capax.errors import require

Array = Float[np.ndarray, "..."]


def measure_transformer(model: Transformer) -> MeasuredModel:
    """The quantities of a Transformer: matrix norms, and tables too if it has one layer."""
    finite_matrix(model.embed, "embed")
    finite_matrix(model.position, "position")
    blocks = [block_norms(_weights(block)) for block in model.blocks]
    quantities = {"w_2": _read_out_norm(model), **_embedding_quantities(model)}
    for i, block in enumerate(blocks):
        quantities |= _block_quantities(block, f"L{i} ")
    one = len(blocks) == 1
    if one:
        quantities |= table_quantities(model)

    def build(q: Quantities) -> FunctionClass:
        rebuilt = [_rebuilt(block, q, f"L{i} ") for i, block in enumerate(blocks)]
        matrices = _matrix_class(model, rebuilt, q)
        if not one:
            return matrices
        tables = one_layer_class(model, rebuilt[0], q)
        return replace(tables, others=(matrices.build,))

    spec = model.spec
    name = f"Transformer ({len(blocks)} layer{'' if one else 's'})"
    return MeasuredModel(name, quantities, build, spec.T, spec.alphabet, model.blocks[0].norm)


def _fold(ln: LayerNorm | None) -> Fold:
    return None if ln is None else (_plain(ln.gain), _plain(ln.bias))


def _plain(array: object) -> Array:
    return np.asarray(array, np.float64)


def _weights(block: Block) -> BlockWeights:
    names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
    arrays: dict[str, Any] = {name: _plain(getattr(block, name)) for name in names}
    return BlockWeights(
        **arrays,
        W_1=_plain(block.W_in),
        b_1=_plain(block.b_in),
        W_2=_plain(block.W_out),
        b_2=_plain(block.b_out),
        ln_1=_fold(block.ln1),
        ln_2=_fold(block.ln2),
        scale=attention_scale(block.W_Q.shape[-1], block.scale),
        L_sigma=activation_lipschitz(block.activation),
        weighting=weighting_of(block.norm),
    )


def _read_out_norm(model: Transformer) -> float:
    w = folded(_plain(model.w)[:, None], _plain(model.b).reshape(1), _fold(model.ln_final), "w")
    norm = upper(float(np.linalg.norm(w)))
    require(norm > 0, "w", "a read-out that is not zero", "a norm of 0")
    return norm


def _named(block: ResidualBlock) -> dict[str, MatrixNorms]:
    """The matrices of a block by name; sums of absolute entries give no smaller count here."""
    pairs = {
        f"h{h} {name}": norms
        for h, pair in enumerate(block.heads)
        for name, norms in zip(("W_QK", "W_VO"), pair, strict=True)
    }
    rest = {"W_1": block.W_1, "W_2": block.W_2, "b_O": block.b_O}
    found = {**pairs, **{name: norms for name, norms in rest.items() if norms is not None}}
    return {name: replace(norms, norm_1_1=math.inf) for name, norms in found.items()}


def _block_quantities(block: ResidualBlock, label: str) -> Quantities:
    rows: Quantities = {}
    for name, norms in _named(block).items():
        rows |= matrix_quantities(f"{label}{name}", norms)
    return rows


def _rebuilt(block: ResidualBlock, q: Quantities, label: str) -> ResidualBlock:
    """The same block with the quantities of q for its norms; ranks belong to the architecture."""
    named = {name: matrix_of(q, f"{label}{name}", old.rank) for name, old in _named(block).items()}
    heads = tuple((named[f"h{h} W_QK"], named[f"h{h} W_VO"]) for h in range(len(block.heads)))
    return replace(block, heads=heads, W_1=named["W_1"], W_2=named["W_2"], b_O=named.get("b_O"))


def _embedding_quantities(model: Transformer) -> Quantities:
    parts = (model.position, model.embed, _plain(model.cls)[None, :])
    M = np.concatenate([_plain(part) for part in parts])
    tokens = _plain(model.embed)[None] + _plain(model.position)[:, None]
    longest = max(float(np.linalg.norm(tokens, axis=-1).max()), float(np.linalg.norm(M[-1])))
    norms = replace(matrix_norms(M, "embed"), norm_1_1=math.inf)
    return {**matrix_quantities("embed", norms), "B_X": max(upper(longest), ALMOST_ZERO)}


def _matrix_class(model: Transformer, blocks: list[ResidualBlock], q: Quantities) -> FunctionClass:
    spec = model.spec
    shape, points = Shape(spec.T + spec.alphabet + 1, spec.d), spec.alphabet * spec.T + 1
    embed = matrix_piece(
        "embeddings", matrix_of(q, "embed"), 0.5 * math.log(2.0), 0.0, points, spec.d, shape
    )
    form = "layer_norm" if spec.layer_norm else "unbounded"
    eps = LAYER_NORM_EPSILON
    return residual_network(
        blocks, q["w_2"], B_X=q["B_X"], shape=form, layer_norm_eps=eps, embedding=embed
    )
