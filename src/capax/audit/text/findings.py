"""Numbers of every head on a text, on the same words shuffled, and with random weights.

Both baselines read through the same windows and the same statistics: shuffled text keeps the words
and loses the language, random weights keep the architecture and lose the training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capax.audit.layouts.table import Recognised
from capax.audit.text.ablation import (
    FEWEST_PIECES,
    SHORTEST_PIECE,
    Ablation,
    ablation,
    pieces_of,
)
from capax.audit.text.attention_watch import NAME, register, watch
from capax.audit.text.growth import Growth, growth
from capax.audit.text.kinds import RULES, kind_of
from capax.audit.text.looking import Looks
from capax.audit.text.model import BuiltModel, build_model, random_model
from capax.audit.text.refusals import BIDIRECTIONAL
from capax.audit.text.statistics import NAMES
from capax.audit.text.text_tokens import Tokens, read_tokens
from capax.audit.text.windows import Window, bidirectional_windows, causal_windows, shuffled
from capax.errors import require
from capax.identity import key_words

Progress = Callable[[str, int, int], None]
SHUFFLED, RANDOM = "shuffled", "random"
LOSS = ("loss_difference", "loss_difference_low", "loss_difference_high")


@dataclass(frozen=True)
class Findings:
    """rows: numbers by (layer, head). about: counts of tokens, the rules, the curves n95(T)."""

    rows: dict[tuple[int, int], dict[str, Any]]
    about: dict[str, Any]


def text_findings(
    recognised: Recognised,
    path: Path,
    *,
    split: str = "tokenizer",
    lines: bool = False,
    take_out: int | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Run the checkpoint on a text and on its two baselines. take_out: heads, one at a time."""
    tokens = read_tokens(path, recognised, split=split, lines=lines)
    seed = key_words([recognised.facts.family, str(len(tokens.sequences))], "audit text")[0]
    causal = recognised.facts.family not in BIDIRECTIONAL
    plain = _windows(tokens, recognised, causal, lines)
    mixed = _windows(shuffled(tokens, seed), recognised, causal, lines)
    register()
    pieces = pieces_of(tokens, recognised.facts.limit, lines)
    step = _counter(progress, 3 * len(plain) + (len(pieces) if take_out != 0 else 0))
    model, looks = build_model(recognised, attention=NAME, causal=causal), Looks()
    seen = watch(model.body, plain, causal, step, looks)
    _check_shape(seen, recognised)
    others = {SHUFFLED: watch(model.body, mixed, causal, step)}
    without, why = None, _no_ablation(model, tokens, causal, pieces, take_out)
    if not why:
        without = ablation(model.whole, pieces, seen["n95"].shape[:2], causal=causal,
                           mask_token=tokens.mask, most=take_out, step=step)  # fmt: skip
    del model
    drawn = random_model(recognised, attention=NAME, seed=seed)
    others[RANDOM] = watch(drawn, plain, causal, step)
    about = _about(path, tokens, plain, causal, lines)
    about["ablation"] = without.about if without else {"heads": 0, "reason": why}
    return _joined(seen, others, about, looks.found(tokens.words), without)


def _no_ablation(
    model: BuiltModel, tokens: Tokens, causal: bool, pieces: list[tuple[int, ...]],
    take_out: int | None,
) -> str:  # fmt: skip
    """The reason why no head is taken out, or an empty text."""
    if take_out == 0:
        return "none was asked for"
    if model.whole is None:
        return "the file has no output layer that predicts tokens"
    if not causal and tokens.mask is None:
        return "the vocabulary has no mask token"
    if len(pieces) < FEWEST_PIECES:
        return f"the text has fewer than {FEWEST_PIECES} pieces of {SHORTEST_PIECE} tokens"
    return ""


def _windows(tokens: Tokens, recognised: Recognised, causal: bool, lines: bool) -> list[Window]:
    make = causal_windows if causal else bidirectional_windows
    return make(tokens, recognised.facts.limit, lines=lines)


def _counter(progress: Progress | None, total: int) -> Callable[[], None]:
    done = iter(range(1, total + 1))
    return lambda: progress("windows of text", next(done), total) if progress else None


def _check_shape(seen: dict[str, np.ndarray], recognised: Recognised) -> None:
    wanted = (recognised.facts.layers, recognised.facts.heads)
    require(seen["n95"].shape[:2] == wanted, "--text", f"{wanted} layers and heads",
            seen["n95"].shape[:2])  # fmt: skip


def _about(
    path: Path, tokens: Tokens, windows: list[Window], causal: bool, lines: bool
) -> dict[str, Any]:
    return {
        "text": str(path),
        "text_tokens": sum(len(sequence) for sequence in tokens.sequences),
        "windows": len(windows),
        "tokens_read": sum(len(window.tokens) for window in windows),
        "longest_context": max(len(window.tokens) for window in windows),
        "rows_per_head": sum(len(window.positions) for window in windows),
        "attention": "causal" if causal else "bidirectional",
        "every_line_alone": lines,
        "kinds": [{"kind": kind, "rule": rule} for kind, rule in RULES],
    }


def _joined(
    seen: dict[str, np.ndarray], others: dict[str, dict[str, np.ndarray]], about: dict[str, Any],
    looks: dict[tuple[int, int], dict[str, Any]], without: Ablation | None,
) -> Findings:  # fmt: skip
    grown = growth(seen["T"], seen["n95"])
    baselines = {name: growth(other["T"], other["n95"]) for name, other in others.items()}
    means = {name: _long_mean(seen, name) for name in NAMES}
    base_means = {which: _long_mean(other, "n95") for which, other in others.items()}
    rows = {}
    for layer, head in np.ndindex(grown.n95.shape[:2]):
        row: dict[str, Any] = {name: float(means[name][layer, head]) for name in NAMES}
        row |= {f"n95_exponent{end}": _at(values, layer, head) for end, values in
                (("", grown.slope), ("_low", grown.low), ("_high", grown.high))}  # fmt: skip
        for which, base in baselines.items():
            row[f"n95_{which}"] = float(base_means[which][layer, head])
            row[f"n95_exponent_{which}"] = _at(base.slope, layer, head)
        if without is not None:
            row |= without.rows.get((layer, head), dict.fromkeys(LOSS))
        rows[layer, head] = row | {"kind": kind_of(row)} | looks[layer, head]
    return Findings(rows, about | {"curves": _curves(grown, baselines)})


def _at(values: np.ndarray | None, layer: int, head: int) -> float | None:
    return None if values is None else float(values[layer, head])


def _long_mean(seen: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Mean over the rows of the longer half of the contexts."""
    return seen[name][..., 2 * seen["T"] >= seen["T"].max()].mean(axis=-1)


def _curves(grown: Growth, baselines: dict[str, Growth]) -> dict[str, Any]:
    """n95(T) of every head, and medians over heads of the text and its baselines."""
    medians = {"text": grown, **baselines}
    return {
        "T": [float(T) for T in grown.T],
        "n95": np.round(grown.n95, 3).tolist(),
        "median_n95": {name: np.median(one.n95, axis=(0, 1)).tolist()
                       for name, one in medians.items()},
    }  # fmt: skip
