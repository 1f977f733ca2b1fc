"""A PyTorch module as a learner: AdamW on the full batch, the same protocol as the engine's.

The module is called on a float tensor [m, T] of zeros and ones and gives logits [m] or [m, 1]. Its
answers every `eval_every` steps are kept as snapshots, like the evaluations of the engine.
"""

import copy
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from capax.learners.answers import BadAnswer
from capax.learners.setting import Setting


class Snapshots:
    """Predictors of one fit in the order of training; calling it uses the last one."""

    def __init__(self, module: Any, states: list[dict[str, Any]]) -> None:
        self._module, self._states = module, states

    def __len__(self) -> int:
        return len(self._states)

    def at(self, index: int, X: np.ndarray) -> np.ndarray:
        """Labels by the state number `index`."""
        self._module.load_state_dict(self._states[index])
        self._module.eval()
        with torch.no_grad():
            logits = _logits(self._module, torch.as_tensor(X, dtype=torch.float32))
        return np.where(torch.isnan(logits).numpy(), np.nan, (logits > 0).numpy())

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.at(-1, X)


def train_module(module: Any, X: np.ndarray, y: np.ndarray, setting: Setting) -> Snapshots:
    """Train for `steps` steps and keep a snapshot after every `eval_every`."""
    inputs = torch.as_tensor(X, dtype=torch.float32)
    wanted = torch.as_tensor(y, dtype=torch.float32)
    optimiser = torch.optim.AdamW(module.parameters(), lr=setting.rate, weight_decay=1e-4)
    states = []
    module.train()
    for step in range(1, setting.steps + 1):
        optimiser.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(_logits(module, inputs), wanted)
        loss.backward()
        optimiser.step()
        if step % setting.eval_every == 0 or step == setting.steps:
            states.append(copy.deepcopy(module.state_dict()))
    return Snapshots(module, states)


def _logits(module: Any, inputs: torch.Tensor) -> torch.Tensor:
    values = module(inputs)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (len(inputs),):
        raise BadAnswer(f"wanted {len(inputs)} logits, got an array of shape {tuple(values.shape)}")
    return values
