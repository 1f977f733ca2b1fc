"""The pickle inside a PyTorch file, read by a restricted unpickler that can only create tensors.

A pickle is a program for a stack machine, and Python's own unpickler calls any function that the
program names. This one reads the same opcodes (`pickletools.genops` decodes them and runs nothing)
and keeps a name as two strings. Only seven names may be called; all are functions of this file. Any
other call, and every opcode that could import or construct, raises an InputError.
"""

import pickletools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from capax.errors import InputError, shown

MOST_STEPS = 20_000_000


@dataclass(frozen=True)
class Name:
    """A global that the pickle mentions. It is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:80]


@dataclass(frozen=True)
class Storage:
    """A storage of numbers: its key, its type (a name) and its length in numbers."""

    key: str
    kind: str
    length: int


@dataclass(frozen=True)
class TensorView:
    """A tensor: a strided view of a storage. `kind` replaces the type of an untyped storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    kind: str | None = None


class _StackMark:
    pass


def _view(storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> TensorView:
    dtype = rest[2] if len(rest) > 2 and isinstance(rest[2], Name) else None
    whole = all(type(n) is int and n >= 0 for n in (offset, *shape, *stride))
    if not isinstance(storage, Storage) or not whole or len(shape) != len(stride):
        raise ValueError("malformed tensor")
    return TensorView(storage, offset, tuple(shape), tuple(stride), dtype.name if dtype else None)


def _parameter(data: Any, *_: Any) -> Any:
    if not isinstance(data, TensorView):
        raise ValueError("malformed parameter")
    return data


def _from_type(function: Any, _type: Any, arguments: Any, _state: Any) -> Any:
    return _call(function, arguments)


def _ordered(items: Any = ()) -> dict[Any, Any]:
    return _table((key, value) for key, value in items)


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor"): _view,
    ("torch._utils", "_rebuild_tensor_v2"): _view,
    ("torch._utils", "_rebuild_tensor_v3"): _view,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("collections", "OrderedDict"): _ordered,
    ("torch", "Size"): tuple,
}


def _call(function: Any, arguments: Any) -> Any:
    known = isinstance(function, Name) and ALLOWED.get((function.module, function.name))
    if not known or not isinstance(arguments, tuple):
        raise InputError(f"the pickle wants to call {shown(str(function))}: refused, nothing run")
    return known(*arguments)


def _storage(reference: Any) -> Storage:
    word, kind, key, _location, length = reference[:5]
    if word != "storage" or not isinstance(kind, Name) or type(length) is not int or length < 0:
        raise ValueError("malformed storage")
    return Storage(str(key), kind.name, length)


VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
    "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
FRESH = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
GETS = {"GET", "BINGET", "LONG_BINGET"}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
SKIPPED = {"PROTO", "FRAME"}
MISTAKES = (
    ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError, EOFError
)  # fmt: skip


class Machine:
    """A reader of one pickle; `run` returns the object on top of the stack at STOP."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, source: Any) -> Any:
        """Read opcodes from a file-like object up to STOP."""
        try:
            for step, (opcode, argument, _) in enumerate(_opcodes(source)):
                if step > MOST_STEPS:
                    raise ValueError("endless")
                if opcode.name == "STOP":
                    return self.stack.pop()
                self._step(opcode.name, argument)
        except InputError:
            raise
        except MISTAKES as error:
            raise InputError(
                f"the pickle is not a table of tensors ({shown(str(error))})"
            ) from None
        raise InputError("the pickle is truncated")

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in VALUES:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in FRESH:
            stack.append(FRESH[name]())
        elif name in PUTS:
            self.memo[int(argument)] = stack[-1]
        elif name in GETS:
            stack.append(self.memo[int(argument)])
        elif name in TUPLES:
            stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
        elif name not in SKIPPED:
            self._construct(name, argument)

    def _construct(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "MARK":
                stack.append(_StackMark)
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "LIST":
                stack.append(self._since_mark())
            case "DICT":
                stack.append(_pairs(self._since_mark()))
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "APPENDS":
                values = self._since_mark()
                stack[-1].extend(values)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1].update(_table([(key, value)]))
            case "SETITEMS":
                stack[-2 - _length(stack)].update(_pairs(self._since_mark()))
            case "GLOBAL":
                stack.append(Name(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                word, module = stack.pop(), stack.pop()
                stack.append(Name(str(module), str(word)))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_call(function, arguments))
            case "BUILD":
                stack.pop()  # attributes of a table (its `_metadata`): not needed, not set
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case "POP":
                stack.pop()
            case _:
                raise InputError(f"the pickle uses the opcode {name}: refused, nothing was run")

    def _since_mark(self) -> list[Any]:
        count = _length(self.stack)
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count - 1 :]
        return items


def _opcodes(source: Any) -> Iterator[Any]:
    yield from pickletools.genops(source)


def _length(stack: list[Any]) -> int:
    """The number of items above the last mark."""
    for count, item in enumerate(reversed(stack)):
        if item is _StackMark:
            return count
    raise ValueError("no mark")


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return _table(zip(items[::2], items[1::2], strict=True))


def _table(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dict with plain keys: hashing a tuple nested a million deep would end the process."""
    table = {}
    for key, value in pairs:
        if not isinstance(key, str | int | float | None):
            raise ValueError("a key that is neither text nor number")
        table[key] = value
    return table
