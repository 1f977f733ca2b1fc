"""Commands and programs as processes of their own that share their imports (warm_server.py)."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile

import warm_client

SERVER = str(Path(__file__).with_name("warm_server.py"))


def client(folder: Path) -> list[str]:
    return [sys.executable, "-I", "-S", warm_client.__file__, str(folder / "socket")]


def environment() -> dict[str, str]:
    """Of the server and of those who ask it: otherwise they could not share imports."""
    return {**os.environ, "COLUMNS": "100", "JAX_ENABLE_X64": "0"}


class WarmServer:
    """The server in `folder` and a `capax` that asks it, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "socket"
        script = folder / "capax"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(client(folder))} capax "$@"\n')
        script.chmod(0o755)
        pipe = subprocess.PIPE
        command = [sys.executable, SERVER, str(folder / "socket")]
        self._process = subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.communicate()
        self._socket.unlink()  # another one may listen in its place


class WarmCommands:
    """Commands and programs of the server in `folder`.

    They see an ordinary JAX: neither the strictness nor the 64 bits of the tests. Scripts and
    programs see one core: a sweep of scikit-learn starts a process per core, which imports it.
    """

    def __init__(self, folder: Path) -> None:
        self.client = client(folder)
        path = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {**environment(), "PATH": os.pathsep.join(path)}

    def bash(self, script: str, folder: Path) -> CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env={**self.environment, "CAPAX_TESTS_CORES": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    def python(self, program: str, folder: Path) -> CompletedProcess[str]:
        return self._ask(["python", program], folder, CAPAX_TESTS_CORES="1")

    def capax(
        self, *arguments: object, folder: Path | None = None, **variables: str
    ) -> CompletedProcess[str]:
        return self._ask(["capax", *map(str, arguments)], folder, **variables)

    def main_of(self, module: str) -> tuple[str, ...]:
        """A command that calls `main` of a module with the arguments that are appended to it.

        Whoever starts it has the variables of `environment`, or it begins with all imports.
        """
        code = f"import sys; sys.argv += '$*'.split(); from {module} import main; main()"
        return "sh", "-c", f'exec {shlex.join(self.client)} python "{code}"', "sh"

    def _ask(
        self, command: list[str], folder: Path | None, **variables: str
    ) -> CompletedProcess[str]:
        """The server asked by ourselves: a client would be a process more."""
        told = {**self.environment, **variables}
        with Path(os.devnull).open() as nothing, TemporaryFile() as out, TemporaryFile() as err:
            streams = [stream.fileno() for stream in (nothing, out, err)]
            code = warm_client.ask(self.client[-1], command, streams, folder or ".", told)
            written = [os.pread(number, 1 << 30, 0).decode() for number in streams[1:]]
        return CompletedProcess(command, code, *(text.replace("\r\n", "\n") for text in written))
