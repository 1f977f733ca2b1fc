"""From the user's object to `fit(X, y, *, key) -> predict`.

    an estimator         class or object with `fit` and `predict` (scikit-learn), new each time
    a fit function       fit(X, y, *, key) -> predict; `key` may be left out
    a PyTorch module     class or factory; called on float bits [m, T], gives logits; trained here
    a factory            build(T), build(T, key) or build(): makes one of the above

A factory may also have the parameter `function`, the formula to be learned, as the version-space
learner does.
"""

import inspect
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from capax.errors import InputError, shown
from capax.learners.setting import Setting

Predict = Callable[[np.ndarray], Any]
Fit = Callable[..., Any]


def fit_of(thing: Any, setting: Setting) -> Fit:
    """`thing` as a fit function. Raises `InputError` if it is not a learner."""
    if setting.options:
        thing, setting = _with_options(thing, setting.options), replace(setting, options={})
    if _is_torch_module(thing) or _is_torch_class(thing):
        return _torch_fit(thing, setting)
    if hasattr(thing, "fit") and hasattr(thing, "predict"):
        return _estimator_fit(thing)
    if not callable(thing):
        raise InputError(
            f"learner: wanted an estimator, a fit function or a factory, got {shown(thing)}"
        )
    if takes_data(thing):
        return _plain_fit(thing)
    return _made_fit(thing, setting)


def made_by(factory: Callable[..., Any], setting: Setting, key: Any) -> Any:
    """The result of a factory, called with its parameters among T, key and function."""
    offered = {"T": setting.T, "key": key, "function": setting.function}
    parameters = inspect.signature(factory).parameters
    wanted = [name for name, p in parameters.items() if _is_required(p) or name in offered]
    given = {name: offered[name] for name in wanted if name in offered}
    unknown = [name for name in wanted if name not in offered]
    if len(unknown) == 1 and "T" not in given:  # the length under another name
        given, unknown = {**given, unknown[0]: setting.T}, []
    if unknown:
        names = ", ".join(unknown)
        raise InputError(f"learner: a factory may take T, key and function; this one needs {names}")
    return factory(**given)


def _with_options(thing: Any, options: dict[str, Any]) -> Any:
    if not callable(thing):
        raise InputError(f"learner: an object takes no settings, got {shown(options)}")
    known = inspect.signature(thing).parameters
    flexible = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name in options:
        if name not in known and not flexible:
            raise InputError(f"{name}: unknown setting of the learner; known: {', '.join(known)}")
    return partial(thing, **options)


def seed_everything(key: int) -> None:
    """Seed the global generators too, so that code without `key` is reproducible as well."""
    random.seed(key)
    np.random.seed(key % 2**32)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(key)


def _made_fit(factory: Callable[..., Any], setting: Setting) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        made = made_by(factory, setting, key)
        if callable(made) and not hasattr(made, "fit") and not _is_torch_module(made):
            if not takes_data(made):
                raise InputError(
                    f"learner: the factory did not return a learner, got {shown(made)}"
                )
            return _plain_fit(made)(X, y, key=key)
        return fit_of(made, setting)(X, y, key=key)

    return fit


def _plain_fit(function: Callable[..., Any]) -> Fit:
    parameters = inspect.signature(function).parameters.values()
    takes_key = any(p.name == "key" or p.kind is p.VAR_KEYWORD for p in parameters)

    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        predict = function(X, y, key=key) if takes_key else function(X, y)
        return predict.predict if hasattr(predict, "predict") else predict

    return fit


def _estimator_fit(estimator: Any) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        own = _fresh(estimator)
        if hasattr(own, "get_params") and own.get_params().get("random_state", 0) is None:
            own.set_params(random_state=key % 2**31)
        own.fit(X, y)
        return own.predict

    return fit


def _fresh(estimator: Any) -> Any:
    """A new estimator with the same settings, without the state of the last trial."""
    if inspect.isclass(estimator):
        return estimator()
    if hasattr(estimator, "get_params"):
        from sklearn.base import clone

        return clone(estimator)
    import copy

    return copy.deepcopy(estimator)


def _torch_fit(thing: Any, setting: Setting) -> Fit:
    from capax.learners.torch_modules import train_module  # loads PyTorch

    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        module = made_by(thing, setting, key) if _is_torch_class(thing) else _copied(thing)
        return train_module(module, X, y, setting)

    return fit


def _copied(module: Any) -> Any:
    """A copy of a module that was given as an object, in its state before any training."""
    import copy

    return copy.deepcopy(module)


def _is_torch_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _is_torch_class(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and inspect.isclass(thing) and issubclass(thing, torch.nn.Module)


def takes_data(function: Callable[..., Any]) -> bool:
    """Whether it takes (X, y): two required positional parameters, not T and a key."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p.name for p in parameters if _is_required(p) and p.kind is not p.KEYWORD_ONLY]
    return len(positional) == 2 and not {"T", "key", "function"} & set(positional)


def _is_required(parameter: inspect.Parameter) -> bool:
    flexible = (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and parameter.kind not in flexible
