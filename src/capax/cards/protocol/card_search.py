"""The search of a card: the adaptive one, from what is known of m* already.

The tuning trials of the rate that was chosen say where m* lies, roughly. They are no evidence for
m* (their outcomes chose the rate), but the first trials that count go where they point. Where none
of them passed, the largest m is tried first: a learner that fails there is given up, which saves
the dearest trials, but only after a look at smaller m too: success may fall with m, and a failure
at the largest m is then no evidence that m* lies beyond it. Such a learner is searched for below
the m at which it succeeded.
"""

from capax.sweep.searching.counts import NOTHING, Counts
from capax.sweep.searching.curve import mean_success
from capax.sweep.searching.next_trials import next_batch
from capax.sweep.searching.search import AdaptiveSearch

PROBES = 4  # trials at the largest m that must all fail before a learner is given up there: one
# that reaches the target there is given up with probability 0.2^4 = 0.0016
_SURE = 0.996  # level of the interval by which a search gives up before its trials are spent. Looks
# after every round add up: in simulations with m* = m_high, 0.95 missed more, 0.996 did not
_RUNG = 2  # the smaller m that are looked at lie this factor apart
_FEW = 8  # trials that count, from which on they alone say where to look
_ROWS = 1600  # examples of the trials of a round that ask for the plateau
_START = 128.0  # a run costs as much as so many examples, and its m besides


def _affordable(trials: int, m: int) -> int:
    """As many as `_ROWS` examples make, but one at least."""
    return min(trials, max(min(trials, 1), _ROWS // m))


class CardSearch(AdaptiveSearch):
    """The adaptive search between `m_low` and the largest m at which success does not fall.

    It also ends where the trials show, at level `_SURE`, that even the largest m does not reach the
    target: m* > m_high is then the answer, and the dearest trials would repeat it.
    """

    def next_round(
        self,
        counts: Counts,
        restarts: int = 1,
        hints: Counts = NOTHING,
        plateau: int | None = None,
    ) -> tuple[int, ...]:
        """The next trials; where nothing passed, probes at the largest m and at rungs below it.

        hints: outcomes that say where to look, and are no evidence. The rungs come right after the
        first probe: a fit may take a minute. Where the probes fail and no rung was tried, the rungs
        are tried then. plateau: trials besides that ask for the plateau, at most; fewer where they
        take many examples. A third of all if None.
        """
        tried = dict(zip(counts.m, counts.total, strict=True))
        known = self._known(counts, hints)
        missing = PROBES - tried.get(self.m_high, 0)
        if missing > 0 and not any(known.solved):
            first = () if tried else self.rungs(hints)[: max(0, self.max_trials - PROBES)]
            return (self.m_high, *first, *(self.m_high,) * (missing - 1))
        if not self._fails(counts):
            return self._batch(counts, known, restarts, plateau)
        unseen = tuple(m for m in self.rungs(hints) if m not in tried)
        below = self._below(counts)
        if unseen or below is None:
            return unseen
        top = below.m_high
        return below.next_round(counts.up_to(top), restarts, hints.up_to(top), plateau)

    def _known(self, counts: Counts, hints: Counts) -> Counts:
        return counts.joined(hints) if counts.trials < _FEW else counts

    def _batch(
        self, counts: Counts, known: Counts, restarts: int, plateau: int | None
    ) -> tuple[int, ...]:
        """The m at which the next trials say most about m* for their cost; empty at the end."""
        done = counts.trials
        size = min(self.batch, self.max_trials - done)
        if size <= 0 or (done >= self.min_trials and self._narrow(counts)):
            return ()
        return next_batch(
            self.grid,
            known,
            self.candidates,
            size,
            restarts=restarts,
            rows_of_a_start=_START,
            plateau=None if plateau is None else lambda m: _affordable(plateau, m),
        )

    def chance(self, m: int, counts: Counts, hints: Counts = NOTHING) -> float:
        """The probability that a trial at m passes, by what is known."""
        return mean_success(self.grid, self._known(counts, hints), m)

    def rising(self, counts: Counts) -> Counts:
        """The outcomes that are evidence for m*: those up to the m below which the search went."""
        below = self._below(counts) if self._fails(counts) else None
        return counts if below is None else below.rising(counts.up_to(below.m_high))

    def _fails(self, counts: Counts) -> bool:
        """Whether the largest m was probed and does not reach the target."""
        at = {m: (k, n) for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True)}
        solved, tried = at.get(self.m_high, (0, 0))
        return tried >= PROBES and (not solved or self.estimate(counts, level=_SURE).unreached)

    def _below(self, counts: Counts) -> "CardSearch | None":
        """The search up to the largest m that does better than the largest of all, if one does."""
        at = {m: (k, n) for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True)}
        solved, tried = at[self.m_high]
        better = [m for m, (k, n) in at.items() if m < self.m_high and k * tried > solved * n]
        if not better or max(better) <= self.m_low:
            return None
        return self.model_copy(update={"m_high": max(better)})

    def rungs(self, hints: Counts = NOTHING) -> tuple[int, ...]:
        """The m below the largest that are looked at before a learner is given up.

        Not below hints that failed, all of them: there somebody looked.
        """
        seen = 0 if any(hints.solved) else max(hints.m, default=0)
        found, m = [], self.m_high // _RUNG
        while m > max(self.m_low, seen):
            found.append(m)
            m //= _RUNG
        return tuple(found)
