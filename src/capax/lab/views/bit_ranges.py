"""Inputs in an address: the positions of the ones as ranges, `3,7-12`."""

import numpy as np
from jaxtyping import Integer


def ranges_of(bits: Integer[np.ndarray, " T"]) -> str:
    """The ones of `bits`, consecutive ones as one range."""
    padded = np.concatenate([[0], np.asarray(bits, np.int64), [0]])
    changes = np.flatnonzero(np.diff(padded))
    pairs = zip(changes[::2].tolist(), (changes[1::2] - 1).tolist(), strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)
