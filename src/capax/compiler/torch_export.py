"""The same network as a PyTorch module (optional extra `capax[torch]`; imported on demand only)."""

from typing import Any

import numpy as np

from capax.attention import (
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
    Transformer,
)
from capax.compiler.construction.assemble import Model
from capax.compiler.proof.tables import alphabet_of
from capax.errors import InputError

try:
    import torch
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise InputError("torch: not installed; add it with: pip install 'capax[torch]'") from error


class CompiledModule(torch.nn.Module):
    """bits [..., T] -> numbers [...], by one attention head and its read-out.

    A token is a sum of two rows of a table, found by index, so T x d matrices are never formed:
    `first` and `second` hold, for each position and bit, the rows of W_K and W_V that are added.
    Parameters have the names of the paper; W_O = W_C w or the identity, W_in, W_out as in
    TransformerLens.
    """

    W_Q: torch.Tensor
    W_K: torch.Tensor
    W_V: torch.Tensor
    W_E: torch.Tensor
    W_O: torch.Tensor
    W_in: torch.Tensor
    b_in: torch.Tensor
    W_out: torch.Tensor
    b_out: torch.Tensor
    v_CLS: torch.Tensor
    rows: torch.Tensor

    def __init__(self, arrays: dict[str, np.ndarray], rows: np.ndarray, dtype: Any) -> None:
        super().__init__()
        for name, array in arrays.items():
            tensor = torch.tensor(np.asarray(array, dtype=np.float64), dtype=dtype)
            self.register_parameter(name, torch.nn.Parameter(tensor))
        self.register_buffer("rows", torch.tensor(rows))  # [T, symbols, 2 rows]

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        keys, values = self.K_rows, self.V_rows  # [R, r], [R, k]; the last row is zero
        T = self.rows.shape[0]
        chosen = self.rows[torch.arange(T), bits.long()]  # [..., T, 2]
        query = self.v_CLS @ self.W_Q  # [r]
        logits = (keys @ query)[chosen].sum(-1)  # [..., T]
        cls = (self.v_CLS @ self.W_K @ query).expand(*logits.shape[:-1], 1)
        weights = torch.softmax(torch.cat([logits, cls], -1), -1)  # [..., T + 1]
        mixed = torch.einsum("...t,...tk->...k", weights[..., :-1], values[chosen].sum(-2))
        u = mixed + weights[..., -1:] * (self.v_CLS @ self.W_V)  # [..., k]
        if hasattr(self, "W_in"):
            hidden = torch.relu(u @ self.W_in + self.b_in)
            return hidden @ self.W_out + self.b_out
        return u @ self.W_O

    @property
    def K_rows(self) -> torch.Tensor:
        """Rows of the embedding table times W_K, and a zero row."""
        return self._rows(self.W_K)

    @property
    def V_rows(self) -> torch.Tensor:
        """Rows of the embedding table times W_V, and a zero row."""
        return self._rows(self.W_V)

    def _rows(self, W: torch.Tensor) -> torch.Tensor:
        table = self.W_E @ W if hasattr(self, "W_E") else W
        return torch.cat([table, torch.zeros_like(table[:1])])


def to_torch(model: Model | Transformer, dtype: Any = None) -> torch.nn.Module:
    """A `torch.nn.Module` with the same outputs; `dtype` defaults to torch.float32.

    Takes compiled networks and trained Transformers of any depth.
    """
    if isinstance(model, Transformer):
        from capax.compiler.trained_torch import trained_to_torch

        return trained_to_torch(model, dtype)
    encoding, arrays, rows = _embedding(model)
    arrays |= {name: np.asarray(getattr(model, name)) for name in ("W_Q", "W_K", "W_V")}
    if isinstance(model, ClsMLP):
        names = {"W_in": model.W_1, "b_in": model.b_1, "W_out": model.w_2, "b_out": model.b_2}
        arrays |= {name: np.asarray(M) for name, M in names.items()}
    else:
        assert isinstance(model, ClsScalar)
        arrays["W_O"] = np.asarray(model.W_C, np.float64) @ np.asarray(model.w, np.float64)
    arrays["v_CLS"] = encoding
    return CompiledModule(arrays, rows, torch.float32 if dtype is None else dtype)


def from_torch(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """The arrays of an exported module by name, ready for `safetensors`; no pickle."""
    return {name: p.detach().cpu().numpy() for name, p in module.named_parameters()}


def _embedding(model: Model) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """The [CLS] vector, the embedding table if it is not the identity, and the rows to add."""
    code, T = model.encoding, model.T
    position = np.arange(T)
    if isinstance(code, OrthonormalBag):
        none = T + 1  # the zero row
        off = np.stack([np.full(T, none), np.full(T, none)], axis=1)
        on = np.stack([position, np.full(T, none)], axis=1)
        return np.eye(1, T + 1, T)[0], {}, np.stack([off, on], axis=1)
    each = range(alphabet_of(model))
    symbols = [np.stack([position, np.full(T, T + c)], axis=1) for c in each]
    rows = np.stack(symbols, axis=1)
    if isinstance(code, DeterministicPositions):
        return np.eye(1, code.d, code.d - 1)[0], {}, rows
    if isinstance(code, IncoherentCodes):
        table = np.asarray(code.codes, np.float64)
        return table[T + 2], {"W_E": table}, rows
    if isinstance(code, TrainablePositions):
        table = np.concatenate([np.asarray(code.P), np.asarray(code.E)]).astype(np.float64)
        return np.asarray(code.v_CLS), {"W_E": table}, rows
    raise InputError(f"encoding: {type(code).__name__} has no PyTorch form here")
