"""Several processes on one machine: a part of its memory, its cores and its GPU for each.

Processes that share an NVIDIA GPU take turns on it. Under NVIDIA's multi-process service their
kernels run in parallel, which small kernels need; if it cannot be started, they take turns.
"""

import os
import queue
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from capax.machine import num_cores

_DRIVER = Path("/dev/nvidiactl")
_CONTROL = "nvidia-cuda-mps-control"
_PIPE = "CUDA_MPS_PIPE_DIRECTORY"
_MOST_JOBS = 8  # a process has half a gigabyte before it trains
_MEMORY = 0.92  # of a GPU, for all processes together: each also needs a context
_LEAST = 50  # no part of the memory is smaller than the largest divided by this,
_SHORT = (
    500  # or than the part of this T: a model of short inputs has activations that do not shrink
)


@dataclass(frozen=True)
class Share:
    """The cores that one process may use (empty: all), and its environment variables."""

    cores: tuple[int, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> "Share":
        """The same without the multi-process service."""
        kept = {k: v for k, v in self.settings.items() if not k.startswith("CUDA_MPS")}
        return Share(self.cores, kept)


def has_gpu() -> bool:
    """Whether JAX will find an NVIDIA GPU; does not start JAX."""
    return _DRIVER.exists() and os.environ.get("JAX_PLATFORMS", "").strip() != "cpu"


def one_for_each_core() -> int:
    """Jobs at once on this machine: one for each core, up to eight, or one on a GPU."""
    return 1 if has_gpu() else min(_MOST_JOBS, num_cores())


@contextmanager
def multi_process_service() -> Iterator[dict[str, str]]:
    """Settings under which processes share the GPU; empty if the service cannot be started, or is
    already running."""
    if not has_gpu() or _PIPE in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="capax-mps-") as folder:
        settings = {_PIPE: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        began = _control(["-d"], settings)
        try:
            yield settings if began else {}
        finally:
            if began:
                _control([], settings, b"quit -t 2\n")


def _control(arguments: Sequence[str], settings: dict[str, str], said: bytes = b"") -> bool:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [_CONTROL, *arguments],
            env={**os.environ, **settings},
            input=said,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        return done.returncode == 0
    return False


class Shares:
    """Hands out shares to at most `at_once` processes at a time.

    lengths: T of every job; the memory of a process grows with T.
    """

    def __init__(self, lengths: Sequence[int], at_once: int, shared: dict[str, str]) -> None:
        self._shared, self._gpu = shared, has_gpu()
        largest_T = max(lengths, default=1)
        least = max(largest_T / _LEAST, min(largest_T, _SHORT))
        self._weights = {T: max(T, least) for T in lengths}
        largest = sorted((self._weights[T] for T in lengths), reverse=True)
        self._sum = sum(largest[:at_once])
        self._free: queue.SimpleQueue[tuple[int, ...]] = queue.SimpleQueue()
        for cores in [()] * at_once if self._gpu else divided_cores(at_once):
            self._free.put(cores)

    @contextmanager
    def one(self, T: int) -> Iterator[Share]:
        """A share for a job of this T, until the end of the context."""
        cores = self._free.get()
        settings: dict[str, str] = {}
        if self._gpu:
            part = _MEMORY * self._weights[T] / self._sum
            settings = {
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{part:.4f}",
            }
        try:
            yield Share(cores, {**settings, **self._shared})
        finally:
            self._free.put(cores)


def divided_cores(parts: int) -> list[tuple[int, ...]]:
    """This process's cores in `parts` parts; if there are too few, every part has all of them."""
    if not hasattr(os, "sched_getaffinity"):  # macOS
        return [()] * parts
    cores = sorted(os.sched_getaffinity(0))
    return [tuple(cores[i::parts]) if parts <= len(cores) else tuple(cores) for i in range(parts)]
