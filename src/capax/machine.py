"""What this process may use of the machine it runs on."""

import os


def num_cores() -> int:
    """Cores this process may run on; all of them where the system does not restrict it."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
