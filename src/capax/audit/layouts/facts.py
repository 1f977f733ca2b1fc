"""Heads, widths, scale, positions, norm: read from the configuration or given, never guessed."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capax.audit.reading.stored import Checkpoint
from capax.errors import InputError, require

LARGEST = 2**24


@dataclass(frozen=True)
class Options:
    """Options of the user for facts that a file lacks; None: option not given."""

    family: str | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_width: int | None = None
    scale: float | None = None
    norm: str | None = None
    init_std: float | None = None
    context: int | None = None

    def __post_init__(self) -> None:
        for name in ("heads", "kv_heads", "head_width"):
            value = getattr(self, name)
            option = f"--{name.replace('_', '-')}"
            sound = value is None or 1 <= value <= LARGEST
            require(sound, option, f"a whole number from 1 to {LARGEST}", value)
        sound = self.scale is None or math.isfinite(self.scale)
        require(sound, "--scale", "a finite number", self.scale)
        sound = self.context is None or 1 <= self.context < 2**31
        require(sound, "--context", "a length from 1 to 2^31 - 1", self.context)
        sound = self.init_std is None or 0 < self.init_std < math.inf
        require(sound, "--init-std", "a number > 0", self.init_std)


@dataclass(frozen=True)
class Facts:
    """The facts above every table. width: d. limit: the longest context, None if unknown."""

    family: str
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    width: int
    scale: float
    positions: str
    norm: str
    limit: int | None = None
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


class Settings:
    """The configuration of a checkpoint and the user's options; records the source of each value.

    If both give a number, the two must be equal.
    """

    def __init__(self, checkpoint: Checkpoint, options: Options) -> None:
        config = checkpoint.config
        inner = config.get(
            "text_config"
        )  # models with several encoders keep the language part there
        self.config = {**config, **inner} if isinstance(inner, dict) else dict(config)
        self.options, self.origin = options, checkpoint.origin
        self.sources: dict[str, str] = {}

    def whole(self, name: str, *keys: str, option: str = "", default: int | None = None) -> int:
        """A positive whole number under one of `keys`, or given as `option` (`--heads`)."""
        given = getattr(self.options, option.strip("-").replace("-", "_")) if option else None
        found = self._first(keys)
        if found is not None:
            key, value = found
            sound = type(value) is int and 1 <= value <= LARGEST
            require(sound, f"{self.origin}: {key}", "a positive whole number", value)
            agree = given is None or given == value
            require(agree, option, f"{value}, as {self.origin} says ({key})", given)
            self.sources[name] = f"{self.origin}: {key}"
            return value
        if given is not None:
            self.sources[name] = option
            return given
        if default is not None:
            self.sources[name] = f"derived ({keys[0]} is absent)"
            return default
        raise InputError(self._missing(name, keys, option))

    def number(
        self, name: str, *keys: str, option: str = "", default: float | None = None
    ) -> float:
        """A finite number; as `whole`, but an option may differ from the file and then wins."""
        given = getattr(self.options, option.strip("-").replace("-", "_")) if option else None
        if given is not None:
            self.sources[name] = option
            return float(given)
        found = self._first(keys)
        if found is not None:
            sound = isinstance(found[1], int | float) and not isinstance(found[1], bool)
            sound = sound and abs(found[1]) <= sys.float_info.max
            require(sound, f"{self.origin}: {found[0]}", "a finite number", found[1])
            self.sources[name] = f"{self.origin}: {found[0]}"
            return float(found[1])
        if default is not None:
            return default
        raise InputError(self._missing(name, keys, option))

    def flag(self, key: str, default: bool) -> bool:
        """A true or false of the configuration; `default` is that of the family's own code."""
        value = self.config.get(key, default)
        require(isinstance(value, bool), f"{self.origin}: {key}", "true or false", value)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The unchecked value of `key`; None if absent."""
        value = self.config.get(key, default)
        return default if value is None else value

    def _first(self, keys: tuple[str, ...]) -> tuple[str, Any] | None:
        return next(((k, self.config[k]) for k in keys if self.config.get(k) is not None), None)

    def _missing(self, name: str, keys: tuple[str, ...], option: str) -> str:
        where = f"{self.origin} has no {' or '.join(keys)}" if self.origin else "no config.json"
        advice = f"give {option}" if option else "put the model's config.json beside the weights"
        return f"{name}: not found ({where}): {advice}"


def standard_facts(
    settings: Settings,
    family: str,
    *,
    d: tuple[str, ...] = ("hidden_size",),
    layers: tuple[str, ...] = ("num_hidden_layers",),
    heads: tuple[str, ...] = ("num_attention_heads",),
    grouped: bool = False,
    positions: str,
    norm: str,
    limit: tuple[str, ...] = ("max_position_embeddings",),
    scale: float | None = None,
    notes: tuple[str, ...] = (),
) -> Facts:
    """Facts under the usual keys. Without a key for the width of a head it is d / H, as in the
    code of these families; the shapes of the tensors are then checked against it.
    """
    width = settings.whole("width", *d)
    H = settings.whole("heads", *heads, option="--heads")
    G = settings.whole(
        "kv_heads", "num_key_value_heads", option="--kv-heads", default=H
    ) if grouped else H  # fmt: skip
    own = grouped or settings.options.kv_heads in (None, H)
    require(
        own,
        "--kv-heads",
        f"{H}: every head of {family} has its own keys and values",
        settings.options.kv_heads,
    )
    require(H % G == 0, "kv_heads", f"a divisor of {H} heads", G)
    require(width % H == 0 or "head_dim" in settings.config or settings.options.head_width,
            "heads", f"a divisor of the width {width}", H)  # fmt: skip
    k = settings.whole("head_width", "head_dim", option="--head-width", default=width // H)
    chosen = 1 / math.sqrt(k) if scale is None else scale
    if settings.options.scale is not None:
        chosen = settings.number("scale", option="--scale")
    longest = settings.options.context or next(
        (settings.config[key] for key in limit if type(settings.config.get(key)) is int), None
    )
    fits = longest is None or 1 <= longest < 2**31
    require(fits, "context", "a length from 1 to 2^31 - 1", longest)
    return Facts(
        family, settings.whole("layers", *layers), H, G, k, width, chosen, positions, norm,
        longest, notes, settings.sources,
    )  # fmt: skip
