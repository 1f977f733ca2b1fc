"""Runs that failed for another reason than training: an error of the learner, an exceeded limit.

They count as failed, so they change thresholds, and reports mention them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from capax.foreign import one_line
from capax.sweep.storage.store import Store

_LONGEST = 200  # characters of a reason in a line

# A trial may end before any run. The reason of a run is about a learner that is fitted; the engine
# stores the reason for its path in the same column.
_QUERY = """
    WITH ended AS (
        SELECT t.panel, t.T, CASE
            WHEN t.reason != '' THEN t.reason
            WHEN r.path = 'plain' AND r.outcome != 'solved' THEN r.reason
            ELSE '' END AS reason
        FROM trials t LEFT JOIN runs r USING (trial_id)
    )
    SELECT panel, T, reason, count(*) AS runs,
        sum(count(*)) OVER (PARTITION BY panel, T) AS of
    FROM ended GROUP BY panel, T, reason ORDER BY panel, T, runs DESC, reason
"""


@dataclass(frozen=True)
class Trouble:
    """`runs` of the `of` runs of a panel at T failed for this reason."""

    panel: str
    T: int
    runs: int
    of: int
    reason: str


def troubles(store: Store) -> tuple[Trouble, ...]:
    """All such failures in a store, by panel and T."""
    rows = store.select(_QUERY)
    return tuple(Trouble(**dict(row)) for row in rows if row["reason"])


def trouble_lines(found: Iterable[Trouble]) -> list[str]:
    """A line for every panel and reason, with its T."""
    together: dict[tuple[str, str], list[Trouble]] = {}
    for one in found:
        together.setdefault((one.panel, one.reason), []).append(one)
    return [
        f"{one_line(panel)}, T = {', '.join(str(t.T) for t in same)}: "
        f"{sum(t.runs for t in same)} of {sum(t.of for t in same)} runs failed: "
        f"{one_line(reason, _LONGEST)}"
        for (panel, reason), same in together.items()
    ]
