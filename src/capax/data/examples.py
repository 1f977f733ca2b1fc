"""Examples from a file: what `capax data --out d.npz` writes, or plain arrays X and y.

A task file holds two sets: the training set (labels with the task's noise, possibly accepted only
after others were rejected) and the validation set (clean labels, never rejected). Which one is
meant is asked for by name; a plain file with X and y serves as either.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from capax.array_files import load_npz
from capax.errors import InputError, require
from capax.reading import parse_json

Part = Literal["train", "validation"]


@dataclass(frozen=True)
class Examples:
    """Bits X [m, T], labels y [m], and how they came about as far as the file says.

    tries: training sets drawn until this one was accepted; None if nothing was rejected on
    principle or nothing is known. noise: chance that a label was flipped; None if not known.
    """

    X: UInt8[np.ndarray, "m T"]
    y: UInt8[np.ndarray, " m"]
    tries: int | None = None
    noise: float | None = None


def read_examples(path: Path | str, part: Part) -> Examples:
    """The training or the validation part of an .npz file, checked.

    Raises `InputError` for a file that is missing or damaged, arrays of the wrong shape, entries
    that are not bits, or no examples at all. Nothing in the file is executed (no pickle).
    """
    own = (f"X_{part}", f"y_{part}")
    arrays = load_npz(path, (*own, "X", "y", "rejections", "spec"))
    X, y = (arrays.get(name) for name in (own if own[0] in arrays else ("X", "y")))
    wanted = f"arrays X and y, or X_{part} and y_{part}"
    if X is None or y is None:
        raise InputError(f"{path}: wanted {wanted}, got {', '.join(arrays) or 'neither'}")
    _check(str(path), X, y)
    noise, tries = _origin(arrays) if f"X_{part}" in arrays else (None, None)
    if part == "validation":
        noise, tries = None if noise is None else 0.0, None
    return Examples(X.astype(np.uint8), y.astype(np.uint8), tries, noise)


def has_validation(path: Path | str) -> bool:
    """Whether a readable file has a validation part of its own."""
    return "X_validation" in load_npz(path, ("X_validation",))


def _check(path: str, X: np.ndarray, y: np.ndarray) -> None:
    require(X.ndim == 2, f"{path}: X", "a matrix [m, T]", f"shape {X.shape}")
    require(y.shape == X.shape[:1], f"{path}: y", f"{len(X)} labels", f"shape {y.shape}")
    require(X.size > 0, f"{path}: X", "at least one example", f"shape {X.shape}")
    for name, array in (("X", X), ("y", y)):
        bits = array.dtype.kind in "buif" and bool(np.isin(array, (0, 1)).all())
        require(bits, f"{path}: {name}", "bits 0 and 1", "other values")


def _origin(arrays: dict[str, np.ndarray]) -> tuple[float | None, int | None]:
    """(noise, tries) as the file states them; a file that lies here lies about its own origin."""
    try:
        spec = parse_json(str(arrays["spec"]), "spec")
        noise, rejecting = float(spec["noise"]), bool(spec["reject_ambiguous"])
        rejections = int(arrays["rejections"])
    except (KeyError, ValueError, TypeError, OverflowError):
        return None, None
    if not (0 <= noise <= 1 and rejections >= 0):
        return None, None
    return noise, rejections + 1 if rejecting else None
