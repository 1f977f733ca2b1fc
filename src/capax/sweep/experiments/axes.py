"""Axes: the same experiment for several variants, each with its own name.

    [axes]
    heads = [1, 4, 16]                  # a field and its values
    "optimiser.name" = ["adam", "sgd"]  # a field whose name alone would not say where it belongs

    [axes.learner.wide]                 # or variants with names of their own and several settings
    model = { d = 128, heads = 16 }
    [axes.learner.narrow]
    model = { d = 16, heads = 2 }

The panels of the file are repeated for every combination of values: `threshold/heads=4/wide`.
"""

import itertools
import math
from typing import Any

from capax.data.task import TaskSpec
from capax.errors import InputError, require

SETTINGS = ("task", "model", "optimiser", "training")
OPTIMISER_FIELDS = (
    *("lr", "weight_decay", "b1", "b2", "eps", "momentum", "schedule", "warmup"),
    *("decay", "decayed", "clip"),
)
TRAINING_FIELDS = (
    *("steps", "eval_every", "mode", "batch_size", "restarts", "dropout", "success"),
    *("two_logits", "head_bias", "cls_position"),
)

MODEL_FIELDS = ("d", "heads", "layers", "mlp_width", "activation", "layer_norm", "positions",
                "init_scale", "normalizer", "scale")  # fmt: skip
"""The fields of the Transformer as a list: importing its spec would import JAX."""
SETTING_FIELDS = {*TaskSpec.model_fields, *OPTIMISER_FIELDS, *TRAINING_FIELDS, *MODEL_FIELDS}
MOST_VARIANTS = 1000

Table = dict[str, Any]
Variant = tuple[str, Table]
"""The name of a value on an axis (`heads=4`) and the settings that replace the file's."""


def variants(axes: Table) -> list[tuple[str, Table]]:
    """Name and settings of every combination, the last axis running fastest; one if no axes.

    Raises `InputError` for an empty axis, an unknown part, or two values with the same name.
    """
    along = [_along(axis, values) for axis, values in axes.items()]
    number = math.prod(len(values) for values in along)
    require(number <= MOST_VARIANTS, "axes", f"at most {MOST_VARIANTS} combinations", number)
    found = []
    for combination in itertools.product(*along):
        settings: Table = {}
        for _, changes in combination:
            settings = _joined(settings, changes)
        found.append(("/".join(name for name, _ in combination), settings))
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    require(twice is None, "axes", "values that differ", f"{twice} twice")
    return found


def _along(axis: str, values: Any) -> list[Variant]:
    """The values of one axis: a list of values of a field, or a table of named settings."""
    if isinstance(values, dict):
        require(values, f"axes.{axis}", "at least one table of settings", values)
        return [(name, _checked(f"axes.{axis}.{name}", table)) for name, table in values.items()]
    nonempty = isinstance(values, list) and values
    require(nonempty, f"axes.{axis}", "a list of values, or tables of settings", values)
    part, field = place(axis)
    return [(f"{field}={_written(value)}", {part: {field: value}}) for value in values]


def place(axis: str) -> tuple[str, str]:
    """The table and the field of an axis: `heads` is ("model", "heads").

    A name that is not a field of the task, the optimiser or the training belongs to the model.
    """
    part, dot, field = axis.partition(".")
    if dot:
        if part not in SETTINGS:
            raise InputError(f"axes.{axis}: wanted one of {', '.join(SETTINGS)} before the dot")
        return part, field
    require(axis != "name", "axes.name", '"optimiser.name" in quotes', axis)
    for fields, owner in (
        (("data", *TaskSpec.model_fields), "task"),
        (OPTIMISER_FIELDS, "optimiser"),
        (TRAINING_FIELDS, "training"),
    ):
        if axis in fields:
            return owner, axis
    return "model", axis


def _checked(where: str, table: Any) -> Table:
    fits = isinstance(table, dict) and all(isinstance(part, dict) for part in table.values())
    require(fits, where, "tables task, model, optimiser or training", table)
    for part in table:
        require(part in SETTINGS, where, f"tables among {', '.join(SETTINGS)}", part)
    return table


def _joined(below: Table, above: Table) -> Table:
    return {
        part: {**below.get(part, {}), **above.get(part, {})}
        for part in dict.fromkeys((*below, *above))
    }


def _written(value: Any) -> str:
    """A value as part of a name: numbers short, lists as 5-20-30."""
    if isinstance(value, list):
        return "-".join(_written(entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("/", "-")
