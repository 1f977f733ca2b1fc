"""Learners by name: the zoo, and learners that the user names or passes as objects.

lanes    an architecture that the engine trains, many runs at once
plain    a learner with `fit`; runs in separate processes
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from capax.errors import InputError
from capax.learners.references import is_reference, load, source_digest
from capax.learners.streams import streams_kept

# name -> function from T and fields to the spec of an architecture, and its fixed fields
_LANES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("capax.attention.transformer:transformer_spec", {}),
    "transformer2": ("capax.attention.transformer:transformer_spec", {"layers": 2}),
    "linear_attention": ("capax.learners.zoo.linear_attention:LinearAttention", {}),
    "deep_sets": ("capax.learners.zoo.deep_sets:DeepSets", {}),
    "mlp": ("capax.learners.zoo.mlp:MLP", {}),
    "cnn": ("capax.learners.zoo.cnn:CNN", {}),
    "lstm": ("capax.learners.zoo.lstm:LSTM", {}),
    "gru": ("capax.learners.zoo.gru:GRU", {}),
    "ssm": ("capax.learners.zoo.ssm:SSM", {}),
    "mixer": ("capax.learners.zoo.mixer:Mixer", {}),
}
_PLAIN: dict[str, str] = {
    "lasso": "capax.learners.zoo.scikit:lasso",
    "ridge": "capax.learners.zoo.scikit:ridge",
    "tree": "capax.learners.zoo.scikit:tree",
    "forest": "capax.learners.zoo.scikit:forest",
    "boosting": "capax.learners.zoo.scikit:boosting",
    "neighbours": "capax.learners.zoo.scikit:neighbours",
    "version_space": "capax.learners.zoo.version_space:version_space",
}


@dataclass(frozen=True)
class Entry:
    """A learner by its name.

    `spec`: T and fields -> spec, for the engine; `reference`: the text from which any process loads
    it; `thing`: a plain learner that exists in this process only; `tuned`: it has a learning rate
    to be chosen; `source`: hash of the user's file, "" for the zoo.
    """

    name: str
    spec: Callable[..., Any] | None = field(default=None, compare=False)
    reference: str = ""
    thing: Any = field(default=None, compare=False)
    tuned: bool = False
    source: str = ""

    @property
    def in_zoo(self) -> bool:
        """Whether it comes with Capax; an object of the user may have the same name."""
        return bool(self.reference) and self.name in known_names()

    @property
    def in_lanes(self) -> bool:
        """Whether the engine trains it."""
        return self.spec is not None


def travels(entry: Entry) -> bool:
    """Whether another process finds the same learner by its name."""
    try:
        return entry.thing is None and entry_of(entry.name) == entry
    except InputError:
        return False


def known_names() -> tuple[str, ...]:
    """The names of the zoo."""
    return (*_LANES, *_PLAIN)


def entry_of(learner: Any, name: str | None = None) -> Entry:
    """The learner of this name or reference, or of this object; an entry is returned unchanged.

    Raises `InputError` for an unknown name (with the nearest one), a file that cannot be loaded, or
    an object that cannot be fitted.
    """
    if isinstance(learner, Entry):
        return learner
    if not isinstance(learner, str):
        return _of_object(learner, name or getattr(learner, "__name__", type(learner).__name__))
    if learner in _LANES:
        module, fixed = _LANES[learner]
        spec = lambda **fields: _named(module)(**fixed, **fields)  # noqa: E731
        return Entry(learner, spec=spec, reference=module, tuned=True)
    if learner in _PLAIN:
        return Entry(learner, reference=_PLAIN[learner])
    if is_reference(learner):
        return _of_reference(learner, name or learner)
    from difflib import get_close_matches

    near = get_close_matches(learner, known_names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known_names())}"
    raise InputError(f"learner: unknown {learner!r}; {hint}")


def _named(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _of_reference(reference: str, name: str) -> Entry:
    with streams_kept(reference):
        thing, source = load(reference), source_digest(reference)
        kind = _kind(thing)
    if kind == "module":
        from capax.learners.factories import FromFactory

        def spec(**fields: Any) -> Any:
            return FromFactory(architecture=reference, source=source, **fields)

        return Entry(name, spec=spec, reference=reference, tuned=True, source=source)
    return Entry(name, reference=reference, tuned=kind == "torch", source=source)


def _of_object(thing: Any, name: str) -> Entry:
    kind = _kind(thing)
    if kind == "module":
        from capax.learners.factories import FromFactory, remember

        token = remember(thing, name)
        return Entry(name, spec=lambda **f: FromFactory(architecture=token, **f), tuned=True)
    return Entry(name, thing=thing, tuned=kind == "torch")


def _kind(thing: Any) -> str:
    """module (JAX), torch or plain; factories are called once, at a small T, to find out."""
    from capax.learners.factories import kind_of

    return kind_of(thing)
