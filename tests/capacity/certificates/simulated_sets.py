"""Simulated training sets at T = 12 with label noise: every true error is known exactly.

Inputs are uniform on all 4096 sequences; the label is the majority of three bits, flipped with
probability `noise`. For a predictor h the true error is noise + (1 - 2 noise) P[h != f].
"""

from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from capax.attention import ClsScalar, DeterministicPositions
from capax.boolean.functions import SparseFunction
from capax.boolean.parser import parse

T = 12
ALL = ((np.arange(2**T)[:, None] >> np.arange(T)) & 1).astype(np.uint8)
TRUTH = (ALL[:, [1, 4, 7]].sum(axis=1) >= 2).astype(np.int64)
MAJORITY: SparseFunction = parse("maj3")
PLACED = np.array([ALL[:, list(p)].sum(axis=1) >= 2 for p in combinations(range(T), 3)])
SUBSET = np.random.default_rng(0).choice(len(ALL), 256, replace=False)
EVERY, SOME = ALL.astype(np.int32), ALL[SUBSET].astype(np.int32)
FEATURES = np.concatenate([2.0 * ALL - 1.0, np.ones((len(ALL), 1))], axis=1)


def true_error(labels, noise):
    """P[y != h(x)] for the table of labels h, exactly."""
    return noise + (1 - 2 * noise) * float(np.mean(labels.astype(bool) != TRUTH.astype(bool)))


def draw(rng, m, noise):
    """Indices into ALL and noisy labels of m independent examples."""
    seen = rng.integers(len(ALL), size=m)
    return seen, TRUTH[seen] ^ (rng.random(m) < noise)


def draw_counts(rng, m, noise):
    """The same for huge m: how often each (input, label) occurs, [4096, 2]."""
    clean = np.full(len(ALL), (1 - noise) / len(ALL))
    flipped = np.full(len(ALL), noise / len(ALL))
    chances = np.stack([np.where(c == TRUTH, clean, flipped) for c in (0, 1)], axis=1)
    return rng.multinomial(m, chances.ravel() / chances.sum()).reshape(-1, 2)


def ridge(seen, y, weight=10.0):
    """A linear read-out fitted to labels in {-1, 1}: imperfect on purpose."""
    Z = FEATURES[seen]
    return np.linalg.solve(Z.T @ Z + weight * np.eye(Z.shape[1]), Z.T @ (2.0 * y - 1.0))


def gibbs_error(w, sigma, noise):
    """Exact error of the linear classifier with weights N(w, sigma^2 I)."""
    z = FEATURES @ w / (sigma * np.linalg.norm(FEATURES, axis=1))
    wrong = np.where(TRUTH == 1, norm.cdf(-z), norm.cdf(z))
    return noise + (1 - 2 * noise) * float(wrong.mean())


@cache
def _trainer(steps):
    def outputs(parameters, tokens):
        scores, values = parameters  # rows of positions, of symbols, of [CLS]
        table = (x[:T, None] + x[None, T : T + 2] for x in (scores, values))
        theta, v = (jnp.take_along_axis(x[None], tokens[:, :, None], 2)[:, :, 0] for x in table)
        theta = jnp.concatenate([theta, jnp.full((len(tokens), 1), scores[T + 2])], axis=1)
        v = jnp.concatenate([v, jnp.full((len(tokens), 1), values[T + 2])], axis=1)
        return (jax.nn.softmax(theta) * v).sum(axis=1)

    def loss(parameters, shares):
        f = outputs(parameters, jnp.asarray(SOME))
        return (shares[:, 1] * jnp.logaddexp(0.0, -f) + shares[:, 0] * jnp.logaddexp(0.0, f)).sum()

    def train(start, shares):
        def step(p, _):
            slope = jax.grad(loss)(p, shares)
            return jax.tree.map(lambda a, g: a - 8.0 * g, p, slope), None

        return jax.lax.scan(step, start, None, length=steps)[0]

    # it runs for seconds, unlike other programs of the tests: worth a little optimisation
    train_all = jax.jit(jax.vmap(train), compiler_options={"xla_backend_optimization_level": 1})
    return train_all, jax.jit(jax.vmap(lambda p: outputs(p, jnp.asarray(EVERY))))


def train_heads(rng, counts, steps=30):
    """One attention head with a linear read-out per data set, by a few steps of gradient descent
    on its examples with one of 256 inputs.

    Returns the heads as modules and their outputs on all inputs [sets, 4096].
    """
    start = tuple(jnp.asarray(0.3 * rng.normal(size=(len(counts), T + 3))) for _ in range(2))
    train, outputs = _trainer(steps)
    used = counts[:, SUBSET]
    shares = jnp.asarray(used / used.sum(axis=(1, 2), keepdims=True))
    trained = train(start, shares)
    return [_head(s, v) for s, v in zip(*map(np.asarray, trained), strict=True)], np.asarray(
        outputs(trained)
    )


def _head(scores, values):
    W_Q = np.zeros((T + 3, 1))
    W_Q[-1] = 1.0
    columns = (W_Q, scores[:, None], values[:, None], np.ones((1, 1)), np.ones(1))
    return ClsScalar(DeterministicPositions(T), *(jnp.asarray(x) for x in columns))
