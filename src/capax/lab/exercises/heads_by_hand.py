"""A head written by hand: scores and values in a TOML file become the weights of a `ClsScalar`.

    [score]            # of a token = score of its position + score of its bit
    x1 = 4.0
    bit1 = 2.0
    CLS = 3.0
    [value]
    x1 = 1.0
    CLS = -1.5

Scores and values that are not given are 0. The query is the unit vector of [CLS]: W_QK has the
scores as its only row, so its Frobenius norm is their Euclidean length. The output is the weighted
mean of the values, and the decision is 1 if the output is above 0.
"""

import math
import re
from typing import Any

import numpy as np

from capax.errors import require

_POSITION = re.compile(r"x(0|[1-9][0-9]{0,8})")
LARGEST = 1e6


def head_by_hand(fields: dict[str, Any], T: int) -> Any:
    """The head on T bits. Raises `InputError` for unknown names and invalid numbers."""
    import jax

    from capax.attention import ClsScalar, DeterministicPositions

    score, value = (_row(fields.get(name, {}), name, T) for name in ("score", "value"))
    query = np.zeros_like(score)
    query[-1] = 1.0
    with jax.enable_x64(True):
        W_Q, W_K, W_V = (jax.device_put(row[:, None]) for row in (query, score, value))
        one = jax.device_put(np.ones((1, 1)))
        return ClsScalar(DeterministicPositions(T), W_Q, W_K, W_V, one, one[0])


def _row(given: Any, name: str, T: int) -> np.ndarray:
    """One number for each of the vectors P_0..P_{T-1}, E_0, E_1, v_CLS of the encoding."""
    require(isinstance(given, dict), name, "a table such as [score]", given)
    row = np.zeros(T + 3)
    named = {"bit0": T, "bit1": T + 1, "CLS": T + 2}
    for key, number in given.items():
        found = _POSITION.fullmatch(key)
        place = int(found[1]) if found else named.get(key, T + 3)
        known = key in named or (found is not None and place < T)
        require(known, f"{name}.{key}", f"x0 to x{T - 1}, bit0, bit1 or CLS", key)
        plain = isinstance(number, int | float) and not isinstance(number, bool)
        fits = plain and math.isfinite(number) and abs(number) <= LARGEST
        require(fits, f"{name}.{key}", f"a number of at most {LARGEST:g}", number)
        row[place] = number
    return row
