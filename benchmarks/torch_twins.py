"""The architectures of the zoo in PyTorch, as people write them: rivals of `learners.py`."""

import torch
from torch import nn
from torch.nn import functional as F

from capax.training.speed.torch_rivals import OneLayer


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


class TwoLayers(nn.Module):
    """Two pre-norm layers; in the second one [CLS] alone has a query."""

    def __init__(self, T, d, heads, width):
        super().__init__()
        self.last = OneLayer(T, d, heads, width, only_cls=True)
        self.norm, self.query_key_value = nn.LayerNorm(d), nn.Linear(d, 3 * d)
        self.out, self.norm_mlp = nn.Linear(d, d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, width), nn.GELU(), nn.Linear(width, d))

    def forward(self, bits):
        last = self.last
        cls = last.cls.expand(len(bits), 1, -1)
        x = torch.cat([last.embed(bits) + last.position, cls], 1)
        qkv = (last._split(y) for y in self.query_key_value(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(*qkv).transpose(1, 2).flatten(2))
        return last.layer(x + self.mlp(self.norm_mlp(x)))


def twin(name: str, T: int, fields: dict) -> nn.Module:
    """The PyTorch model of the same shapes."""
    if name == "mlp":
        return Perceptron(T, fields["width"])
    d = fields["d"]
    if name == "transformer":
        return OneLayer(T, d, fields["heads"], fields["mlp_width"], only_cls=True)
    if name == "transformer2":
        return TwoLayers(T, d, fields["heads"], fields["mlp_width"])
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
