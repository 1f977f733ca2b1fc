"""The same training step in PyTorch: all tokens, [CLS] query only, and batched by hand.

Shapes as in the default model: pre-LayerNorm, H heads, GELU MLP, [CLS] last, logistic loss, AdamW.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

RATES = {"lr": 1e-3, "weight_decay": 1e-4}


class OneLayer(nn.Module):
    """A straightforward one-layer classifier; `only_cls` computes the query of [CLS] alone.

    dropout: of embedding, attention and output, as in minGPT.
    """

    def __init__(
        self, T: int, d: int, heads: int, width: int, only_cls: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.only_cls, self.dropout = heads, only_cls, dropout
        self.embed, self.position = nn.Embedding(2, d), nn.Parameter(0.02 * torch.randn(T, d))
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, d))
        self.ln1, self.ln2, self.ln_final = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.key_value = nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.out = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, width), nn.GELU(), nn.Linear(width, d))
        self.read = nn.Linear(d, 1)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        """bits [m, T] -> logits [m]."""
        m = bits.shape[0]
        x = torch.cat([self.embed(bits) + self.position, self.cls.expand(m, 1, -1)], 1)
        return self.layer(F.dropout(x, self.dropout))

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        """The layer and the read-out: tokens [m, T + 1, d], [CLS] last -> logits [m]."""
        normed = self.ln1(x)
        rows = normed[:, -1:] if self.only_cls else normed
        query = self._split(self.query(rows))
        key, value = (self._split(y) for y in self.key_value(normed).chunk(2, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout)
        mixed = mixed.transpose(1, 2).flatten(2)
        x = (x[:, -1:] if self.only_cls else x) + F.dropout(self.out(mixed), self.dropout)
        x = x + F.dropout(self.mlp(self.ln2(x)), self.dropout)
        return self.read(self.ln_final(x[:, -1])).squeeze(-1)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def single_step(
    T: int,
    m: int,
    d: int,
    heads: int,
    width: int,
    only_cls: bool,
    dropout: float = 0.0,
    device: str = "cpu",
) -> Callable[[], None]:
    """A function that does one training step of one model."""
    torch.manual_seed(0)
    model = OneLayer(T, d, heads, width, only_cls, dropout).to(device)
    return adamw_step(model, T, m, device)


def adamw_step(model: nn.Module, T: int, m: int, device: str = "cpu") -> Callable[[], None]:
    """A function that does one step of `model` on m examples of an AND of three bits."""
    optimiser = torch.optim.AdamW(model.parameters(), **RATES)
    bits = (torch.rand(m, T) < 0.79).long().to(device)
    y = bits[:, :3].prod(1).float()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(model(bits), y).backward()
        optimiser.step()

    return step


class BatchedCollapse(nn.Module):
    """N models at once with the exact collapse in one-hot form, batched by hand with bmm."""

    def __init__(self, N: int, T: int, d: int, heads: int, width: int, device: str) -> None:
        super().__init__()
        self.heads, self.k = heads, d // heads

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(0.02 * torch.randn(N, *shape, device=device))

        def constant(value: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.full((N, *shape), value, device=device))

        self.embed, self.position, self.cls = weight(2, d), weight(T, d), weight(1, d)
        self.W_Q, self.W_K, self.W_V, self.W_O = (weight(d, d) for _ in range(4))
        self.b_Q, self.b_V, self.b_O = (constant(0.0, 1, d) for _ in range(3))
        self.W_in, self.b_in = weight(d, width), constant(0.0, 1, width)
        self.W_out, self.b_out = weight(width, d), constant(0.0, 1, d)
        self.gains = nn.ParameterList([constant(1.0, 1, d) for _ in range(3)])
        self.biases = nn.ParameterList([constant(0.0, 1, d) for _ in range(3)])
        self.w, self.b = weight(d, 1), constant(0.0, 1, 1)

    def _ln(self, x: torch.Tensor, which: int) -> torch.Tensor:
        unit = F.layer_norm(x, x.shape[-1:])
        return unit * self.gains[which] + self.biases[which]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """inputs [N, m, 2T], one-hot -> logits [N, m]."""
        N, _, d = self.position.shape
        H, k = self.heads, self.k
        tokens = (self.embed[:, :, None] + self.position[:, None]).flatten(1, 2)  # [N, 2T, d]
        x = self._ln(torch.cat([tokens, self.cls], 1), 0)  # [N, 2T+1, d]
        q = torch.baddbmm(self.b_Q, x[:, -1:], self.W_Q).view(N, 1, H, k)
        U = (self.W_K.view(N, d, H, k) * q).sum(-1) / math.sqrt(k)  # [N, d, H]
        scores = torch.bmm(x, U)  # [N, 2T+1, H]
        weights = (scores - scores.amax(1, keepdim=True).detach()).exp()
        values = torch.baddbmm(self.b_V, x, self.W_V).view(N, -1, H, k)
        table = torch.cat([(weights[..., None] * values).flatten(2), weights], -1)
        sums = torch.baddbmm(table[:, -1:], inputs, table[:, :-1])  # [N, m, d + H]
        mixed = (sums[..., :d].unflatten(-1, (H, k)) / sums[..., d:, None]).flatten(2)
        x = self.cls + torch.baddbmm(self.b_O, mixed, self.W_O)
        hidden = F.gelu(torch.baddbmm(self.b_in, self._ln(x, 1), self.W_in))
        x = x + torch.baddbmm(self.b_out, hidden, self.W_out)
        return torch.baddbmm(self.b, self._ln(x, 2), self.w).squeeze(-1)


class BatchedDropout(BatchedCollapse):
    """N models at once with dropout, [CLS] query only: scores by U = W_K q, pooling before W_V."""

    dropout = 0.1

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """inputs [N, m, T], bits -> logits [N, m]."""
        N, m, T = inputs.shape
        d, H, k, p = self.cls.shape[-1], self.heads, self.k, self.dropout
        chosen = torch.gather(self.embed, 1, inputs.flatten(1)[..., None].expand(-1, -1, d))
        tokens = chosen.view(N, m, T, d) + self.position[:, None]
        x = F.dropout(torch.cat([tokens, self.cls[:, None].expand(-1, m, 1, -1)], 2), p)
        unit = F.layer_norm(x, (d,)) * self.gains[0][:, None] + self.biases[0][:, None]
        q = torch.baddbmm(self.b_Q, unit[:, :, -1], self.W_Q).view(N, m, 1, H, k)
        U = (self.W_K.view(N, 1, d, H, k) * q).sum(-1) / math.sqrt(k)  # [N, m, d, H]
        weights = F.dropout((unit @ U).softmax(2), p)  # [N, m, T + 1, H]
        pooled = weights.transpose(2, 3) @ unit  # [N, m, H, d]
        W_V = self.W_V.view(N, d, H, k)
        mixed = torch.einsum("nmhd,ndhk->nmhk", pooled, W_V)
        mixed = mixed + weights.sum(2)[..., None] * self.b_V.view(N, 1, H, k)
        x = x[:, :, -1] + F.dropout(torch.baddbmm(self.b_O, mixed.flatten(2), self.W_O), p)
        hidden = F.gelu(torch.baddbmm(self.b_in, self._ln(x, 1), self.W_in))
        x = x + F.dropout(torch.baddbmm(self.b_out, hidden, self.W_out), p)
        return torch.baddbmm(self.b, self._ln(x, 2), self.w).squeeze(-1)


def batched_graph_step(
    N: int, T: int, m: int, d: int, heads: int, width: int, dropout: bool = False
) -> Callable[[], None]:
    """One training step of N models as a replayed CUDA graph."""
    torch.manual_seed(0)
    model = (BatchedDropout if dropout else BatchedCollapse)(N, T, d, heads, width, "cuda")
    optimiser = torch.optim.AdamW(model.parameters(), fused=True, capturable=True, **RATES)
    bits = (torch.rand(N, m, T, device="cuda") < 0.79).float()
    y = bits[..., :3].prod(-1)
    inputs = bits.long() if dropout else torch.cat([1 - bits, bits], -1)

    def step() -> None:
        optimiser.zero_grad(set_to_none=False)
        loss = F.binary_cross_entropy_with_logits(model(inputs), y, reduction="none")
        loss.mean(1).sum().backward()
        optimiser.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
