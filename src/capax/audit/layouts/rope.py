"""Rotary frequencies from a configuration, old keys and new, as `transformers` computes them.

Some kinds of scaling also multiply every rotated q and k by a factor ("attention factor"), and the
scores by its square. Some change the frequencies with the length of the context.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from capax.audit.layouts.attention_layer import Rotary
from capax.audit.layouts.facts import Settings
from capax.errors import require

Theta = Float[np.ndarray, "planes"]
FACTORS_IN_A_TENSOR = "rope_freqs.weight"  # used by llama.cpp alone, to stretch frequencies


def rotary(
    settings: Settings, k: int, *, kind: str | None = None, theta: float | None = None,
    part: float = 1.0,
) -> tuple[Rotary, str]:  # fmt: skip
    """The rotation and its description, which names its unknown parts.

    kind: key of `rope_parameters` for models with one set per kind of layer. theta: replaces the
    base of the configuration. part: default share of the coordinates that are rotated.
    """
    parameters = _parameters(settings, kind, theta)
    base = theta if theta is not None else parameters.get("rope_theta", settings.get("rope_theta"))
    base = settings.get("rotary_emb_base") if base is None else base
    sound = isinstance(base, int | float) and math.isfinite(base) and base > 0
    require(sound, "rope_theta", "the base of the rotary frequencies in the configuration", base)
    share = float(
        parameters.get("partial_rotary_factor", settings.get("partial_rotary_factor", part))
    )
    scaling = parameters.get("rope_type", parameters.get("type"))
    if scaling == "proportional":
        return _proportional(float(base), k, share, parameters)
    width = settings.get("rope_width") or int(k * share)
    fits = type(width) is int and 0 < width <= k and width % 2 == 0
    require(fits, "rotary width", f"an even number up to {k}", width)
    plain = float(base) ** (-np.arange(0, width, 2) / width)
    contexts, factor, words = _scaled(scaling, plain, float(base), parameters, settings)
    turning = f"rotary, base {base:g}" + ("" if width == k else f", {width} of {k} coordinates")
    return Rotary(
        width // 2, contexts, settings.get("rope_pairs", "halves"), factor
    ), turning + words


def _parameters(settings: Settings, kind: str | None, theta: float | None) -> dict[str, Any]:
    parameters = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    require(isinstance(parameters, dict), "rope_parameters", "a JSON object", parameters)
    if kind is not None and isinstance(parameters.get(kind), dict):
        return parameters[kind]
    return {} if theta is not None else parameters  # a base of its own comes without scaling


def _scaled(
    scaling: Any, theta: Theta, base: float, parameters: dict[str, Any], settings: Settings
) -> tuple[tuple[tuple[float, Theta], ...], float | None, str]:
    """Frequencies by length of the context, the factor of q and k, and a description."""
    if settings.get("model_type") == "phi3" and scaling in ("su", "yarn"):  # its older names
        scaling = "longrope"
    match scaling:
        case None | "default":
            return ((math.inf, theta),), 1.0, ""
        case "linear":
            factor = _number(parameters, "factor")
            return ((math.inf, theta / factor),), 1.0, f", stretched {factor:g} times (linear)"
        case "llama3":
            return ((math.inf, _llama3(theta, parameters, settings)),), 1.0, ", stretched (llama3)"
        case "dynamic":
            longest = settings.whole("longest context", "max_position_embeddings")
            words = f", stretched in contexts beyond {longest} (dynamic)"
            return ((float(longest), theta),), 1.0, words
        case "yarn":
            stretched, factor = _yarn(theta, base, parameters, settings)
            words = f", stretched (yarn), q and k times {factor:.4g}"
            return ((math.inf, stretched),), factor, words
        case "longrope":
            contexts, factor = _longrope(theta, parameters, settings)
            words = f", stretched in contexts beyond {contexts[0][0]:g} (longrope), q and k times "
            return contexts, factor, f"{words}{factor:.4g}"
        case _ if scaling == FACTORS_IN_A_TENSOR:
            words = f", stretched by {FACTORS_IN_A_TENSOR}, which is not supported: no W_QK_F_max"
            return (), 1.0, words
    words = f", scaling of type {str(scaling)[:40]!r} not supported: no score radius, no W_QK_F_max"
    return (), None, words


def _number(parameters: dict[str, Any], name: str, default: float | None = None) -> float:
    value = parameters.get(name)
    value = default if value is None else value
    sound = isinstance(value, int | float) and math.isfinite(value) and value > 0
    require(sound, f"rope_parameters: {name}", "a number > 0", value)
    return float(value)  # pyrefly: ignore[bad-argument-type]


def _original(parameters: dict[str, Any], settings: Settings) -> float:
    """The context of pretraining: from the configuration, the parameters, or the longest one."""
    name = "original_max_position_embeddings"
    inside = parameters.get(name, settings.get("max_position_embeddings"))
    return _number({name: settings.get(name, inside)}, name)


def _stretch(parameters: dict[str, Any], settings: Settings, original: float) -> float:
    longest = settings.get("max_position_embeddings", original)
    return _number(parameters, "factor", longest / original)


def _llama3(theta: Theta, parameters: dict[str, Any], settings: Settings) -> Theta:
    """Llama 3.1: long waves are stretched by `factor`, short ones kept, others interpolated."""
    names = ("factor", "low_freq_factor", "high_freq_factor")
    factor, low, high = (_number(parameters, name) for name in names)
    turns = _original(parameters, settings) * theta / (2 * math.pi)
    blend = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - blend) * theta / factor + blend * theta


def _yarn(
    theta: Theta, base: float, parameters: dict[str, Any], settings: Settings
) -> tuple[Theta, float]:
    """Planes with many turns in the original context are kept, slow ones stretched."""
    original = _original(parameters, settings)
    factor, width = _stretch(parameters, settings, original), 2 * len(theta)

    def plane(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = (plane(_number(parameters, name, default))
                 for name, default in (("beta_fast", 32.0), ("beta_slow", 1.0)))  # fmt: skip
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = high + 0.001 if low == high else high
    ramp = np.clip((np.arange(len(theta)) - low) / (high - low), 0.0, 1.0)

    def mscale(weight: float = 1.0) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    over, under = parameters.get("mscale"), parameters.get("mscale_all_dim")
    usual = mscale(over) / mscale(under) if over and under else mscale()
    return theta * (1 - ramp) + theta / factor * ramp, _number(
        parameters, "attention_factor", usual
    )


def _longrope(
    theta: Theta, parameters: dict[str, Any], settings: Settings
) -> tuple[tuple[tuple[float, Theta], ...], float]:
    """One set of divisors for contexts up to the original one, another for longer contexts."""
    original = _original(parameters, settings)
    factor = _stretch(parameters, settings, original)
    sets = []
    for name in ("short_factor", "long_factor"):
        values = parameters.get(name)
        sound = isinstance(values, list) and len(values) == len(theta)
        sound = sound and all(isinstance(v, int | float) and v > 0 for v in values)
        require(sound, f"rope_parameters: {name}", f"{len(theta)} numbers > 0", values)
        sets.append(theta / np.asarray(values, np.float64))
    usual = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    contexts = ((original, sets[0]), (math.inf, sets[1]))
    return contexts, _number(parameters, "attention_factor", usual)


def _proportional(
    base: float, k: int, share: float, parameters: dict[str, Any]
) -> tuple[Rotary, str]:
    """Planes over the whole head; only the first `part` of them are rotated."""
    turning = int(share * k // 2)
    theta = np.zeros(k // 2)
    theta[:turning] = base ** (-np.arange(0, 2 * turning, 2) / k) / _number(
        parameters, "factor", 1.0
    )
    words = f"rotary, base {base:g}, {2 * turning} of {k} coordinates (proportional)"
    return Rotary.plain(theta), words
