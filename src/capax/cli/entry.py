"""The first and the last thing a command does: signals, and how it ends.

Every ending is one of: 0 done; 1 the answer is no (a refuted certificate, a broken machine, a
reader that went away); 2 a mistake of the user, in one line; 130 interrupted; 70 a mistake of ours,
in one line (`--debug` shows where). This file imports nothing heavy, so that Ctrl-C finds a handler
from the first moment on.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

INTERRUPTED, INTERNAL = 130, 70


def main() -> NoReturn:
    """Run the command line and exit."""
    sys.unraisablehook = _unraisable(sys.unraisablehook)
    code = INTERRUPTED
    try:
        code = run_command()
        _flush()
    except KeyboardInterrupt:
        code = _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        code = _reader_gone()
    # From here on nothing is left to save: a further Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def run_command() -> int:
    """The exit code of the command; errors are said in one line on the way."""
    debug = "--debug" in sys.argv[1:] or bool(os.environ.get("CAPAX_DEBUG"))
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        from capax.cli.main import command_line

        with warnings.catch_warnings():
            if not debug:  # an overflow is said by the number that comes of it, not by a code line
                warnings.simplefilter("ignore")
            return command_line()
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except MemoryError as error:
        return _say(f"out of memory: {error or 'the request does not fit this machine'}", 2)
    except OSError as error:
        if debug:
            raise
        return _say(_environment(error), 2)
    except Exception as error:
        if debug:
            raise
        return _say(_ours(error), INTERNAL)


def _environment(error: OSError) -> str:
    """What the system refused: disk full, no permission, a name too long."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _ours(error: Exception) -> str:
    kind = type(error).__name__
    text = " ".join(str(error).split())[:120]
    return (
        f"this is a mistake in Capax, not yours ({kind}: {text}); please report it with the "
        "command and its files (the same command with --debug shows where)"
    )


def _say(message: str, code: int) -> int:
    """One red line on standard error, if there is one."""
    from capax.terminal import Terminal

    line = "error: " + " ".join(message.split())
    with suppress(OSError):  # where nobody listens the exit code still tells
        Terminal(stderr=True).print(line, style="bold red", soft_wrap=True)
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _reader_gone() -> int:
    """The reader of our output went away, as in `capax theorems | head`: say nothing, exit 1."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


def _unraisable(before: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ctrl-C inside a finaliser would be printed and lost: it is delivered again, soon after."""

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,)).start()
        else:
            before(unraisable)

    return hook
