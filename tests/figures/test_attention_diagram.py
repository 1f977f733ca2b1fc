"""Figure 1: the numbers in it are those of the modules, and the picture shows them."""

import json
from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from capax.boolean import parse
from capax.errors import InputError
from capax.figures.heads.attention_diagram import (
    OUTPUT,
    TOKEN,
    draw_attention_diagram,
    edge_color,
)
from capax.figures.heads.attention_examples import attention_panels, bits_from, cls_scalar
from capax.figures.style import DARK, LIGHT, check_destination, palette_for, save, styled
from typed_command import typed


@cache
def panels():
    """The three panels, computed when a test first asks for them."""
    return attention_panels()


def softmax_rows(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("number", range(3))
def test_blue_edges_follow_from_grey_ones(number):
    panel = panels()[number]
    np.testing.assert_allclose(panel.weights, softmax_rows(panel.scores), atol=1e-6)


def test_what_the_heads_look_for():
    head, layer, scalar = panels()
    assert head.weights[0].argmax() == 2  # z asks for a one at position 2
    assert [row.argmax() for row in layer.weights[1:]] == list(range(5))  # the token before
    assert scalar.weights[0].argmax() == 1  # the relevant zero


@pytest.mark.parametrize("formula, T", [("x1 & x3", 5), ("x0 ^ x2", 4), ("maj(x2,x7,x30)", 40)])
def test_the_cls_panel_is_the_users_function(formula, T):
    f = parse(formula, T)
    for bits in (bits_from(None, T), (0,) * T, (1,) * T):
        panel = cls_scalar(bits, formula)
        value = float(panel.value.strip("$").removeprefix("f="))
        assert (value > 0) == bool(f(np.array(bits)))
        assert ("true" in panel.remark) == bool(f(np.array(bits)))
        assert panel.weights.sum() == pytest.approx(1.0, abs=1e-5)  # also with many in one token
        assert {f"$x_{{{i}}}$" for i in f.support} <= set(panel.tokens)


def test_positions_are_counted_from_zero():
    head, layer, scalar = panels()
    for panel in (head, layer, scalar):
        assert panel.tokens[0] == "$x_{0}$"
    assert layer.outputs[0] == "$y_0$"


@pytest.mark.parametrize("dark", [False, True])
def test_edges_are_as_dark_as_their_weights(dark):
    figure = draw_attention_diagram(panels(), dark=dark)
    palette = palette_for(dark)
    assert to_rgb(figure.get_facecolor()) == to_rgb(palette.background)
    ax, weights = figure.axes[0], panels()[0].weights[0]
    drawn = {
        line.get_xdata()[0]: line.get_color()
        for line in ax.lines
        if tuple(line.get_ydata()) == (TOKEN, OUTPUT)
    }
    assert len(drawn) == len(weights)
    for t, weight in enumerate(weights):
        assert drawn[t] == edge_color(weight, palette.series[0], palette.background)


def test_stronger_is_darker():
    lightness = [sum(to_rgb(edge_color(w, LIGHT.series[0], "#ffffff"))) for w in (0, 0.3, 0.6, 1)]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 4
    assert edge_color(1.0, LIGHT.ink, "#ffffff") == LIGHT.ink


@pytest.fixture(scope="module")
def drawn_twice():
    return [draw_attention_diagram(panels()[:1]) for _ in range(2)]


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_formats_by_suffix_and_the_same_bytes_twice(tmp_path, drawn_twice, suffix, start):
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for figure, path in zip(drawn_twice, (first, second), strict=True):
        save(figure, path)
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


def contrast(a: str, b: str) -> float:
    """Contrast ratio of WCAG 2."""

    def luminance(color):
        c = np.array(to_rgb(color))
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    light, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_every_colour_can_carry_text(palette):
    for color in (palette.ink, palette.muted, *palette.series):
        assert contrast(color, palette.background) >= 4.5


def test_style_leaves_matplotlib_as_it_was():
    import matplotlib

    before = matplotlib.rcParams["font.size"], matplotlib.rcParams["figure.facecolor"]
    with styled(dark=True) as palette:
        assert palette is DARK
        assert matplotlib.rcParams["figure.facecolor"] == DARK.background
    assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["figure.facecolor"]) == before


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: check_destination("figure.gif"), "out"),
        (lambda: check_destination("no/such/folder/figure.png"), "no/such/folder"),
        (lambda: attention_panels("x0", (1, 0)), "bits"),
        (lambda: attention_panels("x9"), "x9"),
        (lambda: bits_from("10a", None), "bits"),
        (lambda: bits_from("101", 4), "bits"),
        (lambda: bits_from(None, 2), "T"),
    ],
)
def test_mistakes_are_named(make, named):
    with pytest.raises(InputError, match=f"^{named}"):
        make()


def test_the_command(tmp_path, warm_commands):
    target = tmp_path / "fig1.svg"
    done = warm_commands.capax("figure", "1", "--out", target, "--dark", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    np.testing.assert_allclose(told["data"]["tf-scalar"]["weights"], panels()[2].weights, atol=1e-6)
    assert target.read_text().startswith("<?xml")


def test_the_command_refuses_in_one_line(tmp_path):
    done = typed("figure", "9", "--out", str(tmp_path / "x.png"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: number: wanted") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ("1", "--store", "x.sqlite"),
            "store: wanted no store: Figure 1 needs no results, got ['x.sqlite']",
        ),
        (("2", "--function", "x0"), "function: wanted Figure 1"),
        (("1", "--bits", "12"), "bits: wanted zeros and ones"),
    ],
)
def test_options_that_do_not_belong_are_named(tmp_path, arguments, named):
    done = typed("figure", *arguments, "--out", str(tmp_path / "x.png"))
    assert done.returncode == 2 and done.stderr.startswith(f"error: {named}")
