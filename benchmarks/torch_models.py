"""Twelve PyTorch models of the usual shapes, made and trained without a line of Capax.

    python benchmarks/torch_models.py out/torch_models     # trains, writes NAME.pt and models.json

One layer each: `nn.TransformerEncoder` and its layer, `nn.MultiheadAttention`, a block like
minGPT's, BERT and GPT-2 of `transformers`; pre-norm and post-norm, relu and both gelus; [CLS] first
or last, the last token, the mean over tokens. Every model is a function of bits [n, T]
(`benchmarks/decompile_torch.py` reads the formulas off).
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class Tokens(nn.Module):
    """Embedded bits with positions, and a [CLS] vector in front, behind or not at all."""

    def __init__(self, T: int, d: int, cls: str = "first") -> None:
        super().__init__()
        self.symbols = nn.Embedding(2, d)
        self.positions = nn.Parameter(0.3 * torch.randn(T, d))
        self.cls = nn.Parameter(0.3 * torch.randn(d)) if cls else None
        self.place = cls

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        x = self.symbols(bits.long()) + self.positions
        if self.cls is None:
            return x
        cls = self.cls.expand(len(x), 1, -1)
        return torch.cat([cls, x] if self.place == "first" else [x, cls], dim=1)


class Encoder(nn.Module):
    """`nn.TransformerEncoder` of one layer and a linear read-out."""

    def __init__(self, T: int, d: int, heads: int, *, cls: str = "first", norm_first: bool = False,
                 activation: str = "relu", final_norm: bool = False,
                 outputs: int = 1) -> None:  # fmt: skip
        super().__init__()
        self.tokens = Tokens(T, d, cls)
        layer = nn.TransformerEncoderLayer(d, heads, 4 * d, 0.0, activation, batch_first=True,
                                           norm_first=norm_first)  # fmt: skip
        norm = nn.LayerNorm(d) if final_norm else None
        self.encoder = nn.TransformerEncoder(layer, 1, norm, enable_nested_tensor=False)
        self.head = nn.Linear(d, outputs)
        self.row = 0 if cls == "first" else -1

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.tokens(bits))[:, self.row]).squeeze(-1)


class Mean(nn.Module):
    """The mean over all tokens is read: every token asks."""

    def __init__(self, T: int, d: int, heads: int) -> None:
        super().__init__()
        self.tokens = Tokens(T, d, "")
        self.layer = nn.TransformerEncoderLayer(d, heads, 4 * d, 0.0, batch_first=True)
        self.head = nn.Linear(d, 1)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.tokens(bits)).mean(1)).squeeze(-1)


class Attention(nn.Module):
    """[CLS] asks `nn.MultiheadAttention` alone; an MLP reads what it mixes."""

    def __init__(self, T: int, d: int, heads: int) -> None:
        super().__init__()
        self.tokens = Tokens(T, d, "first")
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)
        self.head = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, 1))

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        x = self.tokens(bits)
        read, _ = self.attention(x[:, :1], x, x, need_weights=False)
        return self.head(read[:, 0]).squeeze(-1)


class NewGELU(nn.Module):
    """The gelu of GPT-2, as minGPT writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class CausalSelfAttention(nn.Module):
    """minGPT's: one map for query, key and value, a causal mask."""

    def __init__(self, d: int, heads: int, T: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n_head = heads
        self.register_buffer("bias", torch.tril(torch.ones(T, T)).view(1, 1, T, T))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class MinGPT(nn.Module):
    """One block and two logits at the last token, which is a bit or [CLS]."""

    def __init__(self, T: int, d: int, heads: int, cls: str = "") -> None:
        super().__init__()
        self.tokens = Tokens(T, d, cls)
        self.ln_1, self.ln_2, self.ln_f = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = CausalSelfAttention(d, heads, T + bool(cls))
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), NewGELU(), nn.Linear(4 * d, d))
        self.lm_head = nn.Linear(d, 2, bias=False)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        x = self.tokens(bits)
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return self.lm_head(self.ln_f(x))[:, -1]


class Bert(nn.Module):
    """`BertForSequenceClassification` of one layer; the symbols are 0 and 1, [CLS] is 2."""

    def __init__(self, T: int, d: int, heads: int) -> None:
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=3, hidden_size=d, num_hidden_layers=1, num_attention_heads=heads,
            intermediate_size=4 * d, max_position_embeddings=T + 1, num_labels=2,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
        )  # fmt: skip
        self.bert = BertForSequenceClassification(config)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        cls = torch.full((len(bits), 1), 2, dtype=torch.long)
        return self.bert(torch.cat([cls, bits.long()], dim=1)).logits


class Gpt2(nn.Module):
    """`GPT2Model` of one layer, [CLS] (symbol 2) behind the bits, and a linear read-out."""

    def __init__(self, T: int, d: int, heads: int) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        config = GPT2Config(
            vocab_size=3, n_positions=T + 1, n_embd=d, n_layer=1, n_head=heads, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.2,
        )  # fmt: skip
        self.gpt, self.head = GPT2Model(config), nn.Linear(d, 1)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        cls = torch.full((len(bits), 1), 2, dtype=torch.long)
        hidden = self.gpt(torch.cat([bits.long(), cls], dim=1)).last_hidden_state
        return self.head(hidden[:, -1]).squeeze(-1)


def and3(X: torch.Tensor) -> torch.Tensor:
    return X[:, 1] * X[:, 4] * X[:, 7]


def or2(X: torch.Tensor) -> torch.Tensor:
    return ((X[:, 2] + X[:, 5]) > 0).float()


def maj3(X: torch.Tensor) -> torch.Tensor:
    return ((X[:, 0] + X[:, 3] + X[:, 8]) > 1.5).float()


def xor2(X: torch.Tensor) -> torch.Tensor:
    return (X[:, 2] + X[:, 6]) % 2


Target = Callable[[torch.Tensor], torch.Tensor]
FORMULAS = {and3: "x1 & x4 & x7", or2: "x2 | x5", maj3: "maj(x0, x3, x8)", xor2: "x2 ^ x6"}
# name: how it is made, T, the target
MODELS: dict[str, tuple[Callable[[int], nn.Module], int, Target]] = {
    "encoder, post-norm, relu, [CLS]": (lambda T: Encoder(T, 16, 2), 24, and3),
    "encoder, post-norm, gelu, [CLS] last": (
        lambda T: Encoder(T, 24, 4, cls="last", activation="gelu"), 30, or2),
    "encoder, pre-norm, relu, no final norm": (
        lambda T: Encoder(T, 16, 4, norm_first=True), 24, maj3),
    "encoder, pre-norm, gelu, final norm": (
        lambda T: Encoder(T, 32, 4, norm_first=True, activation="gelu", final_norm=True), 40, and3),
    "encoder, post-norm, two outputs": (
        lambda T: Encoder(T, 16, 1, activation="gelu", outputs=2), 24, xor2),
    "encoder, pre-norm, last bit asks": (
        lambda T: Encoder(T, 16, 2, cls="", norm_first=True, final_norm=True), 24, or2),
    "encoder layer, mean over tokens": (lambda T: Mean(T, 16, 2), 16, and3),
    "MultiheadAttention and an MLP": (lambda T: Attention(T, 16, 2), 24, maj3),
    "minGPT, last bit asks": (lambda T: MinGPT(T, 16, 2), 24, and3),
    "minGPT, [CLS] last": (lambda T: MinGPT(T, 24, 4, "last"), 30, or2),
    "BERT": (lambda T: Bert(T, 16, 2), 24, or2),
    "GPT-2": (lambda T: Gpt2(T, 16, 2), 24, and3),
}  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """How a model was made and how well it does on 4000 fresh inputs."""

    name: str
    T: int
    formula: str
    steps: int
    accuracy: float


def logit(values: torch.Tensor) -> torch.Tensor:
    return values[:, 1] - values[:, 0] if values.ndim == 2 else values


def made(name: str, T: int | None = None, seed: int = 0) -> nn.Module:
    """The model `name` at its start, of its own T or another."""
    torch.manual_seed(seed)
    make, own, _ = MODELS[name]
    return make(T or own)


def trained(name: str, *, steps: int = 1500, seed: int = 0) -> tuple[nn.Module, Trained]:
    """Adam on fresh batches of 256 fair bits, until 40 batches in a row are right."""
    _, T, target = MODELS[name]
    model = made(name, seed=seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    draw = torch.Generator().manual_seed(seed + 1)
    right = step = 0
    while step < steps and right < 40:
        step += 1
        X = torch.randint(0, 2, (256, T), generator=draw).float()
        y = target(X)
        found = logit(model(X))
        loss = F.binary_cross_entropy_with_logits(found, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        good = bool(((found > 0) == (y > 0.5)).all()) and loss.item() < 0.1
        right = right + 1 if good else 0
    model.eval()
    with torch.no_grad():
        X = torch.randint(0, 2, (4000, T), generator=draw).float()
        accuracy = ((logit(model(X)) > 0) == (target(X) > 0.5)).float().mean()
    return model, Trained(name, T, FORMULAS[target], step, float(accuracy))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    table = []
    for number, name in enumerate(MODELS):
        model, about = trained(name, steps=options.steps)
        torch.save(model.state_dict(), options.folder / f"{number}.pt")
        table.append({**asdict(about), "file": f"{number}.pt"})
        print(f"{name}: {about.steps} steps, {about.accuracy:.2%} right", flush=True)
        (options.folder / "models.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
