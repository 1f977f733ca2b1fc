"""Does the formula hold on all 2^T inputs? Proved, refuted with an input, or open with the gap.

One-layer Transformers: the logit is enclosed over every pattern of the support and all fillers
(`enclosure`); a cell whose enclosure does not decide is cut in two by its number of ones. What
remains undecided at the end is open, and the probability of what was proved is exact: the number
of ones among T - s fillers is binomial. A search for a counterexample runs first; what it finds is
confirmed on the model. Compiled networks: the certified range of their head. Everything else can
only be queried, and stays open.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from capax.attention.collapse import why_not
from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.decompile.counterexample import search
from capax.decompile.enclosure import enclose
from capax.decompile.head_sets import Cells, HeadSets
from capax.decompile.head_tables import HeadTables, head_tables
from capax.decompile.oracle import Oracle
from capax.decompile.table_forward import TableForward

Status = Literal["proved", "refuted", "open"]
NUMBERS = 1 << 21
"""Numbers per array: cells are enclosed in groups of at most this size."""
MAX_CELLS = 2048


@dataclass(frozen=True)
class AllInputs:
    """The verdict over all inputs.

    `margin`: certified lower bound of the distance of the logit from the threshold on the right
    side over all inputs (negative: the gap that is open). `found_margin`: the smallest that a
    search met (None: no search). `proved_share`: probability under the data distribution of the
    inputs on which the formula is proved. `ones`: for the largest such interval, the formula is
    proved for every pattern and all fillers with so many ones; `ones_share` its probability.
    """

    status: Status
    margin: float | None
    found_margin: float | None
    counterexample: tuple[int, ...] | None
    proved_share: float
    ones: tuple[int, int] | None
    ones_share: float
    method: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}


def on_all_inputs(
    model: Oracle, f: SparseFunction, rng: np.random.Generator, *, p: float
) -> AllInputs:
    """Prove, refute or leave open that `model` decides as f on all 2^T inputs."""
    known = model.model
    if isinstance(known, Transformer):
        reason = why_not(known.spec)
        if reason is None:
            return _one_layer(model, known, f, rng, p)
        return _unknown(f"not provable here: {reason}")
    return _unknown("asked by queries alone")


def _unknown(method: str) -> AllInputs:
    return AllInputs("open", None, None, None, 0.0, None, 0.0, method)


def _one_layer(
    oracle: Oracle, model: Transformer, f: SparseFunction, rng: np.random.Generator, p: float
) -> AllInputs:
    tables = head_tables(model)
    found = search(TableForward(model, tables), f, rng, threshold=oracle.threshold, p=p)
    wrong = None
    if found.margin < 0:
        decided = bool(oracle(found.bits[None])[0])
        if decided != bool(f(found.bits) > 0.5):
            wrong = tuple(int(t) for t in np.flatnonzero(found.bits))
    cells, margins = decide(model, tables, f, threshold=oracle.threshold)
    proved = margins > 0
    share = float(cell_probabilities(cells, f, p)[proved].sum())
    ones, ones_share = proved_ones(cells, proved, oracle.T - f.s, 1 << f.s, p)
    status: Status = "refuted" if wrong is not None else "open"
    if proved.all():
        status, share = "proved", 1.0
    return AllInputs(
        status, float(margins.min()), found.margin, wrong, min(1.0, share), ones, ones_share,
        f"{len(cells)} cells enclosed in real arithmetic, {found.inputs} inputs searched",
    )  # fmt: skip


def decide(
    model: Transformer, tables: HeadTables, f: SparseFunction, *, threshold: float = 0.0
) -> tuple[Cells, np.ndarray]:
    """Cells that cover all inputs, and a certified lower bound of the margin on each."""
    F, s = tables.T - f.s, f.s
    rows = np.arange(1 << s)
    todo = Cells(f.support, rows, np.zeros_like(rows), np.full_like(rows, F))
    done: list[tuple[Cells, np.ndarray]] = []
    total = 0
    while len(todo):
        margins = _margins(model, tables, f, todo, threshold)
        total += len(todo)
        splits = (margins <= 0) & (todo.last > todo.first) & (total < MAX_CELLS)
        # a cell that is wrong throughout needs no cutting: its upper bound is negative as well
        done.append((todo.part(~splits), margins[~splits]))
        todo = _halves(todo.part(splits))
    cells = Cells(
        f.support,
        *(np.concatenate([getattr(c, n) for c, _ in done]) for n in ("rows", "first", "last")),
    )
    return cells, np.concatenate([m for _, m in done])


def _halves(cells: Cells) -> Cells:
    middle = (cells.first + cells.last) // 2
    return Cells(
        cells.support,
        np.concatenate([cells.rows, cells.rows]),
        np.concatenate([cells.first, middle + 1]),
        np.concatenate([middle, cells.last]),
    )


def _margins(
    model: Transformer, tables: HeadTables, f: SparseFunction, cells: Cells, threshold: float
) -> np.ndarray:
    width = 2 * tables.T * max(len(tables.W_O.mid), model.spec.mlp_width)
    size = max(1, NUMBERS // width)
    parts = []
    for start in range(0, len(cells), size):
        some = cells.part(np.arange(start, min(start + size, len(cells))))
        found = enclose(model, HeadSets(tables, some))
        ones = f.table[some.rows] > 0.5
        parts.append(np.where(ones, found.low - threshold, threshold - found.high))
    return np.concatenate(parts)


def cell_probabilities(cells: Cells, f: SparseFunction, p: float) -> np.ndarray:
    """Probability of each cell when all bits are independent Bernoulli(p)."""
    from scipy.stats import binom

    assert f.T is not None
    F, k = f.T - f.s, np.bitwise_count(cells.rows)
    pattern = p**k * (1 - p) ** (f.s - k)
    inside = binom.cdf(cells.last, F, p) - binom.cdf(cells.first - 1, F, p)
    return pattern * inside


def proved_ones(
    cells: Cells, proved: np.ndarray, F: int, patterns: int, p: float
) -> tuple[tuple[int, int] | None, float]:
    """The interval of filler counts that is proved at every pattern and most probable."""
    from scipy.stats import binom

    good = np.zeros(F + 1, np.int64)
    for first, last in zip(cells.first[proved], cells.last[proved], strict=True):
        good[first : last + 1] += 1
    runs, start = [], None
    for count, full in enumerate([*(good == patterns), False]):
        if full and start is None:
            start = count
        if not full and start is not None:
            runs.append((start, count - 1))
            start = None
    if not runs:
        return None, 0.0
    shares = [float(binom.cdf(b, F, p) - binom.cdf(a - 1, F, p)) for a, b in runs]
    best = int(np.argmax(shares))
    return runs[best], min(1.0, shares[best])
