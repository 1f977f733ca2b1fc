"""`capax` in a process whose threads sleep while they wait for the GPU.

python benchmarks/asleep.py card gru --reference --store gru.sqlite

Between the rounds of a step XLA asks the GPU whether another one follows, and waits for the answer.
CUDA's default is to wait with a core that does nothing else. That is soonest where a process has
cores of its own; where a dozen such threads, compilations and fits share them, all wait longer.
XLA sets the default itself, unless the context of the device exists already: so it is made here,
and XLA prints a line about its flags.
"""

import ctypes
import os

_BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC


def sleep_while_waiting() -> None:
    """Make the context of the first GPU; a machine without CUDA has nothing to set."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return
    cuda.cuDevicePrimaryCtxSetFlags_v2(device, _BLOCKING_SYNC)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


if __name__ == "__main__":
    if os.environ.get("JAX_PLATFORMS") != "cpu":
        sleep_while_waiting()
    from capax.cli.entry import main

    main()
