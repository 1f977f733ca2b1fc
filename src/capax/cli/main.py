"""Entry point: assembles the commands, and turns user mistakes into one line and exit code 2."""

import importlib
import sys
from typing import Annotated

import click
import typer

from capax.cli.output import stderr
from capax.errors import CapaxError

# One module per command, in the order of the help page. Each has `register(app)`.
COMMANDS = ("doctor",)

app = typer.Typer(
    name="capax",
    no_args_is_help=True,
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


@app.callback()
def _capax(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


for _name in COMMANDS:
    importlib.import_module(f"capax.cli.{_name}").register(app)


def main() -> None:
    """Run the command line; user mistakes become `error: ...` on stderr and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except CapaxError as error:
        _fail(str(error), error.exit_code)
    except click.exceptions.Abort:
        _fail("interrupted", 130)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except MemoryError:
        _fail("out of memory: use a smaller T, m or sample", 2)


def _fail(message: str, code: int) -> None:
    stderr().print("error: " + " ".join(message.split()), style="bold red", markup=False, soft_wrap=True)
    sys.exit(code)
