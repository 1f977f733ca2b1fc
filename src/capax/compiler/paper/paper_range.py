"""The range of the paper's networks over all 2^T inputs: the proof of our heads, then the bumps.

At each pattern of the relevant bits the output of every head lies in a proven interval
(`linear_fractional`), so the input of the network lies in a box. The network is two layers of
ridges: units that read one direction add up to a piecewise-linear function of one number, whose
range over an interval is known exactly (`ridge`). So a second-layer sum lies in the sum of the
ranges of its ridges, and the output in the sum of the ranges of the ridges after it. If every
number stays on a plateau, the range is exact up to rounding.
"""

import numpy as np
from jaxtyping import Float

from capax.compiler.paper.bump_network import BumpNetwork
from capax.compiler.paper.paper_heads import PaperHeads
from capax.compiler.proof.enclosed import Enclosed, between, exactly
from capax.compiler.proof.linear_fractional import head_range
from capax.compiler.proof.ridge import ridge
from capax.compiler.proof.tables import HeadTables

Box = tuple[Float[np.ndarray, "rows _"], Float[np.ndarray, "rows _"]]
"""Lower and upper ends, one row for each pattern."""


def head_box(heads: PaperHeads) -> Box:
    """Proven ends [2^s, p] of the heads' outputs at each pattern, over all other bits."""
    p = heads.wanted.shape[1]
    low = high = exactly(np.zeros((1 << heads.s, p)))
    for number, W in enumerate(heads.heads):
        found = head_range(_tables(heads, number), heads.support, W.W_C)
        low, high = (
            exactly((low + exactly(found.low)).low),
            exactly((high + exactly(found.high)).high),
        )
    return low.mid, high.mid


def _tables(heads: PaperHeads, number: int) -> HeadTables:
    """Scores and values of every (position, bit) and of [CLS], which is the last unit vector."""
    W = heads.heads[number]
    key = exactly(W.W_K) @ exactly(W.W_Q[-1][:, None])  # [d, 1]
    positions, values = exactly(heads.positions), exactly(W.W_V)
    at, read = positions @ key, positions @ values
    if heads.encoding == "bag":
        logits, images = _switched(at), _switched(read)
    else:
        logits, images = at[:, None] + key[None, -3:-1], read[:, None] + values[None, -3:-1]
    return HeadTables(logits[:, :, 0], images, key[-1, 0], values[-1])


def _switched(V: Enclosed) -> Enclosed:
    """b v_t for b = 0 and 1."""
    return Enclosed(*(np.stack([np.zeros_like(M), M], axis=1) for M in (V.mid, V.rad)))


def network_range(
    network: BumpNetwork, box: Box
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Proven ends of the network's output on each row of the box."""
    sums = second_layer_sums(network, box)
    return output_of_sums(network, sums)


def second_layer_sums(network: BumpNetwork, box: Box) -> Box:
    """Ends [rows, groups] of the sums that the second layer forms, without its biases.

    Columns of W_2 that agree in every bit form one group; w does not enter, so functions that
    share their points share these ends.
    """
    directions, reads = np.unique(network.W_1[:-1], axis=1, return_inverse=True)
    reads = reads.reshape(-1)
    x = between(*box)
    seen = x @ exactly(directions)  # [rows, directions]
    columns, _ = _groups(network)
    low = high = exactly(np.zeros((len(box[0]), columns.shape[1])))
    for direction in range(directions.shape[1]):
        ends = seen.low[:, direction], seen.high[:, direction]
        parts = []
        for column in columns.T:
            units = np.flatnonzero((reads == direction) & (column != 0))
            made = ridge(network.W_1[-1, units], column[units])
            parts.append(made.bounds(*ends) if len(units) else (0 * ends[0], 0 * ends[0]))
        low = low + exactly(np.stack([part[0] for part in parts], axis=1))
        high = high + exactly(np.stack([part[1] for part in parts], axis=1))
    return low.low, high.high


def output_of_sums(
    network: BumpNetwork, sums: Box
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Ends of the output from the ends of the second-layer sums."""
    columns, group = _groups(network)
    bottom = top = exactly(np.zeros(len(sums[0])))
    for g in range(columns.shape[1]):
        units = np.flatnonzero((group == g) & (network.w != 0))
        if not len(units):
            continue
        made = ridge(network.W_2[-1, units], network.w[units])
        least, most = made.bounds(sums[0][:, g], sums[1][:, g])
        bottom, top = bottom + exactly(least), top + exactly(most)
    return bottom.low, top.high


def _groups(network: BumpNetwork) -> tuple[np.ndarray, np.ndarray]:
    """The different columns of W_2 without the bias, and which of them each unit has."""
    columns, group = np.unique(network.W_2[:-1], axis=1, return_inverse=True)
    return columns, group.reshape(-1)
