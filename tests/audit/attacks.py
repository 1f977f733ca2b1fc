"""Gradient ascent for the largest score of every head, through transformers' own forward pass.

Scores are the arguments of softmax, as the eager code of each family computes them; masked entries
are left out. One batch row per head: row (layer, h) is moved to enlarge |score| of that head alone.
What moves is either the input of the model, or the input of every norm of the model's width: the
score radius promises something for all inputs of the norm in front of a head, reachable or not.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

ATTENDING = re.compile(
    r"\.(attn|self_attn|encoder_attn|SelfAttention|EncDecAttention|attention|self)$"
)
CROSS = ("EncDecAttention", "encoder_attn")
Head = tuple[str, int, int]


def largest_scores(model: Any, rows: Any, *, steps: int, inside: bool, rate: float = 0.3,
                   T: int = 24) -> dict[Head, float]:  # fmt: skip
    """The largest |score| found for every head (part, layer, head) of an audit's rows."""
    heads = [(row["part"], row["layer"], row["head"]) for row in rows]
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    inputs = _inputs(model, len(heads), T)
    moved = _norm_inputs(model, inputs) if inside else inputs
    for value in moved.values():
        value.requires_grad_(True)
    optimiser = torch.optim.Adam(moved.values(), lr=rate)
    best = dict.fromkeys(heads, 0.0)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * (1 - step / steps) + 0.01
        with _replaced(model, moved if inside else {}), _recorded(model) as scores:
            model(**inputs)
        total = torch.zeros(())
        for i, (part, layer, h) in enumerate(heads):
            largest = scores[part, layer][i, h].abs().max()
            best[part, layer, h] = max(best[part, layer, h], float(largest.detach()))
            total = total + largest
        optimiser.zero_grad()
        (-total).backward()
        optimiser.step()
    return best


def _inputs(model: Any, batch: int, T: int) -> dict[str, torch.Tensor]:
    config = model.config
    if config.model_type == "vit":
        return {"pixel_values": torch.randn(batch, 3, 9, 9)}
    if config.model_type == "whisper":
        return {"input_features": torch.randn(batch, 6, 16),
                "decoder_inputs_embeds": torch.randn(batch, 9, config.d_model)}  # fmt: skip
    width = model.get_input_embeddings().weight.shape[1]
    inputs = {"inputs_embeds": torch.randn(batch, T, width)}
    if config.model_type == "t5":
        inputs["decoder_inputs_embeds"] = torch.randn(batch, 9, width)
    return inputs


def _norms(model: Any) -> dict[str, Any]:
    config = model.config
    width = getattr(config, "hidden_size", None) or config.d_model
    found = {}
    for name, module in model.named_modules():
        named = type(module).__name__.endswith(("LayerNorm", "RMSNorm"))
        if named and module.weight.shape == (width,):
            found[name] = module
    return found


def _norm_inputs(model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A random start for the input of every norm, of the shape it has in a forward pass."""
    shapes: dict[str, torch.Size] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, args, name=name: shapes.update({name: args[0].shape})
        )
        for name, module in _norms(model).items()
    ]
    with torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
    return {name: torch.randn(shape) for name, shape in shapes.items()}


@contextmanager
def _replaced(model: Any, moved: dict[str, torch.Tensor]) -> Iterator[None]:
    norms = _norms(model)
    hooks = [
        norms[name].register_forward_pre_hook(lambda _, args, value=value: (value, *args[1:]))
        for name, value in moved.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _recorded(model: Any) -> Iterator[dict[tuple[str, int], torch.Tensor]]:
    """Arguments of softmax by (part, number of the attention in its part); masked entries 0."""
    scores: dict[tuple[str, int], torch.Tensor] = {}
    part, softmax = [""], torch.nn.functional.softmax

    def entered(name: str) -> Any:
        side = next((side for side in ("encoder", "decoder") if name.startswith(f"{side}.")), "")
        side = "" if model.config.model_type not in ("t5", "whisper") else side
        return lambda *_: part.__setitem__(0, "cross" if name.endswith(CROSS) else side)

    def recording(S: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        place = (part[0], sum(key[0] == part[0] for key in scores))
        scores[place] = torch.where(S > -1e30, S, 0.0)
        return softmax(S, *args, **kwargs)

    hooks = [module.register_forward_pre_hook(entered(name)) for name, module in
             model.named_modules() if ATTENDING.search(name)]  # fmt: skip
    torch.nn.functional.softmax = recording
    try:
        yield scores
    finally:
        torch.nn.functional.softmax = softmax
        for hook in hooks:
            hook.remove()
