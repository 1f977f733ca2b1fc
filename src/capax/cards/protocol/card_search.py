"""The search of a card: the adaptive one, after a look at the largest m and at a ladder below it.

A learner that fails at the largest m is given up, which saves the dearest trials, but only after a
look at smaller m too: success may fall with m, and a failure at the largest m is then no evidence
that m* lies beyond it. Such a learner is searched for below the m at which it succeeded.
"""

from capax.sweep.counts import Counts
from capax.sweep.search import AdaptiveSearch

PROBES = 6  # trials at the largest m that must all fail before a learner is given up there
_SURE = 0.999  # level of the interval by which a search gives up before its trials are spent. Looks
# after every round add up: in simulations with m* = m_high, 0.95 missed more, 0.999 did not
_RUNG = 2  # the smaller m that are looked at lie this factor apart


class CardSearch(AdaptiveSearch):
    """The adaptive search between `m_low` and the largest m at which success does not fall.

    It also ends where the trials show, at level `_SURE`, that even the largest m does not reach the
    target: m* > m_high is then the answer, and the dearest trials would repeat it.
    """

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """Probes at the largest m, and one trial at each rung below, which say soon where m* is.

        The rungs come right after the first probe: a fit may take a minute. Where the probes fail
        and no rung was tried, the rungs are tried then.
        """
        tried = dict(zip(counts.m, counts.total, strict=True))
        missing = PROBES - tried.get(self.m_high, 0)
        if missing > 0:
            first = () if tried else self.rungs[: max(0, self.max_trials - PROBES)]
            return (self.m_high, *first, *(self.m_high,) * (missing - 1))
        if not self._fails(counts):
            return super().next_round(counts, restarts)
        unseen = tuple(m for m in self.rungs if m not in tried)
        below = self._below(counts)
        if unseen or below is None:
            return unseen
        return below.next_round(counts.up_to(below.m_high), restarts)

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

    @property
    def rungs(self) -> tuple[int, ...]:
        """The m below the largest that are looked at before a learner is given up."""
        found, m = [], self.m_high // _RUNG
        while m > self.m_low:
            found.append(m)
            m //= _RUNG
        return tuple(found)
