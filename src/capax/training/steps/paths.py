"""Ways to logits: exact rewritings if they apply, the naive Transformer, other architectures.

A path prepares the inputs of a training set once, gives differentiable logits, and examines a pool
of inputs: logits and the share of the attention on the support, block by block of rows.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from capax.attention.collapsed import one_layer, pairwise
from capax.attention.collapsed.design import Design, in_thirds, one_hot
from capax.attention.collapsed.one_layer import (
    Collapsed,
    attention_weights,
    collapse,
    expand,
    support_mass,
    tabulate,
)
from capax.attention.transformer import Transformer, TransformerSpec
from capax.training.specs.architecture import Architecture
from capax.training.steps.parametrisation import ONE_ROW_EACH, Parametrisation

Bits = UInt8[Array, "m T"]
Support = Int[Array, "s"]
Weights = Float[Array, "m H T_1"]


@dataclass(frozen=True)
class CollapsedPath:
    """Tables of (symbol, position) pairs; exact. `tensor_cores`: products with the design matrix
    in three bfloat16 pieces, as fast on a GPU as slow on a CPU."""

    spec: TransformerSpec
    tensor_cores: bool = False
    name: Literal["collapsed"] = "collapsed"
    reason: None = None
    trained: Parametrisation = ONE_ROW_EACH

    def init(self, key: Array) -> Any:
        """Parameters drawn exactly as the naive model draws them."""
        network = collapse(Transformer.init(self.spec, key=key))
        return self.trained.extend(network, key, self.spec.init_scale)

    def model(self, params: Any) -> Transformer:
        """The parameters as an ordinary Transformer."""
        return _expanded(self, params)

    def network(self, params: Any) -> Collapsed:
        """The parameters as one network in the column order of the collapse."""
        return self.trained.merged(params)

    def prepare(self, bits: Bits) -> Design:
        """The one-hot design matrix."""
        A = self.spec.alphabet
        return in_thirds(bits, A) if self.tensor_cores else one_hot(bits, A, jnp.float32)

    def logits(self, params: Any, design: Design) -> Float[Array, "m"]:
        """Logits of prepared inputs; differentiable in `params`."""
        return one_layer.logits(self.network(params), design)

    def examiner(self, params: Any):
        """bits, support -> logits and attention mass; the table is built once."""
        network = self.network(params)
        table = tabulate(network)

        def examine(bits: Bits, support: Support, relevant: Array) -> tuple[Array, Array]:
            design = self.prepare(bits)
            return support_mass(network, table, design, bits, support, relevant)

        return examine

    def weights(self, params: Any, bits: Bits) -> Weights:
        """Attention weights of the [CLS] query."""
        return attention_weights(tabulate(self.network(params)), bits)

    def positions(self, params: Any) -> Float[Array, "T d"]:
        """The embeddings of positions."""
        return self.network(params).position.T


@dataclass(frozen=True)
class PairwisePath:
    """Two and more layers: whole arrays, the first attention by a table of pairs; exact.
    `tensor_cores` as in `CollapsedPath`; without them tokens are columns."""

    spec: TransformerSpec
    tensor_cores: bool = False
    name: Literal["pairwise"] = "pairwise"
    reason: None = None

    def init(self, key: Array) -> Any:
        """The arrays of the model."""
        return _arrays(self.spec, key)

    def model(self, params: Any) -> Transformer:
        """The parameters as an ordinary Transformer."""
        return _whole(self.spec, params)

    def prepare(self, bits: Bits) -> Bits:
        """The bits themselves: a design matrix takes longer to read than to make."""
        return bits

    def logits(self, params: Any, bits: Bits) -> Float[Array, "m"]:
        """Logits of prepared inputs; differentiable in `params`."""
        return pairwise.logits(self.model(params), bits, tensor_cores=self.tensor_cores)

    def examiner(self, params: Any):
        """bits, support -> logits and attention mass (of the last layer's [CLS] query)."""
        model = self.model(params)

        def examine(bits: Bits, support: Support, relevant: Array) -> tuple[Array, Array]:
            cores = self.tensor_cores
            values, weights = pairwise.logits_and_weights(model, bits, tensor_cores=cores)
            return values, _mass(weights, support, relevant)

        return examine

    def weights(self, params: Any, bits: Bits) -> Weights:
        """Attention weights of the last layer's [CLS] query."""
        cores = self.tensor_cores
        return pairwise.logits_and_weights(self.model(params), bits, tensor_cores=cores)[1]

    def positions(self, params: Any) -> Float[Array, "T d"]:
        """The embeddings of positions."""
        return params.position


@dataclass(frozen=True)
class NaivePath:
    """The model as it is written, example by example under `vmap`."""

    spec: TransformerSpec
    reason: str
    name: Literal["naive"] = "naive"

    def init(self, key: Array) -> Any:
        """The arrays of the model."""
        return _arrays(self.spec, key)

    def model(self, params: Any) -> Transformer:
        """The parameters as an ordinary Transformer."""
        return _whole(self.spec, params)

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
            return values, _mass(weights[-1], support, relevant)

        return examine

    def weights(self, params: Any, bits: Bits) -> Weights:
        """Attention weights of the last layer's [CLS] query."""
        model = self.model(params)
        return jax.vmap(lambda b: model(b, return_weights=True)[1][-1])(self.prepare(bits))

    def positions(self, params: Any) -> Float[Array, "T d"]:
        """The embeddings of positions."""
        return params.position


@partial(jax.jit, static_argnums=0)
def _expanded(path: CollapsedPath, params: Any) -> Transformer:
    """By one program: alone, each array that is turned would have its own."""
    return expand(path.network(params), path.spec)


def _arrays(spec: TransformerSpec, key: Array) -> Any:
    """The arrays of a freshly drawn model; other fields are kept in the path."""
    return eqx.filter(Transformer.init(spec, key=key), eqx.is_inexact_array)


def _whole(spec: TransformerSpec, params: Any) -> Transformer:
    """The arrays as a model again."""
    shape = eqx.filter_eval_shape(Transformer.init, spec, key=jax.random.key(0))
    return eqx.combine(params, eqx.filter(shape, eqx.is_inexact_array, inverse=True))


def _mass(weights: Float[Array, "m H n"], support: Support, relevant: Array) -> Float[Array, "m"]:
    """Weight on the support, mean over heads."""
    on_support = weights[:, :, support] * relevant[None, None, :]
    return jnp.mean(jnp.sum(on_support, axis=2), axis=1)


@dataclass(frozen=True)
class ModulePath:
    """Any other architecture, as it is written. Without attention the mass is 0."""

    spec: Architecture
    on_cpu: bool = False
    name: Literal["module"] = "module"
    reason: None = None

    def init(self, key: Array) -> Any:
        """Freshly drawn parameters."""
        return self.spec.init(key)

    def model(self, params: Any) -> Any:
        """The parameters themselves."""
        return params

    def prepare(self, bits: Bits) -> Any:
        """The inputs as the architecture takes them."""
        return self.spec.prepare(bits)

    def logits(self, params: Any, inputs: Any) -> Float[Array, "m"]:
        """Logits of prepared inputs; differentiable in `params`."""
        own = self.spec.cpu_logits if self.on_cpu else self.spec.logits
        return own(params, inputs)

    @property
    def kept_floats(self) -> tuple[int, int]:
        """Numbers kept for the backward pass: per example, and a fixed number."""
        return self.spec.cpu_floats if self.on_cpu else (self.spec.floats_per_example, 0)

    def examiner(self, params: Any):
        """bits, support -> logits and zeros."""

        def examine(bits: Bits, support: Support, relevant: Array) -> tuple[Array, Array]:
            del support, relevant
            values = self.logits(params, self.prepare(bits))
            return values, jnp.zeros_like(values)

        return examine

    def weights(self, params: Any, bits: Bits) -> None:
        """None: it has no attention."""
        del params, bits

    def positions(self, params: Any) -> None:
        """None: it has no embeddings of positions."""
        del params


Path = CollapsedPath | PairwisePath | NaivePath | ModulePath


def path_for(
    spec: TransformerSpec | Architecture,
    platform: str,
    trained: Parametrisation = ONE_ROW_EACH,
) -> Path:
    """A rewriting that covers `spec`, or the naive model (with the reason).

    trained: the trained parameters of a one-layer network; other networks have no choice.
    """
    if isinstance(spec, Architecture):
        return ModulePath(spec, on_cpu=platform == "cpu")
    deep = spec.layers > 1
    reason = (pairwise if deep else one_layer).why_not(spec)
    if reason is not None:
        return NaivePath(spec, reason)
    cores = platform == "gpu"
    return PairwisePath(spec, cores) if deep else CollapsedPath(spec, cores, trained=trained)
