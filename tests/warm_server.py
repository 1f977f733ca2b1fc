"""A process that has imported what commands import, and forks a process for each one asked for.

    python warm_server.py SOCKET    asked by warm_client.py; nothing is imported before that, and it
                                    ends when its standard input is closed

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
    "torch jax.numpy equinox optax scipy.stats scipy.optimize scipy.special pandas pyarrow.parquet "
    "matplotlib.pyplot matplotlib.backends.backend_agg rich.progress rich.table sklearn.tree"
)
READ_BY_IMPORTS = ("JAX_", "XLA_", "MPL", "PYTHON", "OMP_")


def listening_at(path: str) -> socket.socket:
    """A socket that can be asked from now on."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    return listening


def serve(listening: socket.socket) -> None:
    """Import when the first one comes, then fork a process per connection."""
    import select

    if sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        import_everything()
        compile_fast()
        answer_all(listening)


def compile_fast() -> None:
    """Commands share the folder of compiled programs as the workers do (conftest.py)."""
    import jax

    from plain_programs import share_contexts, write_whole

    share_contexts()
    if "capax-tests-" in os.environ.get("JAX_COMPILATION_CACHE_DIR", ""):  # not the user's
        write_whole()
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def answer_all(listening: socket.socket) -> None:
    """A process per connection, until our standard input is closed and all of them have ended."""
    import select
    import signal

    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno())
    asked: dict[int, socket.socket] = {}
    while sys.stdin not in (ready := select.select([listening, sys.stdin, woken], [], [])[0]):
        if woken in ready:
            woken.recv(1 << 10)
            report(asked, os.WNOHANG)
        if listening in ready:
            connection = listening.accept()[0]
            if (child := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for inherited in (*asked.values(), woken, waking, listening):
                    inherited.close()
                answer(connection)
            asked[child] = connection
    while asked:
        report(asked, 0)


def report(asked: dict[int, socket.socket], options: int) -> None:
    """Tell whoever asked for them the exit codes of processes that ended."""
    while asked:
        child, status = os.waitpid(-1, options)
        if child == 0:
            return
        with asked.pop(child) as connection, suppress(OSError):  # it may have gone away
            connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def import_packages(names: str = IMPORTED) -> None:
    """Packages beside Capax, as far as they are there: who needs one that is not will say so."""
    import importlib

    for name in names.split():
        with suppress(ImportError):
            importlib.import_module(name)


def import_everything() -> None:
    """What commands import, once for all of them."""
    import gc
    import importlib
    import pkgutil
    import weakref

    import capax

    import_packages()
    for module in pkgutil.walk_packages(capax.__path__, "capax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    main = sys.modules["capax.cli.main"]
    for name in (None, *main.COMMANDS):
        main.commands(name)
    for finalizer in list(weakref.finalize._registry):  # of what is imported: 30 ms per command
        finalizer.atexit = False
    gc.freeze()  # what is here stays: a child need not look through it, which would copy it all


def answer(connection: socket.socket) -> NoReturn:
    """Become the command that is asked for."""
    import marshal

    _, (*streams, folder), _, _ = socket.recv_fds(connection, 1, 4)
    said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    connection.close()
    os.fchdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for received in (*streams, folder):
        os.close(received)
    fresh_streams()
    environment, arguments = marshal.loads(said)
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
    with listening_at(sys.argv[1]) as asked_here:
        print("ready", flush=True)
        serve(asked_here)
