"""The rounds of a card's question: trials for all its accuracies at once.

Every trial answers for every accuracy, so a round is shared: each accuracy that is not settled says
where trials would tell most about its threshold, and gets an equal part of the round. That success
levels off above 80 % takes the most trials to show (17 in a row, if none fails). As many trials as
the parts have together ask for it, fewer where they take many examples. The highest accuracy says
where: what passes there passes at the others. What two accuracies ask for is trained once. All
outcomes count for all of them.

A search that has its first trials also ends when they took as much work as it may: a learner that
is slow to learn, and needs many examples, would take most of a card's time for a few more of them.
"""

import math
from collections import Counter
from dataclasses import dataclass

from capax.cards.measuring.looks import Looks, evidence
from capax.cards.protocol.card_search import CardSearch
from capax.sweep.searching.counts import Counts

_LEAST = 24  # trials before a search may end for the work they took


def counts_at(looks: Looks, accuracy: float) -> Counts:
    """The outcomes of trials that gave evidence, at one accuracy."""
    known = evidence(looks).items()
    return Counts.of([(m, look.accuracy >= accuracy) for (m, _), look in known])


@dataclass(frozen=True)
class Rounds:
    """The search for m* at every accuracy, as `Progress` drives it.

    scores: the trials that count; the question adds to them. hints: tuning trials of the rate.
    effort: examples x steps, over all trials, after which it ends; after `_LEAST` trials or later.
    """

    search: CardSearch
    accuracies: tuple[float, ...]
    scores: Looks
    hints: Looks
    effort: float = math.inf

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The next trials, the largest m first as they take longest; none when all is settled."""
        del counts  # of one accuracy: `scores` knows all
        known = evidence(self.scores)
        spent = sum(m * look.steps for (m, _), look in known.items())
        if len(known) >= _LEAST and spent >= self.effort:
            return ()
        ranked = sorted(self.accuracies, reverse=True)
        at = ((counts_at(self.scores, a), counts_at(self.hints, a)) for a in ranked)
        left, asked = list(dict.fromkeys(at)), []
        while left:
            asked = self._parts(left, restarts)
            if all(asked):
                break
            left = [one for one, batch in zip(left, asked, strict=True) if batch]
        together: Counter[int] = Counter()
        for batch in asked:
            together |= Counter(batch)
        most = self.search.max_trials - len(known)
        return tuple(sorted(together.elements(), reverse=True)[: max(0, most)])

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
