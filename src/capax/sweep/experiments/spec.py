"""An experiment: a small TOML file with the settings of its trials. The smallest one:

    function = "and3"
    family = "transformer"
    T = [100, 300, 1000]

The same with more details, and at several scales:

    name = "figure2"
    claim = "the number of examples needed grows like log T"
    seed = 0            # another seed repeats it with fresh supports, examples and weights

    [task]            # fields of the task, without T, m and the seed
    [model]           # family = "transformer" and the fields of its model, without T
    [optimiser]
    [training]        # steps, evaluations, restarts
    [axes]            # heads = [1, 4, 16]: the same for every variant (`axes`)

    [panels.threshold]
    T = [50, 100]
    search = { method = "adaptive", max_trials = 64 }

    [scales.large.panels.threshold]     # laid over the tables above by --scale large
    T = [50, 100, 200]

`data = "mine.npz"` instead of a function trains on examples of your own (`capax.data.file_task`);
its path starts at the folder of the experiment file, and T is the length of its rows.

A panel may replace fields of [task], [model], [optimiser], [training]. Every field is checked, also
fields of the family, before a trial runs; an error offers the nearest valid name.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from capax.data.file_task import described
from capax.data.spec_base import Spec
from capax.errors import InputError, inside, require, shown
from capax.foreign import one_line
from capax.identity import digest
from capax.learners.references import file_digest
from capax.reading import read_toml
from capax.sweep.experiments.axes import SETTING_FIELDS, SETTINGS, place, variants
from capax.sweep.searching.search import AdaptiveSearch, GridSearch, Search

PANEL_FIELDS = (
    *("T", "search", "keep_parameters", "whole_curves", "stop_memorised", "progress"),
    *("give_up_below", "reference"),
    *SETTINGS,
)
_SHORT = {"function": "task", "data": "task", "family": "model"}
"""Fields that are allowed at the top of a file, and their tables."""
_FILE_FIELDS = (
    *("name", "claim", "seed", *_SHORT, "T", "search"),
    *(*SETTINGS, "axes", "panels", "scales"),
)
_ONLY_PANEL, _ONLY_SCALE = "threshold", "default"
_RESTARTS = {"transformer": 5}
"""Restarts of a trial by default: five in the paper's protocol, else one."""
_FORMER_SCALES = {"paper": "grid"}
"""Former names of scales of shipped experiments; the scale of the paper is `published`."""
_LATER_FIELDS = (
    *("seed", "stop_memorised", "examine_from", "in_pieces", "source", "give_up_below"),
)
"""Fields that the first stores did not have: in a panel's identity unless at their default."""
SEEDS_APART = 10**9
"""More than the trials of any search at one m, so experiments of two seeds share no trial."""

Table = dict[str, Any]


class Panel(Spec):
    """One part of an experiment: the same settings at every T, searched over m.

    `keep_parameters`: the trained models stay in the store. `whole_curves`: solved runs continue to
    the last step, and every evaluation uses the whole validation set. `stop_memorised`: a run that
    has memorised its sample and found no rule (training loss below 0.02, less than 85 % of the
    validation rows right) ends as failed instead of continuing to its last step.

    `examine_from`: with this share of the first validation rows right, a run is evaluated on all
    rows; below 1 for success rules below 100 %. `in_pieces`: gradients are summed over pieces of
    the sample, so that one program serves every m. `progress`: measures of hidden progress are
    recorded (default: if training draws fresh samples). No result depends on them.
    `give_up_below`: a run ends as failed if its chance of being solved within its steps, predicted
    by the alarm of the package, is below this; the next restart takes its slot.

    `reference`: name of a reference of the same experiment. Its thresholds are added at T that are
    not trained here, and laws are fitted to both. `source`: hash of the user's file, for
    `family = "mine.py:build"`.
    """

    name: str
    T: tuple[Annotated[int, Field(ge=1, lt=2**31)], ...] = Field(min_length=1, max_length=1000)
    search: Search = AdaptiveSearch()
    keep_parameters: bool = False
    whole_curves: bool = False
    stop_memorised: bool = False
    examine_from: float = Field(default=1.0, ge=0, le=1)
    in_pieces: bool = False
    progress: bool | None = None
    give_up_below: float = Field(default=0.0, ge=0, lt=1)
    reference: str = ""
    source: str = ""
    seed: int = Field(default=0, ge=0, lt=10**6)
    task: Table = Field(default_factory=dict)
    model: Table = Field(default_factory=dict)
    optimiser: Table = Field(default_factory=dict)
    training: Table = Field(default_factory=dict)

    @model_validator(mode="after")
    def _family_and_restarts(self) -> "Panel":
        """Check the two settings that are needed before a family checks all of them."""
        family, restarts = self.model.get("family", ""), self.training.get("restarts", 1)
        require(isinstance(family, str), "model.family", "a name in quotes", family)
        whole = isinstance(restarts, int) and not isinstance(restarts, bool) and restarts >= 1
        require(whole, "training.restarts", "a whole number >= 1", restarts)
        return self

    @property
    def family(self) -> str:
        return self.model.get("family", "transformer")

    @property
    def restarts(self) -> int:
        return self.training.get("restarts", _RESTARTS.get(self.family, 1))

    @property
    def measures_progress(self) -> bool:
        """Whether hidden progress is recorded: as set in the panel, or if samples are fresh."""
        return self.training.get("mode") == "online" if self.progress is None else self.progress

    def task_seed(self, index: int) -> int:
        """The seed of trial `index`: it draws support and examples."""
        return self.seed * SEEDS_APART + index

    @property
    def identity(self) -> Table:
        """The identity of trials: task, model and protocol, but not T, the search for m or the
        reference.

        A later field counts if it is not at its default: older stores keep their identity.
        """
        fields = self.model_dump(mode="json", exclude={"T", "search", "reference", "progress"})
        for name in _LATER_FIELDS:
            if fields[name] == type(self).model_fields[name].default:
                del fields[name]
        if "content" in self.task:  # the content of the file counts, not its path
            del fields["task"]["data"]
        return fields


class Experiment(Spec):
    """The content of one store: the panels of an experiment at one scale."""

    name: str
    claim: str = ""
    scale: str
    panels: tuple[Panel, ...] = Field(min_length=1)

    @property
    def digest(self) -> str:
        """The identity of an experiment: the identities of its panels, and its name."""
        return digest({"name": self.name, "panels": [panel.identity for panel in self.panels]})


def load_experiment(
    path: Path | str, scale: str | None = None, *, seed: int | None = None
) -> Experiment:
    """Read, merge and check an experiment file at one of its scales (the first by default).

    `seed` replaces the seed of the file.

    Raises `InputError` naming the file and the field.
    """
    source = Path(path)
    fields = read_toml(source)
    with inside(f"{source}: "):
        over = {} if seed is None else {"seed": seed}
        given = {"name": source.stem, **fields, **over}
        return build_experiment(given, scale, folder=source.parent)


def build_experiment(
    fields: Table, scale: str | None = None, *, folder: Path = Path()
) -> Experiment:
    """The experiment of a parsed file, at `scale`; data files are in `folder`."""
    for name in fields:
        if name in SETTING_FIELDS - {"m", *_FILE_FIELDS}:
            part = place(name)[0]
            raise InputError(f"{name}: belongs below a line [{part}], not above the tables")
    check_names(fields, _FILE_FIELDS, "the experiment file")
    scales = table(fields, "scales") or {_ONLY_SCALE: {}}
    chosen = scale if scale is not None else next(iter(scales))
    chosen = chosen if chosen in scales else _FORMER_SCALES.get(chosen, chosen)
    if chosen not in scales:
        raise InputError(f"scale: unknown scale {shown(chosen)}{nearest(chosen, tuple(scales))}")
    with inside("scales."):
        over = table(scales, chosen)
    check_names(over, (*SETTINGS, "axes", "panels"), f"scales.{chosen}")
    merged = laid_over(_spelt_out({k: v for k, v in fields.items() if k != "scales"}), over)
    return Experiment(
        name=merged.get("name", ""),
        claim=merged.get("claim", ""),
        scale=chosen,
        panels=tuple(_panels(merged, folder)),
    )


def _spelt_out(fields: Table) -> Table:
    """A file with its short forms moved to their tables: `T` becomes the panel of a small file."""
    full = {k: v for k, v in fields.items() if k not in (*_SHORT, "T", "search")}
    for name, part in _SHORT.items():
        if name in fields:
            require(name not in table(full, part), name, f"once, got it in [{part}] too", name)
            full[part] = {**table(full, part), name: fields[name]}
    if {"T", "search", "data"} & set(fields) and ("panels" not in fields or "T" in fields):
        require("panels" not in fields, "T", "either at the top or in [panels.NAME]", "both")
        if "T" in fields:
            _lengths(fields["T"])  # here it is called T, below panels.threshold.T
        full["panels"] = {_ONLY_PANEL: {k: fields[k] for k in ("T", "search") if k in fields}}
    return full


def _panels(experiment: Table, folder: Path) -> Iterator[Panel]:
    """Every panel in every variant; a single panel has the names of its variants."""
    panels = table(experiment, "panels")
    require(panels, "panels", "T = [...], or at least one table [panels.NAME]", None)
    combinations = variants(table(experiment, "axes"))
    for name in panels:
        with inside("panels."):
            fields = table(panels, name)
        for variant, settings in combinations:
            lone = variant and len(panels) == 1
            full = variant if lone else "/".join(filter(None, (name, variant)))
            yield _panel(full, fields, experiment, settings, folder)


def _panel(name: str, fields: Table, experiment: Table, variant: Table, folder: Path) -> Panel:
    check_names(fields, PANEL_FIELDS, f"panels.{name}")
    own = {k: v for k, v in fields.items() if k not in SETTINGS}
    common = {part: table(experiment, part) for part in SETTINGS}
    with inside(f"panels.{one_line(name)}."):
        for part in SETTINGS:
            own[part] = laid_over(common[part], table(fields, part))
            own[part] = laid_over(own[part], table(variant, part))
        if "T" in own:
            own["T"] = _lengths(own["T"])
        if "data" in own["task"]:
            own |= _of_file(own["task"], own.get("T"), folder)
        own["search"] = _search(table(fields, "search"))
        own["seed"] = experiment.get("seed", 0)
        own["source"] = file_digest(own["model"].get("family", ""))
        return Panel(name=name, **own)


def _lengths(T: Any) -> tuple[int, ...]:
    """One T or several. A number in quotes is an error here."""
    several = tuple(T) if isinstance(T, list | tuple) else (T,)
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in several)
    require(whole, "T", "whole numbers, such as 100 or [10, 100, 1000]", T)
    return several


def _of_file(task: Table, T: Any, folder: Path) -> Table:
    """Task and T of a panel whose examples come from a file."""
    check_names(task, ("data", "validation_size"), "a task with data of its own")
    require(isinstance(task["data"], str), "data", "the name of an .npz file", task["data"])
    found = described((folder / task["data"]).absolute(), task.get("validation_size"))
    length = found.pop("T")
    fits = T is None or list(T) == [length]
    require(fits, "T", f"{length}, the bits of {task['data']}, or no T at all", T)
    return {"task": found, "T": (length,)}


def _search(fields: Table) -> Search:
    methods: dict[str, type[Search]] = {"adaptive": AdaptiveSearch, "grid": GridSearch}
    method = fields.get("method", "adaptive")
    if not isinstance(method, str) or method not in methods:
        hint = nearest(str(method), tuple(methods))
        raise InputError(f"search.method: unknown {shown(method)}{hint}")
    with inside("search."):
        return methods[method](**fields)


def laid_over(below: Table, above: Table) -> Table:
    """Tables merged field by field; other values are replaced, also a table of another method."""
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
    """The table called `name`; empty if it is missing."""
    value = fields.get(name, {})
    require(isinstance(value, dict), one_line(name), "a table", value)
    return value


def check_names(fields: Table, known: tuple[str, ...], where: str) -> None:
    """Reject the first unknown name and offer the nearest known one."""
    for name in fields:
        if name not in known:
            hint = nearest(name, known)
            raise InputError(f"{one_line(name)}: unknown field of {one_line(where)}{hint}")


def nearest(name: str, known: tuple[str, ...]) -> str:
    """`; did you mean 'x'?`, or all known names if no name is near."""
    near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
