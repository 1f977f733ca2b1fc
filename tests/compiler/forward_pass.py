"""Networks on many inputs in one program, compiled once for all networks of the same shapes."""

import equinox as eqx
import jax
import numpy as np


def outputs(model, bits: np.ndarray) -> np.ndarray:
    """The model's number on each row of bits."""
    return np.asarray(_batched(model, bits))


def output(model, bits: np.ndarray) -> float:
    """The model's number on one input."""
    return float(outputs(model, bits[None])[0])


@eqx.filter_jit
def _batched(model, bits):
    return jax.vmap(model)(bits)
