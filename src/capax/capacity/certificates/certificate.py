"""From a trained model and its data to "with probability 1 - delta, error <= ...".

The model is measured by its type, its margins are computed on the data it was trained on, and the
portfolio of bounds (`portfolio`) does the rest. Margins are evaluated in float64 whatever the
weights are stored in, and lowered by a proven bound of the rounding error (`rounding`): the error
bounded is that of the function the weights define in exact arithmetic, and an example whose margin
is not proved positive counts as an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.stack import PaperStack
from capax.attention.transformer import Transformer
from capax.capacity.bound import Assumption
from capax.capacity.certificates.linear_readout import linear_readout_bound
from capax.capacity.certificates.portfolio import Certificate as Certificate
from capax.capacity.certificates.portfolio import Route
from capax.capacity.certificates.portfolio import bound_from_norms as bound_from_norms
from capax.capacity.certificates.portfolio import certify_margins as certify_margins
from capax.capacity.certificates.running_error import UnknownOperation, evaluate_with_error
from capax.capacity.weights.model_bounds import measure
from capax.errors import InputError, require

BATCH = 1024
GUESSED_ERROR = 1e-6  # for operations without an error analysis; said in the assumptions
READ_OUTS = {ClsScalar: ("w",), ClsMLP: ("w_2", "b_2"), Transformer: ("w", "b"), PaperStack: ("w",)}


def margins_of(
    model: Any, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]
) -> Float[np.ndarray, "m"]:
    """At most (2 y_i - 1) f(x_i), exactly: float64 values less their proven rounding error.

    Labels are 0 and 1; the model gives one number per sequence.
    """
    check_examples(X, y)
    values, doubt = _outputs(model, X)
    return (2.0 * y.astype(np.float64) - 1.0) * values - doubt


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
        precise = in_float64(model)
        run = jax.jit(jax.vmap(_with_error(precise, X.shape[1]) or _guessed_error(precise)))
        size = min(BATCH, len(X))  # the last batch is filled up: another size compiles anew
        bits = np.concatenate([X, np.repeat(X[:1], -len(X) % size, axis=0)]).astype(np.int32)
        rows = [run(jnp.asarray(part)) for part in np.split(bits, len(bits) // size)]
        values, doubt = (
            np.concatenate([np.asarray(row[k]) for row in rows])[: len(X)] for k in (0, 1)
        )
    require(values.ndim == 1, "model", "one number per sequence", f"shape {values.shape[1:]}")
    require(bool(np.isfinite(values).all()), "model", "finite outputs", "NaN or infinite outputs")
    unclear = int((~np.isfinite(doubt)).sum())
    require(unclear == 0, "model", "outputs that rounding leaves clear", f"{unclear} unclear ones")
    return values, doubt


def _with_error(model: Any, T: int) -> Callable[[Any], Any] | None:
    """bits -> (f, proven error), or None if an operation of the model has no error analysis."""

    def run(bits: Any) -> Any:
        return evaluate_with_error(lambda b: model(b), bits)

    try:
        jax.eval_shape(run, jax.ShapeDtypeStruct((T,), jnp.int32))
    except UnknownOperation:
        return None
    return run


def _guessed_error(model: Any) -> Callable[[Any], Any]:
    def run(bits: Any) -> Any:
        value = model(bits)
        return value, GUESSED_ERROR * (1 + jnp.abs(value))

    return run


def rounding_assumption(model: Any, T: int) -> Assumption:
    """Whether the rounding error of this model's outputs is proved or only assumed."""
    with jax.enable_x64(True):
        proved = _with_error(in_float64(model), T) is not None
    if proved:
        return Assumption("the rounding error of the margins is subtracted", True)
    return Assumption(f"float64 outputs f are right to {GUESSED_ERROR:g} (1 + |f|)")


def in_float64(model: Any) -> Any:
    """The same module with every floating-point array in float64 (needs x64 switched on)."""
    floats = eqx.is_inexact_array
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if floats(leaf) else leaf, model)


def linear_route(model: Any, X: Num[np.ndarray, "m T"], y: Num[np.ndarray, "labels"]) -> Route:
    """The direct linear bound, for a model whose read-out alone was trained on these data.

    f is linear in its read-out w, so the features are the gradient by w.
    """
    names = READ_OUTS.get(type(model))
    if names is None:
        known = ", ".join(kind.__name__ for kind in READ_OUTS)
        raise InputError(f"model: no linear read-out in {type(model).__name__}; wanted {known}")
    check_examples(X, y)

    def parts(module: Any) -> tuple[Any, ...]:
        return tuple(getattr(module, name) for name in names or ())

    with jax.enable_x64(True):
        precise = in_float64(model)
        read_out = parts(precise)

        def output(w: Any, bits: Any) -> Any:
            return eqx.tree_at(parts, precise, w)(bits)

        slopes = jax.jit(jax.vmap(jax.grad(output), (None, 0)))
        found = slopes(read_out, jnp.asarray(X.astype(np.int32)))
        features = np.concatenate([np.asarray(z).reshape(len(X), -1) for z in found], axis=1)
        w = np.concatenate([np.asarray(part).reshape(-1) for part in read_out])
    signs = 2.0 * y.astype(np.float64) - 1.0
    return lambda share, cost: linear_readout_bound(features, w, signs, share, cost=cost)


def certify(
    model: Any,
    X: Num[np.ndarray, "m T"],
    y: Num[np.ndarray, "labels"],
    *,
    delta: float = 0.05,
    target: float | None = None,
    described: tuple[int, int] | None = None,
    holdout: tuple[int, int] | None = None,
    tries: int | None = None,
    more: Sequence[Route] = (),
) -> Certificate:
    """Certificate of a trained module of `capax.attention` on the data it was trained on.

    described: (bits, training errors) of a described (rounded, pruned) version, for Occam; a
    predictor of its own. holdout: (errors, examples) of the model on data it never saw, see
    `holdout_errors`. tries: training sets drawn until this one was accepted. more: further routes.

    Examples:
        >>> import capax
        >>> trained = capax.train("x1 & x3", T=7, m=60, steps=200, model={"d": 16, "heads": 4})
        >>> found = capax.certify(trained.model, trained.task.X_train, trained.task.y_train)
        >>> 0 < found.best.value
        True
    """
    with jax.enable_x64(True):  # float64 weights must not be narrowed while they are measured
        measured = measure(model)
    certificate = certify_margins(
        measured, margins_of(model, X, y), delta=delta, target=target,
        described=described, holdout=holdout, tries=tries, more=more,
    )  # fmt: skip
    return with_assumption(certificate, rounding_assumption(model, X.shape[1]))


def with_assumption(certificate: Certificate, assumption: Assumption) -> Certificate:
    """The same certificate with one more assumption under every bound on its predictor."""
    about = certificate.predictor
    entries = tuple(
        replace(e, assumptions=(*e.assumptions, assumption)) if e.predictor == about else e
        for e in certificate.entries
    )
    return replace(certificate, entries=entries)
