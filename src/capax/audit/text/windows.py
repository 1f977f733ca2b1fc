"""The windows of a text that a model reads, and the rows of attention that are kept.

A causal model has every context length in one window: the row of position T - 1 is its attention
in a context of T tokens. So one long window gives all lengths. Several short windows are added,
because short contexts would otherwise occur once. A bidirectional model needs a window for every
length.
"""

from dataclasses import dataclass, replace

import numpy as np

from capax.audit.text.text_tokens import Tokens
from capax.errors import require

SHORTEST = 16
ROWS_PER_BIN = 8
SHORT_WINDOWS, SHORT_LENGTH = 6, 128
WINDOWS_PER_LENGTH = 4
MOST_TOKENS = 4096  # of one window; longer contexts cost memory and minutes


@dataclass(frozen=True)
class Window:
    """Token numbers, and the positions of the queries whose rows are kept."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]


def causal_windows(tokens: Tokens, limit: int | None, *, lines: bool) -> list[Window]:
    """One long window from every start of the stream, and short ones spread over it."""
    longest = min(limit or MOST_TOKENS, MOST_TOKENS)
    if lines:
        kept = [s[:longest] for s in tokens.sequences if len(s) >= SHORTEST]
        require(kept, "--text", f"a line of at least {SHORTEST} tokens", 0)
        return [Window(s, _spread(len(s))) for s in kept]
    stream = tokens.sequences[0]
    wanted = f"at least {4 * SHORTEST} tokens"
    require(len(stream) >= 4 * SHORTEST, "--text", wanted, len(stream))
    windows = [Window(stream[:longest], _spread(min(len(stream), longest)))]
    if len(stream) > 2 * SHORT_LENGTH:
        for start in np.linspace(0, len(stream) - SHORT_LENGTH, SHORT_WINDOWS + 1)[1:]:
            part = stream[int(start) : int(start) + SHORT_LENGTH]
            windows.append(Window(part, _spread(len(part))))
    return windows


def bidirectional_windows(tokens: Tokens, limit: int | None, *, lines: bool) -> list[Window]:
    """Windows of doubling length, a few of each; or the lines as they are."""
    longest = min(limit or MOST_TOKENS, MOST_TOKENS)
    around = (tokens.first is not None) + (tokens.last is not None)
    if lines:
        kept = [s[: longest - around] for s in tokens.sequences if len(s) + around >= SHORTEST // 2]
        require(kept, "--text", f"a line of at least {SHORTEST // 2} tokens", 0)
        return [_whole(tokens, s) for s in kept]
    stream, windows, length = tokens.sequences[0], [], SHORTEST
    wanted = f"at least {2 * SHORTEST} tokens"
    require(len(stream) >= 2 * SHORTEST, "--text", wanted, len(stream))
    while length <= min(longest, len(stream) + around):
        inside = length - around
        starts = np.linspace(0, len(stream) - inside, WINDOWS_PER_LENGTH).astype(int)
        windows += [_whole(tokens, stream[start : start + inside]) for start in sorted(set(starts))]
        length *= 2
    return windows


def shuffled(tokens: Tokens, seed: int) -> Tokens:
    """The same tokens in random order, inside each sequence: the words without the language."""
    rng = np.random.default_rng(seed)
    mixed = tuple(tuple(int(t) for t in rng.permutation(s)) for s in tokens.sequences)
    return replace(tokens, sequences=mixed)


def _whole(tokens: Tokens, inside: tuple[int, ...]) -> Window:
    before = () if tokens.first is None else (tokens.first,)
    after = () if tokens.last is None else (tokens.last,)
    whole = (*before, *inside, *after)
    rows = np.linspace(0, len(whole) - 1, min(len(whole), 2 * ROWS_PER_BIN)).astype(int)
    return Window(whole, tuple(int(i) for i in sorted(set(rows))))


def _spread(length: int) -> tuple[int, ...]:
    """Positions of a few rows in every half octave of context length."""
    kept: set[int] = set()
    low = float(SHORTEST)
    while low <= length:
        high = min(low * np.sqrt(2), length + 1)
        kept |= {int(T) - 1 for T in np.linspace(low, high, ROWS_PER_BIN, endpoint=False)}
        low *= np.sqrt(2)
    return tuple(sorted({*kept, length - 1}))
