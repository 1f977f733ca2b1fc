"""The common parts of all sequence models of the zoo, which differ only in how they mix tokens.

    x_t = embed[b_t] + position_t       tokens, of width d
    h   = mix(LN(x_1), .., LN(x_T))     the architecture's own part
    z   = cls + W_O h + b_O             then the Transformer's MLP block and read-out:
    logit = w . LN(z + W_out gelu(W_in LN(z) + b_in) + b_out) + b

A token depends on its bit and its position only, so there are 2 T of them for every m: `tokens` is
a table, and linear maps of tokens are computed on the table, once, not m times.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.parts.activations import activated
from capax.attention.products import matmul
from capax.training.specs.architecture import Architecture

Params = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]


def drawn(shapes: Shapes, key: Array, deviation: Callable[[str], float]) -> Params:
    """Every array ~ N(0, deviation(its name)^2), but gains 1, and names that begin with b 0.

    All numbers come from ONE draw: to compile the generator once per array takes minutes.
    """
    sizes = {name: math.prod(shape) for name, shape in shapes.items() if not _is_fixed(name)}
    numbers = jax.random.normal(key, (sum(sizes.values()),), jnp.float32)
    pieces = dict(zip(sizes, jnp.split(numbers, np.cumsum([*sizes.values()])[:-1]), strict=True))
    return {
        name: jnp.full(shape, float(name.startswith("gain")), jnp.float32)
        if _is_fixed(name)
        else deviation(name) * pieces[name].reshape(shape)
        for name, shape in shapes.items()
    }


def _is_fixed(name: str) -> bool:
    return name.startswith(("gain", "b"))


def layer_norm(x: Float[Array, "... d"], gain: Array, bias: Array) -> Float[Array, "... d"]:
    """(x - mean) / sqrt(variance + 1e-5), times gain plus bias."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    ends = (1,) * (x.ndim - 1) + (-1,)
    return centred * jax.lax.rsqrt(variance + 1e-5) * gain.reshape(ends) + bias.reshape(ends)


def frame_shapes(T: int, d: int, mixed: int, width: int) -> Shapes:
    """Arrays of the frame around a mixer with `mixed` outputs and an MLP of `width` units."""
    norms = {f"{kind}_{name}": (d,) for name in ("1", "2", "final") for kind in ("gain", "bias")}
    return {
        "embed": (2, d),
        "position": (T, d),
        "cls": (d,),
        **norms,
        "W_O": (mixed, d),
        "b_O": (d,),
        "W_in": (d, width),
        "b_in": (width,),
        "W_out": (width, d),
        "b_out": (d,),
        "w": (d,),
        "b": (),
    }


def tokens(params: Params) -> Float[Array, "2 T d"]:
    """LN(x) of every (bit, position) pair."""
    x = params["embed"][:, None, :] + params["position"][None, :, :]
    return layer_norm(x, params["gain_1"], params["bias_1"])


def chosen(bits: Float[Array, "m T"], table: Float[Array, "2 T d"]) -> Float[Array, "m T d"]:
    """table[b_t, t] for every example."""
    return table[0][None] + bits[:, :, None] * (table[1] - table[0])[None]


def read_out(params: Params, mixed: Float[Array, "m k"]) -> Float[Array, "m"]:
    """The MLP block and the linear read-out after the mixing."""
    z = params["cls"][None, :] + matmul(mixed, params["W_O"]) + params["b_O"][None, :]
    normal = layer_norm(z, params["gain_2"], params["bias_2"])
    hidden = activated("gelu", matmul(normal, params["W_in"]) + params["b_in"][None, :])
    z = z + matmul(hidden, params["W_out"]) + params["b_out"][None, :]
    last = layer_norm(z, params["gain_final"], params["bias_final"])
    return matmul(last, params["w"]) + params["b"]


class Framed(Architecture):
    """Base of the sequence models: width d, an MLP of `mlp_width` units, tokens and read-out."""

    d: int = Field(default=64, ge=1)
    mlp_width: int = Field(default=256, ge=1)
    init_scale: float = Field(default=0.02, gt=0, allow_inf_nan=False)

    def mixer_shapes(self) -> Shapes:
        """Arrays of the mixer."""
        raise NotImplementedError

    @property
    def mixed(self) -> int:
        """Number of outputs of the mixer."""
        return self.d

    def init(self, key: Array) -> Params:
        """Frame as in the Transformer; the mixer with its usual initialisation (`deviation`)."""
        shapes = frame_shapes(self.T, self.d, self.mixed, self.mlp_width) | self.mixer_shapes()
        return drawn(shapes, key, self.deviation)

    def deviation(self, name: str) -> float:
        """Standard deviation of an array at initialisation."""
        del name
        return self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The architecture's own part."""
        raise NotImplementedError

    def logits(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m"]:
        """Mixed tokens, then the read-out."""
        return read_out(params, self.mix(params, inputs))

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """`mix` in the form that is fastest on a CPU."""
        return self.mix(params, inputs)

    def cpu_logits(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m"]:
        """The same from `cpu_mix`."""
        return read_out(params, self.cpu_mix(params, inputs))

    @property
    def floats_per_example(self) -> int:
        return 3 * self.T + 8 * (self.d + self.mlp_width)


def sums_over_tokens(
    bits: Float[Array, "m T"], table: Float[Array, "2 T k"]
) -> Float[Array, "m k"]:
    """sum_t table[b_t, t] as two products with the design matrix: no m x T x k array.

    Written for both symbols, not as a base plus a difference: sums of unlike sizes would cancel.
    """
    return matmul(1.0 - bits, table[0]) + matmul(bits, table[1])
