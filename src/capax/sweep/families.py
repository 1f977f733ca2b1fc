"""Families of learners: the one place where a sweep meets what it trains.

A family turns a panel's settings into trials and offers a learner for them. A new architecture
joins by `family = "mine.py:build"` in an experiment file (`capax.learners`); what needs more than
a learner joins by `register_family("name", family)`. Searches, stores and runners do not change. A
family needs three methods:

    trial(panel, T, m, index) -> Trial      settings checked, `trial_id` a hash of all that matters
    learner(panel, T) -> Learner            pulls trials while it has room, yields outcomes
    prepare(panel, T)                       what can be done ahead in another thread; may do nothing

and may have a fourth, `m_range(panel, T)`, where some m can have no training set. One that trains
step by step, and ends runs as the panel's `whole_curves` and `stop_memorised` say, declares
`trains_in_steps = True`; elsewhere these two are refused.

What goes wrong in one trial is that trial's business: `Outcome(trial, solved=False, runs=(),
reason="...")` keeps the sweep going and the reason in the store. An error that is raised ends the
sweep, except `InfeasibleError`, which ends the panel's work at this T and is noted there.
"""

import importlib
from typing import Protocol, runtime_checkable

from capax.errors import InputError, inside, require, shown
from capax.foreign import one_line
from capax.learners.names import entry_of, known_names
from capax.learners.references import is_reference
from capax.sweep.simulated import SimulatedLearner, SimulatedSpec, SimulatedTrial
from capax.sweep.spec import SETTINGS, Experiment, Panel, check_names, nearest
from capax.sweep.tasks import largest_m
from capax.sweep.trial import Learner, Trial


@runtime_checkable
class Family(Protocol):
    """What a sweep needs to know about a kind of learner."""

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        """The trial number `index` at (T, m). Raises `InputError` for impossible settings."""
        ...

    def learner(self, panel: Panel, T: int) -> Learner:
        """A learner for all trials of this panel at this T."""
        ...

    def prepare(self, panel: Panel, T: int) -> None:
        """What can be done ahead, in another thread: compile. May do nothing."""
        ...


@runtime_checkable
class Ranged(Protocol):
    """A family that knows which m make sense; those without this method take any."""

    def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
        """The least and the largest m to ask for at T (`None`: no largest). Must be repeatable."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """A family that heeds `whole_curves` and `stop_memorised`; those without this do not."""

    trains_in_steps: bool


class SimulatedFamily:
    """Learners with a known success curve: [model] holds the fields of `SimulatedSpec`."""

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        for part in ("task", "optimiser"):
            check_names(getattr(panel, part), (), f"{part} (a simulated learner has none)")
        check_names(panel.training, ("restarts",), "training")
        with inside("model."):
            learner = SimulatedSpec(**{k: v for k, v in panel.model.items() if k != "family"})
            learner.centre(T)
        seed = panel.task_seed(index)
        spec = SimulatedTrial(learner=learner, T=T, m=m, seed=seed, restarts=panel.restarts)
        return Trial(panel.name, T, m, index, spec.trial_id, spec)

    def learner(self, panel: Panel, T: int) -> Learner:
        del panel, T
        return SimulatedLearner()

    def prepare(self, panel: Panel, T: int) -> None:
        del panel, T


_FAMILIES: dict[str, Family | str] = {
    "transformer": "capax.sweep.transformer_family:TransformerFamily",
    "simulated": SimulatedFamily(),
}
"""A name and a family, or `module:class` of one that is loaded on first use."""


def register_family(name: str, family: Family) -> None:
    """Make `family = name` known to experiment files."""
    _FAMILIES[name] = family


def family_of(panel: Panel) -> Family:
    """The family a panel names. Raises `InputError` with the nearest known name."""
    name = panel.family
    if name not in _FAMILIES:
        if not is_reference(name) and name not in known_names():
            known = (*_FAMILIES, *(n for n in known_names() if n not in _FAMILIES))
            raise InputError(f"model.family: unknown {shown(name)}{nearest(name, known)}")
        _FAMILIES[name] = _of_learner(name)
    family = _FAMILIES[name]
    if isinstance(family, str):
        module, attribute = family.split(":")
        family = getattr(importlib.import_module(module), attribute)()
        _FAMILIES[name] = family
    return family


def _of_learner(name: str) -> Family:
    """The family of one learner: the zoo's, or the user's at a reference."""
    from capax.sweep.learner_family import family_of_entry

    try:
        return family_of_entry(entry_of(name))
    except InputError as error:
        raise InputError(f"model.family: {str(error).removeprefix('learner: ')}") from None


def m_range(panel: Panel, T: int) -> tuple[int, int | None]:
    """The least and the largest m that make sense for a panel at T."""
    family = family_of(panel)
    return family.m_range(panel, T) if isinstance(family, Ranged) else (1, None)


def check_ends(panel: Panel) -> None:
    """Raise `InputError` for rules on how runs end that contradict each other, or go unheard."""
    family = family_of(panel)
    heard = isinstance(family, Stepwise) and family.trains_in_steps
    for name in ("whole_curves", "stop_memorised"):
        wanted = f"false for {shown(panel.family)}, which the engine does not train step by step"
        require(heard or not getattr(panel, name), name, wanted, True)
    wanted = "false beside whole_curves = true, which takes every run to its last step"
    require(not (panel.whole_curves and panel.stop_memorised), "stop_memorised", wanted, True)


def check_experiment(experiment: Experiment) -> None:
    """Build one trial at every corner of every panel, so that impossible settings fail first.

    Raises `InputError` naming the panel and the field.
    """
    seen: dict[str, str] = {}
    for panel in experiment.panels:
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
                    f"panels.{panel.name}: wanted settings or T of its own, got those of {other}"
                )
