"""What a run was made with: versions of the packages that can change a number, and the machine."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("capax", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


@cache
def versions() -> dict[str, str]:
    """Versions by name, with `python`, `machine` and, where JAX is loaded, `device`."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "device": _device()}


def _device() -> str:
    import sys

    if "jax" not in sys.modules:
        return "none"
    import jax

    return f"{jax.device_count()} x {jax.devices()[0].device_kind}"
