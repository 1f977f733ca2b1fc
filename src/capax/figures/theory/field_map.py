"""Which bound is smallest where: the field's bounds over T and over the norm of W_QK.

Left: samples needed against T for the head that computes AND of three bits on one-hot positions,
d = T + 3, so that bounds in ln d grow with T too; and for an MLP on the same bits. Middle and
right: the smallest bound at every T and ||W_QK||_F, W_QK with one entry (all its norms are equal),
for one-hot positions and for tokens of a fixed width. Bounds are compared at the number of samples
that our bound needs for the wanted error.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from capax.capacity.network.field_bounds import FieldBound, HeadNorms, field_bounds, mlp_bound
from capax.figures.style import Palette, styled
from capax.figures.theory.bound_curves import selection_head

LENGTHS = (10, 100, 1000, 10**4, 10**5, 10**6)
MAP_LENGTHS = tuple(10**n for n in range(1, 10))
SCALES = tuple(10 ** (n / 2) for n in range(-4, 7))


def conjunction_norms(T: int, s: int = 3) -> HeadNorms:
    """The AND head on one-hot positions: W_QK = v kappa^T has one row, d = T + 3."""
    head = selection_head(T, s)
    root = math.sqrt(s + 3.0)  # kappa has s + 3 entries, its 1-norm is at most sqrt(s + 3) as long
    return HeadNorms(
        W_QK_F=head.kappa, W_QK_T_21=head.kappa, W_QK_11=root * head.kappa, v_2=head.v,
        v_1=math.sqrt(s + 1.0) * head.v, d=T + 3, B_X=math.sqrt(2.0), margin=head.margin,
    )  # fmt: skip


def conjunction_mlp(T: int, s: int = 3) -> FieldBound:
    """One ReLU unit that computes AND: relu(sum x_i - s + 1) - 1/2, the bias as one more input."""
    first, last = math.sqrt(s + (s - 1.0) ** 2), math.sqrt(1.25)
    layers = [(first, first), (last, last)]
    return mlp_bound(layers, width=T + 1, B_X=math.sqrt(T + 1), margin=0.5)


def curves(target: float, delta: float, lengths: Sequence[int] = LENGTHS) -> dict[str, list]:
    """Samples needed by name, one number for each T (None: no number of samples)."""
    found: dict[str, list] = {}
    for T in lengths:
        for bound in (*field_bounds(conjunction_norms(T), T), conjunction_mlp(T)):
            found.setdefault(bound.name, []).append(bound.needed(target, delta))
    return found


def winners(
    d: int | None,
    target: float,
    delta: float,
    lengths: Sequence[int] = MAP_LENGTHS,
    scales: Sequence[float] = SCALES,
) -> tuple[list[str], Int[np.ndarray, "scales lengths"]]:
    """Names, and which is smallest at each norm and T; `d` None: one-hot positions, T + 3."""
    chosen = np.zeros((len(scales), len(lengths)), dtype=np.int64)
    names: list[str] = []
    for i, scale in enumerate(scales):
        for j, T in enumerate(lengths):
            norms = HeadNorms(scale, scale, scale, 1.0, 1.0, T + 3 if d is None else d)
            bounds = field_bounds(norms, T)
            names = [bound.name for bound in bounds]
            m = bounds[0].needed(target, delta)
            errors = [bound.error(m or 10**300, delta) for bound in bounds]
            chosen[i, j] = int(np.argmin(errors))
    return names, chosen


def draw_field(d: int, target: float, delta: float, *, dark: bool = False) -> Figure:
    """The three panels."""
    with styled(dark) as palette:
        figure = Figure(figsize=(15, 5.5), layout="constrained")
        lines, one_hot, fixed = figure.subplots(1, 3)
        _draw_curves(lines, curves(target, delta), target, palette)
        _draw_map(one_hot, None, target, delta, palette)
        _draw_map(fixed, d, target, delta, palette)
        figure.legend(*lines.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_curves(axes: Axes, found: dict[str, list], target: float, palette: Palette) -> None:
    for (name, needed), color in zip(found.items(), palette.series, strict=False):
        points = [(T, n) for T, n in zip(LENGTHS, needed, strict=True) if n is not None]
        style = "--" if name.startswith("MLP") else "-"
        axes.loglog(*zip(*points, strict=True), style, color=color, label=name, marker="o", ms=3)
    axes.set_xlabel("T (one-hot positions, d = T + 3)")
    axes.set_ylabel(f"samples for error {target:g}")
    axes.set_title("AND of three bits")


def _draw_map(axes: Axes, d: int | None, target: float, delta: float, palette: Palette) -> None:
    """Colours as in the first panel."""
    names, chosen = winners(d, target, delta)
    axes.pcolormesh(
        MAP_LENGTHS, SCALES, chosen, cmap=ListedColormap(palette.series[: len(names)]), vmin=-0.5,
        vmax=len(names) - 0.5, shading="nearest",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("T (one-hot positions, d = T + 3)" if d is None else f"T (width d = {d})")
    axes.set_ylabel("norm of W_QK")
    axes.set_title("smallest bound, W_QK of one entry")
