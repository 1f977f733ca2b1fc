"""Commands and programs as processes of their own that share their imports (warm_server.py)."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

SERVER = str(Path(__file__).with_name("warm_server.py"))


class WarmCommands:
    """A server in `folder` and a `capax` that asks it; ends with the `with` block.

    Commands see an ordinary JAX: neither the strictness nor the 64 bits of the tests.
    """

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "socket")
        self.client = [sys.executable, "-I", "-S", SERVER, self.socket]
        script = folder / "capax"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(self.client)} capax "$@"\n')
        script.chmod(0o755)
        python = Path(sys.executable).parent
        path = os.pathsep.join([str(folder), str(python), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "100", "JAX_ENABLE_X64": "0"}

    def __enter__(self) -> "WarmCommands":
        pipe = subprocess.PIPE
        command = [sys.executable, SERVER, self.socket]
        self.server = subprocess.Popen(command, env=self.environment, stdin=pipe, stdout=pipe)
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.server.communicate()

    def bash(self, script: str, folder: Path) -> CompletedProcess[str]:
        return self._run(["bash", "-euo", "pipefail", "-c", script], folder)

    def python(self, program: str, folder: Path) -> CompletedProcess[str]:
        return self._run([*self.client, "python", program], folder)

    def capax(
        self, *arguments: object, folder: Path | None = None, **variables: str
    ) -> CompletedProcess[str]:
        return self._run([*self.client, "capax", *map(str, arguments)], folder, **variables)

    def _run(
        self, command: list[str], folder: Path | None, **variables: str
    ) -> CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
