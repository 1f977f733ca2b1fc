"""Every field of an experiment file: types and defaults from the specs, meanings from here.

A field that is not listed here is explained by `Field(description=...)` in its spec. The page
`experiment_files` of the docs and the template of `capax new` are made from this list; a test fails
when a spec has a field without a meaning.
"""

from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.sweep.experiments.axes import SETTINGS
from capax.sweep.experiments.spec import PANEL_FIELDS, Panel
from capax.sweep.searching.search import AdaptiveSearch, GridSearch
from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec

REQUIRED, NONE = "required", "none"
TASK, MODEL, OPTIMISER, TRAINING = "[task]", "[model]", "[optimiser]", "[training]"
TOP, PANEL = "top of the file", "[panels.NAME]"
ADAPTIVE, GRID = 'search, method = "adaptive"', 'search, method = "grid"'
_SPECS: dict[str, tuple[type[BaseModel], tuple[str, ...]]] = {
    TASK: (TaskSpec, ("T", "m", "seed")),
    MODEL: (TransformerSpec, ("T", "alphabet")),
    OPTIMISER: (OptimiserSpec, ()),
    TRAINING: (TrialSpec, ("task", "model", "optimiser")),
    PANEL: (Panel, tuple(set(Panel.model_fields) - set(PANEL_FIELDS) | {"search", *SETTINGS})),
    ADAPTIVE: (AdaptiveSearch, ()),
    GRID: (GridSearch, ()),
}
"""The table of a spec's fields in a file, and the fields that a sweep sets by itself."""

# meaning, and an example if the default is not clear
_MEANINGS: dict[str, dict[str, tuple[str, str]]] = {
    TASK: {
        "function": ("the rule to learn: a formula or a short name", '"maj(x1, x5, x9)"'),
        "alphabet": ("symbols that a token can be; with more than two p must be \"uniform\" and "
                     "reject_ambiguous false", "2"),
        "p": ('P(bit = 1); "balanced" makes both labels equally likely', "0.5"),
        "support": ("relevant positions: at random, side by side, as in the formula, or "
                    "a list of positions", "[2, 3, 10]"),
        "noise": ("chance that a training label is flipped", "0.1"),
        "validation_size": ("examples on which a run must be right to count as solved", "1000"),
        "reject_ambiguous": ("redraw training sets that several placements of the rule explain",
                             "false"),
        "max_tries": ("training sets drawn before giving up", "100"),
    },
    MODEL: {
        "d": ("width of a token", "32"),
        "heads": ("attention heads; their number divides d", "4"),
        "layers": ("layers", "2"),
        "mlp_width": ("hidden units of each MLP", "64"),
        "activation": ("activation of the MLP", '"relu"'),
        "layer_norm": ("LayerNorm before every part", "false"),
        "positions": ("position codes", '"trainable"'),
        "init_scale": ("standard deviation of the initial weights", "0.1"),
        "normalizer": ("from scores to attention weights", '"sparsemax"'),
        "scale": ('factor on the scores: 1/sqrt(k), or 1 as in the paper', '"paper"'),
    },
    OPTIMISER: {
        "name": ("update rule", '"sgd"'),
        "lr": ("learning rate", "0.003"),
        "weight_decay": ("decoupled weight decay, for adamw", "0.01"),
        "b1": ("Adam's decay of the mean", "0.9"),
        "b2": ("Adam's decay of the square", "0.99"),
        "eps": ("Adam's epsilon", "1e-8"),
        "momentum": ("momentum of sgd", "0.0"),
        "schedule": ("learning rate over the run: constant, linear to 0, or half a cosine to 0",
                     '"cosine"'),
        "warmup": ("first steps, in which the learning rate grows from 0", "100"),
        "decay": ("weight decay beside the gradient step, or inside the gradient (adam only)",
                  '"decoupled"'),
        "decayed": ("which parameters decay: all, or the weights of linear maps", '"weights"'),
        "clip": ("largest norm of a gradient; larger ones are scaled down", "1.0"),
    },
    TRAINING: {
        "steps": ("steps of a run", "400"),
        "eval_every": ("steps between two evaluations; divides steps", "50"),
        "mode": ("the same training set at every step, or fresh examples", '"online"'),
        "batch_size": ("examples per step of online training", "128"),
        "dropout": ("chances that a number is set to 0 in training", "{ attention = 0.1 }"),
        "success": ("when a run is solved: accuracy above this share (1: every row right), at the "
                    "best evaluation or at the end", '{ accuracy = 0.99, when = "end" }'),
        "two_logits": ("one output per label, as in the paper's code", "true"),
        "head_bias": ("a bias in the read-out", "false"),
        "cls_position": ("a position code for [CLS] too", "true"),
        "restarts": ("runs of a trial, each from new weights; one solved run is enough", "1"),
    },
    PANEL: {
        "T": ("context lengths", "[100, 300, 1000]"),
        "keep_parameters": ("keep the trained models in the store, for `capax decompile`", "true"),
        "whole_curves": ("train solved runs to the last step", "true"),
        "stop_memorised": ("end a run that memorised its sample without finding the rule", "true"),
        "progress": ("record measures of hidden progress at every evaluation (default: if "
                     "training draws fresh samples)", "true"),
        "give_up_below": ("end a run when its chance of being solved, by the alarm that reads its "
                          "progress, is below this (0: never)", "0.05"),
        "reference": ("a reference of the same experiment, for T that are not trained", '"paper"'),
    },
    ADAPTIVE: {
        "method": ("trials at the most informative m, until the interval of m* is narrow", ""),
        "m_low": ("smallest number of examples to try", "20"),
        "m_high": ("largest number of examples to try", "2000"),
        "batch": ("trials of one round", "16"),
        "min_trials": ("trials before the search may end", "32"),
        "max_trials": ("trials after which it ends", "64"),
        "precision": ("wanted ratio of the interval's ends", "1.5"),
        "step": ("spacing of the tried m, in log m", "0.1"),
        "target": ("success rate that defines m*", "0.5"),
        "at": ("settings for single T", "{ 1000 = { m_low = 40, max_trials = 24 } }"),
    },
    GRID: {
        "method": ("every m of a list", ""),
        "m": ("numbers of examples", "[20, 40, 80]"),
        "trials": ("trials at every m", "10"),
    },
}  # fmt: skip


@dataclass(frozen=True)
class FileField:
    """One field: its table, its type, its default and its meaning."""

    place: str
    name: str
    kind: str
    default: str
    meaning: str
    example: str


def file_fields() -> list[FileField]:
    """All fields of experiment files, in the order of a file."""
    whole, text = "whole number", "text"
    fields = [
        FileField(TOP, "name", text, "name of the file", "name of the experiment", '"figure2"'),
        FileField(TOP, "claim", text, '""', "the claim that the experiment tests", '"log T"'),
        FileField(TOP, "seed", whole, "0", "another seed repeats it with fresh data", "1"),
        FileField(TASK, "data", "text", NONE, "an .npz file with your own examples, instead of "
                  "a function", '"mine.npz"'),
        FileField(MODEL, "family", text, '"transformer"', "the learner: a name of `capax card`, "
                  "`file.py:name` or an installed class; the fields below are fields of "
                  "`transformer`", '"mine.py:build"'),
    ]  # fmt: skip
    for place, (spec, without) in _SPECS.items():
        for name, info in spec.model_fields.items():
            if name not in without:
                meaning, example = _MEANINGS[place].get(name, (info.description or "", ""))
                kind, default = _kind(info.annotation), _default(info)
                fields.append(FileField(place, name, kind, default, meaning, example or default))
    places = (TOP, *_SPECS)
    return sorted(fields, key=lambda field: places.index(field.place))


def as_toml(value: Any) -> str:
    """A plain value as it is written in a file."""
    if isinstance(value, BaseModel):
        return as_toml(value.model_dump())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{k} = {as_toml(v)}' for k, v in value.items())} }}"
    return str(value)


def _default(info: FieldInfo) -> str:
    value = info.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return REQUIRED
    return NONE if value is None else as_toml(value)


def _kind(annotation: Any) -> str:
    """A type in words."""
    plain = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    if annotation in plain:
        return plain[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is Literal:
        return " or ".join(as_toml(part) for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    return f"list of {_kind(parts[0])}s" if origin is tuple else "table"
