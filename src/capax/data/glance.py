"""Training sets that a quick check shows to be ambiguous: they need not be drawn whole.

Every bit of a set depends on its place alone, so a few can be drawn without the others. The s
columns of the support say, for each variable i, the examples S_i that are sensitive at i, and with
them the chance q_i that a column elsewhere equals column I_i on S_i: a rival by a single swap
(`capax.boolean.traits.single_swaps`). Two checks follow.

    chance   No column of T - s is a rival with probability (1 - max_i q_i)^(T - s). If that is
             below 2^-100, as the chance that two hashes agree, the set is ambiguous.
    look     Otherwise one is looked for among the other columns, 1 / q_i of them at a time. Only
             the examples S_i are drawn, the least likely values first: nearly every column differs
             in one of the first few, and the rest is drawn for the others alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.boolean.random_functions import Key
from capax.boolean.traits.single_swaps import sensitive_examples
from capax.data.distributions import bernoulli_at, bernoulli_stretch, word_threshold

SHORT = 1024  # inputs up to this length are drawn whole
_TOGETHER = 128  # sets whose supports are drawn together
_NEVER = -100 * np.log(2)
_UNLIKELY = np.log(0.05)  # expected rivals in all columns: with fewer the check is skipped
_WIDEST = 1 << 19  # columns checked together
_SINGLE = 32  # cost of a bit that is drawn alone, in bits of a sequence
_AT_ONCE = 512  # bits drawn alone in one call: fewer cost as much


def without_seen_rival(
    f: SparseFunction, T: int, m: int, p: float, tries: int, *, key: Key
) -> Iterator[int]:
    """The numbers below `tries` of the streams whose sets show no rival of f by a single swap.

    A set that is left out is ambiguous, except with a chance below 2^-100; the others may be
    ambiguous too. `f` is placed on its support.
    """
    g = f.relevant()
    if T <= SHORT or not g.s:
        yield from range(tries)
        return
    drawn_p = word_threshold(p) / 2**32
    for start in range(0, tries, _TOGETHER):
        streams = np.arange(start, min(start + _TOGETHER, tries))
        places = np.arange(m)[:, None] * T + np.array(g.support)
        bits = bernoulli_at(places, p, key=key, stream=streams[:, None, None])
        sensitive = sensitive_examples(g, bits)
        with np.errstate(divide="ignore"):  # log 0: q = 1 where no example is sensitive
            log_each = np.where(bits, np.log(drawn_p), np.log1p(-drawn_p))
            log_q = np.where(sensitive, log_each, 0.0).sum(axis=1)
            log_none = (T - f.s) * np.log(-np.expm1(log_q.max(axis=1)))
        for k in np.flatnonzero(log_none >= _NEVER).tolist():
            look = _Glance(f.support, T, p, key, start + k)
            columns = zip(log_q[k], sensitive[k].T, bits[k].T, strict=True)
            if not any(look.finds(*column) for column in sorted(columns, key=lambda c: -c[0])):
                yield start + k


@dataclass(frozen=True)
class _Glance:
    """A search for rivals in one set."""

    support: tuple[int, ...]
    T: int
    p: float
    key: Key
    stream: int

    def finds(self, log_q: float, sensitive: np.ndarray, values: np.ndarray) -> bool:
        """Is there a column outside the support with these `values` on the `sensitive` rows?

        The answer is also no if the check would cost more than it saves.
        """
        if log_q + np.log(self.T) < _UNLIKELY:
            return False
        rare = 1 if self.p < 0.5 else 0
        rows = np.flatnonzero(sensitive)
        rows = rows[np.argsort(values[rows] != rare, kind="stable")]
        width = int(min(max(np.exp(-log_q), 4096), _WIDEST, self.T))
        starts = range(0, self.T, width)
        return any(self._among(start, min(width, self.T - start), rows, values) for start in starts)

    def _among(self, start: int, size: int, rows: np.ndarray, values: np.ndarray) -> bool:
        equal = np.ones(size, dtype=bool)
        equal[[j - start for j in self.support if start <= j < start + size]] = False
        drawn = {"key": self.key, "stream": self.stream}
        at, left = 0, size
        while at < len(rows) and _SINGLE * left > size:
            place = int(rows[at]) * self.T + start
            equal &= bernoulli_stretch(place, size, self.p, **drawn) == values[rows[at]]
            at, left = at + 1, np.count_nonzero(equal)
        columns = start + np.flatnonzero(equal)
        while at < len(rows) and len(columns):
            some = rows[at : at + max(1, _AT_ONCE // len(columns)), None]
            bits = bernoulli_at(some * self.T + columns, self.p, **drawn)
            columns = columns[(bits == values[some]).all(axis=0)]
            at += len(some)
        return len(columns) > 0
