"""A process that has imported what commands import, and forks a process for each one asked for.

    python warm_server.py SOCKET              the server; it ends when its standard input is closed,
                                              and imports nothing before it is asked
    python warm_server.py SOCKET capax ...    a command, as `capax ...`
    python warm_server.py SOCKET python CODE  a program, as `python -c CODE`
    python warm_server.py SOCKET worker ... CODE   the same, of the process in warm_workers.py

A short command spends most of its time on imports. Here each command still is a process of its
own, with its own folder, streams, exit code and a JAX that has not computed anything: only the
imports are shared. No thread may run in a process that forks, so the server computes nothing.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import NoReturn

# Besides every module of capax: what its commands and the programs of the guides import when used.
IMPORTED = (
    "jax.numpy equinox optax scipy.stats scipy.optimize scipy.special pandas pyarrow.parquet "
    "matplotlib.pyplot matplotlib.backends.backend_agg rich.progress rich.table sklearn.tree"
)
READ_BY_IMPORTS = ("JAX_", "XLA_", "MPL", "PYTHON", "OMP_")


def ask(path: str, arguments: list[str]) -> int:
    """The exit code of a command that the server ran with our folder, streams and environment."""
    import json

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"-"], [0, 1, 2, os.open(".", os.O_RDONLY)])
        connection.sendall(json.dumps([dict(os.environ), arguments]).encode())
        connection.shutdown(socket.SHUT_WR)
        return int(connection.recv(16) or b"-1")


def listening_at(path: str) -> socket.socket:
    """A socket that can be asked from now on, and a word to the process that waits for it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    print("ready", flush=True)
    return listening


def serve(path: str) -> None:
    """Import when the first one comes, then fork a process per connection."""
    import select

    with listening_at(path) as listening:
        if sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            import_everything()
            answer_all(listening)


def answer_all(listening: socket.socket) -> None:
    """A process per connection, until our standard input is closed and all of them have ended."""
    import select

    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        connection = listening.accept()[0]
        if os.fork() == 0:
            answer(connection)
        connection.close()
        while os.waitpid(-1, os.WNOHANG)[0]:  # those that ended; the one just begun is there
            pass
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass


def import_everything() -> None:
    """What commands import, once for all of them."""
    import contextlib
    import gc
    import importlib
    import pkgutil

    import capax

    for name in IMPORTED.split():
        with contextlib.suppress(ModuleNotFoundError):  # the command that needs it will say so
            importlib.import_module(name)
    for module in pkgutil.walk_packages(capax.__path__, "capax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()  # what is here stays: a child need not look through it, which would copy it all


def answer(connection: socket.socket) -> NoReturn:
    """Fork again: the child becomes the command, we send its exit code back."""
    import json

    _, (*streams, folder), _, _ = socket.recv_fds(connection, 1, 4)
    said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(b"%d" % code)
        os._exit(0)
    connection.close()
    os.fchdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for received in (*streams, folder):
        os.close(received)
    fresh_streams()
    environment, arguments = json.loads(said)
    prepare(environment)
    if settings(environment) != settings(os.environ):
        capax = arguments[0] == "capax"
        start = ["-m", "capax.cli", *arguments[1:]] if capax else ["-c", arguments[-1]]
        os.execve(sys.executable, [sys.executable, *start], environment)
    os.environ.clear()
    os.environ.update(environment)
    leave(become, arguments)


def prepare(environment) -> None:
    """What the tests ask of a process beside its environment: one core; its number for signals."""
    from pathlib import Path

    if "CAPAX_TESTS_CORES" in environment and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    if told := environment.get("CAPAX_TESTS_PID"):
        Path(told).write_text(str(os.getpid()))


def fresh_streams() -> None:
    """Python's streams as a new process makes them: ours remember what the server's were."""
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    errors = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = errors


def settings(environment) -> dict[str, str]:
    """Variables that are read while modules are imported: other values need other imports."""
    return {k: v for k, v in environment.items() if k.startswith(READ_BY_IMPORTS)}


def become(arguments: list[str]) -> None:
    from types import ModuleType

    main = sys.modules["__main__"] = ModuleType("__main__")
    if arguments[0] == "capax":
        from capax.cli.entry import main as capax

        sys.argv = arguments
        capax()
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    exec(compile(arguments[-1], "<string>", "exec"), main.__dict__)  # noqa: S102


def leave(run, arguments: list[str]) -> NoReturn:
    """Run and exit as Python does, but without taking every imported module apart."""
    import atexit
    import threading

    code = 0
    try:
        run(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
