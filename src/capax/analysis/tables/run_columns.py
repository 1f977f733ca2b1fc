"""Further columns of a table of runs: axes, settings, and columns of callers.

A panel of an experiment with axes is called `threshold/heads=4/wide`, or `heads=4/wide` if it is
the only one. Each `field=value` is a column; the names after the first part are the column
`variant`. Settings are the entries of a run's specification, `model.d` or `optimiser.lr`, one
column for each.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from capax.sweep.storage.store import Store

_KNOWN = ("task.T", "task.m", "T", "m", "restart")
"""Settings that are columns of every table."""


@dataclass(frozen=True)
class RunColumns:
    """Names of the further columns; `added`: columns of callers, by run id."""

    axes: tuple[str, ...]
    settings: tuple[str, ...] = ()
    added: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @staticmethod
    def of(
        store: Store,
        added: Mapping[str, Mapping[str, str]] | None = None,
        *,
        settings: bool = False,
    ) -> "RunColumns":
        """The columns that the runs of `store` need; with `settings` one for each setting."""
        panels = [row["panel"] for row in store.select("SELECT DISTINCT panel FROM trials")]
        axes = dict.fromkeys(name for panel in panels for name in axes_of(panel))
        query = "SELECT r.spec FROM trials t JOIN runs r USING (trial_id) WHERE t.panel = ? LIMIT 1"
        firsts = [row["spec"] for panel in panels for row in store.select(query, panel)]
        named = dict.fromkeys(name for spec in firsts for name in _flat(spec)) if settings else {}
        return RunColumns(
            tuple(axes), tuple(name for name in named if name not in _KNOWN), added or {}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All further columns; a setting that is an axis too keeps its full name."""
        more = sorted({name for row in self.added.values() for name in row})
        return (*self.axes, *self.settings, *more)

    def values(self, panel: str, spec: str, run_id: str) -> list[Any]:
        """The further cells of a run; empty without such an entry."""
        found: dict[str, Any] = dict(axes_of(panel)) if self.axes else {}
        if self.settings:
            found.update(_flat(spec))
        found.update(self.added.get(run_id, {}))
        return [found.get(name, "") for name in self.names]


@lru_cache(maxsize=4096)
def axes_of(panel: str) -> dict[str, str]:
    """{"heads": "4", "variant": "wide"} of `threshold/heads=4/wide`."""
    parts = panel.split("/")
    pairs = [part.partition("=") for part in parts if "=" in part]
    names = "/".join(part for part in parts[1:] if "=" not in part)
    found = {name: value for name, _, value in pairs}
    return {**found, "variant": names} if names else found


def _flat(spec: str) -> dict[str, Any]:
    """The entries of a specification by their paths; empty if it is not a JSON object."""
    try:
        tree = json.loads(spec)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    pending = [("", tree)] if isinstance(tree, dict) else []
    while pending:
        path, node = pending.pop()
        for name, value in reversed(list(node.items())):
            where = f"{path}{name}"
            if isinstance(value, dict):
                pending.append((f"{where}.", value))
            else:
                found[where] = json.dumps(value) if isinstance(value, list) else value
    return dict(sorted(found.items()))
