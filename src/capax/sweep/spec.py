"""An experiment: a small TOML file that says what to try, at several scales, and nothing else.

    name = "figure2"
    claim = "the number of examples needed grows like log T"

    [task]            # fields of the task, without T, m and the seed
    [model]           # family = "transformer" and the fields of its model, without T
    [optimiser]
    [training]        # steps, evaluations, restarts

    [panels.threshold]
    T = [50, 100]
    search = { method = "adaptive", max_trials = 64 }

    [scales.paper.panels.threshold]     # laid over the tables above by --scale paper
    T = [50, 100, 200]

A panel may lay its own [task], [model], [optimiser], [training] over those of the file. Every field
is checked, also those of the family, before anything runs; the nearest valid name is offered.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from capax.data.specs import Spec
from capax.errors import InputError, require
from capax.identity import digest
from capax.sweep.search import AdaptiveSearch, GridSearch, Search

SETTINGS = ("task", "model", "optimiser", "training")
_FILE_FIELDS = ("name", "claim", *SETTINGS, "panels", "scales")
_PANEL_FIELDS = ("T", "search", "keep_parameters", "whole_curves", *SETTINGS)

Table = dict[str, Any]


class Panel(Spec):
    """One part of an experiment: the same settings at every T, searched over m.

    `keep_parameters`: the trained models stay in the store. `whole_curves`: solved runs go on to
    the last step, and every evaluation uses the whole validation set.
    """

    name: str
    T: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    search: Search
    keep_parameters: bool = False
    whole_curves: bool = False
    task: Table = Field(default_factory=dict)
    model: Table = Field(default_factory=dict)
    optimiser: Table = Field(default_factory=dict)
    training: Table = Field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.model.get("family", "transformer")

    @property
    def restarts(self) -> int:
        return self.training.get("restarts", 1)


class Experiment(Spec):
    """What one store holds: the panels of an experiment at one scale."""

    name: str
    claim: str = ""
    scale: str
    panels: tuple[Panel, ...] = Field(min_length=1)

    @property
    def digest(self) -> str:
        """Identity of everything that determines results (the wording of the claim does not)."""
        return digest(self.model_dump(mode="json", exclude={"claim"}))


def load_experiment(path: Path | str, scale: str | None = None) -> Experiment:
    """Read, merge and check an experiment file at one of its scales (the first when not said).

    Raises `InputError` naming the file and the field.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
        fields = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{source}: not a readable TOML file ({reason})") from None
    try:
        return build_experiment(fields, scale)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def build_experiment(fields: Table, scale: str | None = None) -> Experiment:
    """The experiment a parsed file describes, at `scale`."""
    check_names(fields, _FILE_FIELDS, "the experiment file")
    scales = table(fields, "scales")
    require(scales, "scales", "at least one table [scales.NAME]", fields.get("scales"))
    chosen = scale if scale is not None else next(iter(scales))
    if chosen not in scales:
        raise InputError(f"scale: unknown scale {chosen!r}{nearest(chosen, tuple(scales))}")
    over = table(scales, chosen)
    check_names(over, (*SETTINGS, "panels"), f"scales.{chosen}")
    merged = laid_over({k: v for k, v in fields.items() if k != "scales"}, over)
    panels = table(merged, "panels")
    require(panels, "panels", "at least one table [panels.NAME]", fields.get("panels"))
    return Experiment(
        name=merged.get("name", ""),
        claim=merged.get("claim", ""),
        scale=chosen,
        panels=tuple(_panel(name, table(panels, name), merged) for name in panels),
    )


def _panel(name: str, fields: Table, experiment: Table) -> Panel:
    check_names(fields, _PANEL_FIELDS, f"panels.{name}")
    own = {k: v for k, v in fields.items() if k not in SETTINGS}
    for part in SETTINGS:
        own[part] = laid_over(table(experiment, part), table(fields, part))
    own["search"] = _search(table(fields, "search"))
    return Panel(name=name, **own)


def _search(fields: Table) -> Search:
    methods: dict[str, type[Search]] = {"adaptive": AdaptiveSearch, "grid": GridSearch}
    method = fields.get("method", "adaptive")
    if method not in methods:
        raise InputError(f"search.method: unknown {method!r}{nearest(str(method), tuple(methods))}")
    return methods[method](**fields)


def laid_over(below: Table, above: Table) -> Table:
    """Tables merged field by field; everything else replaced, also a table of another method."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        both = isinstance(value, dict) and isinstance(old, dict)
        if both and value.get("method") in (None, old.get("method")):
            merged[name] = laid_over(old, value)
        else:
            merged[name] = value
    return merged


def table(fields: Table, name: str) -> Table:
    """The table called `name`; empty if there is none."""
    value = fields.get(name, {})
    require(isinstance(value, dict), name, "a table", value)
    return value


def check_names(fields: Table, known: tuple[str, ...], where: str) -> None:
    """Reject the first unknown name and offer the nearest known one."""
    for name in fields:
        if name not in known:
            raise InputError(f"{name}: unknown field of {where}{nearest(name, known)}")


def nearest(name: str, known: tuple[str, ...]) -> str:
    """`; did you mean 'x'?`, or all known names when none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
