"""Pieces of gradients: examples in each; on a GPU also how many are computed together, and lanes.

On a CPU a core has one lane and one piece at a time, of one of two sizes
(`capax.training.steps.gradient_pieces`). Where little is kept for an example, the fixed cost of a
gradient counts more than a few empty rows: 64 and 128 examples. Elsewhere 64 and 112: for m = 64 to
400 there are 1.09 rows for an example in the mean, and 1.19 with 64 and 128. Where the first layer
of several is a table, every example is k + 1 rows of its products, and a piece has 24 or 52: at
T = m = 100 a step with other pieces of 20 to 100 examples takes 3 to 7 % longer, in pieces of 12
and 24 10 % (one Xeon core). The table is read anew for every piece: at T = 400, where it has 15 MB,
a step takes 1.5 % longer than with 64 and 112.

On a GPU a round computes all its places, also those without a piece. A search has waves of a few
trials (four to twelve, to choose a rate) and of hundreds; several processes share the GPU, and
together they fill it. So a round is small: as many pieces as keep 512 MB for the backward pass,
200 000 to 400 000 tokens of a network that keeps numbers for every token. A round of 1.2 million
tokens (48 places at T = 400) took 5.1 ms for the five pieces of one Mixer, and 5.4 ms for 24 pieces
(one H200).

The loop of a recurrent cell takes T steps in a row, whether a round has few pieces or many: there a
round has 48 pieces or more, each on two multiprocessors at least. Networks that work on all tokens
by tables keep little for an example: they have large pieces, for every piece also leaves a gradient
to be added.
"""

from capax.training.programs.memory import floats_per_example, piece_rows
from capax.training.specs.architecture import Architecture
from capax.training.steps.paths import PairwisePath, Path

_ROUND = 1 << 27  # numbers kept for the backward pass of a round
_FEWEST, _IN_A_ROW, _MOST, _MOST_LARGE = 4, 48, 96, 32  # places; the last, of large pieces
_SIZES = ((1 << 12, 256), (1 << 15, 128))  # numbers kept for an example, examples of a piece
_SMALLEST = 64
_ON_CPU, _ON_CPU_PAIRWISE = 64, 24
_LARGER, _LARGER_SMALL, _LARGER_PAIRWISE = 112, 128, 52  # the other size on a CPU
_LANES, _LANES_SMALL = 128, 256


def keeps_little(path: Path) -> bool:
    """Whether its plain form keeps few numbers for an example: its steps are short."""
    spec = path.spec
    plain = isinstance(spec, Architecture)
    return (spec.floats_per_example if plain else floats_per_example(path)) < _SIZES[0][0]


def by_library(path: Path) -> bool:
    """Whether XLA's library computes its products on a CPU with x86 (`CPU_PRODUCTS_X86`)."""
    return not (keeps_little(path) or isinstance(path, PairwisePath))


def cpu_piece(path: Path) -> int:
    """Examples in a piece."""
    return _ON_CPU_PAIRWISE if isinstance(path, PairwisePath) else _ON_CPU


def larger_piece(path: Path, block: int, rows: int) -> int:
    """Examples in a larger piece beside those of `block`, on a CPU; 0: none.

    It fits into the rows twice: XLA always runs a loop that can only run once.
    """
    beside = _LARGER_SMALL if keeps_little(path) else _LARGER
    size = {_ON_CPU: beside, _ON_CPU_PAIRWISE: _LARGER_PAIRWISE}.get(block, 0)
    return size if size <= min(piece_rows(path), rows // 2) else 0


def gpu_piece(path: Path) -> int:
    """Examples in a piece."""
    kept = floats_per_example(path)
    return next((size for limit, size in _SIZES if kept < limit), _SMALLEST)


def gpu_lanes(path: Path) -> int:
    """Runs that train together: an idle one costs the update of its parameters."""
    return _LANES_SMALL if keeps_little(path) else _LANES


def num_places(path: Path, block: int) -> int:
    """Pieces of `block` examples that are computed together."""
    spec = path.spec
    in_a_row = isinstance(spec, Architecture) and spec.in_a_row
    fewest, most = _IN_A_ROW if in_a_row else _FEWEST, _MOST_LARGE if block >= 256 else _MOST
    return min(most, max(fewest, _ROUND // (block * floats_per_example(path))))
