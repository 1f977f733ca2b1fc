"""The software of a run: versions of the packages that can change a number, and the machine."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("capax", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


@cache
def versions(device: str | None = None) -> dict[str, str]:
    """Versions by name, with `python`, `machine` and `device`: the given one, or JAX's if loaded.

    Asking JAX would start it and take a GPU's memory, so a sweep with separate processes does not.
    """
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "device": device or device_here()}


def device_here() -> str:
    """The devices of this process, `none` if JAX is not loaded."""
    import sys

    if "jax" not in sys.modules:
        return "none"
    import jax

    return f"{jax.device_count()} x {jax.devices()[0].device_kind}"
