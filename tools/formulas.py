"""A Python-Markdown extension: `$..$` and `$$..$$` become drawings, the same in every browser.

A browser draws MathML well only where the system has a mathematical font: without one Chromium puts
indices on the baseline, and it shows no double-struck and calligraphic letters at all. So formulas
are drawn when the site is built, by Matplotlib, as outlines (SVG) in the colour of the text around
them; nothing is loaded by the page. The LaTeX source is the label that screen readers say and that
the pointer shows. A formula that cannot be read stops the build.

As an extension of Python-Markdown this file serves every site builder that reads Markdown with it.
"""

import re
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath

INLINE = r"(?<![\\\w$])\$(?![\s$])((?:\\.|[^\\$])+?)(?<!\s)\$(?![\w$])"
WITHIN_TEXT = r"\$\$((?:\\.|[^\\$])+?)\$\$"  # a block that continues a paragraph, as in a list
EM = 100.0  # units of a drawing per em
SIZE = 1.08  # STIX letters are smaller than those of the page
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}
POINTS = {Path.CURVE3: 2, Path.CURVE4: 3}
# Commands of LaTeX that Matplotlib knows under another name only.
OTHER_NAMES = {
    r"\\le(?![a-z])": r"\\leq", r"\\ge(?![a-z])": r"\\geq", r"\\ne(?![a-z])": r"\\neq",
    r"\\iff(?![a-z])": r"\\Leftrightarrow", r"\\implies(?![a-z])": r"\\Rightarrow",
    r"\\[lr]vert(?![a-z])": "|", r"\\big(?![a-z])": "", r"\\text(?![a-z])": r"\\mathrm",
}  # fmt: skip


class FormulaExtension(Extension):
    """Formulas in text and formulas in blocks of their own."""

    def extendMarkdown(self, md: Markdown) -> None:
        # before backslashes are read as escapes, after code in backticks is taken out
        md.ESCAPED_CHARS.append("$")
        md.inlinePatterns.register(InlineFormula(WITHIN_TEXT, md), "formula within text", 189.5)
        md.inlinePatterns.register(InlineFormula(INLINE, md), "formula", 189)
        md.parser.blockprocessors.register(BlockFormula(md.parser), "formulas", 90)


class InlineFormula(InlineProcessor):
    """`$T$` inside a line."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Element, int, int]:  # noqa: ARG002
        return drawing(m[1]), m.start(0), m.end(0)


class BlockFormula(BlockProcessor):
    """`$$` .. `$$` as a paragraph of its own, without empty lines inside."""

    def test(self, parent: Element, block: str) -> bool:  # noqa: ARG002
        return block.lstrip().startswith("$$") and block.rstrip().endswith("$$")

    def run(self, parent: Element, blocks: list[str]) -> None:
        formula = blocks.pop(0).strip().strip("$")
        place = SubElement(parent, "div", {"class": "formula", "style": "overflow-x:auto"})
        place.append(drawing(" ".join(formula.split()), display=True))


def drawing(formula: str, display: bool = False) -> Element:
    """`formula` as an SVG element as high as its letters, on the baseline of the line."""
    text = formula.replace(r"\frac", r"\dfrac") if display else formula
    for pattern, name in OTHER_NAMES.items():
        text = re.sub(pattern, name, text)
    font = FontProperties(size=EM, math_fontfamily="stix")
    try:
        width, height, depth, _, _ = MathTextParser("path").parse(f"${text}$", 72, font)
        outline = TextPath((0, 0), f"${text}$", prop=font)
    except ValueError as error:
        raise ValueError(f"the formula {formula} cannot be drawn: {error}") from None
    scale = SIZE / EM
    style = f"height:{scale * height:.3f}em;vertical-align:{-scale * depth:.3f}em;fill:currentColor"
    box = f"0 {depth - height:.1f} {width:.1f} {height:.1f}"
    about = {"class": "formula", "role": "img", "aria-label": formula}
    svg = Element("svg", {**about, "viewBox": box, "style": style})
    SubElement(svg, "title").text = formula
    SubElement(svg, "path", {"d": _path_data(outline)})
    return svg


def _path_data(outline: Path) -> str:
    """The outline in SVG's letters; y points down there."""
    parts: list[str] = []
    waiting = 0
    for (x, y), code in zip(outline.vertices, outline.codes, strict=True):
        if code == Path.CLOSEPOLY:
            parts.append("Z")
            continue
        if not waiting:
            waiting = POINTS.get(code, 1)
            parts.append(LETTERS[code])
        parts.append(f"{x:.1f} {-y:.1f}")
        waiting -= 1
    return " ".join(parts)


def makeExtension(**settings: object) -> FormulaExtension:
    """How Python-Markdown finds the extension."""
    return FormulaExtension(**settings)
