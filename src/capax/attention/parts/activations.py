"""Entrywise activations sigma with sigma(0) = 0, each beside its Lipschitz constant L_sigma."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from capax.errors import require


def identity(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """sigma(x) = x."""
    return x


def gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """sigma(x) = x Phi(x), the exact form with the error function."""
    return jax.nn.gelu(x, approximate=False)


# gelu'(x) = Phi(x) + x phi(x) and gelu''(x) = (2 - x^2) phi(x), so the slope is largest at sqrt(2).
_GELU_SLOPE = 0.5 * (1 + math.erf(1.0)) + math.exp(-1.0) / math.sqrt(math.pi)

# name -> (sigma, L_sigma)
_ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "identity": (identity, 1.0),
    "relu": (jax.nn.relu, 1.0),
    "tanh": (jnp.tanh, 1.0),
    "gelu": (gelu, _GELU_SLOPE),
}
ACTIVATIONS = tuple(_ACTIVATIONS)


def activation(name: str) -> Callable[[Array], Array]:
    """The activation called `name`; raises `InputError` for a name that is not in `ACTIVATIONS`."""
    require(name in _ACTIVATIONS, "activation", f"one of {', '.join(ACTIVATIONS)}", name)
    return _ACTIVATIONS[name][0]


def activated(name: str, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """sigma(x); gelu as x (1 + erf(x / sqrt 2)) / 2, half the cost of the form with erfc."""
    if name != "gelu":
        return activation(name)(x)
    return 0.5 * x * (1.0 + jax.lax.erf(x * math.sqrt(0.5)))


def activation_lipschitz(name: str) -> float:
    """L_sigma = sup |sigma'| of the activation called `name`: 1, or 1.1290 for gelu."""
    require(name in _ACTIVATIONS, "activation", f"one of {', '.join(ACTIVATIONS)}", name)
    return _ACTIVATIONS[name][1]


# XLA's exp and tanh are functions of the C library where its vector forms are not known (ARM): 4 ns
# an entry, and 15 for a sigmoid, against 2 for the polynomials below. Its erf guards against NaN,
# and so does its conversion to integers: gelu and its slope take 5.2 ns with them, 3.9 without.
# Float32 only: other numbers take XLA's own. Coefficients of tanh and of erf as in Eigen, highest
# power first.
_TANH_ABOVE = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
               5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04,
               4.89352455891786e-03)  # fmt: skip
_TANH_BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03,
               4.89352518554385e-03)  # fmt: skip
_TANH_END = 7.90531110763549805  # beyond this the nearest float32 is 1
_ERF_ABOVE = (2.72614225801306e-10, -2.77068142495902e-08, 2.10102402082508e-06,
              5.69250639462346e-05, 7.34990630326855e-04, 2.95459980854025e-03,
              1.60960333262415e-02)  # fmt: skip
_ERF_BELOW = (1.45660718464996e-05, 2.13374055278905e-04, 1.68282697438203e-03,
              7.37332916720468e-03, 1.42647390514189e-02)  # fmt: skip
_ERF_END = 4.0  # beyond this the nearest float32 is 1
_TO_INTEGER = np.float32(
    1.5 * 2**23
)  # added to a whole number below 2^22, leaves it in the last bits
# 2^f for |f| <= 1/2, relative error 8e-8: fitted by least squares, reweighted
_EXP2 = (1.3276471361731523e-3, 9.675541329444426e-3, 5.550713275448646e-2, 0.24022119723964455,
         0.6931469670635652, 1.0000000716546464)  # fmt: skip
_DENSITY = tuple(c / math.sqrt(2 * math.pi) for c in _EXP2)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        value = value * x + np.float32(c)
    return value


def tanh(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """tanh(x), to 3e-7 in float32."""
    if x.dtype != jnp.float32:
        return jnp.tanh(x)
    x = jnp.clip(x, -_TANH_END, _TANH_END)
    return x * _polynomial(_TANH_ABOVE, x * x) / _polynomial(_TANH_BELOW, x * x)


def sigmoid(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2."""
    return 0.5 + 0.5 * tanh(0.5 * x)


def normal_density(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """phi(x) = exp(-x^2 / 2) / sqrt(2 pi), to 1e-7 in float32."""
    if x.dtype != jnp.float32:
        return jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    power = jnp.maximum(x * x * (-0.5 * math.log2(math.e)), -120.0)  # of 2
    whole = jnp.floor(power + 0.5)
    bits = _bits_of(_polynomial(_DENSITY, power - whole)) + (_bits_of(whole + _TO_INTEGER) << 23)
    return lax.bitcast_convert_type(bits, jnp.float32)


def _bits_of(x: Array) -> Array:
    return lax.bitcast_convert_type(x, jnp.int32)


def normal_below(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Phi(x) = (1 + erf(x / sqrt 2)) / 2, to 2e-7 in float32."""
    z = x * math.sqrt(0.5)
    if x.dtype != jnp.float32:
        return 0.5 * (1.0 + lax.erf(z))
    z = lax.clamp(np.float32(-_ERF_END), z, np.float32(_ERF_END))
    above, below = _polynomial(_ERF_ABOVE, z * z), _polynomial(_ERF_BELOW, z * z)
    return 0.5 + 0.5 * z * above / below


def gelu_and_slope(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """x Phi(x) and its derivative Phi(x) + x phi(x)."""
    below = normal_below(x)
    return x * below, below + x * normal_density(x)


@jax.custom_vjp
def gelu_kept(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """gelu whose slope is computed with it and kept: the error function is needed once."""
    return activated("gelu", x)


gelu_kept.defvjp(gelu_and_slope, lambda slope, dy: (dy * slope,))
