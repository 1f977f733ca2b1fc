"""Writes docs/experiment_files.md, the page with every field of an experiment file.

python tools/experiment_files.py
"""

from pathlib import Path

from capax.sweep.experiments.file_fields import file_fields

PAGE = Path(__file__).parents[1] / "docs" / "experiment_files.md"
BEGINNING = """# Experiment files

An experiment is a small TOML file for `capax sweep`. Three lines are enough:

```toml
function = "and3"
family = "transformer"
T = [100, 300, 1000]
```

`capax new experiment.toml` writes a file that runs as it is and shows every field as a comment.
`function`, `data`, `family`, `T` and `search` are allowed at the top of a file with one panel. A
panel may replace fields of `[task]`, `[model]`, `[optimiser]` and `[training]`. `[axes]` repeats
the experiment for several values (`heads = [1, 4, 16]`), and `[scales.NAME]` replaces settings for
`--scale NAME` ([experiments](guides/experiments.md)). Unknown fields are refused.

This page is made from the specifications by `python tools/experiment_files.py`.
"""


def page() -> str:
    """The page as text."""
    parts, place = [BEGINNING], ""
    for field in file_fields():
        if field.place != place:
            place = field.place
            parts.append(f"\n## {place[:1].upper()}{place[1:]}\n")
            parts.append("| field | type | default | meaning | example |\n|---|---|---|---|---|")
        cells = (f"`{field.name}`", _code(field.kind), _code(field.default), field.meaning,
                 f"`{field.name} = {field.example}`")  # fmt: skip
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _code(text: str) -> str:
    """Values as code, words as words."""
    value = text in ("true", "false") or any(c in text for c in '"{[0123456789')
    return f"`{text}`" if value else text


if __name__ == "__main__":
    PAGE.write_text(page())
