"""A trained Transformer of any depth as a PyTorch module (extra `capax[torch]`, on demand only)."""

from typing import Any

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer, TransformerSpec, parameters
from capax.errors import InputError, require

try:
    import torch
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise InputError("torch: not installed; add it with: pip install 'capax[torch]'") from error

_ACTIVATIONS = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": lambda x: x,
}


class TrainedModule(torch.nn.Module):
    """symbols [..., T] -> logits [...]; parameters have our names with `.` written as `__`."""

    def __init__(self, spec: TransformerSpec, arrays: dict[str, np.ndarray], dtype: Any) -> None:
        super().__init__()
        self.spec = spec
        for path, array in arrays.items():
            tensor = torch.tensor(np.array(array, np.float64), dtype=dtype)
            self.register_parameter(path.replace(".", "__"), torch.nn.Parameter(tensor))

    def at(self, path: str) -> torch.Tensor:
        """The parameter at one of our paths, such as `blocks.0.W_Q`."""
        return getattr(self, path.replace(".", "__"))

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        x = self.at("embed")[bits.long()] + self.at("position")
        cls = self.at("cls").expand(*x.shape[:-2], 1, self.spec.d)
        x = torch.cat([x, cls], dim=-2)  # [..., T + 1, d]
        for layer in range(self.spec.layers):
            last = layer == self.spec.layers - 1
            x = self.block(f"blocks.{layer}.", x[..., -1:, :] if last else x, x)
        return self.normed("ln_final", x)[..., 0, :] @ self.at("w") + self.at("b")

    def block(self, path: str, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """One pre-LN block: the queries `rows` read the tokens x."""
        keys, queries = self.normed(f"{path}ln1", x), self.normed(f"{path}ln1", rows)
        q = self.projected(path, "Q", queries)  # [..., H, Q, k]
        k, v = self.projected(path, "K", keys), self.projected(path, "V", keys)
        scale = attention_scale(self.spec.head_width, self.spec.scale)
        weights = torch.softmax(scale * (q @ k.transpose(-1, -2)), dim=-1)
        read = torch.einsum("...hqk,hkd->...qd", weights @ v, self.at(f"{path}W_O"))
        rows = rows + read + self.at(f"{path}b_O")
        hidden = self.normed(f"{path}ln2", rows) @ self.at(f"{path}W_in") + self.at(f"{path}b_in")
        hidden = _ACTIVATIONS[self.spec.activation](hidden)
        return rows + hidden @ self.at(f"{path}W_out") + self.at(f"{path}b_out")

    def projected(self, path: str, name: str, x: torch.Tensor) -> torch.Tensor:
        """x W^h + b^h for every head, [..., H, tokens, k]."""
        W, b = self.at(f"{path}W_{name}"), self.at(f"{path}b_{name}")
        return torch.einsum("...td,hdk->...htk", x, W) + b[:, None, :]

    def normed(self, path: str, x: torch.Tensor) -> torch.Tensor:
        """LayerNorm, or x in a model without it."""
        if not self.spec.layer_norm:
            return x
        gain, bias = self.at(f"{path}.gain"), self.at(f"{path}.bias")
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, bias, LAYER_NORM_EPSILON)


def trained_to_torch(model: Transformer, dtype: Any = None) -> TrainedModule:
    """A `torch.nn.Module` with the same logits; `dtype` defaults to torch.float32."""
    norm = model.spec.normalizer
    require(norm == "softmax", "normalizer", "softmax (others have no PyTorch form here)", norm)
    arrays = {path: np.asarray(leaf) for path, leaf in parameters(model).items()}
    return TrainedModule(model.spec, arrays, torch.float32 if dtype is None else dtype)
