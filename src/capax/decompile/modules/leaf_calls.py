"""One forward pass of a PyTorch module as the calls of its leaves: what went in, what came out.

The pass runs on a copy in float64, in evaluation mode, without PyTorch's fused encoder, so that
every leaf is called and rounding is far below any difference between two formulas. A module that
only runs in float32 is run unchanged.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class NotRead(Exception):
    """A module that is not of the form; the message is the reason."""


@dataclass(frozen=True)
class LeafCall:
    """A call of `module`: its first arguments and its (first) result, as float64 arrays."""

    module: Any
    inputs: tuple[np.ndarray, ...]
    output: np.ndarray


@dataclass
class Recording:
    """Calls in their order, the outputs of the module, and the precision of both."""

    calls: list[LeafCall]
    numbers: np.ndarray
    tolerance: float
    run: Callable[[np.ndarray], np.ndarray] = field(repr=False)


def recorded(module: Any, asked: Callable[[Any], Callable], X: np.ndarray) -> Recording:
    """Run `module` on the inputs X [n, T]; `asked` makes the function bits -> numbers of a module.

    Raises `NotRead` if a copy of the module cannot be run.
    """
    problem: Exception | None = None
    for dtype, tolerance in (("float64", 1e-9), ("float32", 3e-5)):
        try:
            twin = copy.deepcopy(module)
            twin = twin.double() if dtype == "float64" else twin
            run = asked(twin.eval())
            calls: list[LeafCall] = []
            with _hooks(twin, calls), _plain_encoder():
                numbers = run(X)
            return Recording(calls, numbers, tolerance, _without_fast_path(run))
        except Exception as error:
            problem = error
    raise NotRead(f"a copy of it does not run ({type(problem).__name__})")


def _without_fast_path(run: Callable[[np.ndarray], np.ndarray]) -> Callable:
    def plain(X: np.ndarray) -> np.ndarray:
        with _plain_encoder():
            return run(X)

    return plain


class _plain_encoder:
    """Inside, `nn.TransformerEncoderLayer` calls its parts one by one."""

    def __enter__(self) -> None:
        import torch

        self.before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def __exit__(self, *_: object) -> None:
        import torch

        torch.backends.mha.set_fastpath_enabled(self.before)


class _hooks:
    """Inside, calls of leaves (and of `nn.MultiheadAttention`) are added to a list."""

    def __init__(self, module: Any, calls: list[LeafCall]) -> None:
        self.module, self.calls, self.handles = module, calls, []

    def __enter__(self) -> None:
        import torch

        def add(leaf: Any, args: tuple, kwargs: dict, output: Any) -> None:
            arrays = [_array(a) for a in (*args, *kwargs.values())]
            result = _array(output[0] if isinstance(output, tuple) else output)
            inputs = tuple(a for a in arrays if a is not None)
            if result is not None and inputs:
                self.calls.append(LeafCall(leaf, inputs, result))

        for leaf in self.module.modules():
            attention = isinstance(leaf, torch.nn.MultiheadAttention)
            inside = any(leaf is part for part in _attention_parts(self.module))
            if (attention or not list(leaf.children())) and not inside:
                self.handles.append(leaf.register_forward_hook(add, with_kwargs=True))

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def _attention_parts(module: Any) -> list[Any]:
    """Leaves inside of `nn.MultiheadAttention`, which it does not call."""
    import torch

    owners = [m for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention)]
    return [part for owner in owners for part in owner.children()]


def _array(value: Any) -> np.ndarray | None:
    """A floating-point tensor as float64 array, None for anything else."""
    if not hasattr(value, "detach") or not value.is_floating_point():
        return None
    return value.detach().cpu().double().numpy().copy()
