"""A one-layer network as a machine runs it, in the form that is proved.

The machine is that of `forward_error`. Its errors are pushed back, so that the number it computes
is the exact number of a network with slightly other tables, and the enclosures hold for all these:

* scores are off by the bounds of `head_rounding`, each by itself: the radii of the table;
* p_t v_t with the share p_t, a quotient of sums of T + 1 terms: each term is off by a factor
  1 + theta, |theta| <= gamma_{2T+14}, as if v_t were; and v_t itself is off by its own error;
* the residual, a sum of H k + 2 terms: the radius of its constant part.

Behind the heads three errors are added over each cell, from the ends that the enclosure has found:
to the inputs h of the hidden units (LayerNorm, product), to z (activation, product, sums) and to
the logit (LayerNorm, product). With |n|_2 <= sqrt d they depend on the cell through sigma, the
means and |h| alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from capax.attention.block import Block
from capax.attention.transformer import Transformer
from capax.decompile.machine.forward_error import (
    FloatUnit,
    Normed,
    activation_rounding,
    head_rounding,
    norm_rounding,
    token_stream,
)
from capax.decompile.proof.layer_tables import LayerTables
from capax.rounding import UP


@dataclass(frozen=True)
class LayerRounding:
    """The errors that are added to h, to z and to the logit of a one-layer Transformer."""

    model: Transformer
    machine: FloatUnit
    reach: np.ndarray  # [d]: at least |x| after attention

    @property
    def block(self) -> Block:
        return self.model.blocks[0]

    def hidden(self, root: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """How far h is off [R, n]; root >= 1/sigma and mean >= |mean of x| over each cell [R]."""
        W, b = (np.asarray(part, np.float64) for part in (self.block.W_in, self.block.b_in))
        return self._normed(self.block.ln2, root, mean).product(W, b, self.machine).error

    def residual(self, h: np.ndarray) -> np.ndarray:
        """How far z is off [R, d], where |h| <= h [R, n]."""
        W = np.abs(np.asarray(self.block.W_out, np.float64))
        b, machine = np.abs(np.asarray(self.block.b_out, np.float64)), self.machine
        off = activation_rounding(self.block.activation, machine) * h + machine.tiny
        summed = (h + off) @ W + b + self.reach
        return (off @ W + machine.sum(len(W) + 4) * summed + machine.tiny) * UP

    def logit(self, root: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """How far the logit is off [R]; root >= 1/sigma, mean >= |mean of z|."""
        w, b = (np.asarray(part, np.float64) for part in (self.model.w, self.model.b))
        normed = self._normed(self.model.ln_final, root, mean)
        return normed.product(w[:, None], b[None], self.machine).error[:, 0]

    def _normed(self, ln: object, root: np.ndarray, mean: np.ndarray) -> Normed:
        d = len(self.reach)
        level, along = norm_rounding(d, root * mean * UP, self.machine)
        return Normed(ln, np.repeat(level[:, None], d, axis=1), along)  # type: ignore[arg-type]


def as_run(
    model: Transformer, tables: LayerTables, machine: FloatUnit
) -> tuple[LayerTables, LayerRounding]:
    """The tables with rounding errors of the machine, and its rounding errors after the heads."""
    stream, normed = token_stream(model, machine)
    block = model.blocks[0]
    H, _, k = block.W_Q.shape
    T = model.spec.T
    found = head_rounding(block, normed, 1, machine)
    scores = found.scores[0]  # [H, 2 T + 1]
    values = found.values.error + machine.sum(2 * T + 14) * found.values.reach + machine.tiny
    by_head = np.moveaxis(values.reshape(-1, H, k), 1, 0)  # [H, 2 T + 1, k]
    heads = tables.heads
    shaken = replace(
        heads,
        logits=heads.logits.widened(scores[:, :-1].reshape(H, T, 2)),
        values=heads.values.widened(by_head[:, :-1].reshape(H, T, 2, k)),
        cls_logit=heads.cls_logit.widened(scores[:, -1]),
        cls_value=heads.cls_value.widened(by_head[:, -1]),
    )
    largest = (found.values.size + values).max(0)
    W_O, b_O = np.abs(tables.W_O.mid), np.abs(np.asarray(block.b_O, np.float64))
    terms = largest @ W_O + b_O + stream.x.size[-1]
    lost = machine.sum(H * k + 4) * terms + machine.tiny
    rounding = LayerRounding(model, machine, (terms + lost) * UP)
    return replace(tables, heads=shaken, base=tables.base.widened(lost)), rounding
