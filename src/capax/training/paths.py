"""Two ways to the same logits: the exact collapse where it applies, the naive model elsewhere.

A path prepares the inputs of a training set once, gives differentiable logits, and examines a pool
of inputs: logits and the share of the attention on the support, block by block of rows.
"""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, UInt8

from capax.attention.collapse import (
    collapse,
    expand,
    logits,
    one_hot,
    support_mass,
    tabulate,
    why_not,
)
from capax.attention.collapse_table import Precision
from capax.attention.transformer import Transformer, TransformerSpec

Bits = UInt8[Array, "m T"]
Support = Int[Array, "s"]


@dataclass(frozen=True)
class CollapsedPath:
    """Tables of (symbol, position) pairs; exact."""

    spec: TransformerSpec
    precision: Precision
    name: Literal["collapsed"] = "collapsed"
    reason: None = None

    def init(self, key: Array) -> Any:
        """Parameters drawn exactly as the naive model draws them."""
        return collapse(Transformer.init(self.spec, key=key))

    def model(self, params: Any) -> Transformer:
        """The parameters as an ordinary Transformer."""
        return expand(params, self.spec)

    def prepare(self, bits: Bits) -> Float[Array, "m AT"]:
        """The one-hot design matrix."""
        return one_hot(bits, self.spec.alphabet, jnp.float32)

    def logits(self, params: Any, design: Float[Array, "m AT"]) -> Float[Array, "m"]:
        """Logits of prepared inputs; differentiable in `params`."""
        return logits(params, design, self.precision)

    def examiner(self, params: Any):
        """bits, support -> logits and attention mass; the table is built once."""
        table = tabulate(params, self.precision)

        def examine(bits: Bits, support: Support, relevant: Array) -> tuple[Array, Array]:
            design = self.prepare(bits)
            return support_mass(params, table, design, bits, support, relevant, self.precision)

        return examine


@dataclass(frozen=True)
class NaivePath:
    """The model as it is written, example by example under `vmap`."""

    spec: TransformerSpec
    reason: str
    name: Literal["naive"] = "naive"

    def init(self, key: Array) -> Any:
        """The arrays of the model; what is not an array is kept in the path."""
        return eqx.filter(Transformer.init(self.spec, key=key), eqx.is_inexact_array)

    def model(self, params: Any) -> Transformer:
        """The parameters as an ordinary Transformer."""
        shape = eqx.filter_eval_shape(Transformer.init, self.spec, key=jax.random.key(0))
        return eqx.combine(params, eqx.filter(shape, eqx.is_inexact_array, inverse=True))

    def prepare(self, bits: Bits) -> Int[Array, "m T"]:
        """Symbols as the model takes them."""
        return bits.astype(jnp.int32)

    def logits(self, params: Any, symbols: Int[Array, "m T"]) -> Float[Array, "m"]:
        """Logits of prepared inputs; differentiable in `params`."""
        model = self.model(params)
        return jax.vmap(lambda b: jnp.asarray(model(b)))(symbols)

    def examiner(self, params: Any):
        """bits, support -> logits and attention mass (of the last layer's [CLS] query)."""
        model = self.model(params)

        def examine(bits: Bits, support: Support, relevant: Array) -> tuple[Array, Array]:
            symbols = self.prepare(bits)
            values, weights = jax.vmap(lambda b: model(b, return_weights=True))(symbols)
            on_support = weights[-1][:, :, support] * relevant[None, None, :]
            return values, jnp.mean(jnp.sum(on_support, axis=2), axis=1)

        return examine


Path = CollapsedPath | NaivePath


def path_for(spec: TransformerSpec, platform: str) -> Path:
    """The collapse where it covers `spec`, the naive model (with the reason) elsewhere."""
    reason = why_not(spec)
    if reason is not None:
        return NaivePath(spec, reason)
    return CollapsedPath(spec, precision_for(platform))


def precision_for(platform: str) -> Precision:
    """Float32 accuracy on each platform: three TF32 products per float32 one on GPUs."""
    if platform in ("gpu", "cuda"):
        return lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    return lax.Precision.HIGHEST
