"""The whole Figure 3: learning curves on the left, the attention of trained models on the right."""

from matplotlib.figure import Figure

from capax.errors import require
from capax.figures.experiments.learning_curves import LearningCurves, fill_learning_curves
from capax.figures.heads.attention_weights import AttentionMap, fill_attention_weights
from capax.figures.style import styled


def draw_curves_and_attention(
    curves: LearningCurves, maps: tuple[AttentionMap, ...], *, dark: bool = False
) -> Figure:
    """Figure 3 as one Matplotlib figure."""
    require(maps, "maps", "at least one model", maps)
    with styled(dark) as palette:
        figure = Figure(figsize=(6.4 + 4.8 * len(maps), 5.2))
        columns = figure.subfigures(1, 2, width_ratios=(6.4, 4.8 * len(maps)), squeeze=False)
        left, right = columns[0]
        fill_learning_curves(left, curves, palette)
        fill_attention_weights(right, maps, palette)
    return figure
