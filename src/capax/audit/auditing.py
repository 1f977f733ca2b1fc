"""From a path to an audit: open the file, recognise its layout, measure its heads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capax.audit.heads.rows import Row, head_table
from capax.audit.layouts.facts import Facts, Options
from capax.audit.layouts.table import Recognised, recognise
from capax.audit.reading.opening import open_checkpoint
from capax.errors import require

if TYPE_CHECKING:
    import pandas as pd

RIGOROUS = (
    "Rigorous, for every input: the norms, and the score radius. Before masks and softmax, no "
    "score of the head exceeds the radius in absolute value. The radius includes the key bias and "
    "all position terms. It holds at every distance, in exact arithmetic, for normalised inputs."
)
COMPARISON = (
    "A comparison, not a bound: ratios to random initialisation, and capacity shares (Corollary "
    "4.5 with the heads of all layers side by side)."
)
VACUOUS = (
    "Vacuous: a generalization bound for the whole network. Composing layers (Theorem 4.7) "
    "multiplies Lipschitz constants; a number of this size says nothing about the error, so none "
    "is printed."
)
READINGS = (RIGOROUS, COMPARISON, VACUOUS)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Audit:
    """The audit of one checkpoint. rows: one per head. text: the findings on a text, if any."""

    path: str
    format: str
    facts: Facts
    random_start: str
    rows: tuple[Row, ...]
    not_counted: tuple[str, ...] = ()
    text: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data: facts at the top, `rows` for pandas."""
        facts = {f.name: getattr(self.facts, f.name) for f in fields(self.facts)}
        payload = {
            "file": self.path,
            "format": self.format,
            **facts,
            "notes": list(self.facts.notes),
            "sources": dict(self.facts.sources),
            "random_start": self.random_start,
            "not_counted": list(self.not_counted),
            "readings": list(READINGS),
            "rows": [dict(row) for row in self.rows],
        }
        return payload if self.text is None else payload | {"text": dict(self.text)}

    def frame(self) -> "pd.DataFrame":
        """The rows as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))


def audit(
    path: Path | str,
    *,
    text: Path | str | None = None,
    split: str = "tokenizer",
    lines: bool = False,
    take_out: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Audit:
    """What the attention heads of a checkpoint can hold and, with text, what they do.

    path: a file or a folder. text: a text file the model then reads (needs `capax[audit]`); split:
    "tokenizer", or "spaces" for text already in pieces; lines: every line is read alone; take_out:
    heads whose output is set to zero, one at a time, to see how the loss rises (by default 24, or
    all of up to 48; 0: none).
    options: fields of `Options` (heads, kv_heads, head_width, scale, norm, family, init_std,
    context) for facts that the file lacks. Raises InputError for input that cannot be used.

    Examples:
        >>> import capax
        >>> try:
        ...     capax.audit("no/such/folder")
        ... except capax.InputError as error:
        ...     print(str(error).split(":")[0])
        no/such/folder
    """
    known = {field.name for field in fields(Options)}
    unknown = sorted(set(options) - known)
    require(not unknown, "options", f"names among {', '.join(sorted(known))}", unknown)
    require(take_out is None or take_out >= 0, "take_out", "a number of heads >= 0", take_out)
    require(take_out is None or text is not None, "take_out", "a text for the model to read", text)
    recognised = recognise(open_checkpoint(path), Options(**options))
    if text is None:
        return measured(recognised, progress)
    from capax.audit.text.findings import text_findings
    from capax.audit.text.refusals import check_text

    check_text(recognised, Path(text), split=split, lines=lines)
    found = measured(recognised, progress)
    done = text_findings(recognised, Path(text), split=split, lines=lines, take_out=take_out,
                         progress=progress)  # fmt: skip
    rows = tuple(row | done.rows[row["layer"], row["head"]] for row in found.rows)
    return replace(found, rows=rows, text=done.about)


def measured(recognised: Recognised, progress: Progress | None = None) -> Audit:
    """The part of an audit that needs only the weights."""
    table = head_table(recognised, None if progress is None else _labelled(progress, "layers"))
    return Audit(
        path=str(recognised.checkpoint.path),
        format=recognised.checkpoint.format,
        facts=replace(recognised.facts, sources=dict(recognised.settings.sources)),
        random_start=table.start.text,
        rows=table.rows,
        not_counted=table.unplaced,
    )


def _labelled(progress: Progress, label: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(label, done, total)
