"""Inductive-bias cards: how many examples a learner needs, as T grows, for targets of every kind.

`plan` is the protocol, the same for all; `jobs` measures one learner on one target at one T,
`running` many of them into a store, `reading` makes a `Card` of it; `reference` is the card that
travels with the package, `card` the door.
"""

from capax.cards.card import FIVE as FIVE
from capax.cards.card import card as card
from capax.cards.plan import Plan as Plan
from capax.cards.reference import reference_card as reference_card
from capax.cards.results import Card as Card
from capax.cards.targets import TARGETS as TARGETS
