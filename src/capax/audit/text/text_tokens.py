"""Text as token numbers: by the checkpoint's tokenizer, or by pieces split at blanks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capax.audit.layouts.table import Recognised
from capax.audit.text.model import packages
from capax.errors import InputError, inside, require
from capax.reading import existing, read_text

LARGEST_TEXT = 64 * 2**20


@dataclass(frozen=True)
class Tokens:
    """Sequences of token numbers. first, last: special tokens around every window, if known.

    mask: the mask token. words: texts of the tokens that occur.
    """

    sequences: tuple[tuple[int, ...], ...]
    first: int | None = None
    last: int | None = None
    mask: int | None = None
    words: Mapping[int, str] = field(default_factory=dict)


def read_tokens(path: Path, recognised: Recognised, *, split: str, lines: bool) -> Tokens:
    """Tokens of a text file. split: "tokenizer", or "spaces" for text already in pieces.

    lines: every line is a sequence of its own; otherwise the file is one stream.
    """
    text = read_text(path, LARGEST_TEXT)
    parts = [line for line in text.splitlines() if line.strip()] if lines else [text]
    folder = recognised.checkpoint.path.parent
    if split == "spaces":
        return _looked_up(parts, folder)
    tokenizer = _tokenizer(recognised, folder)
    found = tuple(tuple(tokenizer(p, add_special_tokens=False)["input_ids"]) for p in parts)
    bidirectional = recognised.facts.family in ("BERT", "RoBERTa", "DistilBERT", "ALBERT")
    first, last = (
        (tokenizer.cls_token_id, tokenizer.sep_token_id) if bidirectional else (None, None)
    )
    around = {token for token in (first, last) if token is not None}
    used = around.union(*found)
    words: dict[int, str] = {token: tokenizer.decode([token]) for token in used}
    return _checked(Tokens(found, first, last, tokenizer.mask_token_id, words), recognised)


def _tokenizer(recognised: Recognised, folder: Path) -> Any:
    _, transformers = packages()
    gguf = recognised.checkpoint.format == "GGUF"
    named = {"gguf_file": recognised.checkpoint.path.name} if gguf else {}
    for file in folder.iterdir():  # the library opens any file with the right name
        if file.exists() and not file.is_dir():
            existing(file, "a regular file beside the weights")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, **named)
    except Exception as error:  # a foreign tokenizer file can cause any error
        reason = (str(error).splitlines() or ["unreadable"])[0][:100]
        raise InputError(
            f"{folder}: no readable tokenizer ({reason}); try --split spaces"
        ) from None


def _looked_up(parts: list[str], folder: Path) -> Tokens:
    path = folder / "vocab.txt"
    with inside("--split spaces: "):
        words = read_text(path, LARGEST_TEXT).splitlines()
    numbers = {word.strip(): i for i, word in enumerate(words)}
    sequences = tuple(tuple(_number(piece, numbers) for piece in part.split()) for part in parts)
    names = dict(enumerate(word.strip() + " " for word in words))
    first, last, mask = (numbers.get(f"[{name}]") for name in ("CLS", "SEP", "MASK"))
    return Tokens(sequences, first, last, mask, names)


def _number(piece: str, numbers: Mapping[str, int]) -> int:
    found = numbers.get(piece, numbers.get("[UNK]"))
    if found is None:
        raise InputError(f"--text: the piece {piece[:40]!r} is not in vocab.txt")
    return found


def _checked(tokens: Tokens, recognised: Recognised) -> Tokens:
    size = recognised.settings.get("vocab_size")
    largest = max((max(s, default=0) for s in tokens.sequences), default=0)
    fits = type(size) is not int or largest < size
    require(fits, "--text", f"tokens below vocab_size {size}", largest)
    return tokens
