"""Each figure draws exactly the data it was given, in both modes and every file format."""

import dataclasses
import io

import figure_cases as cases
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from capax.errors import InputError
from capax.figures.experiments.curves_and_attention import draw_curves_and_attention
from capax.figures.experiments.learning_curves import draw_learning_curves
from capax.figures.experiments.parity_transition import (
    ParityPanel,
    ParityTransition,
    draw_parity_transition,
)
from capax.figures.experiments.threshold_scaling import draw_threshold_scaling
from capax.figures.heads.attention_weights import draw_attention_weights, image_of_weights
from capax.figures.style import DARK, LIGHT

MAPS = (cases.attention_map(6, 5), cases.attention_map(1, 7))
DRAWINGS = {
    "2": (draw_threshold_scaling, cases.threshold_scaling()),
    "3-left": (draw_learning_curves, cases.learning_curves()),
    "3-right": (draw_attention_weights, MAPS),
    "4": (draw_parity_transition, cases.parity_transition()),
}


def svg_of(figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def all_text(figure) -> str:
    """Every text of the figure, hidden ones left out."""
    from matplotlib.text import Text

    return "\n".join(t.get_text() for t in figure.findobj(Text) if t.get_visible())


def has_line(axes, x, y) -> bool:
    """Whether some line of `axes` goes through exactly these points."""
    return any(
        np.array_equal(line.get_xdata(), x) and np.array_equal(line.get_ydata(), y)
        for line in axes.lines
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", DRAWINGS)
def test_every_figure_has_the_background_of_its_mode(name, dark):
    draw, data = DRAWINGS[name]
    figure = draw(data, dark=dark)
    assert to_rgb(figure.get_facecolor()) == to_rgb((DARK if dark else LIGHT).background)


def test_threshold_figure_shows_points_intervals_laws_and_references():
    data = cases.threshold_scaling()
    figure = draw_threshold_scaling(data)
    rates, thresholds = figure.axes
    for point in data.points[:-1]:
        assert has_line(thresholds, [point.T, point.T], [point.low, point.high])
    assert has_line(thresholds, [q.T for q in data.points], [q.m_star for q in data.points])
    for curve in (*data.laws, *data.references):
        assert has_line(thresholds, curve.T, curve.m)
    for series in data.rates:
        share = np.array(series.solved) / np.array(series.total)
        assert has_line(rates, series.m, share)
    assert thresholds.get_xscale() == "log"


def test_shares_of_few_trials_are_dots_without_a_line():
    data = cases.threshold_scaling()
    few = dataclasses.replace(data.rates[0], m=(20, 30), solved=(0, 2), total=(1, 3))
    rates = draw_threshold_scaling(dataclasses.replace(data, rates=(few,))).axes[0]
    assert not has_line(rates, few.m, [0, 2 / 3])
    (dots,) = rates.collections
    small, large = dots.get_sizes()
    assert large == 3 * small


def test_the_legend_of_the_lengths_says_nothing_about_trials():
    data = cases.threshold_scaling()
    one, two = (
        dataclasses.replace(data.rates[0], T=T, total=(n, n), m=(20, 30), solved=(0, 1))
        for T, n in ((53, 2), (101, 4))
    )
    legend = (
        draw_threshold_scaling(dataclasses.replace(data, rates=(one, two))).axes[0].get_legend()
    )
    sizes = {float(handle.get_sizes()[0]) for handle in legend.legend_handles}
    assert [text.get_text() for text in legend.get_texts()] == ["53", "101"]
    assert len(sizes) == 1


def test_threshold_figure_prints_verdict_p_weights_and_trials():
    data = cases.threshold_scaling()
    text = all_text(draw_threshold_scaling(data))
    assert data.verdict in text
    assert "p = 0.7937" in text
    assert "weight 0.75" in text
    assert f"{sum(q.trials for q in data.points)} trials" in text
    assert "best learner" in text


def test_an_open_interval_ends_in_an_arrow():
    data = cases.threshold_scaling()
    thresholds = draw_threshold_scaling(data).axes[1]
    arrows = [line for line in thresholds.lines if line.get_marker() == "^"]
    assert [line.get_xdata()[0] for line in arrows] == [data.points[-1].T]


def test_one_threshold_without_laws_or_references_is_a_figure():
    data = dataclasses.replace(cases.threshold_scaling(), laws=(), references=())
    data = dataclasses.replace(data, points=data.points[:1], rates=data.rates[:1])
    assert "m*" in all_text(draw_threshold_scaling(data))


def test_learning_figure_shows_both_accuracies_of_every_run():
    data = cases.learning_curves()
    figure = draw_learning_curves(data)
    for curve in data.curves:
        assert has_line(figure.axes[0], curve.step, curve.validation_accuracy)
        assert has_line(figure.axes[0], curve.step, curve.train_accuracy)
    text = all_text(figure)
    assert "m = 199: validation 100%" in text
    assert "m = 53: validation 81.0%" in text
    assert "m* = 67" in text


def test_parity_figure_shows_loss_accuracy_and_attention_of_every_seed():
    data = cases.parity_transition()
    figure = draw_parity_transition(data)
    grid = np.array(figure.axes).reshape(3, 2)
    for column, panel in zip(grid.T, data.panels, strict=True):
        for run in panel.runs:
            assert has_line(column[0], run.step, run.loss)
            assert has_line(column[1], run.step, run.validation_accuracy)
            assert has_line(column[2], run.step, run.attention_mass)
    text = all_text(figure)
    assert "T = 11\n" in text
    assert "10 of 10 seeds solved, at steps 900 to 2700" in text
    assert "T = 13\n" in text
    assert "9 of 10 seeds solved" in text


def test_the_longest_summary_of_a_parity_stays_in_its_column():
    panel = cases.parity_transition().panels[0]
    late = dataclasses.replace(panel.runs[-1], solved_step=98_700)
    panels = (ParityPanel(11, 3, (*panel.runs, late)), ParityPanel(13, 3, (*panel.runs, late)))
    figure = draw_parity_transition(ParityTransition(panels))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = []
    for axes in figure.axes[:2]:
        note = next(t for t in axes.texts if "seeds solved" in t.get_text())
        boxes.append(note.get_window_extent(canvas.get_renderer()))
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[1].x1 < figure.bbox.x1


def test_parity_figure_without_attention_has_two_rows():
    panel = cases.parity_transition().panels[0]
    runs = tuple(dataclasses.replace(run, attention_mass=None) for run in panel.runs)
    figure = draw_parity_transition(ParityTransition((ParityPanel(panel.T, panel.s, runs),)))
    assert len(figure.axes) == 2


def test_parity_summary_when_one_or_no_seed_solves():
    panel = cases.parity_transition().panels[0]
    one = ParityPanel(panel.T, panel.s, panel.runs[:1])
    assert one.summary() == "1 of 1 seeds solved, at step 900"
    none = ParityPanel(panel.T, panel.s, (dataclasses.replace(panel.runs[0], solved_step=None),))
    assert none.summary() == "0 of 1 seeds solved"


def test_attention_image_is_the_square_root_of_the_weights():
    weights = cases.attention_map(3, 5).weights
    image = image_of_weights(weights, "#0000ff", gap=2)
    assert image.shape == (3 * 5 + 2 * 2, weights.shape[2] + 1, 4)
    for h in range(3):
        band = image[7 * h : 7 * h + 5, :, 3] ** 2
        assert np.allclose(np.delete(band, -2, axis=1), weights[h])
        assert np.all(band[:, -2] == 0)
    assert np.all(image[5:7, :, 3] == 0)


def test_attention_figure_prints_share_and_effect_of_every_head_idle_ones_too():
    text = all_text(draw_attention_weights(MAPS))
    for attention in MAPS:
        for share in attention.share:
            assert f"{share:.2f}" in text
    for head in MAPS[0].heads:
        assert head in text
    assert "+0.5" in text and "+0.0001" in text
    assert "1 head" in text


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"T": 40}, "weights"),
        ({"heads": ("head 0",)}, "heads"),
        ({"share": np.zeros(2)}, "share"),
        ({"effect": np.zeros(2)}, "effect"),
        ({"bits": np.zeros((1, 41), dtype=np.int64)}, "bits"),
        ({"support": (5, 41)}, "support"),
    ],
)
def test_attention_maps_that_do_not_fit_are_refused(change, argument):
    with pytest.raises(InputError, match=f"^{argument}: wanted"):
        dataclasses.replace(MAPS[0], **change)


def test_figures_without_data_are_refused():
    with pytest.raises(InputError, match=r"^points"):
        dataclasses.replace(cases.threshold_scaling(), points=())
    with pytest.raises(InputError, match=r"^curves"):
        dataclasses.replace(cases.learning_curves(), curves=())
    with pytest.raises(InputError, match=r"^maps"):
        draw_attention_weights(())
    with pytest.raises(InputError, match=r"^runs"):
        ParityPanel(10, 3, ())
    with pytest.raises(InputError, match=r"^panels"):
        ParityTransition(())


def test_whole_figure_3_holds_both_halves():
    figure = draw_curves_and_attention(cases.learning_curves(), MAPS)
    left, right = figure.subfigs
    assert has_line(
        left.axes[0],
        cases.learning_curves().curves[0].step,
        cases.learning_curves().curves[0].train_accuracy,
    )
    assert len(right.axes) == 4 * len(MAPS)
    with pytest.raises(InputError, match=r"^maps"):
        draw_curves_and_attention(cases.learning_curves(), ())
