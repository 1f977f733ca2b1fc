"""The thresholds m*(T) of a store, and their law, in one call."""

from pathlib import Path

from capax.analysis.summary import Answer, answer
from capax.analysis.threshold import thresholds
from capax.sweep.storage.store import Store


def thresholds_of(store: str | Path, panel: str | None = None) -> Answer:
    """m*(T) with intervals, the laws compared on all trials, and a verdict.

    store: a file made by `capax sweep`; panel: one of its panels (the first that searches over m).
    Raises `InputError` for a file that is not a store, or one without finished trials.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "known.toml").write_text('family = "simulated"\\nT = [10, 100]')
        >>> said = capax.thresholds(capax.sweep(folder / "known.toml", folder / "known.sqlite"))
        >>> [threshold.T for threshold in said.thresholds], said.verdict[:7]
        ([10, 100], 'Too few')
    """
    with Store.read(Path(store)) as opened:
        return answer(thresholds(opened, panel))
