"""Mixed parity: a sparse and a dense parity agree on the training set. Which one is learned?

Training inputs are uniform among inputs with x_i ^ x_j = x_1 ^ .. ^ x_T, for a pair (i, j) that the
seed draws: the sample does not distinguish the two rules, so the answer depends on the learner. On
fresh uniform inputs the rules disagree half of the time, and the answers show the learned rule:

    sparse    at least 95 % of its answers are the pair's parity
    dense     at least 95 % are the parity of all bits
    neither   otherwise
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from capax.cards.answers.parity_rows import MixedRow
from capax.cards.protocol.matched_sizes import sizes
from capax.cards.protocol.plan import TUNING_SEEDS, Plan
from capax.data.distributions import bernoulli_rows
from capax.data.task import TaskSpec, Training, draw_support, validation_inputs
from capax.errors import require
from capax.identity import key_words
from capax.learners.adapters import fit_of
from capax.learners.fitting import Attempt, attempt
from capax.learners.isolation import Isolated
from capax.learners.names import Entry
from capax.learners.references import load
from capax.learners.setting import Setting

MIXED = "mixed"
SHORTEST = 3
"""The least T with a bit outside the pair."""
TAKEN = 0.95
_TRIALS = 4
_FRESH = 2048
_ROWS_AT_ONCE = 256  # of a forward pass
_MEMORY = 4 << 30  # bytes that a fit of a user's learner may take


class MixedParity(TaskSpec):
    """The parity of a hidden pair, from a sample on which the parity of all bits is the same."""

    sample: str = "agrees with the parity of all bits"

    def training(self) -> Training:
        """The sample: uniform, with a bit outside the pair flipped if the rules disagree."""
        pair = draw_support(self)
        key = key_words({"T": self.T, "m": self.m, "seed": self.seed}, "mixed parity")
        X = bernoulli_rows(self.m, self.T, 0.5, key=key)
        others = np.setdiff1d(np.arange(self.T), pair)
        wrong = np.flatnonzero(_parity(X) != _parity(X[:, pair]))
        X[wrong, np.random.default_rng(key).choice(others, len(wrong))] ^= 1
        return Training(pair, X, _parity(X[:, pair]), 0)

    def rules(self) -> dict[str, np.ndarray]:
        """Both rules' labels of the fresh inputs, which all seeds share."""
        X = fresh_inputs(self.T)
        return {"sparse": _parity(X[:, draw_support(self)]), "dense": _parity(X)}


def mixed_task(T: int, m: int, seed: int) -> MixedParity:
    """The task of a seed."""
    require(T >= SHORTEST, "T", f"at least {SHORTEST} for mixed parity", T)
    drawn: dict[str, Any] = {"reject_ambiguous": False, "validation_size": _FRESH}
    return MixedParity(function="xor2", T=T, m=m, p=0.5, seed=seed, **drawn)


def fresh_inputs(T: int) -> np.ndarray:
    """Uniform inputs: on half of them the rules agree."""
    return validation_inputs(T, 0.5, _FRESH)


def _parity(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_xor.reduce(bits, axis=1)


def taken(answers: np.ndarray | None, task: MixedParity) -> str:
    """sparse, dense or neither; a failed fit (None) is neither."""
    if answers is not None:
        for name, labels in task.rules().items():
            if np.mean(answers == labels) >= TAKEN:
                return name
    return "neither"


def mixed_row(plan: Plan, entry: Entry, T: int, trials: int = _TRIALS) -> MixedRow:
    """The rule that a learner learns at T from `plan.m_high` examples, over some seeds."""
    m = plan.m_high
    rate = _rate(plan, entry, T) if entry.tuned else None
    tasks = [mixed_task(T, m, seed) for seed in range(trials)]
    found = [taken(*pair) for pair in zip(_answers(plan, entry, tasks, rate), tasks, strict=True)]
    shares = {name: found.count(name) / trials for name in ("sparse", "dense", "neither")}
    return MixedRow(learner=entry.name, T=T, m=m, trials=trials, rate=rate, **shares)


def _rate(plan: Plan, entry: Entry, T: int) -> float:
    """The rate with the best accuracy where the rules agree, on fresh inputs of a tuning seed."""
    task = mixed_task(T, plan.m_high, TUNING_SEEDS)
    sparse, dense = task.rules().values()
    agree = sparse == dense

    def merit(rate: float) -> float:
        (answers,) = _answers(plan, entry, [task], rate)
        return 0.0 if answers is None else float(np.mean((answers == sparse)[agree]))

    return max(plan.rates, key=merit)


def _answers(
    plan: Plan, entry: Entry, tasks: list[MixedParity], rate: float | None
) -> list[np.ndarray | None]:
    """The answers on the fresh inputs after training on each task; None if a fit failed."""
    lr = plan.rates[0] if rate is None else rate
    if entry.in_lanes:
        return _trained(plan, entry, tasks, lr)
    return [
        made.answers[-1] if len(made.answers) else None for made in _fits(plan, entry, tasks, lr)
    ]


def _trained(
    plan: Plan, entry: Entry, tasks: list[MixedParity], lr: float
) -> list[np.ndarray | None]:
    """By the engine, all tasks in one call."""
    from capax.training import OptimiserSpec, TrialSpec, train

    assert entry.spec is not None
    T = tasks[0].T
    model = entry.spec(T=T, **sizes(entry, T))
    budget: dict[str, Any] = {"steps": plan.steps, "eval_every": plan.eval_every, "restarts": 1}
    specs = [
        TrialSpec(task=task, model=model, optimiser=OptimiserSpec(lr=lr), **budget)
        for task in tasks
    ]
    results = {r.trial_id: r for r in train(specs, keep="final", max_m=plan.m_high)}
    kept = (results[spec.trial_id].runs[-1].parameters for spec in specs)
    return [_labels(model, parameters, fresh_inputs(T)) for parameters in kept]


def _labels(spec: Any, parameters: Any, X: np.ndarray) -> np.ndarray:
    """The answers of a trained model: a Transformer one example at a time, others row by row."""
    import jax
    import jax.numpy as jnp

    from capax.attention.transformer import Transformer

    if isinstance(parameters, Transformer):
        logits = jax.jit(jax.vmap(parameters))
    else:
        logits = jax.jit(lambda rows: spec.logits(parameters, rows.astype(jnp.float32)))
    parts = (X[i : i + _ROWS_AT_ONCE] for i in range(0, len(X), _ROWS_AT_ONCE))
    return np.concatenate([np.asarray(logits(part)) > 0 for part in parts])


def _fits(plan: Plan, entry: Entry, tasks: Iterable[MixedParity], lr: float) -> Iterator[Attempt]:
    """Learners that are fitted: the user's file in a separate process, others here."""
    rates: dict[str, Any] = {"rate": lr, "steps": plan.steps, "eval_every": plan.eval_every}
    with ExitStack() as stack:
        limits: dict[str, Any] = {"seconds": plan.time_limit, "memory_bytes": _MEMORY}
        apart = bool(entry.source)
        away = stack.enter_context(Isolated(entry.reference, **limits)) if apart else None
        for task in tasks:
            setting, drawn = Setting(T=task.T, function="xor2", **rates), task.training()
            data = (drawn.X, drawn.y, fresh_inputs(task.T), task.seed)
            if away is not None:
                yield away.attempt(setting, *data)
            else:
                thing = load(entry.reference) if entry.thing is None else entry.thing
                yield attempt(fit_of(thing, setting), *data)
