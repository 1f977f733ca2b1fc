"""Matrices from coefficients: the rows of P_i, of the M symbols E_c and of v in each encoding.

W_Q = q v e_1^T and W_K = (kappa/q) e_1^T, so W_QK = v kappa^T. Each matrix is given by its rows in
the directions that matter and lifted into the width d of the tokens.

| encoding | rows of P_i | rows of E_c | row of v | d |
|---|---|---|---|---|
| deterministic | i | T + c | T + M | T + M + 1 |
| trainable | its slot | slots + c | slots + M | slots + M + 1 |
| bag (bits) | i | none | T | T + 1 |
| incoherent (bits) | dual vectors | dual vectors | dual vector | code length |
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from capax.attention import (
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    Encoding,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.compiler.construction.families import Construction
from capax.compiler.parts.readouts import MLPReadout, ScalarReadout

Model = ClsScalar | ClsMLP


@dataclass(frozen=True)
class Coefficients:
    """Rows of a matrix with k columns: one for each slot, for each symbol E_c, and for v."""

    slots: Float[np.ndarray, "m k"]
    symbols: Float[np.ndarray, "M k"]
    cls: Float[np.ndarray, " k"]

    def stacked(self) -> Float[np.ndarray, "rows k"]:
        """All rows, in the order slots, E_0, E_1, .., v."""
        return np.concatenate([self.slots, self.symbols, self.cls[None]])


def assemble(construction: Construction, dtype: Any = np.float64) -> Model:
    """The `ClsScalar` or `ClsMLP` of a construction, with arrays of `dtype`."""
    parts = {name: np.asarray(M, dtype=dtype) for name, M in matrices(construction).items()}
    with jax.enable_x64(True):
        arrays = jax.device_put(parts)  # unlike jnp.asarray, compiles nothing for a new shape
        encoding = _encoding(construction, dtype)
    kind = ClsScalar if isinstance(construction.readout, ScalarReadout) else ClsMLP
    return kind(encoding=encoding, **arrays)  # type: ignore[arg-type]


def matrices(construction: Construction) -> dict[str, np.ndarray]:
    """Every weight matrix in float64, by the name it has in the model."""
    query, key, value = head_coefficients(construction)
    head = {
        "W_Q": _lift(construction, query),
        "W_K": _lift(construction, key),
        "W_V": _lift(construction, value),
    }
    return {**head, **readout_matrices(construction.readout)}


def readout_matrices(readout: ScalarReadout | MLPReadout) -> dict[str, np.ndarray]:
    """The arrays behind W_V: W_C and w, or the two layers of the MLP."""
    if isinstance(readout, ScalarReadout):
        return {"W_C": np.ones((1, 1)), "w": np.array([readout.scale])}
    return {
        "W_1": readout.W_1,
        "b_1": readout.b_1,
        "w_2": readout.w_2,
        "b_2": np.array(readout.b_2),
    }


def head_coefficients(
    construction: Construction,
) -> tuple[Coefficients, Coefficients, Coefficients]:
    """W_Q, W_K and W_V in the named directions."""
    head = construction.selection
    scale, kappa, m = head.query_scale, head.key_coefficients, head.slots
    M = len(head.classes)
    symbols = np.array([[kappa.get(f"E_{c}", 0.0)] for c in range(M)])
    query = Coefficients(np.zeros((m, 1)), np.zeros((M, 1)), np.array([scale]))
    slots = np.full((m, 1), kappa["P"] / scale)
    key = Coefficients(slots, symbols / scale, np.array([kappa["v"] / scale]))
    return query, key, _value_coefficients(construction)


def slot_of_positions(construction: Construction) -> np.ndarray:
    """Slot of each relevant position: trainable positions that are read alike share one vector."""
    values = _position_values(construction)
    if construction.selection.encoding != "trainable" or not len(values):
        return np.arange(len(values))
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(len(values))


def _position_values(construction: Construction) -> np.ndarray:
    readout = construction.readout
    return readout.nu[:, None] if isinstance(readout, ScalarReadout) else readout.position_values


def _value_coefficients(construction: Construction) -> Coefficients:
    readout, values = construction.readout, _position_values(construction)
    head, k = construction.selection, values.shape[1]
    symbols = np.zeros((len(head.classes), k))
    if isinstance(readout, ScalarReadout):
        cls = np.array([readout.cls_value])
    else:
        cls = readout.cls_values
        symbols = symbols if readout.symbol_values is None else readout.symbol_values
    slots = np.zeros((head.slots, k))
    slots[slot_of_positions(construction)] = values
    return Coefficients(slots, symbols, cls)


def _lift(construction: Construction, rows: Coefficients) -> np.ndarray:
    """The matrix with these rows in the width d of the encoding."""
    T, k, support = construction.selection.T, rows.cls.size, construction.function.support
    kind = construction.selection.encoding
    if kind == "trainable":
        return rows.stacked()
    if construction.basis is not None:
        return construction.basis.dual.T @ rows.stacked()
    W = np.zeros((T + 1 if kind == "bag" else T + len(rows.symbols) + 1, k))
    W[list(support)] = rows.slots
    W[-1] = rows.cls
    if kind == "deterministic":
        W[T:-1] = rows.symbols
    return W


def _encoding(construction: Construction, dtype: Any) -> Encoding:
    head = construction.selection
    if head.encoding == "deterministic":
        return DeterministicPositions(head.T, len(head.classes))
    if head.encoding == "bag":
        return OrthonormalBag(head.T)
    if construction.basis is not None:
        codes = construction.basis.codes
        return IncoherentCodes(head.T, codes.shape[1], codes=jax.device_put(codes.astype(dtype)))
    width = head.slots + len(head.classes) + 1
    basis = np.eye(width, dtype=dtype)
    P = np.zeros((head.T, width), dtype=dtype)
    P[list(construction.function.support)] = basis[slot_of_positions(construction)]
    E = basis[head.slots : -1]
    return TrainablePositions(*jax.device_put((E, P, basis[-1])))
