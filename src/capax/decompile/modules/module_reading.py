"""A PyTorch module of one layer as a `LayerReading`, or the reason why it is not one.

Names are not used: the module runs once on some inputs, its calls are matched by values
(`attention_core`, `chain`), and the tokens are the vectors that reach the layer, one for each
position and symbol. The reading is used only if it gives the module's numbers on fresh inputs,
including sparse and dense ones. A proof is then about this form; the check makes it likely, but
cannot prove, that the module computes this form on other inputs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.decompile.modules.attention_core import AttentionCore, attention_core
from capax.decompile.modules.chain import Chain, chain_behind
from capax.decompile.modules.known_leaves import distance, near, norm_of
from capax.decompile.modules.leaf_calls import NotRead, Recording, recorded
from capax.decompile.proof.layer_tables import NormWeights, tables_of
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.query_cases import LayerReading, QueryCase, with_bit
from capax.decompile.proof.table_forward import TableForward

PROBES, CHECKS = 16, 192
TOKEN_RADIUS = 2.0**-40
"""Of a token as computed in float64, relative to its largest number: thousands of roundings."""
Asked = Callable[[Any], Callable[[np.ndarray], np.ndarray]]


def read_module(module: Any, asked: Asked, T: int, seed: int = 0) -> LayerReading:
    """The module in the form that is proved. Raises `NotRead` with the reason."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (PROBES, T)).astype(np.uint8)
    X[0], X[1] = 0, 1
    found = recorded(module, asked, X)
    core = attention_core(found.calls, found.tolerance)
    stream, ln, kept, chain = _around(found, core)
    row, (w, b, meaning) = _row_and_read_out(chain, core, found)
    if core.causal and row != stream.shape[1] - 1:
        raise NotRead(f"a causal mask, and row {row} is read, which does not see all tokens")
    cases = [
        QueryCase(_layer(tokens, query, ln, core, kept, chain, w, b), position, bit)
        for tokens, query, position, bit in _queries(stream, X, row, found.tolerance)
    ]
    reading = LayerReading(tuple(cases), _told(core, ln, chain, cases), *meaning)
    _check(reading, found, T, rng)
    return reading


def _around(
    found: Recording, core: AttentionCore
) -> tuple[np.ndarray, NormWeights | None, bool, Chain]:
    """The stream [n, L, d] with its norm, whether the queries are added, and what follows."""
    before = [c for c in found.calls[: core.first] if c.output.shape == core.tokens.shape]
    normed = [c for c in before if near(c.output, core.tokens, found.tolerance)]
    ln = norm_of(normed[-1], found.tolerance) if normed else None
    ways: list[tuple[np.ndarray, NormWeights | None, bool]] = []
    if ln is not None:
        ways.append((normed[-1].inputs[0], ln, True))
    ways += [(core.tokens, None, True), (core.tokens, None, False)]
    reasons = []
    for stream, norm, kept in ways:
        rows = stream
        if kept and core.queries.shape != stream.shape:
            rows = _query_rows(stream, core)
        x = core.output + rows if kept else core.output
        try:
            chain = chain_behind(x, found.calls[core.last + 1 :], found.tolerance)
        except NotRead as error:
            reasons.append(error)
            continue
        return stream, norm, kept, chain
    raise reasons[0]


def _query_rows(stream: np.ndarray, core: AttentionCore) -> np.ndarray:
    """The stream at the query rows, if not all rows are queries."""
    row = _asking(core)
    return stream[:, row : row + core.queries.shape[1]]


def _asking(core: AttentionCore) -> int:
    count = core.queries.shape[1]
    for row in range(core.tokens.shape[1] - count + 1):
        if np.array_equal(core.tokens[:, row : row + count], core.queries):
            return row
    raise NotRead("a query that is none of the tokens")


ReadOut = tuple[Enclosed, Enclosed, tuple[Any, Any]]


def _row_and_read_out(chain: Chain, core: AttentionCore, found: Recording) -> tuple[int, ReadOut]:
    """The row that is read, which may be chosen among logits of all rows, and the read-out."""
    count = core.queries.shape[1]
    rows = range(count) if chain.row is None else [chain.row]
    first = _asking(core) if count < core.tokens.shape[1] else 0
    for row in rows:
        read_out = _read_out(chain, found.numbers, row, found.tolerance)
        if read_out is not None:
            return first + row, read_out
    raise NotRead("numbers that are not those of the last map at one token")


def _read_out(chain: Chain, numbers: np.ndarray, row: int, tolerance: float) -> ReadOut | None:
    """(w, b) and the kind of the module's numbers: a logit, a difference of two, a probability."""
    logits = chain.logits
    if logits.ndim == 3:
        logits = logits[:, row if logits.shape[1] > 1 else 0]
    same: tuple[Any, Any] = (_unchanged, _unchanged)
    columns = list(range(min(logits.shape[1], 64)))
    W, b = chain.head.W, chain.head.b
    for j in columns:
        one = exactly(W[:, j]), exactly(b[j])
        if near(logits[:, j], numbers, tolerance):
            return *one, same
        if near(_sigmoid(logits[:, j]), numbers, tolerance):
            return *one, (log_odds, log_odds)
    if len(columns) >= 2 and near(logits[:, 1] - logits[:, 0], numbers, tolerance):
        return exactly(W[:, 1]) - exactly(W[:, 0]), exactly(b[1]) - exactly(b[0]), same
    return None


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _unchanged(x: Any) -> Any:
    return x


def log_odds(x: Any) -> Any:
    """log(x / (1 - x)): the logit of a probability."""
    with np.errstate(divide="ignore"):
        return np.log(x) - np.log1p(-np.asarray(x, np.float64))


def _queries(stream: np.ndarray, X: np.ndarray, row: int, tolerance: float) -> list[tuple]:
    """(tokens [T', 2, d], query [d], position, bit) for each value of the query.

    A token must depend on its own bit alone: rows 0 and 1 of X are all zeros and all ones.
    """
    T = X.shape[1]
    moving = [i for i in range(stream.shape[1]) if not np.array_equal(stream[0, i], stream[1, i])]
    if len(moving) != T:
        raise NotRead(f"{len(moving)} of {stream.shape[1]} tokens depend on a bit, wanted {T}")
    table = np.stack([stream[0, moving], stream[1, moving]], axis=1)  # [T, 2, d]
    fixed = [i for i in range(stream.shape[1]) if i not in moving]
    if not near(table[np.arange(T)[None], X], stream[:, moving], tolerance):
        raise NotRead("a token that depends on more than its own bit")
    if any(not near(stream[:, i], stream[:1, i].repeat(len(X), 0), tolerance) for i in fixed):
        raise NotRead("a token that depends on more than its own bit")
    if fixed not in ([], [row]):
        raise NotRead(f"{len(fixed)} tokens without a bit; only [CLS] may have none")
    size = max(tolerance / 1e-9, 1.0) * TOKEN_RADIUS * float(np.abs(stream).max())
    if fixed:
        return [(_ball(table, size), _ball(stream[0, row], size), None, 0)]
    at = moving.index(row)
    rest = _ball(np.delete(table, at, axis=0), size)
    return [(rest, _ball(table[at, bit], size), at, bit) for bit in (0, 1)]


def _ball(x: np.ndarray, radius: float) -> Enclosed:
    return exactly(x).widened(radius)


def _layer(
    tokens: Enclosed,
    query: Enclosed,
    ln: NormWeights | None,
    core: AttentionCore,
    kept: bool,
    chain: Chain,
    w: Enclosed,
    b: Enclosed,
) -> OneQueryLayer:
    tables = tables_of(tokens, query, ln, core.heads, kept=kept)
    d = len(core.heads.b_O)
    if chain.mlp is None:  # an MLP of one unit that is 0
        hidden = (np.zeros((d, 1)), np.zeros(1), "identity", np.zeros((1, d)), np.zeros(d))
        return OneQueryLayer(
            tables, None, "residual", *hidden, final=chain.final, pooler=chain.pooler, w=w, b=b
        )
    mlp = chain.mlp
    hidden = (mlp.into.W, mlp.into.b, mlp.activation, mlp.out.W, mlp.out.b)
    return OneQueryLayer(
        tables, chain.norm, mlp.kept, *hidden, final=chain.final, pooler=chain.pooler, w=w, b=b
    )


def _check(reading: LayerReading, found: Recording, T: int, rng: np.random.Generator) -> None:
    """Raise `NotRead` unless the reading gives the module's numbers on fresh inputs."""
    density = np.repeat([0.05, 0.5, 0.95], CHECKS // 3)[:, None]
    X = (rng.random((CHECKS, T)) < density).astype(np.uint8)
    for case in reading.cases:
        others = X if case.position is None else np.delete(X, case.position, axis=1)
        given = reading.as_logits(found.run(with_bit(others, case)))
        off = distance(TableForward(case.layer).numbers(others), given)
        if not off <= 100 * found.tolerance:
            raise NotRead(f"the form that was read gives other numbers (off by {off:.2g})")


def _told(core: AttentionCore, ln: NormWeights | None, chain: Chain, cases: list[QueryCase]) -> str:
    """The recognised form, in words."""
    H, d, _ = core.heads.W_Q.shape
    parts = [f"read from PyTorch: one layer of {H} heads, width {d}"]
    post = chain.mlp is not None and chain.mlp.kept == "normed"
    parts.append("post-norm" if post else "pre-norm" if ln is not None else "no norm in front")
    parts.append(f"{chain.mlp.activation} MLP" if chain.mlp is not None else "no MLP")
    if chain.pooler is not None:
        parts.append(f"{chain.pooler.activation} pooler")
    at = cases[0].position
    parts.append("[CLS] asks" if at is None else f"bit {at} asks")
    return ", ".join(parts) + f"; equal on {CHECKS} inputs"
