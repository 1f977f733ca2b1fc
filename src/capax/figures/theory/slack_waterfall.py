"""Where the slack of a bound is: from the size that every cover must have to the paper's style.

For the class of selection heads that compute AND of s of T bits, at scale eps = margin / 2: the
packing formed by the C(T, s) heads themselves, then our cover and each further simplification. The
number beside a bar is the ratio to the bar above it.
"""

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.capacity.magnitude import number
from capax.capacity.network.head_bounds import attention_head, linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import only_lipschitz
from capax.errors import require
from capax.figures.style import Palette, styled
from capax.figures.theory.bound_curves import selection_head

TWO_HOT = Inputs(math.sqrt(2.0), 1.0, math.sqrt(1.5))
NOT_CENTRED = Inputs(math.sqrt(2.0), 1.0, weighting=only_lipschitz(2.0))


@dataclass(frozen=True)
class Step:
    """One bar: the name of a bound, and ln N."""

    name: str
    log_cover: float


def waterfall_steps(T: int = 1000, s: int = 3, m: int = 100_000) -> tuple[Step, ...]:
    """The chain of inequalities for the AND head, smallest first."""
    require(1 <= s < T, "s", f"between 1 and T - 1 = {T - 1}", s)
    head = selection_head(T, s)
    eps = head.margin / 2
    ours = linear_head(head.kappa, head.v, B_phi=1.0, inputs=TWO_HOT)
    general = attention_head(head.kappa, head.v, head.v, k=1, B_phi=1.0, inputs=TWO_HOT)
    plain = attention_head(head.kappa, head.v, head.v, k=1, inputs=NOT_CENTRED)
    pairs, distinct = Sample(m, T), Sample(m, T, alphabet=2)
    paper = paper_style_cover(
        head.kappa, head.v, head.v, pairs, eps, B_X=math.sqrt(2.0), B_z=1.0
    ).value
    return (
        Step("the C(T, s) heads themselves\n(packing, lower bound)", _log_choose(T, s)),
        Step("our cover, distinct tokens", ours.cover(distinct, eps).value),
        Step("our cover, all m(T + 1) tokens", ours.cover(pairs, eps).value),
        Step("closed form C / ε²", math.exp(ours.log_C(pairs)) / eps**2),
        Step("Corollary 4.5 for any W_V", math.exp(general.log_C(pairs)) / eps**2),
        Step("constant 2 for softmax, no centring", math.exp(plain.log_C(pairs)) / eps**2),
        Step("paper-style, Zhang's 36", paper),
    )


def _log_choose(T: int, s: int) -> float:
    return math.lgamma(T + 1) - math.lgamma(s + 1) - math.lgamma(T - s + 1)


def draw_waterfall(
    T: int = 1000, s: int = 3, m: int = 100_000, *, dark: bool = False
) -> tuple[Figure, dict[str, float]]:
    """The picture, and the numbers in it."""
    steps = waterfall_steps(T, s, m)
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(7.6, 3.8), layout="constrained")
        axes = figure.subplots()
        _draw_bars(axes, steps, palette)
        sizes = f"s = {s}, T = {number(float(T))}, m = {number(float(m))}"
        axes.set_title(f"Where the slack is: ln N of AND heads, {sizes}")
    return figure, {step.name.replace("\n", " "): step.log_cover for step in steps}


def _draw_bars(axes: Axes, steps: tuple[Step, ...], palette: Palette) -> None:
    left = steps[0].log_cover / 3
    previous = left
    for row, step in enumerate(steps):
        colour = palette.series[2] if row == 0 else palette.series[0]
        axes.barh(row, step.log_cover - left, left=left, height=0.56, color=colour, alpha=0.22)
        start = left if row == 0 else previous
        axes.barh(row, step.log_cover - start, left=start, height=0.56, color=colour)
        factor = "" if row == 0 else f"   × {number(step.log_cover / previous, 2)}"
        axes.text(
            step.log_cover * 1.15, row, f"{number(step.log_cover, 3)}{factor}", va="center",
            fontsize=8, color=palette.ink,
        )  # fmt: skip
        previous = step.log_cover
    axes.set_xscale("log")
    axes.set_xlim(left, steps[-1].log_cover * 60)
    axes.set_yticks(range(len(steps)), [step.name for step in steps])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("ln N (nats, logarithmic axis)")
