"""The training of a panel's trials: as plain data, to compare two panels, and in words, for the
reader of a figure."""

from typing import Any

from capax.errors import CapaxError
from capax.sweep.experiments.spec import Panel
from capax.sweep.families.known_families import family_of

_NOT_IDENTITY = {"task": ("T", "m", "seed", "max_tries"), "model": ("T",)}


def protocol(panel: Panel) -> dict[str, Any] | None:
    """Task, model and protocol with defaults; `None` if the settings are not valid."""
    spec = _trial_fields(panel)
    if spec is None:
        return None
    for part in ("T", "m", "seed"):
        spec.pop(part, None)
    for part, names in _NOT_IDENTITY.items():
        if isinstance(spec.get(part), dict):
            spec[part] = {k: v for k, v in spec[part].items() if k not in names}
    return {"family": panel.family, **spec}


def protocol_words(panel: Panel) -> str:
    """One sentence on optimiser, regularisers and success rule; empty without training steps."""
    spec = _trial_fields(panel)
    if spec is None or "optimiser" not in spec:
        return ""
    rule, success = spec["optimiser"], spec.get("success", {"accuracy": 1.0, "when": "best"})
    logits = "two logits" if spec.get("two_logits") else "one logit"
    clip = f"gradients clipped at norm {rule['clip']:g}" if rule.get("clip") else "no clipping"
    trained = ", ".join([_update(rule), _dropped(spec.get("dropout")), clip, logits])
    share = success["accuracy"]
    right = "every answer is right" if share == 1 else f"more than {share:.2%} are right"
    right = right.replace(".00%", "%")
    when = (
        "at the end" if success["when"] == "end" else f"at a look, every {spec['eval_every']} steps"
    )
    return f"Protocol: {trained}; solved when {right} {when}."


def _update(rule: dict[str, Any]) -> str:
    names = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}
    said = f"{names[rule['name']]} at rate {rule['lr']:g}"
    coupled = rule.get("decay") == "coupled"
    if not rule["weight_decay"] or (rule["name"] != "adamw" and not coupled):
        return f"{said} without weight decay"
    where = "inside Adam" if coupled else "decoupled"
    return f"{said}, weight decay {rule['weight_decay']:g} {where}"


def _dropped(chances: dict[str, float] | None) -> str:
    kept = {name: chance for name, chance in (chances or {}).items() if chance}
    if not kept:
        return "no dropout"
    if len(kept) == 3 and len(set(kept.values())) == 1:
        return f"dropout {next(iter(kept.values())):g}"
    return "dropout " + ", ".join(f"{chance:g} ({name})" for name, chance in kept.items())


def _trial_fields(panel: Panel) -> dict[str, Any] | None:
    try:
        return family_of(panel).trial(panel, panel.T[0], 1, 0).spec.model_dump(mode="json")
    except (CapaxError, AttributeError):
        return None
