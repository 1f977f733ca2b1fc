"""The reference card as a picture: `python benchmarks/card_picture.py OUT.png`.

Examples needed on and3 against T, at 100 % and at 95 % accuracy, from the file that travels with
the package.
"""

import sys

from capax.cards.answers.reference_card import reference_card
from capax.figures.style import save

LEARNERS = ("transformer", "linear_attention", "ssm", "mlp", "lasso", "forest", "tree")

if __name__ == "__main__":
    card = reference_card()
    lengths = sorted({row.T for row in card.rows if row.target == "and3"})
    save(card.only(["and3"], lengths, LEARNERS).plot(), sys.argv[1])
