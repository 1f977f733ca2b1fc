"""Entry point: assembles the commands, and turns user mistakes into one line and exit code 2."""

import importlib
import sys
from typing import Annotated

import typer

from capax.cli.output import stderr
from capax.errors import CapaxError

# One module per command, in the order of the help page. Each has `register(app)`.
COMMANDS = (
    "function",
    "data",
    "cover",
    "bound",
    "theorems",
    "sweep",
    "thresholds",
    "export",
    "compile",
    "verify",
    "decompile",
    "figure",
    "report",
    "reproduce",
    "bench",
    "doctor",
)

# Typer carries its own copy of Click in some versions and imports Click in others; its public
# BadParameter tells which one is in use. UsageError is the base of every misuse of the options.
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
) -> None:
    del version
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name in COMMANDS:
    importlib.import_module(f"capax.cli.{_name}").register(app)


def main() -> None:
    """Run the command line; user mistakes become `error: ...` on stderr and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except CapaxError as error:
        _fail(str(error), error.exit_code)
    except ClickException as error:
        _fail(_with_hint(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.exit(141)  # the reader of our output went away, as in `capax theorems | head`
    except MemoryError:
        _fail("out of memory: use a smaller T, m or sample", 2)


def _with_hint(error: Exception) -> str:
    message = error.format_message() if isinstance(error, ClickException) else str(error)  # pyrefly: ignore
    context = getattr(error, "ctx", None)
    return f"{message} (see: {context.command_path} --help)" if context else message


def _fail(message: str, code: int) -> None:
    line = "error: " + " ".join(message.split())
    stderr().print(line, style="bold red", markup=False, soft_wrap=True)
    sys.exit(code)
