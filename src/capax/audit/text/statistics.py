"""Numbers of attention rows: how many tokens, which tokens, how far away.

effective tokens = exp(entropy): n for a uniform row on n tokens. n95: the smallest number of tokens
that together hold 95 % of the mass. Distance counts tokens between query and key. far peak: the
largest weight on one token that is more than 8 away and not the first; large for look-up heads.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

HELD = 0.95
NEAR = 8  # tokens to either side, the query itself included
NAMES = ("effective_tokens", "n95", "first_token_share", "previous_token_share", "near_share",
         "far_peak", "mean_distance")  # fmt: skip


@dataclass(frozen=True)
class RowStatistics:
    """One array [H, rows] for each name in NAMES, and the context length T of every row."""

    T: Int[np.ndarray, "rows"]
    values: dict[str, Float[np.ndarray, "H rows"]]


def row_statistics(
    A: Float[np.ndarray, "H rows keys"], positions: Int[np.ndarray, "rows"], causal: bool
) -> RowStatistics:
    """Statistics of attention rows A of the queries at `positions`; each row sums to 1.

    The context length of a row is the number of tokens it may look at: position + 1 in a causal
    model, otherwise all tokens.
    """
    keys = np.arange(A.shape[-1])
    distance = np.abs(positions[:, None] - keys[None, :]).astype(A.dtype)
    ordered = -np.sort(-A, axis=-1)
    held = np.cumsum(ordered, axis=-1)
    total = held[..., -1:]
    n95 = (held < HELD * total).sum(axis=-1) + 1
    logs = np.log(np.maximum(A, np.finfo(A.dtype).tiny))
    before = np.maximum(positions - 1, 0)
    return RowStatistics(
        T=positions + 1 if causal else np.full(len(positions), A.shape[-1]),
        values={
            "effective_tokens": np.exp(-(A * logs).sum(axis=-1)),
            "n95": n95.astype(A.dtype),
            "first_token_share": A[..., 0],
            "previous_token_share": np.take_along_axis(
                A, np.broadcast_to(before[None, :, None], (*A.shape[:2], 1)), axis=-1
            )[..., 0],
            "near_share": (A * (distance <= NEAR)).sum(axis=-1),
            "far_peak": np.where((distance > NEAR) & (keys > 0), A, 0.0).max(axis=-1),
            "mean_distance": (A * distance).sum(axis=-1),
        },
    )
