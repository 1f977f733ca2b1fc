"""A compiled network in NumPy, in extended precision: dense tokens, no code of the compiler."""

import numpy as np
from naive_head import all_inputs

from capax.attention import (
    BagOfVectors,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
)

WIDE = np.longdouble


def tokens_of(code, wide=WIDE) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [T, 2, d] by position and bit, and [CLS]."""
    T = code.T
    if isinstance(code, DeterministicPositions):
        basis = np.eye(T + 3)
        P, E, cls = basis[:T], basis[T : T + 2], basis[-1]
    elif isinstance(code, OrthonormalBag | BagOfVectors):
        basis = np.eye(T + 1) if isinstance(code, OrthonormalBag) else None
        V = basis[:T] if basis is not None else np.asarray(code.V)
        cls = basis[-1] if basis is not None else np.asarray(code.v_CLS)
        return np.stack([0 * V, V], axis=1).astype(wide), cls.astype(wide)
    elif isinstance(code, IncoherentCodes):
        codes = np.asarray(code.codes)
        P, E, cls = codes[:T], codes[T : T + 2], codes[-1]
    else:
        P, E, cls = (np.asarray(part) for part in (code.P, code.E, code.v_CLS))
    return P.astype(wide)[:, None] + E.astype(wide)[None, :2], cls.astype(wide)


def naive_outputs(model, bits: np.ndarray) -> np.ndarray:
    """The network's number on each row of bits, in float64."""
    return extended_outputs(model, bits, np.float64)[0]


def extended_outputs(model, bits=None, wide=WIDE) -> tuple[np.ndarray, np.longdouble]:
    """The network's number on all 2^T inputs, or these, and how far rounding may have moved it."""
    tokens, cls = tokens_of(model.encoding, wide)
    T = len(tokens)
    parts = {n: np.asarray(getattr(model, n), np.float64).astype(wide) for n in _names(model)}
    key = parts["W_K"] @ (cls @ parts["W_Q"])
    bits, at = all_inputs(T) if bits is None else bits, np.arange(T)
    n = len(bits)
    scores = np.concatenate([(tokens @ key)[at, bits], np.full((n, 1), cls @ key)], axis=1)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    values, cls_value = tokens @ parts["W_V"], cls @ parts["W_V"]
    u = weights[:, -1:] * cls_value
    for t in range(T):
        u = u + weights[:, t : t + 1] * values[t][bits[:, t]]
    eps, spread = np.finfo(wide).eps, np.abs(scores).max() + T + 10
    size = np.abs(values).max() + np.abs(cls_value).max()
    if isinstance(model, ClsScalar):
        gain = (np.abs(parts["W_C"]) @ np.abs(parts["w"])).sum()
        return u @ parts["W_C"] @ parts["w"], 8 * eps * spread * size * gain
    hidden = np.maximum(u @ parts["W_1"] + parts["b_1"], 0)
    reach = size * np.abs(parts["W_1"]).sum(axis=0) + np.abs(parts["b_1"])
    total = np.abs(parts["w_2"]) @ reach + np.abs(parts["b_2"])
    return hidden @ parts["w_2"] + parts["b_2"], 8 * eps * spread * total


def _names(model) -> tuple[str, ...]:
    head = ("W_Q", "W_K", "W_V")
    return (
        (*head, "W_C", "w") if isinstance(model, ClsScalar) else (*head, "W_1", "b_1", "w_2", "b_2")
    )
