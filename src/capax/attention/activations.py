"""Entrywise activations sigma with sigma(0) = 0, each beside its Lipschitz constant L_sigma."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
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
