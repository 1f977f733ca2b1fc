"""Inductive-bias cards: how many examples a learner needs, as T grows, for targets of every kind.

`protocol` is the same for all learners; `measuring` trains learners on targets at several T into a
store; `answers` makes a `Card` from the store, and has the reference card of the package; `card` is
the function for users.
"""

from capax.cards.answers.card_rows import Card as Card
from capax.cards.answers.reference_card import reference_card as reference_card
from capax.cards.card import FIVE as FIVE
from capax.cards.card import card as card
from capax.cards.protocol.plan import Plan as Plan
from capax.cards.protocol.targets import TARGETS as TARGETS
