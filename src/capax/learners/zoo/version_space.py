"""The version-space learner, the best possible one: it knows f and searches for its positions.

It lists the placements of f that the sample has not refuted and takes one of them at random: under
a uniform prior no learner names I more often, E[1/|V_m|] (`capax.boolean.best_possible`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from capax.boolean.consistent.survivors import survivors
from capax.boolean.parser import parse
from capax.errors import InputError

_KEPT = 4096


def version_space(function: str) -> Callable[..., Any]:
    """A fit function for tasks whose rule is `function`, somewhere."""
    f = parse(function)

    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        space = survivors(f, X, y, keep=_KEPT)
        if not space.supports:
            raise InputError(
                f"no placement of {function} agrees with the sample; are its labels noisy?"
            )
        choice = np.random.default_rng(key).integers(len(space.supports))
        place = f.relevant().on(space.supports[choice], X.shape[1])
        return lambda inputs: place(inputs)

    return fit
