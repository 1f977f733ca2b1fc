"""From a store to Figure 3, right: the attention of models whose parameters were kept.

The examples are the first ones of the validation set, without selection; shares and effects are
measured on more of them.
"""

import tempfile
from pathlib import Path

import numpy as np

from capax.attention.checkpoint import load
from capax.attention.transformer import Transformer
from capax.data.task import TaskSpec, draw_support, labels, validation_inputs
from capax.errors import InputError
from capax.figures.heads.attention_weights import AttentionMap
from capax.figures.heads.head_dependence import head_dependence
from capax.figures.stored.runs import StoredRun, panels_of, stored_runs
from capax.sweep.storage.store import Store

MEASURED = 512
_ROWS = 100  # rows of examples in a picture, shared by the heads; one head has 100, as in the paper
_LEAST_EXAMPLES = 6
_MOST_EXAMPLES = 100


def attention_maps(store: Store) -> tuple[AttentionMap, ...]:
    """One map for every panel that kept parameters, models with more heads first.

    Shows the first solved run of a panel, or the first run if no run was solved. Raises
    `InputError` if no parameters were kept.
    """
    chosen = [_first(store, panel.name) for panel in panels_of(store, "attention")]
    maps = [_map(store, run) for run in chosen if run is not None]
    if not maps:
        raise InputError(f"{store.path}: no run kept its parameters, which Figure 3 needs")
    return tuple(sorted(maps, key=lambda attention: -len(attention.heads)))


def _first(store: Store, panel: str) -> StoredRun | None:
    runs = [run for run in stored_runs(store, panel) if store.parameters(run.run_id) is not None]
    return min(runs, key=lambda run: run.outcome != "solved", default=None)


def _map(store: Store, run: StoredRun) -> AttentionMap:
    task = TaskSpec(**run.spec["task"])
    support = draw_support(task)
    f = task.rule.on(support, task.T)
    X = validation_inputs(task.T, task.probability, MEASURED, task.alphabet)
    found = head_dependence(stored_model(store, run.run_id), X, labels(f, X), support)
    order = np.argsort(-found.effect, kind="stable")
    layers = 1 + max(layer for layer, _ in found.heads)
    examples = int(np.clip(_ROWS // len(order), _LEAST_EXAMPLES, _MOST_EXAMPLES))
    return AttentionMap(
        run_id=run.run_id,
        T=task.T,
        m=run.m,
        support=tuple(sorted(support)),
        heads=tuple(head_name(found.heads[i], layers) for i in order),
        weights=found.weights[order, :examples],
        bits=X[:examples].astype(np.int64),
        share=found.share[order],
        effect=found.effect[order],
        accuracy=found.accuracy,
    )


def head_name(head: tuple[int, int], layers: int = 1) -> str:
    """The name of a (layer, head) in a picture; without the layer if there is only one."""
    layer, h = head
    return f"head {h}" if layers == 1 else f"layer {layer + 1}, head {h}"


def stored_model(store: Store, run_id: str) -> Transformer:
    """The final model of a run. Raises `InputError` if its parameters were not kept."""
    tensors = store.parameters(run_id)
    if tensors is None:
        raise InputError(f"{store.path}: the parameters of run {run_id[:12]} were not kept")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(tensors)
        model, _ = load(path)
    if not isinstance(model, Transformer):
        raise InputError(f"{store.path}: wanted a Transformer, got {type(model).__name__}")
    return model
