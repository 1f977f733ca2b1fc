"""The readable runs of a damaged store, or of a store of another version."""

from pathlib import Path
from typing import TYPE_CHECKING

from capax.errors import InputError
from capax.sweep.storage.salvage import Remains, rows_left

if TYPE_CHECKING:
    import pandas as pd

_LEFT_OUT = ("curves", "session")


def salvaged_frame(remains: Remains) -> "pd.DataFrame":
    """One row per readable run, with its trial and versions if they are readable too.

    Raises `InputError` if the file has no table of runs.
    """
    import pandas as pd

    known = {left.table for left in remains.tables}
    if not remains.is_store or "runs" not in known:
        raise InputError(
            f"{remains.path}: no table of runs (wanted a Capax store, got {remains.kind})"
        )
    frame = _table(remains.path, "runs")
    trials = _table(remains.path, "trials").rename(
        columns={"number": "trial", "solved": "trial_solved", "reason": "trial_reason"}
    )
    sessions = _table(remains.path, "sessions")
    for other, key in ((trials, "trial_id"), (sessions, "session")):
        if len(frame) and key in frame and key in other:
            once = other.drop_duplicates(key)
            frame[key], once[key] = frame[key].astype(str), once[key].astype(str)
            frame = pd.merge(frame, once, on=key, how="left", suffixes=("", "_of_trial"))
    frame = frame.drop(columns=[name for name in _LEFT_OUT if name in frame])
    mixed = [name for name in frame if frame[name].map(type).nunique() > 1]
    for name in mixed:  # a damaged column may hold a number beside a text
        values = frame.pop(str(name))
        frame.insert(len(frame.columns), str(name), [None if v is None else str(v) for v in values])
    return frame


def runs_lost(remains: Remains) -> int:
    """The known number of unreadable runs."""
    return sum(left.lost for left in remains.tables if left.table == "runs")


def _table(path: Path, name: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows_left(path, name))
