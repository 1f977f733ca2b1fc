"""`capax lab`: the server on this machine."""

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import uvicorn

from capax.errors import InputError, require
from capax.lab.app import Lab
from capax.lab.guard import Guard
from capax.lab.loading import load_meanwhile
from capax.lab.remembered import remember, remembered
from capax.lab.running.training_queue import TrainingQueue

ADDRESS = "127.0.0.1"
FAREWELL = 2  # seconds before open connections are closed at the end


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve` below."""

    def capture_signals(self) -> Any:
        return nullcontext()


def listening(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 stands for any free port."""
    require(0 <= port < 65536, "port", "a number from 0 (any free port) to 65535", port)
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((ADDRESS, port))
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise InputError(
            f"port: {port} is not available ({reason}); leave --port out to get a free port"
        ) from None
    return made


def _chosen(port: int | None, last: int) -> socket.socket:
    if port is not None:
        return listening(port)
    try:
        return listening(last)
    except InputError:
        return listening(0)


def serve(place: str, *, port: int | None = None, ready: Callable[[str], None] = print) -> None:
    """Serve until a signal arrives; `ready` gets the address, with the token, of the view `place`.

    port: by default that of the last server, or a free port if it is taken.
    """
    last = remembered()
    token = last.token
    with _chosen(port, last.port) as opened, TrainingQueue() as queue:
        number = opened.getsockname()[1]
        remember(number, token)
        lab = Lab(queue)
        guarded = Guard(lab.application(), port=number, token=token)
        config = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=FAREWELL,
            h11_max_incomplete_event_size=64 * 1024,
        )
        joined = "&" if "?" in place else "?"
        address = f"http://{ADDRESS}:{number}/{place}{joined}token={token}"
        asyncio.run(_until_signal(_Server(config), lab, opened, lambda: ready(address)))


async def _until_signal(
    server: _Server, lab: Lab, opened: socket.socket, ready: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        lab.closing = server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        with suppress(NotImplementedError, RuntimeError):  # Windows, or not the main thread
            loop.add_signal_handler(number, end)
    opened.listen(128)  # connections queue from now on, so the printed address works at once
    threading.Thread(target=_load, args=(lab,), daemon=True, name="imports").start()
    ready()
    await server.serve(sockets=[opened])


def _load(lab: Lab) -> None:
    with suppress(ImportError):  # the first question reports the missing package
        load_meanwhile(lambda: lab.is_quiet)
