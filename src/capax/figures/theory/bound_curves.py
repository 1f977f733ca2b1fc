"""Samples needed against context length T: this bound, other bounds, and the information floor.

The task is AND of s of T bits. All curves answer one question: how many samples m does an argument
need to prove error <= target with probability 1 - delta?

- this bound: Corollary 4.5 with our constants, for the selection head that computes the function
  (its norm grows like ln T, so the curve is a power of ln T);
- paper-style (36): the same head with Zhang's constant, C_Norm = 2 and (2,1) norms;
- parameter counting and VC dimension: linear in T, since tokens live in T + 3 dimensions;
- Occam: the bits of an explicit integer model;
- information floor: the number of samples that every learner needs (Fano).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.boolean.best_possible.limits import fano
from capax.boolean.named_functions import conjunction
from capax.capacity.certificates.occam import conjunction_model, occam_bound
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.complexity.vc import log_sauer_power
from capax.capacity.covers.point_files import read_table
from capax.capacity.linear.cover_pieces import parameter_count_cover
from capax.capacity.margins.margin_bounds import realizable_bound
from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.plain_norms import class_from_norms, paper_cover_from_norms
from capax.errors import require
from capax.figures.style import Palette, styled

LN_2 = math.log(2.0)
CONTEXTS = (10, 30, 100, 300, 1000, 3000, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9)


@dataclass(frozen=True)
class Curve:
    """A named curve: samples needed at each T (None if no number suffices)."""

    name: str
    T: tuple[int, ...]
    m: tuple[float | None, ...]
    style: str = "-"


@dataclass(frozen=True)
class SelectionHead:
    """The zero-detecting AND head: score norm, value norm, and its exact worst-case margin."""

    kappa: float
    v: float
    margin: float


def selection_head(T: int, s: int) -> SelectionHead:
    """Weights 1 (relevant zero), omega ([CLS]), e^{-a} and e^{-D} for the rest, so that the
    margin stays near 0.8 for every T: a = ln(T - s) + 2 - ln omega, e^{-D} = omega / (10 s).
    """
    omega = 0.1
    a = math.log(max(T - s, 1)) + 2.0 - math.log(omega)
    D = math.log(10 * s / omega)
    b = a + math.log(omega)
    kappa = math.sqrt(s * a * a + 2 / 3 * (b * b + b * D + D * D))
    on, leak = math.exp(-D), (T - s) * math.exp(-a)
    zero = (1 + (s - 1) * on - omega) / (omega + 1 + (s - 1) * on + leak)
    one = (omega - s * on) / (omega + s * on + leak)
    return SelectionHead(kappa, math.sqrt(s + 1.0), min(zero, one))


def conjunction_curves(
    s: int = 3, target: float = 0.1, delta: float = 0.05, contexts: Sequence[int] = CONTEXTS
) -> tuple[Curve, ...]:
    """All curves for AND of s bits."""
    require(0 < target < 1, "target", "a number strictly between 0 and 1", target)
    contexts = tuple(T for T in contexts if s < T)
    f, p = conjunction(tuple(range(s))), 0.5 ** (1 / s)

    def occam(T: int) -> float:
        bits = conjunction_model(T, tuple(range(s)), minimal=True).bits
        return float(occam_bound(bits, 1, delta, target=target).m_needed or math.nan)

    rows: list[tuple[str, Callable[[int], float | None], str]] = [
        ("paper-style (36)", lambda T: _needed(_paper_cover(T, s), target, delta), "--"),
        ("VC dimension T + 3", lambda T: _needed(lambda m: _vc_cover(m, T), target, delta), "--"),
        ("parameter counting", lambda T: _needed(_counted_cover(T, s), target, delta), "--"),
        ("this bound (Corollary 4.5)", lambda T: _ours(T, s, target, delta), "-"),
        ("Occam (description length)", occam, "-"),
        ("information floor (Fano)", lambda T: fano(f, T, target, p), ":"),
    ]
    return tuple(
        Curve(name, contexts, tuple(value(T) for T in contexts), style)
        for name, value, style in rows
    )


def _ours(T: int, s: int, target: float, delta: float) -> float | None:
    head = selection_head(T, s)
    inputs = Inputs(math.sqrt(2.0), 1.0, math.sqrt(1.5))
    cls = linear_head(head.kappa, head.v, B_phi=1.0, inputs=inputs)
    sample = Sample(1, T, alphabet=2)
    needed = realizable_bound(cls, sample, head.margin, delta, target=target).m_needed
    return None if needed is None else float(needed)


def _paper_cover(T: int, s: int) -> Callable[[int], float]:
    head = selection_head(T, s)

    def log_cover(m: int) -> float:
        return paper_style_cover(
            head.kappa, head.v, head.v, Sample(m, T, copies=2), head.margin / 2,
            B_X=math.sqrt(2.0), B_z=1.0,
        ).log_cover or 0.0  # fmt: skip

    return log_cover


def _counted_cover(T: int, s: int) -> Callable[[int], float]:
    head = selection_head(T, s)
    inputs = Inputs(math.sqrt(2.0), 1.0, math.sqrt(1.5))
    kappa = linear_head(head.kappa, head.v, B_phi=1.0, inputs=inputs).build(Sample(1, T))
    pieces = [replace(piece, num_parameters=T + 3) for piece in kappa]
    value = parameter_count_cover(pieces, math.log(head.margin / 2)).log_cover
    return lambda _: value


def _vc_cover(m: int, T: int) -> float:
    return log_sauer_power(2 * m, T + 3) if 2 * m >= T + 3 else 2 * m * LN_2


def _needed(log_cover: Callable[[int], float], target: float, delta: float) -> float | None:
    """m of the realizable bound (2/m)(log2 N + log2(2/delta)) <= target for a given ln N(2m)."""
    confidence = math.log(2 / delta)
    found = samples_needed(lambda m: 2 / m * (log_cover(m) + confidence) / LN_2, target)
    return None if found is None else float(found)


def own_curve(path: Path | str) -> Curve:
    """A curve of the user: a table with two columns, T and m, named after its file."""
    table = read_table(path)
    require(table.shape[1] == 2, str(path), "two columns, T and m", table.shape[1])
    good = np.isfinite(table).all() and (table[:, 0] >= 1).all() and (table[:, 1] > 0).all()
    require(good, str(path), "lengths T >= 1 and numbers of samples > 0", "other values")
    T, m = table[np.argsort(table[:, 0], kind="stable")].T
    return Curve(Path(path).stem, tuple(int(x) for x in T), tuple(map(float, m)), "o-")


def draw_conjunction_curves(
    s: int = 3,
    target: float = 0.1,
    delta: float = 0.05,
    *,
    own: Sequence[Curve] = (),
    dark: bool = False,
) -> tuple[Figure, dict[str, object]]:
    """The picture, and the numbers in it; `own` curves are added."""
    curves = (*conjunction_curves(s, target, delta), *own)
    title = f"How many samples does each argument need? AND of {s} of T bits"
    figure = draw_curves(curves, title, f"samples for error ≤ {target:g}", dark=dark)
    return figure, {curve.name: {"T": curve.T, "m": curve.m} for curve in curves}


def draw_norm_curves(
    norms: dict[str, float],
    *,
    m: int,
    d: int,
    k: int | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float = 0.1,
    own: Sequence[Curve] = (),
    dark: bool = False,
) -> Figure:
    """Samples needed against T at fixed norms: our bound, paper-style, and parameter counting.

    own: curves of the user, drawn beside these.
    """
    del m
    cls = class_from_norms(norms, d=d, k=k)
    ours = [realizable_bound(cls, Sample(1, T), margin, delta, target=target).m_needed
            for T in CONTEXTS]  # fmt: skip
    curves = [Curve("this bound", CONTEXTS, tuple(_floats(ours)))]

    def paper(T: int) -> float | None:
        def log_cover(n: int) -> float:
            sample = Sample(n, T, copies=2)
            return paper_cover_from_norms(norms, sample, margin / 2, d=d, k=k).log_cover or 0.0

        return _needed(log_cover, target, delta)

    curves.append(Curve("paper-style (36)", CONTEXTS, tuple(map(paper, CONTEXTS)), "--"))
    counted = parameter_count_cover(cls.build(Sample(1, 1)), math.log(margin / 2)).log_cover
    line = _needed(lambda _: counted, target, delta)
    curves.append(Curve(f"parameter counting, d = {d}", CONTEXTS, (line,) * len(CONTEXTS), "--"))
    return draw_curves(
        (*curves, *own), "At fixed norms the bound grows only with log T",
        f"samples for error ≤ {target:g}", dark=dark,
    )  # fmt: skip


def _floats(values: Sequence[int | None]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def draw_curves(curves: Sequence[Curve], title: str, ylabel: str, *, dark: bool = False) -> Figure:
    """Log-log curves with their names at the right end, in the colour of the line."""
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(7.6, 4.6), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, curve in enumerate(curves):
            _draw_curve(axes, curve, palette.series[index % len(palette.series)])
        _name_ends(axes, curves, palette)
        axes.set_xlabel("context length T")
        axes.set_ylabel(ylabel)
        axes.set_title(title)
    return figure


def _draw_curve(axes: Axes, curve: Curve, colour: str) -> None:
    points = [(T, m) for T, m in zip(curve.T, curve.m, strict=True) if m is not None]
    axes.plot(*zip(*points, strict=True), curve.style, color=colour, markersize=4)


def _name_ends(axes: Axes, curves: Sequence[Curve], palette: Palette) -> None:
    """Names beside the last points, moved apart if they would overlap."""
    ends = [
        (next(m for m in reversed(curve.m) if m is not None), index)
        for index, curve in enumerate(curves)
    ]
    low, high = (math.log10(x) for x in axes.get_ylim())
    places = _apart([math.log10(value) for value, _ in sorted(ends)], (high - low) * 0.052)
    right = max(T for curve in curves for T in curve.T)
    for place, (_, index) in zip(places, sorted(ends), strict=True):
        axes.annotate(
            curves[index].name,
            (right, 10**place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=palette.series[index % len(palette.series)],
            annotation_clip=False,
        )


def _apart(places: list[float], gap: float) -> list[float]:
    """Sorted places moved as little as needed so that neighbours are at least `gap` apart."""
    moved = list(places)
    for _ in range(50):
        for i in range(len(moved) - 1):
            overlap = gap - (moved[i + 1] - moved[i])
            if overlap > 0:
                moved[i] -= overlap / 2
                moved[i + 1] += overlap / 2
    return moved
