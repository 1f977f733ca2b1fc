"""Interactive charts as plain data, drawn in the browser by `assets/chart.js`.

A chart has two axes (`label`, `short` for read-outs, `log`, `toggle`), dotted horizontal `rules`,
and series: lists `x` and `y` of equal length, optional `low`, `high`, `notes` and `traces` (the
filter of the runs table when a point is clicked; `trace` if it is the same for all points), a
`color` that names a CSS variable, and flags.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from capax.errors import counted
from capax.figures.experiments.learning_curves import LearningCurves
from capax.figures.experiments.parity_transition import ParityPanel, ParityRun
from capax.figures.experiments.reference_band import COLOR, Context
from capax.figures.experiments.threshold_scaling import (
    TARGET,
    ThresholdPoint,
    ThresholdScaling,
    deserves_line,
    is_wide,
    strengths,
)
from capax.figures.heads.attention_weights import AttentionMap

Chart = dict[str, Any]
_LENGTHS: Chart = {"label": "context length T", "short": "T", "log": True, "toggle": True}
_EXAMPLES: Chart = {
    "label": "training examples m",
    "short": "m",
    "log": False,
    "toggle": True,
    "from": 0,
}
_COLORS = 6


def _trials(point: ThresholdPoint) -> str:
    return counted(point.trials, "trial") + (
        "" if point.status == "closed" else f", {point.status}"
    )


def _measured(
    name: str, points: Sequence[ThresholdPoint], color: str, traces: list[Chart] | None
) -> Chart:
    return _series(
        name,
        [q.T for q in points],
        [q.m_star for q in points],
        color,
        low=[q.low for q in points],
        high=[q.high for q in points],
        marks=True,
        notes=[_trials(q) for q in points],
        traces=traces,
    )


def threshold_chart(data: ThresholdScaling, *, id: str, trace: Chart) -> Chart:
    """Figure 2: m*(T) with intervals, laws and references."""
    own = [q for q in data.points if not q.reference]
    others = [q for q in data.points if q.reference]
    thresholds = [_measured("measured m*", own, "series-1", [{**trace, "T": q.T} for q in own])]
    if others:
        thresholds.append(_measured("m* of the reference", others, f"series-{COLOR + 1}", None))
    laws = [
        _series(
            f"{law.name}, weight {law.weight:.2f}",
            law.T,
            law.m,
            "series-1" if rank == 0 else "muted",
            low=law.low if rank == 0 else None,
            high=law.high if rank == 0 else None,
            line=True,
            dash="" if rank == 0 else f"{6 - rank} {2 + rank}",
        )
        for rank, law in enumerate(data.laws)
    ]
    references = [
        _series(ref.name, ref.T, ref.m, f"series-{k}", line=True, marks=len(ref.T) == 1)
        for k, ref in enumerate(data.references, start=2)
    ]
    return _chart(
        id,
        "Examples needed for 80% success against the context length T",
        x={**_LENGTHS, "ticks": [q.T for q in data.points]},
        y=_EXAMPLES,
        series=[*thresholds, *laws, *references, *(_context(data.context) if data.context else [])],
        hover="x",
    )


def comparison_chart(curves: list[tuple[str, ThresholdScaling, Chart]], *, id: str) -> Chart:
    """m*(T) of several curves (name, data, filter of their runs), each in its own colour."""
    series = []
    for rank, (name, data, trace) in enumerate(curves):
        color, points = f"series-{rank % _COLORS + 1}", data.points
        series.append(_measured(name, points, color, [{**trace, "T": q.T} for q in points]))
        if data.laws:
            law = data.laws[0]
            series.append(_series(f"{name}, {law.name}", law.T, law.m, color, line=True))
    ticks = sorted({q.T for _, data, _ in curves for q in data.points})
    return _chart(
        id,
        "Examples needed for 80% success against the context length T, all curves",
        x={**_LENGTHS, "ticks": ticks},
        y=_EXAMPLES,
        series=series,
        hover="x",
    )


def _context(context: Context) -> list[Chart]:
    """Results of others, labelled as such: the reference band and the published points."""
    series, band = [], context.band
    if band is not None and band.m.size:
        color = f"series-{COLOR + 1}"
        options = {"low": band.low, "high": band.high, "line": True, "dash": "2 3"}
        series.append(_series(band.name, band.T, band.m, color, **options))
    if context.published:
        points = context.published
        bars = {"low": [q.low for q in points], "high": [q.high for q in points]}
        T, m = [q.T for q in points], [q.m_star for q in points]
        series.append(_series("published (one deviation)", T, m, "ink", marks=True, **bars))
    return series


def rates_chart(data: ThresholdScaling, *, id: str, trace: Chart) -> Chart:
    """The success rates that Figure 2 is computed from, one series per T."""
    series = [
        _series(
            f"T = {rates.T}",
            rates.m,
            [k / n for k, n in zip(rates.solved, rates.total, strict=True)],
            "series-1",
            strength=round(strength, 2),
            line=deserves_line(rates),
            marks=True,
            radius=3.5,
            notes=[f"{k} of {n} trials" for k, n in zip(rates.solved, rates.total, strict=True)],
            traces=[{**trace, "T": rates.T, "m": m} for m in rates.m],
        )
        for rates, strength in zip(data.rates, strengths(len(data.rates)), strict=True)
    ]
    wide = is_wide([m for rates in data.rates for m in rates.m])
    return _chart(
        id,
        "Share of trials that succeed against m",
        x={"label": "training examples m", "short": "m", "log": wide, "toggle": True},
        y={"label": "share of trials that succeed", "short": "share", "log": False, "from": 0},
        series=series,
        rules=[{"y": TARGET, "label": "80%"}],
    )


def learning_chart(data: LearningCurves, *, id: str) -> Chart:
    """Figure 3, left."""
    series = []
    for rank, m in enumerate(data.sample_sizes, start=1):
        for curve in (c for c in data.curves if c.m == m):
            trace = {"text": curve.run_id}
            for kind, accuracy, dash in (
                ("validation", curve.validation_accuracy, ""),
                ("training", curve.train_accuracy, "5 4"),
            ):
                name = f"m = {m}, {kind}"
                options = {"line": True, "dash": dash, "faint": bool(dash), "trace": trace}
                series.append(_series(name, curve.step, accuracy, f"series-{rank}", **options))
    return _chart(
        id,
        f"Training and validation accuracy at T = {data.T}",
        x={"label": "step", "short": "step", "log": False, "from": 0},
        y={"label": "accuracy", "short": "accuracy", "log": False},
        series=series,
        hover="x",
    )


def parity_charts(panel: ParityPanel, *, id: str) -> list[Chart]:
    """Figure 4 at one T: loss, accuracy and, if measured, attention on the secret bits."""
    wanted = [
        ("loss", "loss (nats)", {"y": math.log(2), "label": "chance: log 2"}),
        ("validation_accuracy", "validation accuracy", {"y": 0.5, "label": "chance"}),
        (
            "attention_mass",
            "attention on the secret bits",
            {"y": panel.s / (panel.T + 1), "label": "uniform attention"},
        ),
    ]
    charts = []
    for field, label, rule in wanted:
        series = [s for k, run in enumerate(panel.runs) if (s := _seed(run, k, field)) is not None]
        if series:
            name = f"T = {panel.T}: {label}"
            x = {"label": "step", "short": "step", "log": False, "from": 0}
            y = {"label": name, "short": field, "log": False}
            charts.append(_chart(f"{id}-{field}", name, x=x, y=y, series=series, rules=[rule]))
    return charts


def _seed(run: ParityRun, k: int, field: str) -> Chart | None:
    values = getattr(run, field)
    if values is None:
        return None
    solved = run.solved_step is not None
    return _series(
        f"seed {k + 1}",
        run.step,
        values,
        "series-1" if solved else "series-2",
        group="solved" if solved else "not solved",
        line=True,
        faint=True,
        trace={"text": run.run_id},
    )


def attention_heatmap(attention: AttentionMap, *, id: str) -> Chart:
    """Figure 3, right, for one model; drawn by `assets/heatmap.js`."""
    heads = [
        {
            "name": name,
            "share": float(attention.share[k]),
            "effect": float(attention.effect[k]),
            "weights": np.round(attention.weights[k], 4).tolist(),
        }
        for k, name in enumerate(attention.heads)
    ]
    bits = attention.bits.tolist()
    return {"id": id, "T": attention.T, "support": attention.support, "bits": bits, "heads": heads}


def _chart(
    id: str,
    title: str,
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    series: list[Chart],
    rules: list[dict[str, Any]] | None = None,
    hover: str = "nearest",
) -> Chart:
    return {
        "id": id,
        "title": title,
        "x": x,
        "y": y,
        "series": series,
        "rules": rules or [],
        "hover": hover,
    }


def _series(name: str, x: Any, y: Any, color: str, **options: Any) -> Chart:
    """A series without empty options, numbers rounded to six digits."""
    values = {"x": _numbers(x), "y": _numbers(y), "color": color, "name": name}
    for key, option in options.items():
        if key in ("low", "high") and option is not None:
            values[key] = _numbers(option)
        elif option:
            values[key] = option
    return values


def _numbers(values: Any) -> list[float | None]:
    return [None if v is None or not math.isfinite(v) else float(f"{float(v):.6g}") for v in values]
