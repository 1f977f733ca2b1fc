"""A naive head in NumPy: dense tokens, one softmax per input. Shares no code with the compiler."""

import numpy as np


def all_inputs(T: int) -> np.ndarray:
    return (np.arange(1 << T)[:, None] >> np.arange(T)) & 1


def token_vectors(encoding: str, T: int, P: np.ndarray | None = None) -> np.ndarray:
    """Tokens [2, T, d] by bit and position, in the basis order of each encoding."""
    if encoding == "deterministic":
        basis = np.eye(T + 3)
        return np.stack([basis[:T] + basis[T], basis[:T] + basis[T + 1]])
    if encoding == "bag":
        basis = np.eye(T + 1)[:T]
        return np.stack([0 * basis, basis])
    assert P is not None
    basis = np.eye(P.shape[1])
    return np.stack([P + basis[-3], P + basis[-2]])


def outputs(
    parts: dict[str, np.ndarray],
    tokens: np.ndarray,
    bits: np.ndarray,
    cls: np.ndarray | None = None,
) -> np.ndarray:
    """The network's number on each row of bits: softmax over T tokens and [CLS] (last basis)."""
    T, d = tokens.shape[1:]
    cls = np.eye(d)[-1] if cls is None else cls
    chosen = tokens[bits, np.arange(T)]  # [n, T, d]
    query = cls @ parts["W_Q"]
    scores = np.concatenate(
        [chosen @ parts["W_K"] @ query, np.full((len(bits), 1), cls @ parts["W_K"] @ query)], axis=1
    )
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    pooled = np.einsum("nt,ntd->nd", weights[:, :-1], chosen) + weights[:, -1:] * cls
    u = pooled @ parts["W_V"]
    if "W_C" in parts:
        return u @ parts["W_C"] @ parts["w"]
    return np.maximum(u @ parts["W_1"] + parts["b_1"], 0) @ parts["w_2"] + parts["b_2"]


def truth(table: np.ndarray, support: tuple[int, ...], bits: np.ndarray) -> np.ndarray:
    rows = sum((bits[:, t] << i for i, t in enumerate(support)), np.zeros(len(bits), int))
    return table[rows]
