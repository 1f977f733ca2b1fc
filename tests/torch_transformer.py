"""The Transformer of the experiments in PyTorch, float64, written without the library: an oracle
of logits, gradients and runs for which nothing is compiled."""

import jax.numpy as jnp
import numpy as np
import torch

from capax.attention.transformer import assemble, parameters


class TorchTransformer:
    """The network with the arrays of `model`; `more`: further arrays to train."""

    def __init__(self, model, **more):
        self.spec = model.spec
        self.p = {
            name: torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=True)
            for name, x in (parameters(model) | more).items()
        }

    def normalised(self, name, x):
        if f"{name}.gain" not in self.p:
            return x
        gain, bias = self.p[f"{name}.gain"], self.p[f"{name}.bias"]
        return torch.nn.functional.layer_norm(x, (self.spec.d,), gain, bias, 1e-5)

    def last_row(self, symbols, embedding=1.0, attention=1.0, output=(1.0, 1.0)):
        """What is read of the [CLS] token, and its weights in the last layer.

        Dropout as factors on tokens, on keys of every head, and on what a block adds twice.
        """
        p, spec = self.p, self.spec
        X = torch.tensor(np.asarray(symbols).astype(np.int64))
        cls = p["cls"] + p.get("cls_position", 0.0)
        tokens = p["embed"][X] + p["position"]
        x = torch.cat([tokens, cls.expand(len(X), 1, spec.d)], 1) * embedding
        scale = 1.0 if spec.scale == "paper" else spec.head_width**-0.5
        rise = getattr(torch.nn.functional, spec.activation)
        for i in range(spec.layers):
            b = {name.removeprefix(f"blocks.{i}."): leaf for name, leaf in p.items()}
            n = self.normalised(f"blocks.{i}.ln1", x)
            q, k, v = (
                torch.einsum("btd,hdk->bhtk", n, b[f"W_{c}"]) + b[f"b_{c}"][None, :, None]
                for c in "QKV"
            )
            weights = torch.softmax(scale * (q @ k.transpose(-1, -2)), -1)
            read = torch.einsum("bhtk,hkd->btd", weights * attention @ v, b["W_O"]) + b["b_O"]
            x = x + read * output[0]
            hidden = rise(self.normalised(f"blocks.{i}.ln2", x) @ b["W_in"] + b["b_in"])
            x = x + (hidden @ b["W_out"] + b["b_out"]) * output[1]
        return self.normalised("ln_final", x)[:, -1], weights[:, :, -1]

    def logits(self, symbols):
        return self.last_row(symbols)[0] @ self.p["w"] + self.p["b"]

    def gradient(self, loss):
        """The slopes of a loss, by the name of the parameter."""
        return dict(zip(self.p, torch.autograd.grad(loss, list(self.p.values())), strict=True))


def as_written(model, symbols, c):
    """The logits z of `model`, the [CLS] weights of its last layer, and the gradient of c . z."""
    network = TorchTransformer(model)
    row, weights = network.last_row(symbols)
    z = row @ network.p["w"] + network.p["b"]
    slopes = network.gradient(z @ torch.tensor(c))
    gradient = assemble(model.spec, {name: jnp.asarray(x.numpy()) for name, x in slopes.items()})
    return z.detach().numpy(), weights.detach().numpy(), gradient


def cross_entropy(logits, y):
    y = torch.tensor(np.asarray(y), dtype=torch.float64)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
