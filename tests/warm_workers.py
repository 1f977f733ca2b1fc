"""Workers of xdist that share one collection.

    python warm_workers.py FOLDER PATHS    collect the tests, then fork a worker for each that asks

Before that it forks the server of commands, which shares its imports of other packages.
To collect the tests takes twenty seconds: imports, asserts rewritten, checks of calls compiled. One
process does it and forks the workers, which find every module there. No thread may run in a process
that forks, so nothing is computed while tests are collected.
"""

import gc
import os
import shlex
import subprocess
import sys
from pathlib import Path
from socket import socket
from unittest.mock import patch

import psutil
import pytest
from jax._src import xla_bridge

import warm_client
import warm_server
from warm_commands import environment

# What tests import when they run, beside what commands import: seconds for each worker, or once.
IMPORTED = (
    "torch._dynamo sympy flint sklearn.neural_network PIL.Image playwright.sync_api "
    "transformers.models.bert.modeling_bert"
)
# What workers and commands share. Not Equinox, which imports jaxtyping: pytest imports its plugins.
SHARED = (
    "torch jax.numpy scipy.stats scipy.optimize pandas pyarrow.parquet matplotlib.pyplot "
    "sklearn.tree"
)


class CollectedWorkers:
    """The process that collects and forks, from now until it is stopped."""

    def __init__(self, folder: Path, paths: list[str]) -> None:
        self._socket = str(folder / "workers")
        command = [sys.executable, __file__, str(folder), *paths]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def python(self) -> str:
        """What xdist starts instead of Python."""
        return shlex.join(
            [sys.executable, "-I", "-S", warm_client.__file__, self._socket, "worker"]
        )

    def stop(self) -> None:
        """It waits for its workers; where xdist failed before it could end them, we do."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            for process in psutil.Process(self._process.pid).children(recursive=True):
                process.kill()
            self._process.communicate()


class Forking:
    """In place of running the tests: a process with them for everyone who asks.

    JAX starts threads, and no thread survives a fork. So it refuses to start here: a test file that
    computes while it is imported fails in this process, and is imported by each worker itself.
    """

    def __init__(self, listening: socket) -> None:
        self.listening = listening

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self):
        refusal = RuntimeError("a test file computes while it is imported")
        with patch.object(xla_bridge, "backends", side_effect=refusal):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self):
        warm_server.import_packages(IMPORTED)
        warm_server.import_everything()
        gc.collect()
        gc.freeze()  # shared with the workers as long as nobody looks through it
        warm_server.answer_all(self.listening)
        os._exit(0)


def main(folder: Path, paths: list[str]) -> None:
    commands, workers = (warm_server.listening_at(str(folder / n)) for n in ("socket", "workers"))
    print("ready", flush=True)
    warm_server.import_packages(SHARED)
    if os.fork() == 0:
        workers.close()
        os.environ.update(environment())
        warm_server.serve(commands)
        os._exit(0)
    commands.close()
    with workers, Path(os.devnull).open("w") as nowhere:
        sys.stdout = nowhere
        # without capture: the streams of a worker are its own
        pytest.main(["-s", *paths], plugins=[Forking(workers)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
