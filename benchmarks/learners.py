"""Each architecture of the zoo: a step in the engine's lanes against the same model in PyTorch.

python benchmarks/learners.py                      # T = 100, m = 100, all of them, JSON
python benchmarks/learners.py --names mlp lstm --budget 5

Both train the same shapes with AdamW on the full batch; PyTorch trains one model after the other
with all its threads, as people do, the engine as many at once as there are cores (or slots). One
run, one machine: only the ratios count. `ceiling` is the share of the machine's measured
operations per second that the engine's step reaches, counted on the step XLA compiles.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import torch
from torch import nn
from torch.nn import functional as F

from capax.cards.protocol.matched_sizes import sizes
from capax.data.task import TaskSpec
from capax.learners.names import entry_of
from capax.training import Hardware, TrialSpec
from capax.training.programs.memory import num_parameters
from capax.training.speed.benchmark import capax_seconds
from capax.training.speed.roofline import best_of, measure
from capax.training.speed.torch_rivals import adamw_step
from capax.training.steps.objective import cross_entropy

NAMES = ("mlp", "deep_sets", "linear_attention", "cnn", "lstm", "gru", "ssm", "mixer")


class Frame(nn.Module):
    """Tokens, a mixer, the MLP block and the read-out, as in `capax.learners.zoo.frame`."""

    def __init__(self, T, d, mlp_width, mixer, mixed):
        super().__init__()
        self.embed, self.position = nn.Embedding(2, d), nn.Parameter(0.02 * torch.randn(T, d))
        self.cls = nn.Parameter(0.02 * torch.randn(d))
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mixer, self.out = mixer, nn.Linear(mixed, d)
        self.mlp = nn.Sequential(nn.Linear(d, mlp_width), nn.GELU(), nn.Linear(mlp_width, d))
        self.read = nn.Linear(d, 1)

    def forward(self, bits):
        x = self.ln1(self.embed(bits) + self.position)
        z = self.cls + self.out(self.mixer(x, self.ln1(self.cls)))
        z = z + self.mlp(self.ln2(z))
        return self.read(self.ln3(z)).squeeze(-1)


class Mean(nn.Module):
    """Deep sets."""

    def __init__(self, d):
        super().__init__()
        self.value = nn.Linear(d, d)

    def forward(self, x, _):
        return self.value(x).mean(1)


class Linear(nn.Module):
    """Linear attention of one query."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.q, self.k, self.v = heads, *(nn.Linear(d, d) for _ in range(3))

    def forward(self, x, cls):
        x = torch.cat([x, cls.expand(len(x), 1, -1)], 1)
        m, T, d = x.shape
        q = (F.elu(self.q(cls)) + 1).view(self.heads, -1)
        k = (F.elu(self.k(x)) + 1).view(m, T, self.heads, -1)
        a = torch.einsum("hk,mthk->mth", q, k)
        mixed = torch.einsum("mth,mthk->mhk", a, self.v(x).view(m, T, self.heads, -1))
        return (mixed / a.sum(1)[..., None]).reshape(m, d)


class Convolutions(nn.Module):
    """Two convolutions and a mean."""

    def __init__(self, d, channels, kernel=5):
        super().__init__()
        self.one = nn.Conv1d(d, channels, kernel, padding="same")
        self.two = nn.Conv1d(channels, channels, kernel, padding="same")

    def forward(self, x, _):
        return F.gelu(self.two(F.gelu(self.one(x.transpose(1, 2))))).mean(2)


class Recurrent(nn.Module):
    """PyTorch's own LSTM or GRU, the last state."""

    def __init__(self, kind, d, hidden):
        super().__init__()
        self.net = kind(d, hidden, batch_first=True)

    def forward(self, x, _):
        return self.net(x)[0][:, -1]


class Selective(nn.Module):
    """The selective state space, token by token."""

    def __init__(self, d, states):
        super().__init__()
        self.step, self.gate = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.B, self.C = nn.Linear(d, states, bias=False), nn.Linear(d, states, bias=False)
        self.log_A = nn.Parameter(torch.zeros(d, states))
        self.skip = nn.Parameter(torch.ones(d))

    def forward(self, x, cls):
        step, A = F.softplus(self.step(x)), -self.log_A.exp()
        drive = (step * x)[..., None] * self.B(x)[:, :, None, :]
        state = torch.zeros_like(drive[:, 0])
        for t in range(x.shape[1]):
            state = torch.exp(step[:, t, :, None] * A) * state + drive[:, t]
        return (state @ self.C(cls) + self.skip * cls) * F.silu(self.gate(cls))


class Mixing(nn.Module):
    """One Mixer layer and a mean."""

    def __init__(self, T, d, e, n):
        super().__init__()
        self.positions = nn.Sequential(nn.Linear(T, e), nn.GELU(), nn.Linear(e, T))
        self.norm = nn.LayerNorm(d)
        self.channels = nn.Sequential(nn.Linear(d, n), nn.GELU(), nn.Linear(n, d))

    def forward(self, x, _):
        y = x + self.positions(x.transpose(1, 2)).transpose(1, 2)
        return (y + self.channels(self.norm(y))).mean(1)


class Perceptron(nn.Module):
    """Two hidden layers on signs."""

    def __init__(self, T, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(T, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)
        )

    def forward(self, bits):
        return self.net(2.0 * bits - 1.0).squeeze(-1)


def twin(name: str, T: int, fields: dict) -> nn.Module:
    """The PyTorch model of the same shapes."""
    if name == "mlp":
        return Perceptron(T, fields["width"])
    d = fields["d"]
    made = {
        "deep_sets": lambda: (Mean(d), d),
        "linear_attention": lambda: (Linear(d, fields["heads"]), d),
        "cnn": lambda: (Convolutions(d, fields["channels"]), fields["channels"]),
        "lstm": lambda: (Recurrent(nn.LSTM, d, fields["hidden"]), fields["hidden"]),
        "gru": lambda: (Recurrent(nn.GRU, d, fields["hidden"]), fields["hidden"]),
        "ssm": lambda: (Selective(d, fields["states"]), d),
        "mixer": lambda: (
            Mixing(T, d, fields["position_width"], fields["channel_width"]),
            d,
        ),
    }[name]()
    return Frame(T, d, fields["mlp_width"], *made)


def torch_seconds(name: str, T: int, m: int, fields: dict, budget: float) -> tuple[float, int]:
    """Seconds per step of one model, and its number of parameters."""
    torch.manual_seed(0)
    model = twin(name, T, fields)
    step = adamw_step(model, T, m)
    step()
    return best_of(step, budget), sum(p.numel() for p in model.parameters())


def step_flops(spec, m: int) -> float:
    """Operations of one gradient on m examples, as XLA counts them in the compiled program.

    Loops are counted once by XLA: for the recurrent nets this is too low, by a factor of about T.
    """
    params = jax.eval_shape(spec.init, jax.eval_shape(partial(jax.random.key, 0)))
    X = jax.ShapeDtypeStruct((m, spec.T), jnp.float32)
    y = jax.ShapeDtypeStruct((m,), jnp.float32)

    def loss(params, X, y):
        return cross_entropy(spec.logits(params, X), y, jnp.ones_like(y))

    costs = jax.jit(jax.grad(loss)).lower(params, X, y).compile().cost_analysis()
    return float((costs[0] if isinstance(costs, list) else costs)["flops"])


def compare(name: str, T: int, m: int, budget: float, say: Callable[[str], None]) -> dict:
    """One architecture, both ways."""
    hardware, entry = Hardware(), entry_of(name)
    fields = sizes(entry, T)
    spec = entry.spec(T=T, **fields)
    task = TaskSpec(T=T, m=m, reject_ambiguous=False, validation_size=512)
    trial = TrialSpec(task=task, model=spec, steps=20, eval_every=20)
    say(f"{name}: engine")
    ours = capax_seconds(trial, hardware, budget)
    say(f"{name}: PyTorch")
    theirs, count = torch_seconds(name, T, m, fields, budget)
    return {
        "name": name,
        "parameters": num_parameters(spec),
        "torch_parameters": count,
        "engine_ms": 1e3 * ours,
        "torch_ms": 1e3 * theirs,
        "speedup": theirs / ours,
        "flops_per_second": step_flops(spec, m) / ours,
    }


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--T", type=int, default=100)
    parser.add_argument("--m", type=int, default=100)
    parser.add_argument("--budget", type=float, default=2.0)
    options = parser.parse_args()
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    ceilings = measure(Hardware(), options.budget)
    rows = [compare(n, options.T, options.m, options.budget, say) for n in options.names]
    for row in rows:
        row["ceiling"] = row["flops_per_second"] / ceilings.flops_per_second
    print(json.dumps({"T": options.T, "m": options.m, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
