"""Does a store belong to an experiment? The kind of its trials decides, not the search for m.

Task, model and protocol of every panel must be the same as in the store. The values of T, the
settings of the search, new panels and the claim may change: known trials are kept, and count.
"""

from typing import Any

from capax.sweep.experiments.spec import Experiment, Panel


def joined(old: Experiment, new: Experiment, known_T: dict[str, set[int]]) -> Experiment:
    """The experiment of a store after `new` is added: also the panels and T of earlier ones.

    `known_T`: by panel, the values of T with finished trials.
    """
    asked = {panel.name: panel for panel in new.panels}
    panels = [_with_known(panel, known_T.get(panel.name, set())) for panel in new.panels]
    for panel in old.panels:
        if panel.name not in asked and known_T.get(panel.name):
            panels.append(panel)
    return new.model_copy(update={"panels": tuple(panels)})


def _with_known(panel: Panel, known: set[int]) -> Panel:
    return panel.model_copy(update={"T": (*panel.T, *sorted(known - set(panel.T)))})


def difference(old: Experiment, new: Experiment) -> str | None:
    """The first difference of two experiments, as `panels.x.training.restarts: 3 became 4`.

    `None` when results of the one are results of the other.
    """
    if old.name != new.name:
        return f"name: {old.name} became {new.name}"
    before = {panel.name: panel for panel in old.panels}
    for panel in new.panels:
        if panel.name in before:
            edit = _edit(_without_source(before[panel.name]), _without_source(panel))
            if edit:
                return f"panels.{panel.name}.{edit}"
            known = {_source(before[panel.name]), _source(panel)} - {""}
            if len(known) == 2:
                return f"{panel.family} has changed since its trials were made"
    return None


def _source(panel: Panel) -> str:
    """The hash of the user's file; "" in older stores, which did not keep it."""
    return panel.source or panel.model.get("source", "")


def _without_source(panel: Panel) -> dict[str, Any]:
    fields = panel.identity
    model = {k: v for k, v in fields["model"].items() if k != "source"}
    return {k: v for k, v in fields.items() if k != "source"} | {"model": model}


def _edit(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    before, after = _flat(old), _flat(new)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            return f"{name}: {before.get(name)} became {after.get(name)}"
    return None


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for n, x in value.items() for k, v in _flat(x, f"{name}.{n}".lstrip(".")).items()}
