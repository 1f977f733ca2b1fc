"""Families of learners by name, and the check of an experiment before it runs.

To add an architecture, write `family = "mine.py:build"` in an experiment file (`capax.learners`).
To add another kind of family, call `register_family("name", family)`. Searches, stores and runners
do not change.
"""

from typing import Any

from capax.errors import InputError, require, shown
from capax.foreign import one_line
from capax.learners.names import Entry, entry_of, known_names
from capax.learners.references import is_reference
from capax.reading import reference_folders
from capax.sweep.experiments.spec import SETTINGS, Experiment, Panel, nearest
from capax.sweep.experiments.tasks import largest_m
from capax.sweep.families.family import Family, Ranged, Stepwise
from capax.sweep.families.simulated import SimulatedFamily

_FAMILIES: dict[str, Family] = {"simulated": SimulatedFamily()}


def register_family(name: str, family: Family) -> None:
    """Make `family = name` known to experiment files."""
    _FAMILIES[name] = family


def family_of(panel: Panel) -> Family:
    """The family of a panel. Raises `InputError` with the nearest known name."""
    name = panel.family
    if name not in _FAMILIES:
        if not is_reference(name) and name not in known_names():
            first, *others = known_names()
            known = tuple(dict.fromkeys((first, "simulated", *others, *_FAMILIES)))
            raise InputError(f"model.family: unknown {shown(name)}{nearest(name, known)}")
        try:
            _FAMILIES[name] = family_of_entry(entry_of(name))
        except InputError as error:
            raise InputError(f"model.family: {str(error).removeprefix('learner: ')}") from None
    return _FAMILIES[name]


def family_of_entry(entry: Entry) -> Family:
    """The family of one learner: the engine for architectures, processes for other learners."""
    if entry.in_lanes:
        from capax.sweep.families.lanes_family import LanesFamily  # loads JAX

        return LanesFamily(entry)
    from capax.sweep.families.plain_family import PlainFamily

    return PlainFamily(entry)


def m_range(panel: Panel, T: int) -> tuple[int, int | None]:
    """The least and the largest useful m of a panel at T."""
    family = family_of(panel)
    return family.m_range(panel, T) if isinstance(family, Ranged) else (1, None)


def check_ends(panel: Panel) -> None:
    """Raise `InputError` for rules that end runs but contradict each other or have no effect."""
    family = family_of(panel)
    heard = isinstance(family, Stepwise) and family.trains_in_steps
    for name in ("whole_curves", "stop_memorised", "progress", "give_up_below"):
        value, unset = _beside_its_default(panel, name)
        wanted = f"{unset} for {shown(panel.family)}, which the engine does not train step by step"
        require(heard or not value, name, wanted, value)
    for name in ("stop_memorised", "give_up_below"):
        value, unset = _beside_its_default(panel, name)
        wanted = f"{unset} beside whole_curves = true, which trains every run to its last step"
        require(not (panel.whole_curves and value), name, wanted, value)
    wanted = f"0 for {shown(panel.family)}: the alarm reads attention and positions"
    reads = panel.family in ("transformer", "transformer2") or not panel.give_up_below
    require(reads, "give_up_below", wanted, panel.give_up_below)
    drops = panel.stop_memorised and panel.training.get("dropout")
    wanted = "false with dropout (many such runs find the rule after memorising)"
    require(not drops, "stop_memorised", wanted, True)


def _beside_its_default(panel: Panel, name: str) -> tuple[Any, str]:
    """A rule of a panel, and the words for its absence."""
    value = getattr(panel, name)
    return value, "0" if isinstance(value, float) else "false"


def check_experiment(experiment: Experiment) -> None:
    """Build one trial at every corner of every panel, so that impossible settings fail first.

    Raises `InputError` naming the panel and the field.
    """
    seen: dict[str, str] = {}
    for panel in experiment.panels:
        _check_reference(panel)
        for T in panel.T:
            try:
                check_ends(panel)
                trial = family_of(panel).trial(panel, T, largest_m(panel, T), 0)
            except InputError as error:
                where = f"panels.{one_line(panel.name)} at T = {T}"
                raise InputError(f"{where}: {error}") from None
            settings = str([getattr(panel, part) for part in SETTINGS]) + f" T={T}"
            other = seen.setdefault(settings, panel.name)
            if other != panel.name or trial.T != T:
                raise InputError(
                    f"panels.{panel.name}: has the settings and T of {other}; change or remove one"
                )


def _check_reference(panel: Panel) -> None:
    """Check before the training that the named reference exists."""
    files = [folder / f"{panel.reference}.sqlite" for folder in reference_folders()]
    if panel.reference and not any(file.is_file() for file in files):
        name, got = one_line(panel.name), shown(panel.reference)
        raise InputError(
            f"panels.{name}.reference: wanted a name that `capax reference` lists, got {got}"
        )
