"""Heads of a trained Transformer: where they look, and which bits their outputs encode.

Three panels for each layer, a row for each head. Attention: mean weight of the [CLS] query on every
position. Carried: for each bit of the formula, how much of the head's output the bit explains,

    R^2 = |E[c | x_i = 1] - E[c | x_i = 0]|^2 P[1] P[0] / E|c - E c|^2,   c = head_h(x) W_O^h,

and the same for the value of the whole formula. Cut: the accuracy (against the formula) when the
output of the head is replaced by its mean (`head_dependence`). All numbers are measured on random
inputs from Bernoulli(p).
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy import ndarray

from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.errors import require
from capax.figures.heads.head_dependence import head_dependence, head_writes
from capax.figures.style import Palette, styled

INPUTS = 1024
CAPTION = (
    "Attention: where each head looks, on average. Carried: the share of a head's output that a "
    "bit, or the formula f, explains (R² on\nrandom inputs); 0 % means that the head does not "
    "encode it. Accuracy when cut: the accuracy with the head's output\nreplaced by its mean; the "
    "line is the accuracy of the whole model."
)


@dataclass(frozen=True)
class HeadReport:
    """All heads of a model, layer by layer: `attention` [H, T + 1], `carried` [H, s + 1], `cut`."""

    support: tuple[int, ...]
    attention: tuple[Float[ndarray, "H columns"], ...]
    carried: tuple[Float[ndarray, "H s_1"], ...]
    cut: tuple[Float[ndarray, " H"], ...]
    accuracy: float


def measure_heads(
    model: Transformer, f: SparseFunction, *, p: float, n: int = INPUTS, seed: int = 0
) -> HeadReport:
    """Measure every head of every layer on n random inputs."""
    require(f.T == model.spec.T, "function", f"T = {model.spec.T}", f.T)
    X = (np.random.default_rng(seed).random((n, model.spec.T)) < p).astype(np.int32)
    labels = (f(X) > 0.5).astype(np.int32)
    found = head_dependence(model, X, labels, f.support)
    writes = head_writes(model, jnp.asarray(X))
    variables = np.concatenate([X[:, list(f.support)], labels[:, None]], axis=1)
    at_cls = [np.asarray(w, np.float64)[:, :, -1] for w in writes]  # [n, H, d]
    H = model.spec.heads
    layers = [slice(i * H, (i + 1) * H) for i in range(len(writes))]
    return HeadReport(
        support=f.support,
        attention=tuple(found.weights[part].mean(axis=1) for part in layers),
        carried=tuple(_explained(w, variables) for w in at_cls),
        cut=tuple(found.left[part] for part in layers),
        accuracy=found.accuracy,
    )


def _explained(writes: Float[ndarray, "n H d"], variables: ndarray) -> Float[ndarray, "H s_1"]:
    total = ((writes - writes.mean(0)) ** 2).sum(-1).mean(0)  # [H]
    shares = []
    for column in variables.T.astype(bool):
        q = column.mean()
        if q in (0.0, 1.0):
            shares.append(np.zeros(writes.shape[1]))
            continue
        gap = writes[column].mean(0) - writes[~column].mean(0)
        shares.append(q * (1 - q) * (gap**2).sum(-1) / np.maximum(total, 1e-300))
    return np.stack(shares, axis=1)


def draw_created_variables(report: HeadReport, formula: str, *, dark: bool = False) -> Figure:
    """The report as a picture: one row of panels for each layer."""
    layers, s = len(report.attention), len(report.support)
    H = len(report.attention[0])
    height = 1.9 + layers * (0.6 + 0.17 * H)
    with styled(dark) as palette:
        figure = Figure(figsize=(10, height))
        widths = [3.2, 0.4 * (s + 1) + 0.8, 1.0]
        grid = figure.subplots(layers, 3, width_ratios=widths, squeeze=False)
        figure.subplots_adjust(
            left=0.07,
            right=0.97,
            top=1 - 0.75 / height,
            bottom=1.1 / height,
            wspace=0.18,
            hspace=0.35,
        )
        for layer, (look, carry, left) in enumerate(grid):
            name = f"layer {layer + 1}: " if layers > 1 else ""
            _draw_attention(look, report.attention[layer], report.support, name, dark)
            _draw_carried(carry, report.carried[layer], report.support, palette, dark)
            _draw_cut(left, report.cut[layer], report.accuracy, palette)
        figure.suptitle(f"What did it learn?  {formula}", x=0.07, ha="left", fontweight="bold")
        figure.text(0.07, 0.12 / height, CAPTION, fontsize="x-small", va="bottom")
    return figure


def _draw_attention(
    axes: Axes, weights: ndarray, support: tuple[int, ...], name: str, dark: bool
) -> None:
    H, columns = weights.shape
    colours = "magma" if dark else "magma_r"
    shown = axes.imshow(
        np.sqrt(weights), aspect="auto", vmin=0, vmax=1, cmap=colours, interpolation="nearest"
    )
    _add_bar(axes, shown, {w**0.5: f"{w:g}" for w in (0.0, 0.1, 0.5, 1.0)})
    axes.set_title(f"{name}attention of [CLS] (mean weight)")
    axes.set_yticks(range(H), [f"head {h}" for h in range(H)], fontsize="x-small")
    names = [*(f"x{t}" for t in support), "CLS"]
    axes.set_xticks([*support, columns - 1], names, fontsize="x-small", rotation=45)
    axes.grid(visible=False)


def _draw_carried(
    axes: Axes, shares: ndarray, support: tuple[int, ...], palette: Palette, dark: bool
) -> None:
    colours = "viridis" if dark else "viridis_r"
    shown = axes.imshow(shares, aspect="auto", vmin=0, vmax=1, cmap=colours)
    _add_bar(axes, shown, {0.0: "0 %", 0.5: "50 %", 1.0: "100 %"})
    for (h, i), share in np.ndenumerate(shares):
        ink = palette.background if share > 0.5 else palette.ink
        axes.text(i, h, f"{share:.0%}", ha="center", va="center", fontsize=5.5, color=ink)
    axes.set_title("carried (share explained)")
    names = [*(f"x{t}" for t in support), "f"]
    axes.set_xticks(range(len(names)), names, fontsize="x-small", rotation=45)
    axes.set_yticks([])
    axes.grid(visible=False)


def _add_bar(axes: Axes, shown: AxesImage, ticks: dict[float, str]) -> None:
    """A thin colour bar beside `axes`, with the values of its colours."""
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(shown, ax=axes, fraction=0.05, pad=0.02, aspect=18)
    bar.set_ticks(list(ticks), labels=list(ticks.values()), fontsize="x-small")
    bar.outline.set_visible(False)


def _draw_cut(axes: Axes, cut: ndarray, accuracy: float, palette: Palette) -> None:
    heads = np.arange(len(cut))
    axes.barh(heads, cut, color=palette.series[1], alpha=0.5, height=0.7)
    axes.axvline(accuracy, color=palette.muted, linewidth=0.8)
    for h, value in enumerate(cut):
        axes.text(0.02, h, f"{value:.1%}", va="center", fontsize=5.5)
    axes.set(xlim=(0, 1.02), ylim=(len(cut) - 0.5, -0.5))
    axes.set_title("accuracy when cut")
    axes.set_yticks([])
