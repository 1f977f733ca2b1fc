"""Rotary frequencies from a configuration, old keys and new."""

import math
from typing import Any

import numpy as np

from capax.audit.layouts.attention import Rotary
from capax.audit.layouts.facts import Settings
from capax.errors import require

PLAIN = ("default", None)


def rotary(
    settings: Settings, k: int, *, kind: str | None = None, theta: float | None = None,
    part: float = 1.0,
) -> tuple[Rotary | None, str]:  # fmt: skip
    """The rotation and its description; None where the frequencies are of a kind not read here.

    kind: key of `rope_parameters` for models with one set per kind of layer. theta: base that
    overrules. part: share of the head's coordinates that turn, unless the configuration says.
    """
    parameters = _parameters(settings, kind)
    base = theta if theta is not None else parameters.get("rope_theta", settings.get("rope_theta"))
    base = settings.get("rotary_emb_base") if base is None else base
    sound = isinstance(base, int | float) and math.isfinite(base) and base > 0
    require(sound, "rope_theta", "the base of the rotary frequencies in the configuration", base)
    share = parameters.get("partial_rotary_factor", settings.get("partial_rotary_factor", part))
    width = settings.get("rope_width") or int(k * float(share))
    fits = type(width) is int and 0 < width <= k and width % 2 == 0
    require(fits, "rotary width", f"an even number up to {k}", width)
    scaling = parameters.get("rope_type", parameters.get("type"))
    theta_i = float(base) ** (-np.arange(0, width, 2) / width)
    turning = f"rotary, base {base:g}" + ("" if width == k else f", {width} of {k} coordinates")
    if scaling == "linear":
        theta_i = theta_i / float(parameters.get("factor", 1.0))
    elif scaling == "llama3":
        theta_i = _llama3(theta_i, parameters)
    elif scaling not in PLAIN:
        return None, f"{turning}, frequencies of type {scaling!r} not read: D = 0 only"
    pairs = settings.get("rope_pairs", "halves")
    return Rotary(theta_i, pairs), turning


def _parameters(settings: Settings, kind: str | None) -> dict[str, Any]:
    parameters = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if kind is not None and isinstance(parameters.get(kind), dict):
        return parameters[kind]
    require(isinstance(parameters, dict), "rope_parameters", "a JSON object", parameters)
    return parameters


def _llama3(theta: np.ndarray, parameters: dict[str, Any]) -> np.ndarray:
    """Llama 3.1: long waves are stretched by `factor`, short ones kept, between them a blend."""
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    values = [parameters.get(name) for name in names]
    whole = all(isinstance(v, int | float) and v > 0 for v in values)
    require(whole, "rope_parameters", f"the numbers {', '.join(names)}", values)
    factor, low, high, original = (float(v) for v in values)  # pyrefly: ignore[bad-argument-type]
    turns = original * theta / (2 * math.pi)
    blend = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - blend) * theta / factor + blend * theta
