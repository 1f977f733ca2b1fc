"""Single swaps: the wrong rules nearest to the right one, and the quickest test of ambiguity.

Move variable i of f from its position I_i to a position j outside I. The labels of the sample stay
the same exactly when x_j = x_{I_i} on every example that is sensitive at i (flipping x_{I_i} alone
would change f there). So with S_i the examples sensitive at i, a swap survives iff some column j
outside I equals column I_i on S_i: one pass over the columns, no search. A surviving swap proves
that the sample leaves several placements; without one, a search must decide.

The columns outside I are independent of the labels, hence of each other given x_I, and one of them
equals column I_i on S_i with probability q_i = prod_{e in S_i} P[x_e = its value]. So

    P[one placement left | x_I] <= P[no swap survives | x_I] <= (1 - max_i q_i)^(T - s),

which needs the s columns of I alone, at any T.
"""

import numpy as np

from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.random_functions import Key, generator

_FIRST_ROWS = 8


def has_single_swap(f: SparseFunction, X: np.ndarray) -> bool:
    """Does moving one variable of f, placed on its support, leave all its labels on X unchanged?"""
    only_bits(f)
    g = f.relevant()
    outside = np.ones(X.shape[1], dtype=bool)
    outside[list(f.support)] = False
    sensitive = sensitive_examples(g, X[:, list(g.support)])
    for i, position in enumerate(g.support):
        rows = X[sensitive[:, i]]
        columns = np.flatnonzero(outside)
        for part in (rows[:_FIRST_ROWS], rows[_FIRST_ROWS:]):  # the first rows leave few columns
            columns = columns[(part[:, columns] == part[:, position, None]).all(axis=0)]
        if len(columns):
            return True
    return False


def sensitive_examples(f: SparseFunction, bits: np.ndarray) -> np.ndarray:
    """[..., s]: is f, at the example whose bits on the support are given, changed by flipping i?"""
    weights = 1 << np.arange(f.s)
    rows = (bits.astype(np.int64) * weights).sum(axis=-1)
    return f.table[rows][..., None] != f.table[rows[..., None] ^ weights]


def most_unambiguous(
    f: SparseFunction, T: int, m: int, p: float, *, key: Key, draws: int = 512
) -> float:
    """Upper bound, up to the noise of `draws`, on the share of samples that leave one placement."""
    g = f.relevant()
    bits = generator(key=key).random((draws, m, g.s)) < p
    sensitive = sensitive_examples(g, bits)
    log_each = np.where(bits, np.log(p), np.log1p(-p))
    log_match = np.where(sensitive, log_each, 0.0).sum(axis=1).max(axis=1, initial=-np.inf)
    # (1 - q)^n with q = 1 when no example is sensitive: then every column matches
    with np.errstate(divide="ignore"):
        log_none = (T - f.s) * np.log(-np.expm1(log_match)) if f.s < T else np.zeros(draws)
    return float(np.exp(log_none).mean())
