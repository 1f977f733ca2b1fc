"""The rounds of a card's question: trials for all its accuracies at once.

Every accuracy that is not settled says where trials would tell most about its threshold, and gets
an equal part of the round. A trial that two of them ask for is trained once. A trial aims at one
accuracy: it ends when it is so accurate, and counts for this accuracy and for those below, passed
or not. The aim is the highest accuracy that asked for its m or that it reaches more likely than
not, by the trials before it: so the likelihood of its outcome does not depend on the choice of the
aim. A learner that is slow to get the last examples right would otherwise take all its steps in
trials that tell nothing about 100 %.

That success levels off above 80 % takes the most trials to show (17 in a row, if none fails). As
many trials as the parts have together ask for it, fewer where they take many examples. The highest
accuracy says where: a trial that passes there passes at the others. A lower one asks for them
itself where a higher one had to do with fewer.

An accuracy is left as it is, with an interval that is open above, when the trials that aim at it
took as much work as they may, and all of them would take three times as much.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate

from capax.cards.measuring.looks import Looks, evidence
from capax.cards.protocol.card_search import CardSearch
from capax.sweep.searching.counts import Counts

_DEAR = 3.0  # searches that take less in all, by their trials so far, are not cut short
_LIKELY = 0.5  # a trial that reaches an accuracy with this probability may as well aim at it
_LEAST = 4  # trials that aim at an accuracy before it may be left for the work they took

_Known = tuple[Counts, Counts]
"""The outcomes at an accuracy: those that count, and the hints."""


def counts_at(looks: Looks, accuracy: float) -> Counts:
    """The outcomes of trials that gave evidence, at one accuracy."""
    known = evidence(looks, accuracy).items()
    return Counts.of([(m, look.accuracy >= accuracy) for (m, _), look in known])


def hints_at(looks: Looks, accuracy: float) -> Counts:
    """The same of tuning trials, which are no evidence: one that reached its aim may go further."""
    known = evidence(looks).items()
    return Counts.of([(m, look.accuracy >= min(accuracy, look.aim)) for (m, _), look in known])


@dataclass
class Rounds:
    """The search for m* at every accuracy, as `Progress` drives it.

    scores: the trials that count; the question adds to them. hints: tuning trials of the rate.
    effort: examples x steps of trials that aim at an accuracy, after which it is left as it is.
    aims: the accuracy at which the trials of the last round end, by their m.
    """

    search: CardSearch
    accuracies: tuple[float, ...]
    scores: Looks
    hints: Looks
    effort: float = math.inf
    aims: dict[int, float] = field(default_factory=dict, init=False)

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The next trials, the largest m first as they take longest; none when all is settled."""
        del counts  # of one accuracy: `scores` knows all
        left: dict[float, _Known] = {}
        for accuracy in sorted(self.accuracies, reverse=True):
            at = counts_at(self.scores, accuracy), hints_at(self.hints, accuracy)
            if not self._is_left(accuracy) and at not in left.values():
                left[accuracy] = at
        asked: dict[float, tuple[int, ...]] = {}
        while left:
            asked = self._parts(left, restarts)
            if all(asked.values()):
                break
            left = {a: left[a] for a, batch in asked.items() if batch}
        together: Counter[int] = Counter()
        for batch in asked.values():
            together |= Counter(batch)
        self.aims = {m: self._aim(m, left, asked) for m in together}
        most = self.search.max_trials - len(evidence(self.scores))
        return tuple(sorted(together.elements(), reverse=True))[: max(0, most)]

    def _parts(self, left: dict[float, _Known], restarts: int) -> dict[float, tuple[int, ...]]:
        """The trials of each accuracy. Trials of the plateau at one serve the lower ones; these ask
        for some themselves where it has less than its part, as its m is too large."""
        half = self.search.batch // 2
        size = -(-(self.search.batch - half) // len(left))
        search = self.search.model_copy(update={"batch": size})
        asked: dict[float, tuple[int, ...]] = {}
        for accuracy, (counts, hints) in left.items():
            plateau = 0 if any(len(b) >= size + half for b in asked.values()) else half
            batch = search.next_round(counts, restarts, hints, plateau)
            asked[accuracy] = self._within(accuracy, sorted(batch))
        return asked

    def _aim(self, m: int, left: dict[float, _Known], asked: dict[float, tuple[int, ...]]) -> float:
        """The highest accuracy that asked for a trial at m, or that it reaches more likely than
        not: then it ends about as early, and counts for one more."""
        for accuracy, (counts, hints) in left.items():
            if m in asked[accuracy] or self.search.chance(m, counts, hints) >= _LIKELY:
                return accuracy
        raise AssertionError("an m that nobody asked for")

    def _within(self, accuracy: float, wanted: list[int]) -> tuple[int, ...]:
        """As many of these trials as the work that is left allows, small m first, but one at least.

        A trial is counted with the mean steps of those with its aim; with the most that any took,
        while there are few.
        """
        known = (*self.scores.values(), *self.hints.values())
        own = [k.steps for k in evidence(self.scores).values() if k.aim == accuracy]
        few = len(own) < _LEAST
        steps = max((k.steps for k in known), default=0) if few else sum(own) // len(own)
        trials, work = self._work(accuracy)
        number = len(wanted)
        if self._is_dear(trials + number, work + steps * sum(wanted)):
            room = self.effort - work
            number = max(1, sum(rows * steps <= room for rows in accumulate(wanted)))
        return tuple(wanted[:number])

    def _is_left(self, accuracy: float) -> bool:
        """Whether the trials that aim at an accuracy took as much work as they may."""
        trials, work = self._work(accuracy)
        return trials >= _LEAST and work >= self.effort and self._is_dear(trials, work)

    def _is_dear(self, trials: int, work: int) -> bool:
        """Whether all trials of a search would take `_DEAR` times the effort, like these."""
        return work * self.search.max_trials > _DEAR * self.effort * trials

    def _work(self, accuracy: float) -> tuple[int, int]:
        """How many trials aimed at an accuracy, and the work they took."""
        work = [m * k.steps for (m, _), k in evidence(self.scores).items() if k.aim == accuracy]
        return len(work), sum(work)
