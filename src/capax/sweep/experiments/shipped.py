"""Experiments that come with the package, by name: `capax sweep figure2`."""

from importlib.resources import files
from pathlib import Path

from capax.errors import InputError
from capax.sweep.experiments.spec import nearest

FOLDER = Path(str(files("capax") / "experiments"))


def shipped_experiments() -> dict[str, Path]:
    """Name and file of every experiment in the package, in the order of their names."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def experiment_path(text: str | Path) -> Path:
    """A file of the user, or the shipped experiment of that name.

    Raises `InputError` with the nearest shipped name if neither exists.
    """
    path, known = Path(text), shipped_experiments()
    if path.exists():
        return path
    if str(text) in known:
        return known[str(text)]
    hint = nearest(path.stem, tuple(known))
    raise InputError(f"experiment: no file and no shipped experiment {str(text)!r}{hint}")
