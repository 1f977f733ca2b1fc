"""The share of every head in one cover of the sum of all heads.

Corollary 4.5 for a sum of heads: ln N(eps) <= [sum_i (alpha_i^2 C_i)^{1/3}]^3 / eps^2, one term per
matrix, so a matrix contributes (alpha^2 C)^{1/3} over the sum.

Plain heads: W_QK (alpha = ||W_VO||_2 B, C = (||W_QK||_F B^2)^2 ln(2 N + 1)) and W_VO (alpha = 1,
C = 2 (||W_VO||_{2,1} B)^2 ln(128 d M + 1)).

Grouped queries and rotary positions: a score is not a linear function of W_Q W_K^T alone, and one
key matrix serves several heads. There the four factors are covered one by one, the key and the
value of a group once:
    W_Q: alpha = s ||W_K||_2 B ||W_VO||_2 B   W_K: alpha = sum_h s ||W_Q^h||_2 B ||W_VO^h||_2 B
    W_V: alpha = sum_h ||W_O^h||_2            W_O: alpha = 1, points of length ||W_V||_2 B
and each of the n heads of a group is charged 1/n of its key and value.

This is a comparison of heads, not a bound for the network: composing the layers (Theorem 4.7)
multiplies by Lipschitz constants that make the whole number vacuous.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capax.audit.heads.head_sizes import HeadSizes

NUM_SEQUENCES = 10**6  # enters through logarithms only
UNBOUNDED_CONTEXT = 2048  # if the file gives no limit


@dataclass(frozen=True)
class Counted:
    """A head as the cover counts it: its sizes, its group, and the structure of its layer."""

    sizes: HeadSizes
    group: tuple[str, int, int]  # part, layer, key-value head
    factored: bool
    scale: float
    d: int
    k: int
    copies: int = 1  # a shared layer is covered once; its share is spread over its compositions


def capacity_shares(heads: Sequence[Counted], limit: int | None) -> list[float]:
    """Shares that add up to 1 over all rows (a shared layer has `copies` rows)."""
    T = limit or UNBOUNDED_CONTEXT
    groups: dict[tuple[str, int, int], list[Counted]] = {}
    for head in heads:
        groups.setdefault(head.group, []).append(head)
    held = [
        _factored(head, T, groups[head.group]) if head.factored else _plain(head, T)
        for head in heads
    ]
    total = sum(held)
    return [value / total / head.copies if total > 0 else 0.0
            for value, head in zip(held, heads, strict=True)]  # fmt: skip


def _third(alpha: float, norm: float, length: float, logarithm: float) -> float:
    return (alpha * norm * length) ** (2 / 3) * logarithm ** (1 / 3)


def _matrix_log(outputs: int, points: int) -> float:
    return 2 * math.log(128 * outputs * points + 1)


def _plain(head: Counted, T: int) -> float:
    B, sizes = math.sqrt(head.d + 1), head.sizes
    pairs, rows = NUM_SEQUENCES * T * T, NUM_SEQUENCES * T
    score = _third(sizes.W_VO_2 * B, sizes.W_QK_F, B * B, math.log(2 * pairs + 1))
    return score + _third(1.0, sizes.W_VO_21, B, _matrix_log(head.d, rows))


def _factored(head: Counted, T: int, mates: Sequence[Counted]) -> float:
    B, part, rows = math.sqrt(head.d + 1), head.sizes.parts, NUM_SEQUENCES * T
    log_k, log_d = _matrix_log(head.k, rows), _matrix_log(head.d, rows)
    keys = sum(
        head.scale * mate.sizes.parts.Q_2 * B * mate.sizes.W_VO_2 * B for mate in mates
    )  # fmt: skip
    values = sum(mate.sizes.parts.O_2 for mate in mates)
    own = _third(head.scale * part.K_2 * B * head.sizes.W_VO_2 * B, part.Q_21, B, log_k)
    own += _third(1.0, part.O_21, part.V_2 * B, log_d)
    shared = _third(keys, part.K_21, B, log_k) + _third(values, part.V_21, B, log_k)
    return own + shared / len(mates)
