"""Symbols that a function treats alike form one class; on classes it is a smaller function.

c and c' are in one class when f does not change if c replaces c', at any position of the support.
`count(2; x1, x5, x9) >= 2` has two classes, 2 and not 2, for every alphabet: it is a Boolean
function of three bits.
"""

import numpy as np

from capax.boolean.functions import SparseFunction, all_patterns


def symbol_classes(f: SparseFunction) -> tuple[int, ...]:
    """The class of each symbol, in the order of their first symbols; two bits are two classes."""
    if f.alphabet == 2:
        return (0, 1)
    parts = [f.split(i) for i in range(f.s)]
    shown = [b"".join(part[c].tobytes() for part in parts) for c in range(f.alphabet)]
    known = {one: k for k, one in enumerate(dict.fromkeys(shown))}
    return tuple(known[one] for one in shown)


def on_classes(f: SparseFunction, classes: tuple[int, ...]) -> SparseFunction:
    """f as a function of the classes of its symbols, of bits if there are at most two."""
    K = max(2, max(classes) + 1)
    first = [classes.index(c) if c in classes else 0 for c in range(K)]
    digits = np.array(first)[all_patterns(f.s, K)]
    rows = digits @ f.alphabet ** np.arange(f.s)
    return SparseFunction(f.support, f.table[rows], f.T, f.notes, K)
