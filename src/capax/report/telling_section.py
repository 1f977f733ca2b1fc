"""The first section of an audit's page: the heads to look at first, and what they look at."""

from collections.abc import Mapping
from typing import Any

from capax.audit.auditing import Audit
from capax.audit.text.telling import (
    example_in_words,
    looks_in_words,
    loss_in_words,
    telling_heads,
    why_telling,
)
from capax.html import Markup, escaped
from capax.report.page import Section
from capax.report.page_tables import paragraph, table

HEADINGS = ("layer", "head", "kind", "loss without it", "looks at", "examples")


def telling_section(found: Audit) -> Section:
    """Ten heads, the words they look at and examples from the text."""
    about = found.text or {}
    shown = telling_heads(found.rows)
    rows = [
        [row["layer"], row["head"], _unbroken(row["kind"]), _unbroken(loss_in_words(row)),
         looks_in_words(row), Markup("<br>".join(map(_example, row["examples"])))]
        for row in shown
    ]  # fmt: skip
    html = paragraph(why_telling(found.rows, about)) + table(HEADINGS, "rrllll", rows)
    html += paragraph(
        "A share is the mean attention that a word gets from the kept rows, over all its "
        "occurrences. An example shows the words up to the query, the token with the largest "
        "weight, its distance, and the weight."
    )
    number = {10: "Ten", 1: "One"}.get(len(shown), str(len(shown)))
    return Section("telling", "Most telling", f"{number} heads to look at first", html)


def _example(example: Mapping[str, Any]) -> str:
    words = example["context"].strip()
    return escaped(f"…{words[-60:]} ▸ {example_in_words(example)}")


def _unbroken(text: str) -> Markup:
    return Markup(f'<span class="unbroken">{escaped(text)}</span>')
