"""The user's own JAX module in the engine's lanes.

`build(T, key)` makes an Equinox module, which is called on the float bits of one example and gives
one number; batches, seeds and the ensemble use `vmap`, as everywhere in the engine.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capax.errors import CapaxError, InputError
from capax.identity import digest
from capax.learners.adapters import fit_of, made_by, takes_data
from capax.learners.references import is_reference, load, user_line
from capax.learners.setting import Setting
from capax.training.specs.architecture import Architecture

_TRIED_AT = 7  # a factory is called once at this T to find the kind of its learner

_remembered: dict[str, Callable[..., Any]] = {}


class FromFactory(Architecture):
    """The architecture of a factory: `architecture` names it, `source` is the hash of its file."""

    source: str = ""

    def init(self, key: Array) -> Any:
        """The arrays of a new module."""
        return eqx.filter(_made(self.architecture, self.T, key), eqx.is_inexact_array)

    def logits(self, params: Any, inputs: Float[Array, "m T"]) -> Float[Array, "m"]:
        """The module, example by example under `vmap`."""
        shape = eqx.filter_eval_shape(_made, self.architecture, self.T, jax.random.key(0))
        module = eqx.combine(params, eqx.filter(shape, eqx.is_inexact_array, inverse=True))
        values = jax.vmap(module)(inputs)
        if values.size != len(inputs):
            raise InputError(f"learner: wanted one logit per example, got shape {values.shape[1:]}")
        return values.reshape(len(inputs)).astype(jnp.float32)

    @property
    def floats_per_example(self) -> int:
        """Memory of one example: the sizes of all arrays of its forward pass."""
        return _traced_floats(self.architecture, self.T)


def remember(factory: Callable[..., Any], name: str) -> str:
    """A name that refers to a factory of this process."""
    try:
        text = inspect.getsource(factory)
    except (OSError, TypeError):
        text = repr(factory)
    token = f"{name}-{digest(text)[:12]}"
    _remembered[token] = factory
    return token


def kind_of(thing: Any) -> str:
    """module, torch or plain. Factories are called once, at T = 7, to find the kind.

    Raises `InputError` with the user's line if that fails, or if the result is not a learner.
    """
    setting = Setting(T=_TRIED_AT, function="and3")
    made = thing
    if callable(thing) and not hasattr(thing, "fit"):
        fit_of(thing, setting)
        made = _tried(thing, setting)
    if isinstance(made, eqx.Module):
        return "module"
    bases = getattr(type(made), "__mro__", ())
    return "torch" if any(b.__module__.startswith("torch.nn") for b in bases) else "plain"


def _tried(thing: Any, setting: Setting) -> Any:
    """The result of a factory; a fit function is returned unchanged."""
    if takes_data(thing):
        return thing
    try:
        if inspect.isclass(thing) and issubclass(thing, eqx.Module):
            return made_by(thing, setting, jax.random.key(0))
        return _with_some_key(thing, setting)
    except CapaxError:
        raise
    except Exception as error:
        raise InputError(f"learner: {user_line(error)}") from None


def _with_some_key(factory: Callable[..., Any], setting: Setting) -> Any:
    """`key` is a JAX key for modules and an integer for other learners: the first that works."""
    try:
        return made_by(factory, setting, 0)
    except CapaxError:
        raise
    except Exception:
        return made_by(factory, setting, jax.random.key(0))


def _made(reference: str, T: int, key: Array) -> Any:
    factory = _remembered.get(reference) or _loaded(reference)
    return made_by(factory, Setting(T=T), key)


@lru_cache(maxsize=64)
def _loaded(reference: str) -> Any:
    if not is_reference(reference):
        raise InputError(f"learner: {reference!r} was made in another process")
    return load(reference)


@lru_cache(maxsize=256)
def _traced_floats(reference: str, T: int) -> int:
    module = eqx.filter_eval_shape(_made, reference, T, jax.random.key(0))
    arrays, static = eqx.partition(module, lambda x: isinstance(x, jax.ShapeDtypeStruct))
    example = jax.ShapeDtypeStruct((T,), jnp.float32)
    program = jax.make_jaxpr(lambda a, x: eqx.combine(a, static)(x))(arrays, example)
    return 2 * sum(v.aval.size for e in program.eqns for v in e.outvars) + 4 * T
