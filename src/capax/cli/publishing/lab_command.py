"""`capax lab`: the pages of the lab, served on this machine or frozen into one file."""

from pathlib import Path
from typing import Annotated

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.errors import InputError
from capax.plain_json import json_text


def lab(
    address: Annotated[
        str,
        typer.Argument(
            help="View and state: `create`, `compile?formula=x1&T=50`, or a whole address."
        ),
    ] = "compile",
    port: Annotated[
        int | None, typer.Option(help="Port. Default: that of the last time, or a free one.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or print the address.")
    ] = True,
    freeze: Annotated[
        Path | None, typer.Option(help="Write the view as one HTML file, and serve nothing.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Interactive pages: compile a head, watch a training run, compare laws and bounds.

    The pages are served to this machine alone and do not use the network. Ctrl-C ends the server
    and every run. Views: compile, create, laws, bounds. Needs capax[lab].

    Example: `capax lab`

    Example: `capax lab "compile?formula=x2 %26 x5&T=30" --freeze head.html`
    """
    from urllib.parse import urlencode

    from capax.lab.views.addresses import state_of

    view, state = state_of(address)
    if state:
        from capax.lab.views.questions import question_of

        question_of(view, state)  # report an error in it now
    if freeze is not None:
        _write(view, state, freeze)
        written = {"page": str(freeze), "view": view, "state": state}
        emit(written, json, lambda console: console.print(f"page: {freeze}"))
        return
    try:
        from capax.lab.server import serve
    except ImportError as error:
        raise InputError(f"lab: {error.name} is not installed; pip install 'capax[lab]'") from None
    place = f"{view}?{urlencode(state)}" if state else view

    def ready(address: str) -> None:
        if json:
            typer.echo(json_text({"address": address}))
        elif not browser:
            typer.echo(address)
        if browser:
            _open(address)

    serve(place, port=port, ready=ready)


def _open(address: str) -> None:
    import webbrowser

    note(f"the lab: {address}")
    note("Ctrl-C ends it")
    if not webbrowser.open(address):
        note("no browser was found: open the address above")


def _write(view: str, state: dict[str, str], path: Path) -> None:
    from capax.files import write_atomically
    from capax.lab.frozen_page import frozen_page, recorded_runs

    check_destinations(path)
    page = frozen_page(view, state, recorded_runs(state) if view == "create" else [])
    write_atomically(path, lambda file: file.write(page.encode()))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lab")(lab)
