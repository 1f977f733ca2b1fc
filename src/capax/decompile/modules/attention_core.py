"""The one attention of a module: its matrices, number of heads and mask, found by values.

`nn.MultiheadAttention` names its matrices. In other modules three affine maps share their input
(query, key, value, in any order), or one gives all three side by side, and the next affine map
reads the mixture: every order and every number of heads is tried until one gives the numbers.
"""

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from capax.attention.numpy_block import softmax
from capax.decompile.modules.known_leaves import AffineMap, affine_map, near
from capax.decompile.modules.leaf_calls import LeafCall, NotRead
from capax.decompile.proof.layer_tables import HeadWeights


@dataclass(frozen=True)
class AttentionCore:
    """The heads, their tokens [n, L, d], their addition to each query row, and their calls `first`
    to `last` in the recording."""

    heads: HeadWeights
    tokens: np.ndarray
    queries: np.ndarray
    output: np.ndarray
    causal: bool
    first: int
    last: int


def attention_core(calls: list[LeafCall], tolerance: float) -> AttentionCore:
    """The only attention among the calls. Raises `NotRead` for none, several or another kind."""
    whole = [i for i, call in enumerate(calls) if hasattr(call.module, "in_proj_weight")]
    found = [_of_module(calls, i, tolerance) for i in whole] or _of_maps(calls, tolerance)
    if not found:
        raise NotRead("no softmax attention of the usual form")
    if len(found) > 1:
        raise NotRead(f"{len(found)} attention layers: the tokens of layer 2 depend on all bits")
    return found[0]


def _of_module(calls: list[LeafCall], at: int, tolerance: float) -> AttentionCore:
    call, owner = calls[at], calls[at].module
    if owner.in_proj_weight is None or owner.bias_k is not None or owner.add_zero_attn:
        raise NotRead("attention with key or value widths, biases or zeros of its own")
    if len(call.inputs) < 3 or not np.array_equal(call.inputs[1], call.inputs[2]):
        raise NotRead("attention whose keys and values come from different tokens")
    batch_first = owner.batch_first
    queries, tokens, output = (
        x if batch_first else np.swapaxes(x, 0, 1)
        for x in (call.inputs[0], call.inputs[1], call.output)
    )
    W = _number(owner.in_proj_weight).T  # [d, 3 d]
    d = W.shape[0]
    b = np.zeros(3 * d) if owner.in_proj_bias is None else _number(owner.in_proj_bias)
    maps = [AffineMap(W[:, i * d : (i + 1) * d], b[i * d : (i + 1) * d]) for i in range(3)]
    bias = owner.out_proj.bias
    out = AffineMap(_number(owner.out_proj.weight).T, np.zeros(d) if bias is None else
                    _number(bias))  # fmt: skip
    for causal in (False, True):
        mixture = mixed(maps, queries, tokens, owner.num_heads, causal)
        if mixture is not None and near(out(mixture), output, tolerance):
            heads = head_weights(maps, out, owner.num_heads)
            return AttentionCore(heads, tokens, queries, output, causal, at, at)
    raise NotRead("attention with a mask that is not causal")


def _of_maps(calls: list[LeafCall], tolerance: float) -> list[AttentionCore]:
    """Query, key and value maps with one input, then the map that reads their mixture."""
    found: list[AttentionCore] = []
    maps = [(i, affine_map(call, tolerance)) for i, call in enumerate(calls)]
    known = [(i, m) for i, m in maps if m is not None]
    for place, (i, first) in enumerate(known):
        rest = known[place + 1 :]
        d = first.W.shape[0]
        if first.W.shape == (d, 3 * d) and rest:
            sides = zip(np.split(first.W, 3, axis=1), np.split(first.b, 3), strict=True)
            parts = [AffineMap(W, b) for W, b in sides]
            found += _mixing(calls, i, parts, rest[0], tolerance)
        alike = [(i, first), *rest[:2]]
        same = len(alike) == 3 and all(
            m.W.shape == (d, d) and np.array_equal(calls[j].inputs[0], calls[i].inputs[0])
            for j, m in alike
        )
        if same and len(rest) > 2:
            found += _mixing(calls, i, [m for _, m in alike], rest[2], tolerance)
    return found


def _mixing(
    calls: list[LeafCall],
    first: int,
    maps: list[AffineMap],
    behind: tuple[int, AffineMap],
    tolerance: float,
) -> list[AttentionCore]:
    """The core, if some order of the maps and some number of heads gives the next input."""
    last, out = behind
    tokens, wanted = calls[first].inputs[0], calls[last].inputs[0]
    if tokens.ndim != 3 or wanted.shape != tokens.shape:
        return []
    d = tokens.shape[2]
    for order in permutations(maps):
        for H in (h for h in range(1, d + 1) if d % h == 0):
            for causal in (False, True):
                mixture = mixed(order, tokens[:2], tokens[:2], H, causal)
                if mixture is None or not near(mixture, wanted[:2], tolerance):
                    continue
                heads = head_weights(order, out, H)
                output = calls[last].output
                return [AttentionCore(heads, tokens, tokens, output, causal, first, last)]
    return []


def mixed(
    maps: Any, queries: np.ndarray, tokens: np.ndarray, H: int, causal: bool
) -> np.ndarray | None:
    """softmax(q k^T / sqrt(k)) v of every head, side by side, [n, queries, d]."""
    n, L, d = tokens.shape
    if d % H or (causal and queries.shape != tokens.shape):
        return None

    def by_head(m: AffineMap, x: np.ndarray) -> np.ndarray:
        return np.swapaxes(m(x).reshape(n, -1, H, d // H), 1, 2)  # [n, H, rows, k]

    q, k, v = by_head(maps[0], queries), by_head(maps[1], tokens), by_head(maps[2], tokens)
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(d // H)
    if causal:
        scores = np.where(np.tri(L, dtype=bool), scores, -np.inf)
    return np.swapaxes(softmax(scores) @ v, 1, 2).reshape(n, -1, d)


def head_weights(maps: Any, out: AffineMap, H: int) -> HeadWeights:
    """The matrices by head."""
    d = out.W.shape[0]
    W_Q, W_K, W_V = (np.moveaxis(m.W.reshape(-1, H, d // H), 1, 0) for m in maps)
    b_Q, b_V = (maps[i].b.reshape(H, d // H) for i in (0, 2))
    scale = float(1.0 / np.sqrt(d // H))
    return HeadWeights(W_Q, W_K, W_V, b_Q, b_V, out.W.reshape(H, d // H, -1), out.b, scale)


def _number(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
