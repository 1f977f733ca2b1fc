"""The `capax` command in this process: the same entry point without seconds of imports."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from capax.cli.main import main


def typed(*arguments: object) -> CompletedProcess[str]:
    """What `capax arguments` prints and returns; each command is also run for real somewhere."""
    command = ["capax", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), None
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", command):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())
