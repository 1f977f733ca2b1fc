"""Many layers in the paper's form (Theorem 4.7): rows are projected onto the unit ball.

    X_{l+1} = Pi( sigma( Pi( RowNorm(X_l W_Q (X_l W_K)^T) X_l W_V ) ) W_C ),    f = w . x_CLS

Pi projects every row onto the unit ball: it shortens long rows and leaves short ones alone (it is
NOT normalisation to the sphere), so it is 1-Lipschitz and keeps covers small.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from capax.attention.encodings import Encoding
from capax.attention.head import attend
from capax.attention.parts.activations import activation as activation_named
from capax.attention.parts.masks import Mask, keep_cls
from capax.attention.parts.normalizers import Normalizer, Softmax
from capax.attention.parts.scores import ScaleRule, attention_scale
from capax.attention.parts.tokens import Bits, Tokens, TwoHotTokens
from capax.errors import require

Queries = Float[Array, "Q d"] | TwoHotTokens


def project_rows(
    Y: Float[Array, "*rows d"], radius: float | Float[Array, ""] = 1.0
) -> Float[Array, "*rows d"]:
    """Pi_r(y) = y min(1, r / |y|_2) for every row y; differentiable at 0."""
    squared = jnp.sum(Y**2, axis=-1, keepdims=True) / radius**2
    return Y / jnp.sqrt(jnp.maximum(squared, 1.0))


class PaperBlock(eqx.Module):
    """One layer of Theorem 4.7: attention, Pi, sigma, W_C, Pi."""

    W_Q: Float[Array, "d r"]
    W_K: Float[Array, "d r"]
    W_V: Float[Array, "d k"]
    W_C: Float[Array, "k d_out"]
    activation: str = eqx.field(static=True, default="relu")
    norm: Normalizer = Softmax()
    scale: ScaleRule = eqx.field(static=True, default="paper")

    def __check_init__(self) -> None:
        d, k = self.W_V.shape
        require(self.W_Q.shape[0] == d, "W_Q", f"{d} rows, as W_V", self.W_Q.shape)
        require(self.W_K.shape == self.W_Q.shape, "W_K", "the shape of W_Q", self.W_K.shape)
        require(self.W_C.shape[0] == k, "W_C", f"{k} rows, the columns of W_V", self.W_C.shape)
        require(isinstance(self.norm, Normalizer), "norm", "a normalizer", self.norm)
        activation_named(self.activation)
        attention_scale(self.W_Q.shape[1], self.scale)

    def scores(self, rows: Queries, X: Tokens) -> Float[Array, "Q T"]:
        """Alignment scores of the queries `rows` with the tokens X."""
        scale = attention_scale(self.W_Q.shape[1], self.scale)
        return scale * ((rows @ self.W_Q) @ (X @ self.W_K).T)

    def __call__(
        self, rows: Queries, X: Tokens, mask: Mask = None
    ) -> tuple[Float[Array, "Q d_out"], Float[Array, "Q T"]]:
        """New rows for the queries `rows` (pass `rows = X` for all tokens), and their weights."""
        weights = self.norm(self.scores(rows, X), mask)
        mixed = project_rows(attend(weights, X @ self.W_V))  # [Q, k]
        hidden = activation_named(self.activation)(mixed)
        return project_rows(hidden @ self.W_C), weights


class PaperStack(eqx.Module):
    """L layers of the paper's form and a scalar read-out w . x_CLS of the last one."""

    encoding: Encoding
    blocks: tuple[PaperBlock, ...]
    w: Float[Array, "d"]

    def __check_init__(self) -> None:
        require(len(self.blocks) >= 1, "blocks", "at least one layer", self.blocks)
        width = self.encoding.d
        for i, block in enumerate(self.blocks):
            rows = block.W_Q.shape[0]
            require(rows == width, f"blocks.{i}.W_Q", f"{width} rows", block.W_Q.shape)
            width = block.W_C.shape[1]
        require(self.w.shape == (width,), "w", f"shape ({width},)", self.w.shape)

    @property
    def threshold(self) -> float:
        """An output above it is the decision 1."""
        return 0.0

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.encoding.T

    def __call__(
        self, bits: Bits, *, mask: Bool[Array, "T"] | None = None, return_weights: bool = False
    ) -> Float[Array, ""] | tuple[Float[Array, ""], list[Float[Array, "T_1"]]]:
        """f(bits), and on request the attention weights of the [CLS] query, layer by layer."""
        X, keep = self.encoding(bits), keep_cls(mask)
        seen = []
        for block in self.blocks[:-1]:
            X, weights = block(X, X, keep)
            seen.append(weights[-1])
        row, weights = self.blocks[-1](X[-1:], X, keep)  # only [CLS] is read
        y = row[0] @ self.w
        return (y, [*seen, weights[0]]) if return_weights else y
