"""Margins of a trained model on its examples, less a proven bound of their rounding error.

Margins are evaluated in float64, for weights of any precision, and lowered by a proven bound
of the rounding error (`running_error`): the error bounded is that of the function the weights
define in exact arithmetic, and an example whose margin is not proved positive counts as an error.

Margins are distances from the model's threshold (`decision`). Subtracting a constant changes
neither covers nor Rademacher complexities, so every bound for f holds for f - threshold.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from capax.capacity.bound import Assumption
from capax.capacity.margins.decision import threshold_of
from capax.capacity.margins.running_error import UnknownOperation, evaluate_with_error
from capax.errors import require
from capax.rounding import ROUND_UP

BATCH = 256  # rows of a call; fewer are filled up, as another number compiles anew
GUESSED_ERROR = 1e-6  # for operations without an error analysis; stated in the assumptions


def margins_of(
    model: Any, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]
) -> Float[np.ndarray, "m"]:
    """At most (2 y_i - 1) (f(x_i) - threshold): float64 values less their proven rounding error.

    Labels are 0 and 1; the model gives one number per sequence.
    """
    check_examples(X, y)
    values, doubt = _outputs(model, X)
    above = values - threshold_of(model)
    rounded = 2.0**-52 * np.abs(above)  # of the subtraction, and of the one below
    return (2.0 * y.astype(np.float64) - 1.0) * above - (doubt + rounded) * ROUND_UP


def holdout_errors(
    model: Any, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]
) -> tuple[int, int]:
    """(errors, examples): an example counts as right only if its margin is proved positive."""
    margins = margins_of(model, X, y)
    return int((margins <= 0).sum()), len(margins)


def check_examples(X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]) -> None:
    """Raise `InputError` unless X [m, T] holds bits and y one label 0 or 1 for each row."""
    require(X.ndim == 2 and len(X) == len(y), "y", f"{len(X)} labels", y.shape)
    require(len(y) > 0, "X", "at least one sequence", X.shape)
    require(bool(np.isin(y, (0, 1)).all()), "y", "labels 0 and 1", "other values")
    whole = X.dtype.kind in "bui" or bool((np.rint(X) == X).all())
    require(whole and X.min() >= 0, "X", "symbols 0, 1, ...", "other values")


def _outputs(
    model: Any, X: Num[np.ndarray, "m T"]
) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """f(x_i) in float64 and a bound of its rounding error."""
    with jax.enable_x64(True):
        bits = np.concatenate([X, np.repeat(X[:1], -len(X) % BATCH, axis=0)]).astype(np.int32)
        batch = _program(model)
        rows = [batch(part) for part in np.split(bits, len(bits) // BATCH)]
        values, doubt = (
            np.concatenate([np.asarray(row[k]) for row in rows])[: len(X)] for k in (0, 1)
        )
    require(values.ndim == 1, "model", "one number per sequence", f"shape {values.shape[1:]}")
    require(bool(np.isfinite(values).all()), "model", "finite outputs", "NaN or infinite outputs")
    unclear = int((~np.isfinite(doubt)).sum())
    require(
        unclear == 0,
        "model",
        "outputs with a bounded rounding error",
        f"{unclear} outputs without one",
    )
    return values, doubt


def _program(model: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Rows of bits -> f and its error; one program for all models of the same shapes.

    A model that is no tree of numbers has a program of its own in every call: its object may have
    changed since the last one, and a program keeps the values that it was traced with.
    """
    if all(isinstance(leaf, jax.Array | np.ndarray | float) for leaf in jax.tree.leaves(model)):
        return partial(_shared, model)
    return jax.jit(lambda bits: _batch(model, bits))


@eqx.filter_jit
def _shared(model: Any, bits: Any) -> tuple[Any, Any]:
    return _batch(model, bits)


def _batch(model: Any, bits: Any) -> tuple[Any, Any]:
    precise = in_float64(model)

    def run(row: Any) -> tuple[Any, Any]:
        try:
            return evaluate_with_error(lambda b: precise(b), row)
        except UnknownOperation:  # guessed, see `rounding_assumption`
            value = precise(row)
            return value, GUESSED_ERROR * (1 + jnp.abs(value))

    return jax.vmap(run)(bits)


def rounding_assumption(model: Any, T: int) -> Assumption:
    """Whether the rounding error of this model's outputs is proved or only assumed."""
    try:
        with jax.enable_x64(True):
            precise, bits = in_float64(model), jax.ShapeDtypeStruct((T,), jnp.int32)
            jax.eval_shape(lambda b: evaluate_with_error(lambda x: precise(x), b), bits)
    except UnknownOperation:
        return Assumption(f"float64 outputs f are right to {GUESSED_ERROR:g} (1 + |f|)")
    return Assumption("the rounding error of the margins is subtracted", True)


def in_float64(model: Any) -> Any:
    """The same module with every floating-point array in float64 (needs x64 switched on)."""
    floats = eqx.is_inexact_array
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if floats(leaf) else leaf, model)
