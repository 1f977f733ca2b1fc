"""The law of the inputs: independent bits, 1 with probability p. Stated, and tested.

Fresh inputs give information about the network's error only if they are drawn like the training
inputs. So with training data p is not guessed: the task states it, or the user. The stated p
is tested on the training bits: an exact binomial test at every position, two-sided, at a level
that is divided by the number of positions (Bonferroni). A training set that was accepted after
others were rejected has the law conditional on acceptance, of probability at least alpha, so its
level is multiplied by alpha.
"""

import numpy as np
from jaxtyping import UInt8

from capax.capacity.bound import Assumption
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.portfolio import Draws
from capax.errors import InputError, require

LEVEL = 1e-4
"""Chance of refusing data that does follow the stated law."""


def stated_probability(p: float | None, evidence: Evidence | None) -> float:
    """P[bit = 1]: as given, or from the task of the data; 1/2 without data.

    Raises `InputError` for data without a stated law, and for a p that contradicts the task.
    """
    if evidence is None or evidence.data is None:
        return 0.5 if p is None else float(p)
    task = evidence.task
    if p is None and task is None:
        raise InputError(
            "p: the data does not state its task, so give p = P[bit = 1] of its inputs "
            "(--p 0.5 for uniform bits); the certificate draws fresh inputs with it"
        )
    if p is None:
        assert task is not None
        return task.probability
    fits = task is None or abs(task.probability - p) < 1e-6
    wanted = "" if task is None else f"{task.probability:.6g}, as the task of the data states"
    require(fits, "p", wanted, p)
    return float(p)


def check_bits(X: UInt8[np.ndarray, "m T"], p: float, draws: Draws | None = None) -> None:
    """Raise `InputError` if the training bits contradict P[bit = 1] = p."""
    from scipy.special import bdtr, bdtrc  # scipy.stats takes half a second to import

    m, T = X.shape
    level = LEVEL if draws is None else LEVEL * draws.price(LEVEL).alpha
    ones = X.sum(axis=0, dtype=np.int64)
    tails = np.minimum(bdtr(ones, m, p), bdtrc(ones - 1, m, p))
    worst = int(tails.argmin())
    if 2 * T * float(tails[worst]) < level:
        raise InputError(
            f"p: wanted P[bit = 1] of the training inputs, got {p:g}, but x{worst} is 1 in "
            f"{ones[worst]} of {m} training inputs: the data does not follow this law"
        )


def law_assumption(p: float) -> Assumption:
    """The assumption about fresh inputs."""
    text = f"inputs are independent bits with P[bit = 1] = {p:g}, in training and fresh ones"
    return Assumption(text, None, "the frequency of every training bit agrees")
