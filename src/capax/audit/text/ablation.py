"""Which heads matter on this text: by how much the loss of the model rises without a head.

A head is taken out by replacing its output (before W_O) by zeros. Disjoint pieces of the text are
read with and without the head. The difference of the losses (nats per token) is one number per
piece, and the interval is the t-interval of its mean over pieces. In a model with many heads only
some are taken out. They are chosen by the derivative of the loss with respect to a factor on each
head's output, on pieces that the measurement does not use. All intervals of one
audit hold together at 95 % (each at 1 - 0.05 / number of heads taken out), because the heads are
compared with each other and the largest ones are shown.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from capax.audit.text.attention_watch import watching
from capax.audit.text.kept_layers import KeptLayers
from capax.audit.text.model import packages
from capax.audit.text.text_tokens import Tokens

LEVEL = 0.95
MOST_HEADS = 24  # taken out by default, if the model has more than twice as many
PIECE, PIECES, CHOOSING = 64, 16, 6
SHORTEST_PIECE, FEWEST_PIECES = 16, 8
MASKED_EVERY = 7  # tokens; bidirectional models predict these
AT_ONCE = 8  # heads taken out in one forward pass


@dataclass(frozen=True)
class Ablation:
    """rows: rise of the loss and its interval by (layer, head). about: settings and counts."""

    rows: dict[tuple[int, int], dict[str, float]]
    about: dict[str, Any]


def pieces_of(tokens: Tokens, limit: int | None, lines: bool) -> list[tuple[int, ...]]:
    """Disjoint pieces of the text, each with the special tokens around a window."""
    around = (tokens.first is not None) + (tokens.last is not None)
    longest = min(PIECE, limit or PIECE) - around
    if lines:
        kept = [s[:longest] for s in tokens.sequences if len(s) + around >= SHORTEST_PIECE]
    else:
        stream = tokens.sequences[0]
        length = min(longest, len(stream) // FEWEST_PIECES)
        if length + around < SHORTEST_PIECE:
            return []
        starts = range(0, len(stream) - length + 1, length)
        kept = [stream[start : start + length] for start in starts]
    before, after = (() if one is None else (one,) for one in (tokens.first, tokens.last))
    return [(*before, *piece, *after) for piece in kept[:PIECES]]


def ablation(
    model: Any, pieces: list[tuple[int, ...]], shape: tuple[int, int], *, causal: bool,
    mask_token: int | None, most: int | None = None, step: Callable[[], None] = lambda: None,
) -> Ablation:  # fmt: skip
    """Losses without heads. `model` predicts tokens; `shape` is (layers, heads). most: heads that
    are taken out; by default 24, or all of up to 48."""
    total = shape[0] * shape[1]
    if most is None:
        most = total if total <= 2 * MOST_HEADS else MOST_HEADS
    some = total > most
    first, rest = (pieces[:CHOOSING], pieces[CHOOSING:]) if some else ([], pieces)
    chosen = _largest_effects(model, first, shape, causal, mask_token, most) if some else [
        (layer, head) for layer in range(shape[0]) for head in range(shape[1])]  # fmt: skip
    layers = KeptLayers(model, shape[0])
    differences = np.stack([_differences(model, layers, piece, chosen, shape, causal, mask_token,
                                         step) for piece in rest])  # fmt: skip
    mean, half = interval(differences)
    rows = {
        place: {"loss_difference": float(m), "loss_difference_low": float(m - w),
                "loss_difference_high": float(m + w)}
        for place, m, w in zip(chosen, mean, half, strict=True)
    }  # fmt: skip
    about = {"heads": len(chosen), "of": total, "pieces": len(rest),
             "piece_tokens": max(map(len, rest)), "level": LEVEL,
             "loss": "next token" if causal else "masked token"}  # fmt: skip
    return Ablation(rows, about)


def interval(differences: Float[np.ndarray, "n heads"]) -> tuple[np.ndarray, np.ndarray]:
    """Means over pieces, and half widths of intervals that hold for all heads together."""
    n, heads = differences.shape
    quantile = stdtrit(n - 1, 1 - (1 - LEVEL) / (2 * heads))
    return differences.mean(axis=0), quantile * differences.std(axis=0, ddof=1) / np.sqrt(n)


def _largest_effects(
    model: Any, pieces: Any, shape: tuple[int, int], causal: bool, mask_token: int | None,
    most: int,
) -> list[tuple[int, int]]:  # fmt: skip
    torch, _ = packages()
    total = np.zeros(shape)
    for piece in pieces:
        kept = torch.ones((1, *shape), requires_grad=True)
        (slope,) = torch.autograd.grad(
            _losses(model, piece, kept, causal, mask_token).sum(), [kept]
        )
        total += slope[0].numpy()
    order = np.argsort(-np.abs(total), axis=None)[:most]
    return sorted((int(i // shape[1]), int(i % shape[1])) for i in order)


def _differences(
    model: Any, layers: KeptLayers, piece: tuple[int, ...], chosen: list[tuple[int, int]],
    shape: tuple[int, int], causal: bool, mask_token: int | None, step: Callable[[], None],
) -> np.ndarray:  # fmt: skip
    """The rise of the loss without each chosen head; `chosen` is sorted by layer."""
    torch, _ = packages()
    found = []
    with torch.no_grad():
        kept = torch.ones((1, *shape))
        whole = _losses(model, piece, kept, causal, mask_token, keep=layers)
        for start in range(0, len(chosen), AT_ONCE):
            places = chosen[start : start + AT_ONCE]
            kept = torch.ones((len(places), *shape))
            for i, (layer, head) in enumerate(places):
                kept[i, layer, head] = 0.0
            with layers.starting_at(places[0][0], len(places)) as first:
                without = _losses(model, piece, kept, causal, mask_token, first=first)
            found.append((without - whole).numpy())
    step()
    return np.concatenate(found)


def _losses(
    model: Any, piece: tuple[int, ...], kept: Any, causal: bool, mask_token: int | None,
    first: int = 0, keep: KeptLayers | None = None,
) -> Any:  # fmt: skip
    """The mean loss per predicted token, for every row of factors in `kept`. first: the layer at
    which the reading starts; keep: where the outputs of all layers are kept."""
    torch, _ = packages()
    ids = torch.tensor([piece]).repeat(len(kept), 1)
    read, wanted, at = ids, ids[:, 1:], slice(0, ids.shape[1] - 1)
    if not causal:
        at = torch.arange(MASKED_EVERY // 2, ids.shape[1] - 1, MASKED_EVERY)
        read, wanted = ids.clone(), ids[:, at]
        read[:, at] = mask_token
    with watching(causal, kept=kept, layer=first) as watcher, ExitStack() as keeping:
        if keep is not None:
            keeping.enter_context(keep.keeping(lambda: watcher.layer))
        logits = model(input_ids=read).logits[:, at]
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(),
                                               reduction="none")  # fmt: skip
    return losses.view(len(kept), -1).mean(dim=1)
