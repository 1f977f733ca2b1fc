"""A training step as one kernel: gradients and Adam of every model of an ensemble.

Covers the runs that the kernel in `cuda/` supports; other runs use the step that XLA compiles. Both
give the same numbers up to rounding (`tests/training/test_fused.py`).
"""

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8, UInt32

from capax.attention.collapsed.one_layer import collapse
from capax.attention.transformer import Transformer, TransformerSpec
from capax.training.fused.nvrtc import NvrtcError
from capax.training.fused.step_kernel import HEADS, WIDTH, launch, ptx, shortest
from capax.training.specs.hardware import MANY
from capax.training.specs.trial_specs import OptimiserSpec
from capax.training.steps.optimiser import adam_rates, after_adam, moments
from capax.training.steps.together import one_launch

_MAX_ROWS = 256  # examples per step: beyond, XLA's large products are as fast
_lock = threading.Lock()
DRIVER = Path("/dev/nvidiactl")


def not_covered(spec: TransformerSpec, rule: OptimiserSpec, rows: int, width: int) -> str | None:
    """Why the kernel does not cover these runs, in one line; None if it does."""
    if (spec.d, spec.heads, spec.alphabet) != (WIDTH, HEADS, 2) or spec.mlp_width % 64:
        return f"only d = {WIDTH}, {HEADS} heads, bits and an MLP of a multiple of 64 units"
    if not spec.layer_norm or spec.activation != "gelu":
        return "only with LayerNorm and gelu"
    if rule.name == "sgd" or rule.decay == "coupled":
        return "only Adam and AdamW with decoupled decay"
    if rule.clip is not None or rule.decayed != "all":
        return "only without clipping, and with decay of all parameters"
    if rows > _MAX_ROWS:
        return f"more than {_MAX_ROWS} examples per step"
    if width < MANY:
        return f"fewer than {MANY} models at once"
    return None


def has_hopper(device: jax.Device) -> bool:
    """Whether the kernel supports this kind of device."""
    return device.platform == "gpu" and device.compute_capability == "9.0"


def why_not(
    spec: TransformerSpec, rule: OptimiserSpec, rows: int, width: int, device: jax.Device
) -> str | None:
    """Why the kernel cannot be used for these runs on this device; None if it can."""
    if not has_hopper(device):
        return "no GPU of compute capability 9.0 (H100, H200)"
    reason = not_covered(spec, rule, rows, width)
    if reason is None:
        with _lock:  # several threads compile ahead and ask; one of them tests the kernel
            reason = _trouble(spec.model_copy(update={"T": shortest(spec.T)}), rule, device)
    return reason


@functools.cache
def _trouble(spec: TransformerSpec, rule: OptimiserSpec, device: jax.Device) -> str | None:
    """Why the kernel does not run on this machine: it is compiled and tried on one example.

    With all parameters 0 the logit is 0 and the gradient of the last bias 1/2 - y.
    """
    shapes = jax.eval_shape(lambda: collapse(Transformer.init(spec, key=jax.random.key(0))))
    with jax.default_device(device):
        # arrays of the host: each shape made on the device would need a separate program
        zeros = [np.zeros((1, *x.shape), x.dtype) for x in jax.tree.leaves(shapes)]
        leaves = [leaf for leaf in zeros for _ in range(3)]
        words = np.ones((1, 1, -(-spec.T // 32)), np.uint32)
        one = np.ones((1, 1), np.float32)
        rates = np.ones((1, 4), np.float32)
        try:
            function = jax.jit(functools.partial(launch, ptx(spec, rule), spec.mlp_width, spec.T))
            new = function(leaves, words, one, one, rates)
            moment = float(new[-2][0])  # the last leaf is b: its value, first and second moment
        except (NvrtcError, jax.errors.JaxRuntimeError) as error:
            return f"the kernel does not run here: {str(error).splitlines()[0]}"
    wanted = -0.5 * (1 - rule.b1)
    return None if abs(moment - wanted) < 1e-6 else f"the kernel gave {moment}, not {wanted}"


def pack(bits: UInt8[Array, "m T"]) -> UInt32[Array, "m W"]:
    """32 symbols per word, the first in the lowest bit."""
    m, T = bits.shape
    words = -(-T // 32)
    padded = jnp.pad(bits, ((0, 0), (0, 32 * words - T))).reshape(m, words, 32)
    places = jnp.arange(32, dtype=jnp.uint32)[None, None, :]
    return jnp.sum(padded.astype(jnp.uint32) << places, axis=2, dtype=jnp.uint32)


def fused_step(
    spec: TransformerSpec,
    rule: OptimiserSpec,
    batch: tuple[UInt32[Array, "m W"], Float[Array, "m"], Float[Array, "m"]],
    rates: tuple[Any, Any, Any],
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """(parameters, optimiser state) -> the same after one step; batch: words, y, weights of the
    examples (they sum to 1, those of no example come last and are 0); rates: lr, weight decay,
    steps of the run. Under `vmap` all models share one launch."""
    words, y, weight = batch
    call = _batched(ptx(spec, rule), spec.mlp_width, spec.T)

    def step(params: Any, state: Any) -> tuple[Any, Any]:
        first, second = moments(state)
        values, tree = jax.tree.flatten(params)
        pairs = zip(values, jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
        leaves = [leaf for entry in pairs for leaf in entry]
        new = call(leaves, words, y, weight, adam_rates(rule, *rates, state))
        params, first, second = (jax.tree.unflatten(tree, new[i::3]) for i in range(3))
        return params, after_adam(state, first, second)

    return step


@functools.cache
def _batched(sources: tuple[str, ...], hidden: int, T: int) -> Any:
    return one_launch(functools.partial(launch, sources, hidden, T))
