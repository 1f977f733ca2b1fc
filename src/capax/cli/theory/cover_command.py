"""`capax cover`: the covering number of a set of points, its centres, its whole curve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import DarkFlag
from capax.errors import require
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.capacity.covers.covering_curve import CoverCurve
    from capax.capacity.covers.covering_sets import Cover
    from capax.capacity.covers.metrics import FiniteSpace

SHOWN_CENTRES = 20


def cover(
    points: Annotated[
        Path, typer.Argument(help="Table with one point per row: .csv, .tsv, .txt, .npy.")
    ],
    eps: Annotated[
        float | None, typer.Option("--eps", help="Radius of the (closed) balls.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="euclidean, manhattan, chebyshev, hamming or angular.")
    ] = "euclidean",
    distances: Annotated[
        bool, typer.Option("--distances", help="The file is a square matrix of distances.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also N for every radius at once.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the balls (with --curve: the curve) to this file.")
    ] = None,
    dark: DarkFlag = False,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each exact computation; then an interval.")
    ] = 30.0,
    json: JsonFlag = False,
) -> None:
    """How many balls of radius eps, centred at points of the set, cover the whole set?

    Prints the exact covering number N (or an interval when the time limit is hit), the greedy
    cover with its guarantee, the packing number M and the chosen centres (row numbers from 0).
    M at 2 eps <= N at eps <= M at eps. A distance equal to eps counts as covered.

    Example: `capax cover points.csv --eps 0.5 --plot balls.png`
    """
    require(eps is not None or curve, "--eps", "a radius (or --curve)", "neither")
    if plot is not None:
        _check_plot(plot)
    from capax.reading import existing

    existing(points, "a file with one point per row")
    space = _read_space(points, metric, distances)
    if plot is not None and not curve:
        _check_drawable(space)
    best = None if eps is None else _best_cover(space, eps, time_limit)
    whole = _whole_curve(space, time_limit) if curve else None
    result: dict[str, Any] = {"points": len(space), "metric": space.metric}
    result |= {} if best is None else _cover_fields(space, best, time_limit)
    result |= {} if whole is None else {"curve": _curve_rows(whole)}
    if plot is not None:
        result["plot"] = str(_draw(space, best, whole, plot, dark))
    emit(result, json, lambda console: _render(result, console))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cover)


def _read_space(file: Path, metric: str, distances: bool) -> "FiniteSpace":
    from capax.capacity.covers.cover import space_of

    return space_of(file, metric, distances)


def _best_cover(space: "FiniteSpace", eps: float, time_limit: float) -> "Cover":
    from capax.capacity.covers.covering_sets import covering_number

    return covering_number(space, eps, time_limit=time_limit)


def _cover_fields(space: "FiniteSpace", best: "Cover", time_limit: float) -> dict[str, Any]:
    from capax.capacity.covers.covering_sets import greedy_cover
    from capax.capacity.covers.packing_sets import packing_number

    greedy = greedy_cover(space, best.eps)
    packing = packing_number(space, best.eps, time_limit=time_limit)
    wide = packing_number(space, 2 * best.eps, time_limit=time_limit)
    known = {"exact": best.exact} if best.exact else {"lower": best.lower, "upper": best.upper}
    places = None if space.points is None else space.points[list(best.centres)].tolist()
    return {
        "eps": best.eps,
        **known,
        "method": best.method,
        "seconds": round(best.seconds, 3),
        "greedy": greedy.upper,
        "greedy_guarantee": greedy.guarantee,
        "packing": packing.lower,
        "packing_exact": packing.exact is not None,
        "packing_2eps": wide.lower,
        "centres": list(best.centres),
        "centre_points": places,
    }


def _whole_curve(space: "FiniteSpace", time_limit: float) -> "CoverCurve":
    from capax.capacity.covers.covering_curve import covering_curve

    whole = covering_curve(space, time_limit=time_limit)
    if not whole.exact:
        note("the time limit left some values open: raise --time-limit for the exact curve")
    return whole


def _curve_rows(whole: "CoverCurve") -> list[dict[str, Any]]:
    """One row per step: N lies in [lower, upper] from this eps on."""
    steps = zip(whole.eps.tolist(), whole.lower.tolist(), whole.upper.tolist(), strict=True)
    rows: list[dict[str, Any]] = []
    for eps, lower, upper in steps:
        if not rows or (rows[-1]["lower"], rows[-1]["upper"]) != (lower, upper):
            rows.append({"eps": eps, "lower": lower, "upper": upper})
    return rows


def _check_plot(plot: Path) -> None:
    from capax.files import check_writable

    formats = (".png", ".svg", ".pdf")
    require(plot.suffix in formats, "--plot", "a file name ending in .png, .svg or .pdf", str(plot))
    check_writable(plot)


def _check_drawable(space: "FiniteSpace") -> None:
    from capax.figures.theory.cover_balls import check_drawable

    check_drawable(space)


def _draw(
    space: "FiniteSpace", best: "Cover | None", whole: "CoverCurve | None", plot: Path, dark: bool
) -> Path:
    """The curve if there is one, else the balls."""
    from capax.figures.style import save
    from capax.figures.theory.cover_balls import draw_cover
    from capax.figures.theory.cover_curve import draw_curve

    if whole is not None:
        marked = None if best is None else best.eps
        return save(draw_curve(space, whole, eps=marked, dark=dark), plot)
    assert best is not None, "--eps or --curve was required"
    return save(draw_cover(space, best, dark=dark), plot)


def _render(result: dict[str, Any], console: Terminal) -> None:
    if "eps" in result:
        _render_cover(result, console)
    for row in result.get("curve", ()):
        size = str(row["lower"]) if row["lower"] == row["upper"] else _interval(row)
        console.print(f"  eps >= {row['eps']:<12.6g} N = {size}")
    if "plot" in result:
        note(f"wrote {result['plot']}")


def _render_cover(result: dict[str, Any], console: Terminal) -> None:
    eps = f"{result['eps']:g}"
    size = str(result["exact"]) if "exact" in result else _interval(result)
    how = "exact" if "exact" in result else "interval: the time limit was hit"
    console.print(f"N({eps}) = {size}", style="bold", end="")
    console.print(f"  ({how}, {result['points']} points)")
    console.print(
        f"  greedy   {result['greedy']}  (at most {result['greedy_guarantee']:.2f} times the best)"
    )
    at_least = "" if result["packing_exact"] else "at least "
    console.print(
        f"  packing  {at_least}{result['packing']}  (points pairwise more than {eps} apart; "
        f"{result['packing_2eps']} more than {2 * result['eps']:g} apart)"
    )
    console.print("  centres  " + _centres(result))


def _interval(row: dict[str, Any]) -> str:
    return f"between {row['lower']} and {row['upper']}"


def _centres(result: dict[str, Any]) -> str:
    names = [f"#{i}" for i in result["centres"]]
    if result["centre_points"] is not None:
        places = (", ".join(f"{x:g}" for x in place) for place in result["centre_points"])
        names = [f"{name} ({place})" for name, place in zip(names, places, strict=True)]
    more = f" and {len(names) - SHOWN_CENTRES} more" if len(names) > SHOWN_CENTRES else ""
    return ", ".join(names[:SHOWN_CENTRES]) + more
