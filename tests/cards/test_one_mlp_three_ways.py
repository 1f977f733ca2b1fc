"""The same MLP as a JAX factory, as a PyTorch factory and as a plain callable: one threshold.

logit = w . tanh(W (2x - 1) + b) + c,   W ~ N(0, 1/T),  w ~ N(0, 1/n);   AdamW, 4e-2, full batch
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import capax

WIDTH, RATE, STEPS, LOOK = 16, 4e-2, 60, 30
PROTOCOL = {
    "T": (5,),
    "targets": ("xor2",),
    "rates": (RATE,),
    "accuracies": (0.95,),
    "m_high": 128,
    "design": "grid",
    "grid_trials": 5,
    "tuning_trials": 1,
    "steps": STEPS,
    "eval_every": LOOK,
    "validation_size": 256,
    "references": False,
}


class Jax(eqx.Module):
    """In the engine's lanes."""

    W: jax.Array
    b: jax.Array
    w: jax.Array
    c: jax.Array

    def __init__(self, T, key):
        one, two = jax.random.split(key)
        self.W = jax.random.normal(one, (WIDTH, T), jnp.float32) * T**-0.5
        self.w = jax.random.normal(two, (WIDTH,), jnp.float32) * WIDTH**-0.5
        self.b, self.c = jnp.zeros(WIDTH, jnp.float32), jnp.zeros((), jnp.float32)

    def __call__(self, x):
        return self.w @ jnp.tanh(self.W @ (2.0 * x - 1.0) + self.b) + self.c


def pytorch(T):
    """Trained by the adapter."""
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(T, WIDTH), torch.nn.Linear(WIDTH, 1)
            for layer in (self.one, self.two):
                torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
                torch.nn.init.zeros_(layer.bias)

        def forward(self, x):
            return self.two(torch.tanh(self.one(2.0 * x - 1.0)))

    return Module()


def by_hand(X, y, *, key):
    """Gradient and AdamW written out; it, too, is judged by the best of its looks."""
    rng, m, T = np.random.default_rng(key), *X.shape
    x = 2.0 * X - 1.0
    p = [rng.normal(size=(WIDTH, T)) / T**0.5, np.zeros(WIDTH)]
    p += [rng.normal(size=WIDTH) / WIDTH**0.5, np.zeros(())]
    first, second = ([np.zeros_like(a) for a in p] for _ in range(2))
    looks = []
    for t in range(1, STEPS + 1):
        h = np.tanh(x @ p[0].T + p[1])
        d = (1 / (1 + np.exp(-(h @ p[2] + p[3]))) - y) / m
        back = d[:, None] * p[2] * (1 - h**2)
        gradient = [back.T @ x, back.sum(0), h.T @ d, d.sum()]
        for i, g in enumerate(gradient):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g**2
            root = np.sqrt(second[i] / (1 - 0.999**t)) + 1e-8
            p[i] = p[i] - RATE * (first[i] / (1 - 0.9**t) / root + 1e-4 * p[i])
        if t % LOOK == 0:
            looks.append(list(p))
    return Looks(looks)


class Looks:
    """Snapshots, as the engine's evaluations are."""

    def __init__(self, looks):
        self._looks = looks

    def __len__(self):
        return len(self._looks)

    def at(self, index, X):
        W, b, w, c = self._looks[index]
        return (np.tanh((2.0 * X - 1.0) @ W.T + b) @ w + c > 0).astype(int)

    def __call__(self, X):
        return self.at(-1, X)


def test_their_thresholds_agree(tmp_path):
    made = capax.card(Jax, pytorch, by_hand, store=tmp_path / "card.sqlite", **PROTOCOL)
    assert made.names == ("Jax", "pytorch", "by_hand")
    ends = [(row.low or 1, row.high or PROTOCOL["m_high"]) for row in made.rows]
    assert max(low for low, _ in ends) <= min(high for _, high in ends), ends
    middles = [row.m_star or 0 for row in made.rows]
    assert max(middles) < 1.6 * min(middles), middles
    assert [row.rate for row in made.rows] == [RATE, RATE, None]
