"""The hardware of runs: devices, slots, memory, compilation cache. It does not change a result.

On a CPU every core is a worker with one slot: a small model stays in the core's cache, and batching
models would not be faster. On a GPU every device is a worker with many slots.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from capax.errors import InputError, require
from capax.files import cache_folder
from capax.machine import num_cores
from capax.training.specs.xla_options import options_of

MAX_SLOTS = 1024  # a GPU is busy with far fewer; more slots only wait for each other
MANY = 64  # with fewer models than this, one block of threads each leaves most of a GPU idle


@dataclass(frozen=True)
class Hardware:
    """Devices and limits; a field that is None is determined automatically.

    `devices`: JAX devices (default: all of the default backend); `workers`: CPU threads (default:
    the cores this process may use); `slots`: runs at once on each worker; `memory_bytes`: limit
    per device; `cache_dir`: the folder of compiled programs (default: the user's cache folder),
    `use_cache=False` stores no program; `ahead`: idle slots train later restarts ahead of time
    (default: on a GPU, where an idle slot costs nearly as much as a busy one).
    """

    devices: tuple[jax.Device, ...] | None = None
    workers: int | None = None
    slots: int | None = None
    memory_bytes: int | None = None
    cache_dir: Path | None = None
    use_cache: bool = True
    ahead: bool | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "slots", "memory_bytes"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, "at least 1, or None", value)
        require(self.devices is None or self.devices, "devices", "at least one", self.devices)

    @property
    def platform(self) -> str:
        """cpu, gpu or tpu."""
        return self.all_devices[0].platform

    @property
    def all_devices(self) -> tuple[jax.Device, ...]:
        """The devices to use."""
        return self.devices or tuple(jax.local_devices())

    def worker_devices(self) -> tuple[jax.Device, ...]:
        """The device of each worker: one per core on a CPU, one per device elsewhere."""
        devices = self.all_devices
        if self.platform != "cpu":
            return devices
        count = self.workers or max(len(devices), num_cores())
        return tuple(devices[i % len(devices)] for i in range(count))

    @property
    def max_slots(self) -> int:
        """Slots of a worker, before the memory is checked."""
        return self.slots or (1 if self.platform == "cpu" else MAX_SLOTS)

    @property
    def trains_ahead(self) -> bool:
        """Whether idle slots train restarts that may not be needed."""
        return self.platform != "cpu" if self.ahead is None else self.ahead

    def compiler_options(self) -> dict[str, Any]:
        """Options of every program."""
        return options_of(self.platform)


def enable_cache(hardware: Hardware) -> None:
    """Keep compiled programs between processes, unless the user configured JAX otherwise."""
    if not hardware.use_cache or jax.config.values["jax_compilation_cache_dir"]:
        return
    try:
        folder = hardware.cache_dir or cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, InputError):
        return  # without a cache every process compiles again
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
