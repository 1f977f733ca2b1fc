"""Kinds of heads by fixed rules, tried in this order; every row has the numbers that they use.

The shares are means over rows of the longer half of the contexts.
"""

from typing import Any

RULES = (
    ("first-token", "at least half of the mass on the first token"),
    ("previous-token", "at least half of the mass on the token before"),
    ("local", "at least 80 % of the mass within 8 tokens of the query"),
    ("sparse", "n95 grows slower than sqrt(T): the interval of the fitted exponent lies below 1/2"),
    ("broad", "n95 grows faster than sqrt(T): the interval of the fitted exponent lies above 1/2"),
    ("mixed", "no rule above holds"),
)


def kind_of(row: dict[str, Any]) -> str:
    """The first rule that holds."""
    if row["first_token_share"] >= 0.5:
        return "first-token"
    if row["previous_token_share"] >= 0.5:
        return "previous-token"
    if row["near_share"] >= 0.8:
        return "local"
    low, high = row["n95_exponent_low"], row["n95_exponent_high"]
    if high is not None and high < 0.5:
        return "sparse"
    if low is not None and low > 0.5:
        return "broad"
    return "mixed"
