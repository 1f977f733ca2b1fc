"""The table of a checkpoint: one row per head, streamed layer by layer."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from capax.audit.heads.capacity_share import Counted, capacity_shares
from capax.audit.heads.head_sizes import HeadSizes, head_sizes
from capax.audit.heads.random_start import COMPARED, Start, random_sizes, ratio, start_of
from capax.audit.layouts.attention_layer import Attention
from capax.audit.layouts.table import Recognised
from capax.machine import num_cores

Row = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class HeadTable:
    """Rows by part, layer and head; how the random start was simulated; tensors not used."""

    rows: tuple[Row, ...]
    start: Start
    unplaced: tuple[str, ...]


def head_table(recognised: Recognised, progress: Progress | None = None) -> HeadTable:
    """Read every layer once and measure its heads; one layer is in memory at a time."""
    facts, start = recognised.facts, start_of(recognised)
    baselines: dict[Any, dict[str, float | None]] = {}
    counted: list[Counted] = []
    rows: list[Row] = []
    normalised = bare_first = False
    total = recognised.layout.layers_of(facts, recognised.settings)
    # LAPACK releases the interpreter lock: one head per core, each with one thread. With several
    # BLAS threads per head the threads wait for each other, ten times as long on a busy machine.
    with threadpool_limits(1), ThreadPoolExecutor(num_cores()) as pool:
        for done, attention in enumerate(recognised.layers()):
            key = _shape_key(attention)
            if key not in baselines:
                baselines[key] = random_sizes(attention, start, facts.family, facts.limit)
            sizes_of = partial(head_sizes, attention, limit=facts.limit)
            for h, sizes in enumerate(pool.map(sizes_of, range(len(attention.W_Q)))):
                counted.append(_counted(attention, h, sizes))
                rows.append(_row(attention, h, sizes, baselines[key]))
            normalised = normalised or attention.q_gain is not None
            bare_first = bare_first or attention.bare_first
            if progress is not None:
                progress(done + 1, total)
    shares = [None] * len(rows) if normalised else capacity_shares(counted, facts.limit)
    whole = [{**row, "capacity_share": share} for row, share in zip(rows, shares, strict=True)]
    repeated = list(_compositions(whole, [head.copies for head in counted], facts.heads))
    if bare_first:
        unknown = dict.fromkeys(("score_radius", "score_radius_to_random"))
        repeated = [row | unknown if row["layer"] == 0 else row for row in repeated]
    return HeadTable(tuple(repeated), start, tuple(recognised.unplaced()))


def _shape_key(attention: Attention) -> Any:
    """Layers with equal keys have the same random start."""
    turning, rotary = None, attention.rotary
    if rotary is not None:
        contexts = tuple((T, tuple(theta)) for T, theta in rotary.contexts)
        turning = (rotary.planes, rotary.factor, contexts)
    vectors = attention.distance_vectors
    tables = (attention.W_Q, attention.distance_bias, None if vectors is None else vectors.vectors)
    shapes = [None if table is None else table.shape for table in tables]
    bounded = attention.norm is not None
    return (*shapes, attention.scale, turning, bounded, attention.window)


def _counted(attention: Attention, h: int, sizes: HeadSizes) -> Counted:
    return Counted(
        sizes=sizes,
        group=(attention.part, attention.layer, h // attention.group),
        factored=attention.group > 1 or attention.rotary is not None,
        scale=abs(attention.scale),
        d=attention.W_Q.shape[1],
        k=attention.W_Q.shape[2],
        copies=attention.shared_by,
    )


def _row(
    attention: Attention, h: int, sizes: HeadSizes, random: dict[str, float | None]
) -> Row:  # fmt: skip
    row: Row = {
        "part": attention.part,
        "layer": attention.layer,
        "head": h,
        "kv_head": h // attention.group,
        "W_QK_F": sizes.W_QK_F,
        "W_QK_2": sizes.W_QK_2,
        "stable_rank": sizes.stable_rank,
        "W_VO_2": sizes.W_VO_2,
        "W_VO_21": sizes.W_VO_21,
        "score_radius": sizes.score_radius,
        "W_QK_F_max": sizes.W_QK_F_max,
        "D_max": sizes.D_max,
    }
    # with normalised q and k the scale of W_QK cancels: compare the radius instead
    headline = "W_QK_F" if attention.q_gain is None else "score_radius"
    row["ratio_to_random"] = ratio(sizes, random, headline)
    return row | {f"{name}_to_random": ratio(sizes, random, name) for name in COMPARED}


def _compositions(rows: list[Row], copies: list[int], heads: int) -> Iterator[Row]:
    """Rows of a shared layer once per composition, with the layer numbers of the compositions."""
    if all(n == 1 for n in copies):
        yield from rows
        return
    at = 0
    for start in range(0, len(rows), heads):
        for _ in range(copies[start]):
            for row in rows[start : start + heads]:
                yield {**row, "layer": at, "weights_of": row["layer"]}
            at += 1
