"""The `capax` command in this process: the same entry point without seconds of imports."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from capax.cli.entry import run_command


def typed(*arguments: object) -> CompletedProcess[str]:
    """What `capax arguments` prints and returns; each command is also run for real somewhere."""
    command = ["capax", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", command):
        code = run_command()
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())
