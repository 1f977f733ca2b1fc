"""Mixed parity: a sparse and a dense parity agree on the training set. Which one is taken?

Training inputs are uniform among those with x_i ^ x_j = x_1 ^ .. ^ x_T, for a pair (i, j) that the
seed draws: the sample cannot tell the two rules apart, so the answer is the learner's own. On fresh
uniform inputs they disagree half of the time, and the learner shows what it took:

    sparse    at least 95 % of its answers are the pair's parity
    dense     at least 95 % are the parity of all bits
    neither   otherwise
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from capax.cards.answers.results import MixedRow
from capax.cards.protocol.plan import TUNING_SEEDS, Plan
from capax.cards.protocol.sizes import sizes
from capax.errors import require
from capax.identity import key_words
from capax.learners.adapters import Setting, fit_of
from capax.learners.fitting import Attempt, attempt
from capax.learners.isolation import Isolated
from capax.learners.names import Entry
from capax.learners.references import load

MIXED = "mixed"
SHORTEST = 3
"""The least T with a bit outside the pair."""
TAKEN = 0.95
_TRIALS = 4
_FRESH = 2048
_MEMORY = 4 << 30  # bytes that a fit of the user's may take


class MixedTask(NamedTuple):
    """A sample on which both rules agree; fresh inputs, half of them agreeing, and both labels."""

    X: np.ndarray
    y: np.ndarray
    fresh: np.ndarray
    sparse: np.ndarray
    dense: np.ndarray


def mixed_task(T: int, m: int, seed: int) -> MixedTask:
    """The sample of a seed. A bit outside the pair is flipped where the rules disagree."""
    require(T >= SHORTEST, "T", f"at least {SHORTEST} for mixed parity", T)
    rng = np.random.default_rng(key_words({"T": T, "m": m, "seed": seed}, "mixed parity"))
    pair = rng.choice(T, 2, replace=False)
    others = np.setdiff1d(np.arange(T), pair)
    X, fresh = (rng.integers(0, 2, (n, T), dtype=np.uint8) for n in (m, _FRESH))
    wrong = _parity(X) != _parity(X[:, pair])
    X[np.flatnonzero(wrong), rng.choice(others, int(wrong.sum()))] ^= 1
    return MixedTask(X, _parity(X[:, pair]), fresh, _parity(fresh[:, pair]), _parity(fresh))


def _parity(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_xor.reduce(bits, axis=1)


def taken(answers: np.ndarray, task: MixedTask) -> str:
    """sparse, dense or neither."""
    for name, labels in (("sparse", task.sparse), ("dense", task.dense)):
        if np.mean(answers == labels) >= TAKEN:
            return name
    return "neither"


def mixed_row(plan: Plan, entry: Entry, T: int, trials: int = _TRIALS) -> MixedRow:
    """What a learner takes at T from `plan.m_high` examples, over some seeds."""
    m = plan.m_high
    rate = _rate(plan, entry, T) if entry.tuned else None
    fitted = _fitter(plan, entry, T, rate)
    found = [_took(fitted, mixed_task(T, m, seed), seed) for seed in range(trials)]
    shares = {name: found.count(name) / trials for name in ("sparse", "dense", "neither")}
    return MixedRow(learner=entry.name, T=T, m=m, trials=trials, rate=rate, **shares)


Fitted = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Attempt]


def _took(fitted: Fitted, task: MixedTask, key: int) -> str:
    made = fitted(task.X, task.y, task.fresh, key)
    return taken(made.answers[-1], task) if len(made.answers) else "neither"


def _rate(plan: Plan, entry: Entry, T: int) -> float:
    """The best on held-out inputs where the rules agree, on a seed that is never scored."""
    task = mixed_task(T, plan.m_high, TUNING_SEEDS)
    agree = task.sparse == task.dense

    def merit(rate: float) -> float:
        made = _fitter(plan, entry, T, rate)(task.X, task.y, task.fresh, TUNING_SEEDS)
        return float(np.mean((made.answers[-1] == task.sparse)[agree])) if len(made.answers) else 0

    return max(plan.rates, key=merit)


def _fitter(plan: Plan, entry: Entry, T: int, rate: float | None) -> Fitted:
    """One fit: by gradient steps here, the user's file in a process of its own."""
    lr = plan.rates[0] if rate is None else rate
    setting = Setting(T=T, function="xor2", rate=lr, steps=plan.steps, eval_every=plan.eval_every)
    if entry.spec is not None:
        return partial(attempt, lanes_fit(entry.spec(T=T, **sizes(entry, T)), lr, plan.steps))
    if entry.thing is not None:
        return partial(attempt, fit_of(entry.thing, setting))
    if not entry.source:
        return partial(attempt, fit_of(load(entry.reference), setting))

    def apart(X: np.ndarray, y: np.ndarray, inputs: np.ndarray, key: int) -> Attempt:
        limits = {"seconds": plan.time_limit, "memory_bytes": _MEMORY}
        with Isolated(entry.reference, **limits) as workshop:
            return workshop.attempt(setting, X, y, inputs, key)

    return apart


def lanes_fit(spec: Any, rate: float, steps: int) -> Callable[..., Any]:
    """An architecture of the engine as a fit function: AdamW on the full batch, one model."""
    learned, answered = _compiled(spec, steps)

    def fit(X: np.ndarray, y: np.ndarray, *, key: int) -> Any:
        words = np.array(key_words({"seed": key}, "init")[:2], np.uint32)
        params = learned(words, X.astype(np.uint8), y.astype(np.float32), np.float32(rate))
        return lambda inputs: np.asarray(answered(params, inputs.astype(np.uint8))).astype(int)

    return fit


@lru_cache(maxsize=16)
def _compiled(spec: Any, steps: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Training and answering of one model; the rate is an input, so that all rates share them."""
    import jax
    import jax.numpy as jnp
    import optax

    from capax.training.hardware import Hardware
    from capax.training.objective import cross_entropy
    from capax.training.optimiser import transformation
    from capax.training.paths import path_for
    from capax.training.program import start
    from capax.training.specs import OptimiserSpec

    path: Any = path_for(spec, Hardware().platform)
    rule = OptimiserSpec()

    @jax.jit
    def learned(key: Any, bits: Any, y: Any, lr: Any) -> Any:
        optimiser = transformation(rule, lr, rule.weight_decay, float(steps))
        inputs, kept = path.prepare(bits), jnp.ones_like(y)

        def step(carry: Any, _: None) -> Any:
            params, state = carry
            loss = lambda p: cross_entropy(path.logits(p, inputs), y, kept)  # noqa: E731
            gradient = jax.grad(loss)(params)
            with jax.numpy_dtype_promotion("standard"):
                updates, state = optimiser.update(gradient, state, params)
                return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, start(path, rule, key), None, length=steps)[0][0]

    return learned, jax.jit(lambda params, bits: path.logits(params, path.prepare(bits)) > 0)
