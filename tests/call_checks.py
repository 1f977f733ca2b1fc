"""Every call of Capax in the tests has its types and shapes checked, by beartype and jaxtyping.

`check_calls` stands in for `jaxtyping.jaxtyped` and asks the same questions. A question that was
answered is not asked again: whether a call fits depends on the types, shapes and dtypes of what
goes in and comes out, so a call that looks like one that fitted, fits.
"""

import threading
from dataclasses import is_dataclass
from functools import wraps
from inspect import isclass
from types import FunctionType, NoneType, SimpleNamespace
from typing import Any, ForwardRef, Literal, get_args, get_origin, get_type_hints

import jaxtyping
import numpy as np
import typer
from beartype import BeartypeConf, beartype

check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
one_call = jaxtyping.jaxtyped("context")  # within it one letter is one size


def has_shapes(annotation):
    """Whether an annotation contains a jaxtyping array, or text that could be one."""
    if isinstance(annotation, str | ForwardRef):
        return True
    if isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    if get_origin(annotation) is Literal:  # its words are no names
        return False
    return any(has_shapes(part) for part in get_args(annotation))


def is_plain(function):
    annotations = getattr(function, "__annotations__", {}).values()
    return isinstance(function, FunctionType) and not any(map(has_shapes, annotations))


def resolves(annotation, function):
    """False for a quoted name that only type checkers import."""
    named = SimpleNamespace(__annotations__={"it": annotation})
    try:
        get_type_hints(named, globalns=function.__globals__)
    except NameError:
        return False
    return True


PLAIN = {bool, int, float, complex, bytes, NoneType, np.float64, np.float32, np.int64, np.bool_}
CONTAINERS = (tuple, list, dict, set, frozenset)  # and what is derived from them


def by_itself(value):
    return value  # it may be one of some words, or of some classes


def by_parts(value):
    return look_at_all(value) if len(value) < 8 else None


def by_array(value):
    return np.ndarray, value.shape, value.dtype


def by_shape(value):
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return type(value) if dtype is None else (type(value), shape, dtype)


def way_to_look(kind):
    """How values of a type are looked at: asked for a shape only if they may have a dtype."""
    if kind in PLAIN:
        return type
    if kind in (str, type):
        return by_itself
    if kind is tuple:
        return by_parts
    if kind is np.ndarray:
        return by_array
    if issubclass(kind, CONTAINERS):
        return lambda _: None
    fields = getattr(kind, "__dataclass_fields__", None)
    named = hasattr(kind, "dtype") or hasattr(kind, "__getattr__") or "dtype" in (fields or ())
    return by_shape if named or fields is None else type


class Ways(dict):
    """All that a check can ask of a value of a type; None where only the check itself can tell."""

    def __missing__(self, kind):
        way = self[kind] = way_to_look(kind)
        return way


WAYS = Ways()


def look_at_all(values) -> object:
    seen = tuple([WAYS[type(value)](value) for value in values])
    return None if None in seen else seen


def check_arrays(function):
    """Types and sizes of one call, as jaxtyping's own decorator has it at a fraction of the cost.

    That one binds the arguments of every call to their names, for its message, and checks them
    a second time with the result.
    """
    checked = answered = None
    fitted = {}  # what came out that fitted, by what went in
    here = threading.local()

    @wraps(function)
    def give(*_, **__):
        return here.result

    def prepare():
        """Not before all names of its module are there."""
        nonlocal checked
        function.__annotations__ = give.__annotations__ = {
            name: annotation if resolves(annotation, function) else Any
            for name, annotation in function.__annotations__.items()
        }
        checked = check_types(function)

    @wraps(function)
    def call(*arguments, **named):
        nonlocal answered
        if checked is None:
            prepare()
        seen = look_at_all(arguments)
        if named and seen is not None:
            others = look_at_all(named.values())
            seen = None if others is None else (seen, others, *named, None)
        outs = None if seen is None else fitted.get(seen)
        if outs is None:
            with one_call:
                result = checked(*arguments, **named)
            fitted[seen] = {WAYS[type(result)](result)}
            return result
        result = function(*arguments, **named)
        out = WAYS[type(result)](result)
        if out is None or out not in outs:
            answered = answered or check_types(give)
            here.result = result
            answered = answered or check_types(give)
            with one_call:
                answered(*arguments, **named)
            outs.add(out)
        return result

    return call


SEEN_INSIDE = set()


def was_checked(function):
    """Whether a function inside a function was decorated before: each call makes a new one, and to
    write and compile its checks takes a thousand times as long as most of them run."""
    code = getattr(function, "__code__", None)
    if code is None or "<locals>" not in function.__qualname__:
        return False
    before = code in SEEN_INSIDE
    SEEN_INSIDE.add(code)
    return before


def check_calls(*, typechecker):
    """In place of `jaxtyping.jaxtyped`: beartype alone where no array is named."""
    del typechecker

    def decorate(decorated):
        if isclass(decorated):
            if is_dataclass(decorated) and "__init__" in vars(decorated):
                decorated.__init__ = decorate(decorated.__init__)
            return decorated
        if typer.Context in getattr(decorated, "__annotations__", {}).values():
            return decorated  # Typer asks for this annotation and passes a Context of Click
        if was_checked(decorated) or decorated.__qualname__ == "require":
            return decorated  # `require` takes anything, and is asked millions of times
        return check_types(decorated) if is_plain(decorated) else check_arrays(decorated)

    return decorate
