"""Formulas become MathML when the site is built, so that they render in any browser, offline."""

import html
import re

from latex2mathml.converter import convert

SPAN = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula of the page; a formula that cannot be read stops the build."""
    return SPAN.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    source = html.unescape(match[2]).strip()
    display = "block" if source.startswith(r"\[") else "inline"
    formula = source[2:-2].strip()
    return (
        f'<span class="formula" title="{html.escape(formula)}">{convert(formula, display)}</span>'
    )
