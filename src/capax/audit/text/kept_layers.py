"""Layers below a head that is taken out: their outputs are those of the whole model.

So the whole model is read once and the output of every layer is kept. A reading without a head of
layer l then starts at layer l: all layers before it hand on the kept output of layer l - 1. The
losses are those of a whole reading up to rounding. Heads of late layers save most of the work,
heads of the first layer none.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


class KeptLayers:
    """Outputs of the layers of a model, on one piece of text at a time.

    Layers are the list of modules in which each makes one call of the attention function, in order.
    A model without such a list (ALBERT calls one module for all layers) is read whole.
    """

    def __init__(self, model: Any, count: int) -> None:
        self._lists = [part for part in model.modules() if _is_list(part, count)]
        self._count = count
        self._layers: list[Any] = []
        self._outputs: list[Any] = []

    @contextmanager
    def keeping(self, layer: Callable[[], int]) -> Iterator[None]:
        """Keep the outputs of the forward pass inside. layer: calls of the attention so far."""
        seen: dict[int, list[tuple[int, Any]]] = {i: [] for i in range(len(self._lists))}
        with ExitStack() as hooks:
            for i, layers in enumerate(self._lists):
                for module in layers:
                    hook = _noting(seen[i], layer)
                    hooks.callback(module.register_forward_hook(hook).remove)
            yield
        self._layers, self._outputs = [], []
        for i, layers in enumerate(self._lists):
            if [calls for calls, _ in seen[i]] == list(range(1, self._count + 1)):
                self._layers, self._outputs = list(layers), [output for _, output in seen[i]]

    @contextmanager
    def starting_at(self, layer: int, rows: int) -> Iterator[int]:
        """The forward pass inside, of `rows` equal texts, starts at this layer; gives the layer at
        which it does start: 0 if nothing is kept."""
        first = layer if self._layers else 0
        output = _repeated(self._outputs[first - 1], rows) if first else None
        with ExitStack() as skipped:
            for module in self._layers[:first]:
                module.forward = lambda *_, **__: output
                skipped.callback(module.__dict__.pop, "forward")
            yield first


def _is_list(part: Any, count: int) -> bool:
    import torch

    return isinstance(part, torch.nn.ModuleList) and len(part) == count


def _noting(seen: list[tuple[int, Any]], layer: Callable[[], int]) -> Callable[..., None]:
    def note(module: Any, arguments: Any, output: Any) -> None:
        del module, arguments
        seen.append((layer(), output))

    return note


def _repeated(output: Any, rows: int) -> Any:
    """The output for one text as that for so many equal texts."""
    if isinstance(output, tuple):
        return tuple(_repeated(part, rows) for part in output)
    return output.repeat(rows, *[1] * (output.ndim - 1)) if hasattr(output, "repeat") else output
