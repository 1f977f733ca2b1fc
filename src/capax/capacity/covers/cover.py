"""The covering number of a set of points: an array, a list, a file or a space."""

from pathlib import Path

from capax.capacity.covers.covering_sets import Cover, covering_number
from capax.capacity.covers.metrics import FiniteSpace, space_from_distances, space_from_points
from capax.capacity.covers.point_files import read_table


def cover(
    points: object,
    eps: float | int,
    *,
    metric: str = "euclidean",
    distances: bool = False,
    time_limit: float | int = 60.0,
) -> Cover:
    """N(S, eps): how few closed balls of radius eps, centred in the set, cover it.

    points: one point per row (array, nested list, a list of numbers on a line), the path of a
    .csv, .tsv, .txt or .npy file, or a `FiniteSpace`; with `distances`, a matrix of distances.
    After `time_limit` seconds the answer is an interval. Raises `InputError` for other values.

    Examples:
        >>> import capax
        >>> found = capax.cover([(0.5, 0.7), (0.2, 0.3), (0.6, 0.65)], eps=0.45)
        >>> found.exact, found.centres
        (2, (0, 1))
    """
    return covering_number(space_of(points, metric, distances), eps, time_limit=time_limit)


def space_of(points: object, metric: str = "euclidean", distances: bool = False) -> FiniteSpace:
    """The pseudometric space of `points`."""
    if isinstance(points, FiniteSpace):
        return points
    table = read_table(points) if isinstance(points, str | Path) else points
    return space_from_distances(table) if distances else space_from_points(table, metric)
