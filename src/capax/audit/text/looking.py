"""The words that each head looks at in the text, and examples.

The share of a word is the mean attention that it gets from the kept rows, over all its occurrences.
The first token of a window is counted by itself, because many heads attend to it whatever the word
is. The examples of a head are its rows with the largest single weights, each pair of words once.
The first token is an example only if the head looks at nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from capax.audit.text.windows import Window

FIRST = "first token"
WORDS_SHOWN = 3
EXAMPLES_SHOWN = 3
CONTEXT = 6  # words up to the query that an example quotes


@dataclass
class Looks:
    """Attention by word, and the largest weight of every row, collected layer by layer."""

    windows: list[Window] = field(default_factory=list)
    mass: list[dict[int, Float[np.ndarray, "H"]]] = field(default_factory=list)
    tops: list[list[tuple[Any, ...]]] = field(default_factory=list)
    rows: int = 0

    def begin(self, window: Window) -> None:
        """Start a new window."""
        self.windows.append(window)
        self.rows += len(window.positions)

    def add(
        self, layer: int, A: Float[np.ndarray, "H rows keys"], positions: Int[np.ndarray, "rows"]
    ) -> None:
        """Add rows of attention of one layer in the current window."""
        while len(self.mass) <= layer:
            self.mass.append({})
            self.tops.append([])
        tokens = np.array(self.windows[-1].tokens[: A.shape[2]])
        tokens[0] = -1
        order = np.argsort(tokens, kind="stable")
        starts = np.flatnonzero(np.diff(tokens[order], prepend=-2))
        sums = np.add.reduceat(A.sum(axis=1)[:, order], starts, axis=1)
        mass = self.mass[layer]
        for token, share in zip(tokens[order][starts], sums.T, strict=True):
            mass[int(token)] = mass.get(int(token), 0.0) + share
        keys = A.argmax(axis=2)
        weights = np.take_along_axis(A, keys[..., None], axis=2)[..., 0]
        self.tops[layer].append((len(self.windows) - 1, positions, keys, weights))

    def found(self, words: Mapping[int, str]) -> dict[tuple[int, int], dict[str, Any]]:
        """`looks_at` and `examples` by (layer, head)."""
        heads = {}
        for layer, mass in enumerate(self.mass):
            shares = np.stack(list(mass.values())) / self.rows
            tokens = list(mass)
            for h in range(shares.shape[1]):
                best = np.argsort(-shares[:, h])[:WORDS_SHOWN]
                looks = [{"word": _word(words, tokens[i]), "share": round(float(shares[i, h]), 4)}
                         for i in best]  # fmt: skip
                examples = self._examples(layer, h, words)
                heads[layer, h] = {"looks_at": looks, "examples": examples}
        return heads

    def _examples(self, layer: int, h: int, words: Mapping[int, str]) -> list[dict[str, Any]]:
        rows = [
            (key == 0, -float(weight), number, int(position), int(key))
            for number, positions, keys, weights in self.tops[layer]
            for position, key, weight in zip(positions, keys[h], weights[h], strict=True)
        ]
        shown: dict[tuple[str, str], dict[str, Any]] = {}
        for first, weight, number, position, key in sorted(rows):
            tokens = self.windows[number].tokens
            pair = (_word(words, tokens[position]), FIRST if first else _word(words, tokens[key]))
            before = tokens[max(0, position + 1 - CONTEXT) : position + 1]
            shown.setdefault(pair, {
                "from": pair[0], "to": pair[1], "back": position - key, "weight": round(-weight, 4),
                "context": "".join(words.get(token, "?") for token in before),
            })  # fmt: skip
            if len(shown) == EXAMPLES_SHOWN:
                break
        return list(shown.values())


def _word(words: Mapping[int, str], token: int) -> str:
    """The text of a token, without blanks around it."""
    if token == -1:
        return FIRST
    text = words.get(token, f"token {token}")
    return text.strip() or repr(text)
