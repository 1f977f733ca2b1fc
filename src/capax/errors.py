"""Errors for input that cannot be used.

Every error in a user's input raises one of these, with a one-line message that names the argument,
the wanted value and the given one. The command line prints it without a traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from capax.foreign import one_line, printable, shortened


class CapaxError(Exception):
    """Base of every error Capax raises on purpose. `exit_code`: of the command line.

    Examples:
        >>> import capax
        >>> issubclass(capax.InputError, capax.CapaxError), capax.CapaxError.exit_code
        (True, 2)
    """

    exit_code: int = 2

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(shortened(str(message))))  # it may quote names from files


class InputError(CapaxError, ValueError):
    """An argument, a file or a specification that cannot be used as given.

    Examples:
        >>> import capax
        >>> try:
        ...     capax.parse("x1 &")
        ... except capax.InputError as error:
        ...     print(str(error).split(":")[0])
        formula
    """


class InfeasibleError(CapaxError):
    """A well-formed request that needs more time, memory or tries than the stated limit."""


def require(condition: object, argument: str, wanted: str, got: object) -> None:
    """Raise `InputError("<argument>: wanted <wanted>, got <got>")` unless `condition` holds."""
    if not condition:
        raise InputError(f"{argument}: wanted {wanted}, got {shown(got)}")


def shown(value: object, limit: int = 80) -> str:
    """`repr(value)` on one line and at most `limit` characters long."""
    try:
        return one_line(repr(value), limit)
    except (ValueError, RecursionError):  # an integer of 4300 digits, a list in a list in a list
        return f"a {type(value).__name__} too long to show"


def counted(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextmanager
def inside(place: str) -> Iterator[None]:
    """Put `place` before every message that is raised inside: `inside("panels.a.")`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}{error}") from None
