"""Cores and memory that this process may use."""

import os

from capax.errors import InfeasibleError, InputError


def num_cores() -> int:
    """Cores this process may run on; all of them if the system does not restrict it."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_limit() -> int:
    """Bytes this process may use: `$CAPAX_MEMORY_GB`, or the free memory of the machine."""
    chosen = os.environ.get("CAPAX_MEMORY_GB")
    if chosen:
        try:
            return int(float(chosen) * 2**30)
        except (ValueError, OverflowError):
            raise InputError(f"CAPAX_MEMORY_GB: wanted a number, got {chosen!r}") from None
    import psutil

    return psutil.virtual_memory().available


def check_memory(needed: int, what: str) -> None:
    """Raise `InfeasibleError` before the allocation if the memory is not enough."""
    if needed > 2**28 and needed > memory_limit():  # a quarter of a GiB is not checked
        raise InfeasibleError(
            f"{what} needs {_gib(needed)} of memory, but {_gib(memory_limit())} are available"
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB" if size < 2**80 else "more memory than any machine has"
