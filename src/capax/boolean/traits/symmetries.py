"""Which permutations of the variables leave a truth table unchanged.

Placing f on the ordered positions (j_0, .., j_{s-1}) and on (j_{pi(0)}, .., j_{pi(s-1)}) gives the
same function exactly when pi is an automorphism of the table. Counting *functions* therefore means
counting placements up to automorphism; for a symmetric f these are the s-subsets.
"""

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np

from capax.boolean.functions import SparseFunction, only_bits
from capax.errors import InfeasibleError

MAX_ARRANGEMENTS = 50_000
"""The largest number of orders of the variables that are tried one by one."""

Permutation = tuple[int, ...]


def permuted_rows(permutation: Permutation) -> np.ndarray:
    """Row numbers whose bit i is bit permutation[i] of 0, 1, .., 2^s - 1."""
    rows = np.arange(1 << len(permutation))
    moved = np.zeros_like(rows)
    for i, source in enumerate(permutation):
        moved |= ((rows >> source) & 1) << i
    return moved


@functools.lru_cache(maxsize=256)
def swap_classes(f: SparseFunction) -> tuple[tuple[int, ...], ...]:
    """Variables grouped so that swapping two of one group never changes f, groups in order.

    Being swappable is an equivalence relation: (a c) = (a b)(b c)(a b).
    """
    only_bits(f)
    classes: list[list[int]] = []
    for i in range(f.s):
        home = next((group for group in classes if _swappable(f, group[0], i)), None)
        if home is None:
            classes.append([i])
        else:
            home.append(i)
    return tuple(tuple(group) for group in classes)


@functools.lru_cache(maxsize=256)
def coset_automorphisms(f: SparseFunction) -> tuple[Permutation, ...]:
    """Automorphisms of f other than the identity, one for each way to combine with swaps.

    Raises `InfeasibleError` when there are too many orders of the variables to try.
    """
    classes = swap_classes(f)
    arrangements = math.factorial(f.s) // math.prod(math.factorial(len(c)) for c in classes)
    if arrangements > MAX_ARRANGEMENTS:
        raise InfeasibleError(
            f"function: {arrangements} distinct orders of its {f.s} variables, "
            f"at most {MAX_ARRANGEMENTS} can be searched"
        )
    found = (pi for pi in _arrangements(classes, f.s) if pi != tuple(range(f.s)))
    return tuple(pi for pi in found if np.array_equal(f.table[permuted_rows(pi)], f.table))


def num_automorphisms(f: SparseFunction) -> int:
    """|Aut(f)|: the number of orders of the variables that leave the table unchanged."""
    swaps = math.prod(math.factorial(len(group)) for group in swap_classes(f))
    return swaps * (1 + len(coset_automorphisms(f)))


def canonical_placements(f: SparseFunction, placements: np.ndarray) -> np.ndarray:
    """Of rows that rise within each swap class, those smallest among their automorphic images."""
    keep = np.ones(len(placements), dtype=bool)
    for pi in coset_automorphisms(f):
        image = placements[:, pi]
        for group in swap_classes(f):
            image[:, group] = np.sort(image[:, group], axis=1)
        keep &= _not_after(placements, image)
    return placements[keep]


def _swappable(f: SparseFunction, i: int, j: int) -> bool:
    order = list(range(f.s))
    order[i], order[j] = j, i
    return np.array_equal(f.table[permuted_rows(tuple(order))], f.table)


def _arrangements(classes: tuple[tuple[int, ...], ...], s: int) -> Iterator[Permutation]:
    """Permutations of 0..s-1 that rise along each class."""

    def fill(free: tuple[int, ...], remaining: tuple[tuple[int, ...], ...]) -> Iterator[dict]:
        if not remaining:
            yield {}
            return
        for chosen in itertools.combinations(free, len(remaining[0])):
            rest = tuple(x for x in free if x not in chosen)
            for others in fill(rest, remaining[1:]):
                yield {**others, **dict(zip(remaining[0], chosen, strict=True))}

    for images in fill(tuple(range(s)), classes):
        yield tuple(images[i] for i in range(s))


def _not_after(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row by row: is `left` lexicographically at most `right`?"""
    different = left != right
    first = different.argmax(axis=1)
    rows = np.arange(len(left))
    return ~different.any(axis=1) | (left[rows, first] < right[rows, first])
