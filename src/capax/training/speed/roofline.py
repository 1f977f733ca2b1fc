"""Two ceilings of a machine, measured, and the least time they allow for one training step.

The collapsed step of one model (d = H k, n the MLP width, A symbols) does, forward and backward,

    3 x 2 T d (d + H)              P W', its two gradients
    2 x 2 m A T (d + H)            design matrix times table, and back (no gradient of the design)
    3 x 2 m (d^2 + 2 d n)          W_O and the MLP

operations in matrix products (as executed: the product P W' has T rows, not A T), and moves the
optimiser's state (parameters, gradients, two moments: read and written) once.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from capax.attention.collapsed.design import matmul
from capax.attention.transformer import TransformerSpec
from capax.training.programs.memory import num_parameters
from capax.training.specs.hardware import Hardware


@dataclass(frozen=True)
class Ceilings:
    """Operations per second in float32-accurate matrix products, and bytes per second copied."""

    flops_per_second: float
    bytes_per_second: float

    def or_higher(self, other: "Ceilings") -> "Ceilings":
        """The higher of each, measured while the machine was less busy."""
        return Ceilings(
            max(self.flops_per_second, other.flops_per_second),
            max(self.bytes_per_second, other.bytes_per_second),
        )


def step_flops(spec: TransformerSpec, m: int) -> int:
    """Operations of the collapsed training step in matrix products."""
    T, d, H, n, A = spec.T, spec.d, spec.heads, spec.mlp_width, spec.alphabet
    return 6 * T * d * (d + H) + 4 * m * A * T * (d + H) + 6 * m * (d * d + 2 * d * n)


def step_bytes(spec: TransformerSpec) -> int:
    """Bytes of parameters, gradients and two moments, each read and written once."""
    return 8 * 4 * num_parameters(spec)


def least_seconds(spec: TransformerSpec, m: int, ceilings: Ceilings) -> float:
    """The larger of the two times is the limit."""
    arithmetic = step_flops(spec, m) / ceilings.flops_per_second
    return max(arithmetic, step_bytes(spec) / ceilings.bytes_per_second)


def best_of(action: Callable[[], object], budget: float, least: int = 2) -> float:
    """Shortest time of one `action`, over at least `least` tries and about `budget` seconds."""
    best, began, tries = float("inf"), time.perf_counter(), 0
    while tries < least or time.perf_counter() - began < budget:
        start = time.perf_counter()
        action()
        best, tries = min(best, time.perf_counter() - start), tries + 1
    return best


def measure(hardware: Hardware, budget: float = 1.0) -> Ceilings:
    """Both ceilings with every worker busy."""
    gpu = hardware.platform != "cpu"
    size, length = (4096, 1 << 28) if gpu else (1024, 1 << 25)

    def product(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 4, lambda _, y: matmul(x, y, 1, 0) / size, x)

    def copy(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 4, lambda _, y: -y, x)

    square = jnp.ones((size, size), jnp.float32) / size
    seconds = _all_busy(product, square, hardware, budget)
    workers = len(hardware.worker_devices())
    flops = 4 * 2 * size**3 * workers / seconds
    seconds = _all_busy(copy, jnp.ones(length, jnp.float32), hardware, budget)
    return Ceilings(flops, 4 * 2 * 4 * length * workers / seconds)


def _all_busy(
    function: Callable[[jax.Array], jax.Array], x: jax.Array, hardware: Hardware, budget: float
) -> float:
    devices = hardware.worker_devices()
    # on a GPU the fastest product, found by timing
    options = hardware.compiler_options() if hardware.platform == "cpu" else {}
    inputs = [jax.device_put(x, device) for device in devices]
    compiled = {
        device: jax.jit(function).lower(jax.device_put(x, device)).compile(compiler_options=options)
        for device in set(devices)
    }

    def run(y: jax.Array, device: jax.Device) -> object:
        return jax.block_until_ready(compiled[device](y))

    runs = [partial(run, y, device) for y, device in zip(inputs, devices, strict=True)]
    return best_of(lambda: together(runs), budget, least=3)


def together(actions: list[Callable[[], object]]) -> None:
    """Run the actions in threads at the same time and wait for all."""
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
