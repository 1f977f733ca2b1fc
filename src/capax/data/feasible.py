"""The smallest useful m, if ambiguous training sets are drawn again.

With too few examples nearly every training set leaves several placements, and drawing again does
not help. Below `smallest_m` fewer than one set in `ODDS` is unambiguous. The quick upper bound by
single swaps finds a first m at any T; a few sets drawn at this m confirm it, or the search goes on
upwards (as for parity, where distant rules survive as often as near ones).
"""

import functools
import math
from collections.abc import Callable

from capax.boolean.best_possible.disagreement import union_sample_size
from capax.boolean.consistent.survivors import is_unique
from capax.boolean.functions import SparseFunction
from capax.boolean.parser import parse
from capax.boolean.traits.single_swaps import has_single_swap, most_unambiguous
from capax.data.distributions import bernoulli_rows
from capax.data.task import TaskSpec
from capax.errors import InfeasibleError
from capax.identity import key_words

ODDS = 20
_TRIED = 3 * ODDS  # sets without a single unambiguous one: the odds are worse, with 95% confidence
# Words for one m: of large sets fewer are tried, or no set, and m may become larger.
_WORK = 30_000_000
_HOPELESS = 20 * _WORK  # words of a search that is not begun


def smallest_m(task: TaskSpec) -> int:
    """The least m at which at least about one training set in 20 leaves one placement of f.

    1 when ambiguous sets are kept. Depends on function, T and p alone.
    """
    if not task.reject_ambiguous:
        return 1
    return _smallest(task.function, task.T, task.probability)


@functools.lru_cache(maxsize=256)
def _smallest(function: str, T: int, p: float) -> int:
    f = parse(function).relevant()
    if f.s == 0:
        return 1
    f = f.on(range(f.s), T)
    try:
        enough = union_sample_size(f, T, 0.5, p)  # at least half of the sets are unambiguous
    except InfeasibleError:
        return 1
    first = _lowest(lambda m: _bound(f, T, m, p) >= 1 / ODDS, 0, enough)
    if _confirmed(f, T, first, p):
        return first
    return _lowest(lambda m: _confirmed(f, T, m, p), first, enough)


def _bound(f: SparseFunction, T: int, m: int, p: float) -> float:
    return most_unambiguous(f, T, m, p, key=key_words([T, m, p], "single swaps"))


def _confirmed(f: SparseFunction, T: int, m: int, p: float) -> bool:
    """Is one of a few sets of m examples unambiguous? A set that is too large to search counts as
    ambiguous."""
    search = 8 * math.comb(T, f.s - 1) if _is_searched(f) else 0
    if m * T > _WORK or search > _HOPELESS:
        return False
    key, work = key_words([f.table.tolist(), T, m, p], "smallest m"), max(m * T, search)
    for stream in range(min(_TRIED, max(1, _WORK // work))):
        X = bernoulli_rows(m, T, p, key=key, stream=stream)
        if not has_single_swap(f, X):
            try:
                if is_unique(f, X, f(X)):
                    return True
            except InfeasibleError:
                return False
    return False


def _is_searched(f: SparseFunction) -> bool:
    """Whether f needs a search; AND, OR and other tables with one exceptional row do not."""
    return int(f.table.sum()) not in (1, len(f.table) - 1)


def _lowest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest m in (low, high] where `holds`, taken to be monotone and true at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
