"""Unfinished searches of a store, for its readers."""

from dataclasses import dataclass

from capax.errors import counted


@dataclass(frozen=True)
class Unfinished:
    """A panel at one T whose search is not finished: trials so far, and the reason, if any."""

    panel: str
    T: int
    trials: int
    note: str = ""

    def __str__(self) -> str:
        how_far = f"{counted(self.trials, 'trial')} so far" if self.trials else "no trial yet"
        return f"T = {self.T} ({self.note or how_far})"
