"""Small instances that several checks share: coins, random blocks, a class of five functions."""

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from capax.attention.numpy_block import (
    BlockMatrices,
)
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.paper_network import PaperLayer
from capax.statements.forms import inequalities
from capax.statements.instances.small_instance import SmallInstance

KEY = 2022
SMALL_CLASS = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [0.4, 0.4, 0.4]])


def coin_tail(m: int, gap: float) -> float:
    """P(|k/m - 1/2| > gap) for k ~ Bin(m, 1/2): the two constant functions and a fair label."""
    k = np.arange(m + 1)
    return float(binom.pmf(k, m, 0.5)[np.abs(k / m - 0.5) > gap].sum())


def coin_rademacher(m: int) -> float:
    """R of {0, 1} as constants: E|sum of m signs| / (2m)."""
    k = np.arange(m + 1)
    return float((binom.pmf(k, m, 0.5) * np.abs(2 * k - m)).sum()) / (2 * m)


def random_blocks(count: int = 40) -> Iterator[tuple[np.ndarray, np.ndarray, list[BlockMatrices]]]:
    """Random tokens Z, Y of length at most 1 and two random blocks, of several sizes."""
    rng = np.random.default_rng(KEY)
    for n in range(count):
        T, d, k = 2 + n % 4, 2 + n % 3, 1 + n % 3
        Z, Y = (rng.normal(size=(T, d)) for _ in range(2))
        Z, Y = (M / max(1.0, np.linalg.norm(M, axis=1).max()) for M in (Z, Z + 0.3 * Y))
        shapes = ((d, k), (d, k), (d, k), (k, d))
        first = [rng.normal(size=shape) * rng.choice([0.3, 1.0, 4.0]) for shape in shapes]
        second = [M + rng.choice([0.01, 1.0]) * rng.normal(size=M.shape) for M in first]
        yield Z, Y, [BlockMatrices(*first), BlockMatrices(*second)]


def all_hold(sides: list[inequalities.Sides], text: str) -> SmallInstance:
    """Whether all inequalities hold; the text shows the tightest one."""
    tightest = max(sides, key=lambda side: side.left / max(side.right, 1e-300))
    found = f"{len(sides)} {text}, tightest: {tightest.left:.4g} <= {tightest.right:.4g}"
    return SmallInstance(all(side.holds for side in sides), found)


def between_packing_and_paper(
    packing: float, ours: float, paper: float, text: str
) -> SmallInstance:
    numbers = f"{text}: {packing:.4g} (packing) <= {ours:.4g} (ours) <= {paper:.4g} (paper)"
    return SmallInstance(packing <= ours <= paper, numbers)


def equal_norms_layer(norm: float, norm_21: float) -> PaperLayer:
    norms = MatrixNorms(norm, norm_21, norm_21, norm_21)
    return PaperLayer(norms, norms, norms, d=8, k=4)
