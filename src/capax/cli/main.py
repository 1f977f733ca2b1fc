"""The command line: assembles the commands; errors in the input give one line and exit code 2."""

import importlib
import sys
from functools import cache
from typing import Annotated, Any

import typer

from capax.cli.speaking.output import stderr
from capax.errors import CapaxError

# The module of each command, in the order of the help page. Each module has `register(app)`.
COMMANDS = {
    "function": "theory.function",
    "data": "experiments.data",
    "cover": "theory.cover_command",
    "bound": "theory.bound_command",
    "audit": "networks.audit",
    "theorems": "theory.theorems",
    "shatter": "theory.shatter",
    "influence": "theory.influence_command",
    "train": "networks.train",
    "new": "experiments.new",
    "sweep": "experiments.sweep",
    "thresholds": "experiments.thresholds",
    "times": "experiments.times",
    "watch": "experiments.watch",
    "card": "experiments.card_command",
    "reference": "experiments.reference",
    "export": "experiments.export",
    "compile": "networks.compile",
    "verify": "networks.verify",
    "prove": "networks.prove",
    "check": "networks.prove",
    "decompile": "networks.decompile",
    "figure": "publishing.figure_command",
    "report": "publishing.report",
    "reproduce": "publishing.reproduce",
    "lab": "publishing.lab_command",
    "exercise": "publishing.exercise_command",
    "bench": "machine.bench",
    "doctor": "machine.doctor",
    "cite": "publishing.cite",
}

# Some versions of Typer contain a copy of Click, others import Click; the module of Typer's public
# BadParameter shows which. UsageError is the base of all errors in options.
UsageError = typer.BadParameter.__mro__[1]
ClickException = typer.BadParameter.__mro__[2]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"capax {version('capax')}")
        raise typer.Exit


def _capax(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an internal error.")
    ] = False,
) -> None:
    del version, debug  # --debug is read first, at any place
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cache
def commands(name: str | None = None) -> Any:
    """The command line with this command alone, or with all of them; made once per process."""
    app = typer.Typer(
        name="capax",
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="What does self-attention prefer to learn, how much data does it need, and how much "
        "can a head hold? Answers with numbers.",
        epilog="Example: `capax doctor`",
    )
    app.callback(invoke_without_command=True)(_capax)
    modules = COMMANDS.values() if name is None else (COMMANDS[name],)
    for module in dict.fromkeys(modules):
        importlib.import_module(f"capax.cli.{module}").register(app)
    return typer.main.get_command(app)


def _asked() -> str | None:
    """The command in the first word; None for an option or an unknown word."""
    first = sys.argv[1:2]
    return first[0] if first and first[0] in COMMANDS else None


def command_line() -> int:
    """Run the command line; errors in the input become `error: ...` on stderr and exit code 2."""
    try:
        return int(commands(_asked())(standalone_mode=False) or 0)
    except CapaxError as error:
        return _failed(str(error), error.exit_code)
    except ClickException as error:
        return _failed(_with_hint(error), 2)
    except typer.Abort:
        return _failed("interrupted", 130)


def _with_hint(error: Exception) -> str:
    message = error.format_message() if isinstance(error, ClickException) else str(error)  # pyrefly: ignore
    context = getattr(error, "ctx", None)
    return f"{message} (see: {context.command_path} --help)" if context else message


def _failed(message: str, code: int) -> int:
    line = "error: " + " ".join(message.split())
    stderr().print(line, style="bold red", soft_wrap=True)
    return code
