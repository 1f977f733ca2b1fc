"""The command line: assembles the commands; errors in the input give one line and exit code 2."""

import importlib
from functools import cache
from typing import Annotated, Any

import typer

from capax.cli.speaking.output import stderr
from capax.errors import CapaxError

# One module per command, in the order of the help page. Each has `register(app)`.
COMMANDS = (
    "theory.function",
    "experiments.data",
    "theory.cover_command",
    "theory.bound_command",
    "networks.audit",
    "theory.theorems",
    "theory.shatter",
    "theory.influence_command",
    "networks.train",
    "experiments.new",
    "experiments.sweep",
    "experiments.thresholds",
    "experiments.times",
    "experiments.watch",
    "experiments.card_command",
    "experiments.reference",
    "experiments.export",
    "networks.compile",
    "networks.verify",
    "networks.prove",
    "networks.decompile",
    "publishing.figure_command",
    "publishing.report",
    "publishing.reproduce",
    "publishing.lab_command",
    "publishing.exercise_command",
    "machine.bench",
    "machine.doctor",
    "publishing.cite",
)

# Some versions of Typer contain a copy of Click, others import Click; the module of Typer's public
# BadParameter shows which. UsageError is the base of all errors in options.
UsageError = typer.BadParameter.__mro__[1]
ClickException = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="capax",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What does self-attention prefer to learn, how much data does it need, and how much can "
    "a head hold? Answers with numbers.",
    epilog="Example: `capax doctor`",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"capax {version('capax')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
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


for _name in COMMANDS:
    importlib.import_module(f"capax.cli.{_name}").register(app)


@cache
def all_commands() -> Any:
    """The commands with their options, made once per process: it takes 20 ms."""
    return typer.main.get_command(app)


def command_line() -> int:
    """Run the command line; errors in the input become `error: ...` on stderr and exit code 2."""
    try:
        return int(all_commands()(standalone_mode=False) or 0)
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
