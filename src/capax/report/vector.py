"""Printed figures inside the page: their SVG, with colours that follow light and dark.

A figure is drawn once, in the light palette and without a background. Every colour of the palette
is then replaced by the CSS variable of the same role, which the page defines for both modes.
"""

import io
import re

from matplotlib import rc_context
from matplotlib.figure import Figure

from capax.figures.style import DARK, LIGHT, Palette, no_glyph_warnings, plain_texts

_ROLES = ("background", "ink", "muted", "line", "panel")


def css_variables() -> str:
    """The palettes as CSS variables, the dark one under `prefers-color-scheme: dark`."""
    return (
        f":root {{ color-scheme: light dark; {_declarations(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_declarations(DARK)} }} }}\n"
    )


def inline_svg(figure: Figure, name: str) -> str:
    """`figure` as an `<svg>` element; `name` makes its ids differ from those of other figures."""
    return _recoloured(_plain_svg(figure, name, "none"))


def inline_pair(light: Figure, dark: Figure, name: str) -> str:
    """The same figure drawn for both modes; the page shows one of them.

    For figures with mixed colours, which are not variables, or with formulas, which need their own
    fonts and are drawn as outlines.
    """
    shown = _plain_svg(light, f"{name}-light", "path"), _plain_svg(dark, f"{name}-dark", "path")
    return f'<div class="for-light">{shown[0]}</div><div class="for-dark">{shown[1]}</div>'


def _plain_svg(figure: Figure, name: str, letters: str) -> str:
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": letters, "svg.hashsalt": name}), no_glyph_warnings():
        plain_texts(figure).savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _with_own_ids(_without_prolog(buffer.getvalue()), name)


def _without_prolog(text: str) -> str:
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    opening = text[: text.index(">") + 1]
    slim = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    return slim.replace("<svg ", '<svg role="img" ', 1) + text[len(opening) :].rstrip()


def _with_own_ids(text: str, name: str) -> str:
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    return re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)


def _recoloured(text: str) -> str:
    for variable, color in _colors(LIGHT).items():
        text = re.sub(rf"(: ?){re.escape(color)}\b", rf"\1var(--{variable})", text, flags=re.I)
    return text


def _declarations(palette: Palette) -> str:
    return " ".join(f"--{name}: {color};" for name, color in _colors(palette).items())


def _colors(palette: Palette) -> dict[str, str]:
    """Role -> colour; the series are numbered from 1."""
    roles = {role: getattr(palette, role) for role in _ROLES}
    return roles | {f"series-{k}": color for k, color in enumerate(palette.series, start=1)}
