"""One practical Transformer block: pre-LayerNorm, residual, attention with biases, MLP.

x <- x + sum_h head_h(LN(x)) W_O^h + b_O,    x <- x + sigma(LN(x) W_in + b_in) W_out + b_out
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

LAYER_NORM_EPSILON = 1e-5


def layer_norm(
    x: Float[Array, "*rows d"], gain: Float[Array, "d"], bias: Float[Array, "d"]
) -> Float[Array, "*rows d"]:
    """gain * (x - mean) / sqrt(variance + 1e-5) + bias, over the last axis."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    lead = (1,) * (x.ndim - 1)
    unit = centred * jax.lax.rsqrt(variance + LAYER_NORM_EPSILON)
    return unit * gain.reshape(lead + gain.shape) + bias.reshape(lead + bias.shape)


class LayerNorm(eqx.Module):
    """Layer normalisation with trainable gain and bias."""

    gain: Float[Array, "d"]
    bias: Float[Array, "d"]

    def __call__(self, x: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
        return layer_norm(x, self.gain, self.bias)


def normalised(ln: LayerNorm | None, x: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
    """LN(x), or x in a model without LayerNorm."""
    return x if ln is None else ln(x)


def project_with_bias(
    x: Float[Array, "T d"], W: Float[Array, "H d k"], b: Float[Array, "H k"]
) -> Float[Array, "H T k"]:
    """x W^h + b^h for every head h."""
    return jnp.einsum("td,hdk->htk", x, W) + b[:, None, :]


class Block(eqx.Module):
    """A pre-LN Transformer block of H heads; `ln1`, `ln2` are None without LayerNorm."""

    ln1: LayerNorm | None
    W_Q: Float[Array, "H d k"]
    W_K: Float[Array, "H d k"]
    W_V: Float[Array, "H d k"]
    b_Q: Float[Array, "H k"]
    b_K: Float[Array, "H k"]
    b_V: Float[Array, "H k"]
    W_O: Float[Array, "H k d"]
    b_O: Float[Array, "d"]
    ln2: LayerNorm | None
    W_in: Float[Array, "d n"]
    b_in: Float[Array, "n"]
    W_out: Float[Array, "n d"]
    b_out: Float[Array, "d"]
    activation: str = eqx.field(static=True, default="gelu")
    norm: Normalizer = Softmax()
    scale: ScaleRule = eqx.field(static=True, default="sqrt")

    def scores(self, rows: Float[Array, "Q d"], x: Float[Array, "T d"]) -> Float[Array, "H Q T"]:
        """Alignment scores of the queries `rows` with the tokens `x` (both before LN)."""
        queries = project_with_bias(normalised(self.ln1, rows), self.W_Q, self.b_Q)
        keys = project_with_bias(normalised(self.ln1, x), self.W_K, self.b_K)
        scale = attention_scale(self.W_Q.shape[-1], self.scale)
        return scale * jnp.einsum("hqk,htk->hqt", queries, keys)

    def attention(
        self, rows: Float[Array, "Q d"], x: Float[Array, "T d"], mask: Mask = None
    ) -> tuple[Float[Array, "Q d"], Float[Array, "H Q T"]]:
        """The attention output for the queries `rows` over the tokens `x`, and their attention
        weights."""
        weights = self.norm(self.scores(rows, x), mask)  # [H, Q, T]
        values = project_with_bias(normalised(self.ln1, x), self.W_V, self.b_V)
        mixed = jax.vmap(attend)(weights, values)  # [H, Q, k]
        return jnp.einsum("hqk,hkd->qd", mixed, self.W_O) + self.b_O[None, :], weights

    def mlp(self, x: Float[Array, "Q d"]) -> Float[Array, "Q d"]:
        """sigma(LN(x) W_in + b_in) W_out + b_out, row by row."""
        hidden = normalised(self.ln2, x) @ self.W_in + self.b_in[None, :]
        return activation_named(self.activation)(hidden) @ self.W_out + self.b_out[None, :]

    def __call__(
        self, rows: Float[Array, "Q d"], x: Float[Array, "T d"], mask: Mask = None
    ) -> tuple[Float[Array, "Q d"], Float[Array, "H Q T"]]:
        """Updated `rows` (pass `rows = x` for all tokens) and the weights of their queries."""
        read, weights = self.attention(rows, x, mask)
        rows = rows + read
        return rows + self.mlp(rows), weights
