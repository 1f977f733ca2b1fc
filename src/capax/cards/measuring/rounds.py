"""The rounds of a card's question: trials for all its accuracies at once.

Every trial answers for every accuracy, so a round is shared: each accuracy that is not settled says
where trials would tell most about its threshold, and gets an equal part of the round. That success
levels off above 80 % takes the most trials to show (17 in a row, if none fails). As many trials as
the parts have together ask for it, fewer where they take many examples. The highest accuracy says
where: what passes there passes at the others. What two accuracies ask for is trained once.

A learner that is slow to get the last examples right would take most of a card's time for one row:
its trials at 100 % have many examples, and those that fail take all their steps. So an accuracy is
left as it is, with an interval that is open above, when the trials that aim at it took as much work
as they may, and all of them would take three times as much. The search goes on for the lower ones,
and its trials aim at the highest that is left: they end when they are so accurate, and count for it
and for those below, passed or not.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate

from capax.cards.measuring.looks import Looks, evidence
from capax.cards.protocol.card_search import CardSearch
from capax.sweep.searching.counts import Counts

_DEAR = 3.0  # searches that take less in all, by their trials so far, are not cut short
_LEAST = 6  # trials that aim at an accuracy before it may be left for the work they took


def counts_at(looks: Looks, accuracy: float) -> Counts:
    """The outcomes of trials that gave evidence, at one accuracy."""
    known = evidence(looks, accuracy).items()
    return Counts.of([(m, look.accuracy >= accuracy) for (m, _), look in known])


@dataclass
class Rounds:
    """The search for m* at every accuracy, as `Progress` drives it.

    scores: the trials that count; the question adds to them. hints: tuning trials of the rate.
    effort: examples x steps of trials that aim at an accuracy, after which it is left as it is.
    aim: the accuracy at which the trials of the last round end.
    """

    search: CardSearch
    accuracies: tuple[float, ...]
    scores: Looks
    hints: Looks
    effort: float = math.inf
    aim: float = field(default=1.0, init=False)

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The next trials, the largest m first as they take longest; none when all is settled."""
        del counts  # of one accuracy: `scores` knows all
        left: dict[tuple[Counts, Counts], float] = {}
        for accuracy in sorted(self.accuracies, reverse=True):
            if not self._is_left(accuracy):
                at = counts_at(self.scores, accuracy), counts_at(self.hints, accuracy)
                left.setdefault(at, accuracy)
        asked: list[tuple[int, ...]] = []
        while left:
            asked = self._parts(list(left), restarts)
            if all(asked):
                break
            left = {k: left[k] for k, batch in zip(left, asked, strict=True) if batch}
        if not left:
            return ()
        self.aim = max(left.values())
        together: Counter[int] = Counter()
        for batch in asked:
            together |= Counter(batch)
        most = self.search.max_trials - len(evidence(self.scores))
        return self._within(sorted(together.elements()))[: max(0, most)]

    def _within(self, wanted: list[int]) -> tuple[int, ...]:
        """As many of these trials as the work that is left allows, small m first, but one at least.

        A trial is counted with the most steps that one took. The largest m comes first.
        """
        steps = max((k.steps for k in (*self.scores.values(), *self.hints.values())), default=0)
        trials, work = self._work(self.aim)
        number = len(wanted)
        if self._is_dear(trials + number, work + steps * sum(wanted)):
            room = self.effort - work
            number = max(1, sum(rows * steps <= room for rows in accumulate(wanted)))
        return tuple(reversed(wanted[:number]))

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

    def _parts(self, left: list[tuple[Counts, Counts]], restarts: int) -> list[tuple[int, ...]]:
        """What each accuracy asks for; the first one that needs them has trials of the plateau."""
        half = self.search.batch // 2
        size = -(-(self.search.batch - half) // len(left))
        search = self.search.model_copy(update={"batch": size})
        asked: list[tuple[int, ...]] = []
        for counts, hints in left:
            plateau = 0 if any(len(batch) > size for batch in asked) else half
            asked.append(search.next_round(counts, restarts, hints, plateau))
        return asked
