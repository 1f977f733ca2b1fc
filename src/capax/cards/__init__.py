"""Inductive-bias cards: how many examples a learner needs, as T grows, for targets of every kind.

`protocol` is the same for all; `measuring` asks one learner about one target at one T, and does so
for many of them into a store; `answers` makes a `Card` of it, and has the one that travels with the
package; `card` is the function that users call.
"""

from capax.cards.answers.card_rows import Card as Card
from capax.cards.answers.reference_card import reference_card as reference_card
from capax.cards.card import FIVE as FIVE
from capax.cards.card import card as card
from capax.cards.protocol.plan import Plan as Plan
from capax.cards.protocol.targets import TARGETS as TARGETS
