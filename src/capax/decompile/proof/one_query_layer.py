"""A one-layer network with one query, in the form that is proved: tables, MLP, norms, read-out.

    x = base + U W_O                                          the residual after attention
    y = LN(x), or x                                           (`norm`)
    z = kept + sigma(y W_in + b_in) W_out + b_out             kept = x, y or 0
    logit = w . rho(LN(z) W + b_W) + b                        (`final`, `pooler`; rho = tanh, ...)

Where the MLP adds to x the norm stands in front of it (pre-norm); where it adds to y the norm
stands behind the attention (post-norm, as in BERT), and `final` is the second norm of the layer.
Weights are float64 numbers; sums of stored weights are balls.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from capax.attention.transformer import Transformer
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.decompile.machine.forward_error import FloatUnit, unfit
from capax.decompile.proof.layer_rounding import LayerRounding, as_run
from capax.decompile.proof.layer_tables import LayerTables, NormWeights, layer_tables, norm_weights

Kept = Literal["residual", "normed", "nothing"]


@dataclass(frozen=True)
class Pooler:
    """rho(y W + b) in front of the read-out, as in BERT."""

    W: np.ndarray  # [d, e]
    b: np.ndarray  # [e]
    activation: str


@dataclass(frozen=True)
class OneQueryLayer:
    """Everything between the tables of the heads and the logit; see the formulas above."""

    tables: LayerTables
    norm: NormWeights | None
    kept: Kept
    W_in: np.ndarray  # [d, n]
    b_in: np.ndarray
    activation: str
    W_out: np.ndarray  # [n, d]
    b_out: np.ndarray
    final: NormWeights | None
    pooler: Pooler | None
    w: Enclosed  # [d], or [e] behind a pooler
    b: Enclosed  # []
    rounding: LayerRounding | None = None
    """What a machine adds behind the heads; None: real arithmetic."""

    @property
    def d(self) -> int:
        """Width of the residual stream."""
        return len(self.b_out)


def one_query_layer(model: Transformer) -> OneQueryLayer:
    """The form of a Transformer. Raises `InputError` where there is none (two layers)."""
    tables, block = layer_tables(model), model.blocks[0]
    hidden = (block.W_in, block.b_in, block.W_out, block.b_out)
    W_in, b_in, W_out, b_out = (np.asarray(part, np.float64) for part in hidden)
    return OneQueryLayer(
        tables, norm_weights(block.ln2), "residual", W_in, b_in, block.activation, W_out, b_out,
        norm_weights(model.ln_final), None, exactly(np.asarray(model.w)),
        exactly(np.asarray(model.b)),
    )  # fmt: skip


def layer_as_run(model: Transformer, machine: FloatUnit) -> OneQueryLayer | None:
    """The form of a Transformer with all errors of a machine; None where there is no bound."""
    if unfit(model) is not None:
        return None
    layer = one_query_layer(model)
    tables, rounding = as_run(model, layer.tables, machine)
    return replace(layer, tables=tables, rounding=rounding)
