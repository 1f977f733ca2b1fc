"""From a trained model and its data to "with probability 1 - delta, error <= ...".

The model is measured by its type, its margins are computed on the data it was trained on, and the
portfolio of bounds (`portfolio`) does the rest.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from capax.capacity.certificates.portfolio import Certificate as Certificate
from capax.capacity.certificates.portfolio import bound_from_norms as bound_from_norms
from capax.capacity.certificates.portfolio import certify_margins as certify_margins
from capax.capacity.certificates.portfolio import conditioned as conditioned
from capax.capacity.weights.model_bounds import measure
from capax.errors import require

BATCH = 1024


def margins_of(
    model: Any, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]
) -> Float[np.ndarray, "m"]:
    """(2 y_i - 1) f(x_i) for labels in {0, 1}; the model gives one number per sequence."""
    require(X.ndim == 2 and len(X) == len(y), "y", f"{len(X)} labels", y.shape)
    require(len(y) > 0, "X", "at least one sequence", X.shape)
    require(bool(np.isin(y, (0, 1)).all()), "y", "labels 0 and 1", "other values")
    run = jax.jit(jax.vmap(lambda bits: model(bits)))
    bits = X.astype(np.int32)
    outputs = [np.asarray(run(jnp.asarray(bits[i : i + BATCH]))) for i in range(0, len(X), BATCH)]
    values = np.concatenate(outputs).astype(np.float64)
    require(bool(np.isfinite(values).all()), "model", "finite outputs", "NaN or infinite outputs")
    return (2.0 * y.astype(np.float64) - 1.0) * values


def certify(
    model: Any,
    X: Num[np.ndarray, "m T"],
    y: Num[np.ndarray, "labels"],
    *,
    delta: float = 0.05,
    target: float | None = None,
    described: tuple[int, float] | None = None,
) -> Certificate:
    """Certificate of a trained module of `capax.attention` on the data it was trained on.

    described: (bits, training error) of a described (rounded, pruned) version, for Occam.
    """
    return certify_margins(
        measure(model), [float(u) for u in margins_of(model, X, y)], delta=delta, target=target,
        described=described,
    )  # fmt: skip
