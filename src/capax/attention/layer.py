"""The self-attention layer (Definition 3.2): every token is a query, all tokens are keys.

Y = sum_h sigma( RowNorm(X W_Q^h (X W_K^h)^T) X W_V^h ) W_C^h
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capax.attention.head import attend
from capax.attention.parts.activations import activation as activation_named
from capax.attention.parts.masks import Mask
from capax.attention.parts.normalizers import Normalizer, Softmax
from capax.attention.parts.scores import ScaleRule, attention_scale
from capax.attention.parts.tokens import Tokens
from capax.errors import require


def project(X: Tokens, W: Float[Array, "H d k"]) -> Float[Array, "H T k"]:
    """X W^h for every head h."""
    return jax.vmap(lambda W_h: X @ W_h)(W)


def layer_scores(
    X: Tokens, W_Q: Float[Array, "H d r"], W_K: Float[Array, "H d r"], scale: ScaleRule = "paper"
) -> Float[Array, "H T T"]:
    """theta[h, i, t] = (W_Q^T x_i).(W_K^T x_t): row i holds the scores of query i."""
    products = jnp.einsum("hir,htr->hit", project(X, W_Q), project(X, W_K))
    return attention_scale(W_Q.shape[-1], scale) * products


class AttentionLayer(eqx.Module):
    """A self-attention layer of H heads in the paper's form, no biases, no residual.

    `mask` is [T] (keys to keep) or [T, T] (row = query, column = key), see `causal_mask`.
    """

    W_Q: Float[Array, "H d r"]
    W_K: Float[Array, "H d r"]
    W_V: Float[Array, "H d k"]
    W_C: Float[Array, "H k d_out"]
    activation: str = eqx.field(static=True, default="identity")
    norm: Normalizer = Softmax()
    scale: ScaleRule = eqx.field(static=True, default="paper")

    def __check_init__(self) -> None:
        H, d, _ = self.W_Q.shape
        require(
            self.W_K.shape == self.W_Q.shape,
            "W_K",
            f"the shape of W_Q {self.W_Q.shape}",
            self.W_K.shape,
        )
        require(self.W_V.shape[:2] == (H, d), "W_V", f"shape ({H}, {d}, k)", self.W_V.shape)
        k = self.W_V.shape[2]
        require(self.W_C.shape[:2] == (H, k), "W_C", f"shape ({H}, {k}, d_out)", self.W_C.shape)
        require(isinstance(self.norm, Normalizer), "norm", "a normalizer", self.norm)
        activation_named(self.activation)

    @classmethod
    def from_W_QK(
        cls,
        W_QK: Float[Array, "H d d"],
        W_V: Float[Array, "H d k"],
        W_C: Float[Array, "H k d_out"],
        activation: str = "identity",
        norm: Normalizer = Softmax(),
    ) -> "AttentionLayer":
        """The layer with W_Q W_K^T = W_QK given directly: W_Q = W_QK and W_K = identity."""
        H, d, _ = W_QK.shape
        W_K = jnp.broadcast_to(jnp.eye(d, dtype=W_QK.dtype), (H, d, d))
        return cls(W_QK, W_K, W_V, W_C, activation, norm)

    def scores(self, X: Tokens) -> Float[Array, "H T T"]:
        """Alignment scores before the normalizer; row = query."""
        return layer_scores(X, self.W_Q, self.W_K, self.scale)

    def __call__(
        self, X: Tokens, mask: Mask = None, return_weights: bool = False
    ) -> Float[Array, "T d_out"] | tuple[Float[Array, "T d_out"], Float[Array, "H T T"]]:
        weights = self.norm(self.scores(X), mask)  # [H, T, T]
        mixed = jax.vmap(attend)(weights, project(X, self.W_V))  # [H, T, k]
        hidden = activation_named(self.activation)(mixed)
        Y = jnp.einsum("htk,hko->to", hidden, self.W_C)
        return (Y, weights) if return_weights else Y
