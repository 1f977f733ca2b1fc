"""How every command starts and ends: standard streams, signals, exit codes.

Exit codes: 0 done; 1 the answer is no (a refuted certificate, a broken machine, a closed pipe); 2
an error in the input or a refusal of the system, in one line; 130 interrupted (143 terminated, 129
hung up); 70 an error in Capax, in one line (`--debug` shows the place). This file has no slow
imports, so that Ctrl-C is handled from the start.
"""

import io
import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import NoReturn

from capax.cli.signals import Signals

INTERNAL = 70


def main() -> NoReturn:
    """Run the command line and exit."""
    signals, code = Signals(sys.argv[1:]), INTERNAL
    try:
        open_streams()  # first: no other file may get the number of a closed stream
        signals.catch()
        try:
            code = _ended(signals)
        finally:
            signals.close()
    except KeyboardInterrupt:
        signals.number = signals.number or signal.SIGINT
    _leave(signals.say() if signals.number else code)


def _ended(signals: Signals) -> int:
    """The exit code of the command, after its output has been written."""
    try:
        code = run_command(signals)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        return 1  # the reader of our output has ended, as in `capax theorems | head`
    except OSError as error:
        return _say(f"standard output: {_environment(error)}", 2)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return code


def run_command(signals: Signals | None = None) -> int:
    """The exit code of the command; errors are printed in one line."""
    debug = "--debug" in sys.argv[1:] or bool(os.environ.get("CAPAX_DEBUG"))
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        from capax.cli.main import command_line

        with warnings.catch_warnings():
            if (
                not debug
            ):  # an overflow shows in the result; the warning would only show a line of code
                warnings.simplefilter("ignore")
            return command_line()
    except BrokenPipeError:
        raise
    except Exception as error:
        if signals is not None and signals.number:
            raise KeyboardInterrupt from error  # the error comes from the interruption
        if debug:
            import traceback

            traceback.print_exc()
        return _say(*_reason(error))


def _reason(error: Exception) -> tuple[str, int]:
    """The message and the exit code of an unexpected error."""
    if isinstance(error, MemoryError):
        return f"out of memory: {error or 'the request does not fit this machine'}", 2
    if isinstance(error, OSError):
        return _environment(error), 2
    if os.environ.get("JAX_PLATFORMS") and _in_start_of_jax(error):
        asked = os.environ["JAX_PLATFORMS"]
        return f"JAX_PLATFORMS: wanted a platform of this machine, such as cpu, got {asked!r}", 2
    text = " ".join(str(error).split())[:120]
    return (
        f"an error in Capax, not in your input ({type(error).__name__}: {text}); please report "
        "it with the command and its files (the same command with --debug shows where)",
        INTERNAL,
    )


def _in_start_of_jax(error: Exception) -> bool:
    """Whether JAX failed while it searched for devices; its messages differ."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_filename.endswith("xla_bridge.py")


def _environment(error: OSError) -> str:
    """The reason given by the system: disk full, no permission, a name too long."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _say(message: str, code: int) -> int:
    """One red line on standard error, if that is open."""
    from capax.terminal import Terminal

    line = "error: " + " ".join(message.split())
    with suppress(OSError):  # the stream may be closed; the exit code remains
        Terminal(stderr=True).print(line, style="bold red", soft_wrap=True)
    return code


def open_streams() -> None:
    """Open the standard streams so that they accept all output.

    A closed stream (`capax ... >&-`) would give its number to the next file that is opened, and
    messages would be written into that file. An ASCII stream would refuse other letters.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave(code: int) -> NoReturn:
    """End now, without waiting for threads that still compile or print.

    Functions registered with atexit run; their output, such as Ray's about a lost cluster, goes to
    standard error. A broken standard output has already been reported; the interpreter would report
    it again at its end.
    """
    import atexit

    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
