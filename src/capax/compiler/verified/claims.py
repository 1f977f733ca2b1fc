"""A claim of a certificate, the number recomputed from the weights, and the result of comparing
them.

| status | meaning |
|---|---|
| `proved` | it holds for every number in the recomputed interval |
| `refuted` | it holds for no number in the interval, is missing, or has the wrong type |
| `unproved` | the interval gives neither a contradiction nor a proof |
| `stated` | text or settings that the weights do not determine: not checked |

A file is accepted when every claim is `proved` or `stated`; `stated` never counts as certified.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

Number = int | float
Status = Literal["proved", "refuted", "unproved", "stated"]
TOLERANCE = 1e-9
"""A norm or a bound equals its claim when both agree to nine digits."""


@dataclass(frozen=True)
class Claim:
    """`relation`: the claimed relation of the true number to `claimed` ("=", "~", "<=", ">=").

    `recomputed` = the value from the weights, or an interval [low, high] that contains it.
    """

    name: str
    relation: str
    claimed: Any
    recomputed: Any
    status: Status

    @property
    def ok(self) -> bool:
        """Whether the file may be accepted with this claim."""
        return self.status in ("proved", "stated")


def equal(name: str, claimed: Any, found: Any) -> Claim:
    """Exactly the same value: names, counts, truth tables."""
    same = type(claimed) is type(found) and claimed == found
    return Claim(name, "=", claimed, found, "proved" if same else "refuted")


def near(name: str, claimed: Any, low: Number, high: Number) -> Claim:
    """The true number lies in [low, high] and equals the claim to nine digits ("~")."""
    if not is_number(claimed):
        return Claim(name, "~", claimed, [low, high], "refuted")
    room = TOLERANCE * abs(claimed) + 1e-300
    if claimed - room <= low and high <= claimed + room:
        return Claim(name, "~", claimed, [low, high], "proved")
    apart = high < claimed - room or low > claimed + room
    return Claim(name, "~", claimed, [low, high], "refuted" if apart else "unproved")


def at_most(name: str, claimed: Any, low: Number, high: Number) -> Claim:
    """The true number, somewhere in [low, high], is claimed to be at most `claimed`."""
    return Claim(name, "<=", claimed, [low, high], _ordered(claimed, low, high))


def at_least(name: str, claimed: Any, low: Number, high: Number) -> Claim:
    """The true number, somewhere in [low, high], is claimed to be at least `claimed`."""
    status = _ordered(-claimed, -high, -low) if is_number(claimed) else "refuted"
    return Claim(name, ">=", claimed, [low, high], status)


def stated(name: str, claimed: Any) -> Claim:
    """A claim that is shown and not checked."""
    return Claim(name, "", claimed, None, "stated")


def is_number(x: Any) -> bool:
    """Whether the value is a finite number and not a Boolean."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def _ordered(claimed: Any, low: Number, high: Number) -> Status:
    if not is_number(claimed):
        return "refuted"
    if high <= claimed:
        return "proved"
    return "refuted" if low > claimed else "unproved"


def stated_table(claims: dict[str, Any], name: str) -> dict[str, Any]:
    """The table under a name in a file; empty if it is missing or not a table."""
    found = claims.get(name)
    return found if isinstance(found, dict) else {}
