"""f as an ordered decision diagram: how f depends on x_I once its first k variables are known.

Two prefixes with the same residual table are one node. AND has one undecided node per level
("all ones so far"), parity two, a symmetric function at most k+1. This makes a search over
placements cheap, without a special case for any family.
"""

import functools
from dataclasses import dataclass

import numpy as np

from capax.boolean.functions import SparseFunction, only_bits


@dataclass(frozen=True)
class Edge:
    """Where an edge leads: to `node` of the next level, or (node None) to the decided `value`."""

    node: int | None
    value: float


@dataclass(frozen=True)
class Level:
    """The undecided nodes before variable k is read: node c goes to low[c] or high[c]."""

    low: tuple[Edge, ...]
    high: tuple[Edge, ...]

    @property
    def num_nodes(self) -> int:
        return len(self.low)


@functools.lru_cache(maxsize=256)
def decision_diagram(f: SparseFunction) -> tuple[Level, ...]:
    """The s levels of f, root first. A constant f is decided at once and has only empty levels."""
    only_bits(f)
    nodes = [] if _is_constant(f.table) else [f.table]
    levels = []
    for _ in range(f.s):
        found: dict[bytes, int] = {}
        following: list[np.ndarray] = []
        low = tuple(_edge(node[0::2], found, following) for node in nodes)
        high = tuple(_edge(node[1::2], found, following) for node in nodes)
        levels.append(Level(low, high))
        nodes = following
    return tuple(levels)


def _edge(table: np.ndarray, found: dict[bytes, int], following: list[np.ndarray]) -> Edge:
    if _is_constant(table):
        return Edge(None, float(table[0]))
    name = table.tobytes()
    if name not in found:
        found[name] = len(following)
        following.append(table)
    return Edge(found[name], 0.0)


def _is_constant(table: np.ndarray) -> bool:
    return bool((table == table[0]).all())
