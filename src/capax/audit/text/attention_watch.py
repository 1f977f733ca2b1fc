"""Run the model and keep only statistics: attention is computed a strip of rows at a time.

`transformers` lets an attention function be registered by name; this one computes scores, mask and
softmax as its eager functions do, 256 queries at once, takes statistics of the wanted rows and
discards the strip. No map of all heads, and no T x T map of one head, is ever in memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capax.audit.text.looking import Looks
from capax.audit.text.model import packages
from capax.audit.text.statistics import NAMES, row_statistics
from capax.audit.text.windows import Window

NAME = "capax_audit"
STRIP = 256


@dataclass
class Watcher:
    """The rows that are wanted, and their statistics for every layer.

    looks: if given, also collects words and examples. kept: if given, factors [batch, L, H] on the
    outputs of heads.
    """

    causal: bool
    looks: Looks | None = None
    kept: Any = None
    positions: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    layer: int = 0
    seen: list[dict[str, list[np.ndarray]]] = field(default_factory=list)

    def begin(self, window: Window) -> None:
        """A new forward pass: layers are counted from 0 again."""
        self.positions, self.layer = np.asarray(window.positions), 0
        if self.looks is not None:
            self.looks.begin(window)

    def look(self, A: Any, start: int) -> None:
        """Statistics of the wanted rows of a strip A [H, rows, keys] that begins at row `start`."""
        inside = (self.positions >= start) & (self.positions < start + A.shape[1])
        rows = self.positions[inside]
        if not len(rows):
            return
        keys = int(rows[-1]) + 1 if self.causal else A.shape[2]
        seen = A[:, rows - start, :keys].numpy()
        found = row_statistics(seen, rows, self.causal)
        if self.looks is not None:
            self.looks.add(self.layer, seen, rows)
        while len(self.seen) <= self.layer:
            self.seen.append({name: [] for name in ("T", *NAMES)})
        store = self.seen[self.layer]
        store["T"].append(found.T)
        for name in NAMES:
            store[name].append(found.values[name])

    def collected(self) -> dict[str, np.ndarray]:
        """T [rows], and [L, H, rows] for every statistic."""
        whole = {name: np.stack([np.concatenate(layer[name], axis=-1) for layer in self.seen])
                 for name in NAMES}  # fmt: skip
        return {"T": np.concatenate(self.seen[0]["T"]), **whole}


_WATCHER: list[Watcher] = []


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any,
    scaling: float | None = None, dropout: float = 0.0, softcap: float | None = None, **_: Any,
) -> tuple[Any, None]:  # fmt: skip
    import torch

    del module, dropout
    watcher = _WATCHER[-1]
    group = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(group, dim=1) for part in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = torch.empty_like(query[..., : value.shape[-1]])
    for start in range(0, query.shape[2], STRIP):
        rows = slice(start, start + STRIP)
        seen = slice(start + STRIP if watcher.causal else None)  # later keys are masked anyway
        S = query[:, :, rows] @ key[:, :, seen].transpose(2, 3) * scale
        S = S if softcap is None else softcap * torch.tanh(S / softcap)
        if attention_mask is not None:
            S = S + attention_mask[:, :, rows, : S.shape[-1]]
        A = torch.softmax(S, dim=-1, dtype=torch.float32)
        out[:, :, rows] = A.to(value.dtype) @ value[:, :, seen]
        if len(watcher.positions):
            watcher.look(A[0], start)
    if watcher.kept is not None:
        out = out * watcher.kept[:, watcher.layer, :, None, None]
    watcher.layer += 1
    return out.transpose(1, 2).contiguous(), None


def register() -> None:
    """Make the function known to `transformers` under NAME."""
    _, transformers = packages()
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    transformers.AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def watching(
    causal: bool, *, looks: Looks | None = None, kept: Any = None, layer: int = 0
) -> Iterator[Watcher]:
    """A watcher for the forward passes inside. layer: where the first of them starts."""
    watcher = Watcher(causal, looks, kept, layer=layer)
    _WATCHER.append(watcher)
    try:
        yield watcher
    finally:
        _WATCHER.pop()


def watch(
    model: Any, windows: list[Window], causal: bool, step: Any = None, looks: Looks | None = None
) -> dict[str, np.ndarray]:
    """Read all windows; statistics of all heads at the kept rows."""
    torch, _ = packages()
    with torch.no_grad(), watching(causal, looks=looks) as watcher:
        for window in windows:
            watcher.begin(window)
            model(input_ids=torch.tensor([window.tokens]))
            if step is not None:
                step()
    return watcher.collected()
