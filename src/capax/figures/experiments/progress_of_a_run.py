"""One run: the loss stays at chance while other measures of the same network change.

Each measure has a row under the loss, with the same axis of steps. Measures that use the support
have another colour and a mark: they are not available to a user who does not know the rule.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from capax.errors import InputError
from capax.figures.style import styled
from capax.training.specs.progress_names import KNOWING

# name of the row -> series drawn in it
ROWS: dict[str, tuple[str, ...]] = {
    "loss (nats)": ("loss",),
    "accuracy": ("validation_accuracy",),
    "chance of\nbeing solved": ("chance",),
    "movement of\na position": ("position_largest", "position_typical"),
    "influence of\none position": ("influence_peak",),
    "stable rank": ("stable_rank",),
    "entropy of\nattention": ("attention_entropy",),
    "attention on\nthe rule's bits": ("attention_mass",),
    "correlation\nwith the rule": ("target_coefficient",),
}


def draw_progress(
    curves: Mapping[str, Sequence[float]],
    title: str,
    solved_step: int | None = None,
    *,
    dark: bool = False,
) -> Figure:
    """All recorded curves of one run. Raises `InputError` if no progress was recorded."""
    if "weight_movement" not in curves:
        raise InputError("run: no progress was recorded: train it with `progress = true`")
    rows = {name: [s for s in some if s in curves] for name, some in ROWS.items()}
    rows = {name: some for name, some in rows.items() if some}
    step = np.asarray(curves["step"], float)
    with styled(dark) as palette:
        figure = Figure(figsize=(6.4, 0.9 + 1.05 * len(rows)))
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, some) in zip(panels, rows.items(), strict=True):
            knows = some[0] in KNOWING
            color = palette.series[1 if knows else 0]
            for number, series in enumerate(some):
                axes.plot(step, curves[series], color=color, lw=1.3, alpha=1 - 0.55 * number)
            if solved_step is not None:
                axes.axvline(solved_step, color=palette.muted, lw=0.8, ls=":")
            axes.set_ylabel(name, fontsize="x-small", rotation=0, ha="right", va="center")
            axes.grid(visible=False, axis="x")
            if knows:
                axes.annotate("uses the rule", (1, 1), xycoords="axes fraction",
                              ha="right", va="bottom", fontsize=6, color=color)  # fmt: skip
        panels[0].set_ylim(bottom=0)
        panels[0].set_title(title, loc="left", fontsize="small")
        panels[-1].set(xlabel="step", xlim=(0, step[-1]))
        figure.subplots_adjust(left=0.2, right=0.97, bottom=0.09, top=0.94, hspace=0.25)
    return figure
