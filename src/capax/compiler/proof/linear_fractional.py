"""The proven range of a head over all inputs, for all weights and alphabets.

In a direction c of the head output, for a fixed pattern of the relevant symbols, c . u is a ratio
of sums over positions with weights e^score, [CLS] among them: `dinkelbach` finds its largest value
over all other symbols and proves it; low ends are high ends of -v.

Scores are logarithms and only their differences matter. They are shifted by a score that no choice
can go below, max([CLS], fixed tokens, max_t min_b score): some chosen weight is at least about 1,
so no relevant number underflows. A weight that overflows (e^700 above this) can be switched on
alone, hence the maximum is at least its value, up to e^-700: the search starts there.

The promise: for all real scores and values within the stated errors of the tables, the exact output
on every input lies in [low, high]. Cost O(M^s c) a direction for c different irrelevant positions.
If the ends are needed at few of the (pattern, direction) pairs, or only a sign is wanted,
`HeadProblems` solves these alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer

from capax.boolean.functions import all_patterns
from capax.compiler.proof.dinkelbach import Ratios, certainly_at_most, largest
from capax.compiler.proof.enclosed import Enclosed, exactly, exp_bounds, joined
from capax.compiler.proof.merging import FreePositions, free_positions
from capax.compiler.proof.tables import HeadTables
from capax.rounding import TINY, UP, gamma

BLOCK = 1 << 20
"""Numbers per array: pairs are treated in blocks of at most this size."""
Ends = Float[np.ndarray, "rows g"]
Indices = Integer[np.ndarray, " p"]


@dataclass(frozen=True)
class HeadRange:
    """[low, high] holds c . u on every input with the pattern: rows = patterns, columns = c.

    `lowest`, `highest`: the last values of the search, up to rounding attained by actual inputs
    (not proved; `extremes.extreme_input` gives one).
    """

    low: Ends
    high: Ends
    lowest: Ends
    highest: Ends


def head_range(
    tables: HeadTables,
    support: Sequence[int] = (),
    directions: Float[np.ndarray, "k g"] | Enclosed | None = None,
    patterns: Integer[np.ndarray, "rows s"] | None = None,
) -> HeadRange:
    """Proven ends of c . u over all inputs that show a pattern on `support`, for each column c.

    `directions` None = the k outputs of the head themselves. `patterns` = the symbols at `support`,
    one row each; None = all M^s of them, row r showing digit i of r at support[i].
    """
    problems = HeadProblems.of(tables, support, directions, patterns)
    shape = problems.shape
    rows, columns = (index.reshape(-1) for index in np.indices(shape))
    return HeadRange(*(part.reshape(shape) for part in problems.range(rows, columns)))


@dataclass(frozen=True)
class HeadProblems:
    """One problem for each pattern (row) and direction (column), solved on request.

    [CLS] and the tokens of the support have `scores` [1 + s, A] and `fixed` values [1 + s, A, g].
    """

    patterns: Integer[np.ndarray, "rows s"]
    scores: Enclosed
    fixed: Enclosed
    free: FreePositions

    @classmethod
    def of(
        cls,
        tables: HeadTables,
        support: Sequence[int],
        directions: Float[np.ndarray, "k g"] | Enclosed | None,
        patterns: Integer[np.ndarray, "rows s"] | None = None,
    ) -> "HeadProblems":
        """The arguments of `head_range`."""
        if patterns is None:
            patterns = all_patterns(len(support), tables.alphabet)
        shown = np.asarray(patterns, np.int64)
        scores, fixed, free = *_fixed_tokens(tables, support), free_positions(tables, support)
        if directions is not None:
            c = directions if isinstance(directions, Enclosed) else exactly(directions)
            fixed, free = fixed @ c, free._replace(values=free.values @ c)
        return cls(shown, scores, fixed, free)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of patterns, number of directions."""
        return len(self.patterns), self.fixed.mid.shape[2]

    def range(
        self, rows: Indices, columns: Indices
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(low, high, lowest, highest) of each pair, see `HeadRange`."""
        highest, high = self._solve(rows, columns, 1.0, largest)
        lowest, low = self._solve(rows, columns, -1.0, largest)
        return -low, high, -lowest, highest

    def at_most(self, rows: Indices, columns: Indices, level: np.ndarray) -> Bool[np.ndarray, " p"]:
        """True where c . u <= level is proved."""
        return self._solve(rows, columns, 1.0, certainly_at_most, level)[0] > 0

    def at_least(
        self, rows: Indices, columns: Indices, level: np.ndarray
    ) -> Bool[np.ndarray, " p"]:
        """True where c . u >= level is proved."""
        return self._solve(rows, columns, -1.0, certainly_at_most, -level)[0] > 0

    def _solve(
        self, rows: Indices, columns: Indices, sign: float, solver: Callable, *given: np.ndarray
    ) -> np.ndarray:
        """`solver` on all pairs, block by block: [results, p]."""
        found = np.empty((2, len(rows)))
        for where, ratios in self._ratios(rows, columns, sign):
            found[:, where] = solver(ratios, *(part[where] for part in given))
        return found

    def _ratios(
        self, rows: Indices, columns: Indices, sign: float
    ) -> Iterator[tuple[Indices, Ratios]]:
        """The ratios of blocks of pairs, of v (sign 1) or of -v (sign -1)."""
        value = Enclosed(sign * self.fixed.mid, self.fixed.rad).high
        free_value = Enclosed(sign * self.free.values.mid, self.free.values.rad).high
        shifts = self.shifts()[rows]
        size = max(1, BLOCK // (len(self.free.count) + len(value)))
        for shift in np.unique(shifts):
            weights = exp_bounds(self.scores.mid - shift, self.scores.rad)
            free = exp_bounds(self.free.logits.mid - shift, self.free.logits.rad)
            same = np.flatnonzero(shifts == shift)
            for start in range(0, len(same), size):
                where = same[start : start + size]
                fixed = self._fixed_sums(*weights, value, rows[where], columns[where])
                values = free_value[:, :, columns[where]]
                yield where, Ratios(*fixed, free[0], free[1], values, self.free.count)

    def shifts(self) -> Float[np.ndarray, " rows"]:
        """For each pattern a lower bound on the score of the heaviest chosen token."""
        heaviest = self.free.logits.mid.min(axis=1).max(initial=float(self.scores.mid[0, 0]))
        shifts = np.full(len(self.patterns), heaviest)
        for i, scores in enumerate(self.scores.mid[1:]):
            np.maximum(shifts, scores[self.patterns[:, i]], out=shifts)
        return shifts

    def _fixed_sums(
        self, low: np.ndarray, high: np.ndarray, value: np.ndarray, rows: Indices, columns: Indices
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Upper end of sum w v, both ends of sum w, largest v: over [CLS] and the fixed tokens."""
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.where(value > 0, high[..., None], low[..., None]) * value
        numerator, size = np.zeros(len(rows)), np.zeros(len(rows))
        mass_low, mass_high = np.zeros(len(rows)), np.zeros(len(rows))
        top = np.full(len(rows), -np.inf)
        for i in range(len(value)):
            bits = self.patterns[rows, i - 1] if i else 0
            term = product[i, bits, columns]
            numerator, size = numerator + term, size + np.abs(term)
            mass_low, mass_high = mass_low + low[i, bits], mass_high + high[i, bits]
            top = np.maximum(top, value[i, bits, columns])
        error = gamma(len(value) + 4)
        numerator = numerator + error * size * UP + len(value) * TINY
        return numerator, mass_low * (1 - error), mass_high * (1 + error), top


def _fixed_tokens(tables: HeadTables, support: Sequence[int]) -> tuple[Enclosed, Enclosed]:
    """Scores [1 + s, A] and values [1 + s, A, k] of [CLS] and of the support."""
    at, A = np.asarray(support, np.int64), tables.alphabet
    scores = joined(tables.cls_logit.spread((1, A)), tables.logits[at])
    values = joined(tables.cls_value.spread((1, A, tables.k)), tables.values[at])
    return scores, values
