"""Checks made before torch and transformers are imported, which takes seconds.

A text that is too short is recognised by its number of bytes. ASCII gives at most one token a byte,
and one more for a blank that some tokenizers put first. Other text may be decomposed first: one
character of three bytes becomes at most 33 bytes (U+FDFA), so eleven tokens a byte.
"""

from pathlib import Path

from capax.audit.layouts.table import Recognised
from capax.audit.text.model import TEXT
from capax.audit.text.text_tokens import LARGEST_TEXT
from capax.audit.text.windows import SHORTEST
from capax.errors import require
from capax.reading import read_text

BIDIRECTIONAL = ("BERT", "RoBERTa", "DistilBERT", "ALBERT")
_VOCABULARIES = ("tokenizer.*", "vocab*", "*.model", "*.tiktoken", "tekken.json")


def check_text(recognised: Recognised, path: Path, *, split: str, lines: bool) -> None:
    """Raises `InputError` if a quick check shows that the model cannot read this text."""
    facts, config = recognised.facts, recognised.checkpoint.config
    require(
        facts.family in TEXT, "--text", f"a family among {', '.join(sorted(TEXT))}", facts.family
    )
    kind = config.get("model_type")
    require(isinstance(kind, str), "--text", "a config.json that names the model_type", kind)
    plain = config.get("position_embedding_type") in (None, "absolute")
    wanted = "absolute positions (transformers 5 does not support relative positions in BERT)"
    require(plain, "--text", wanted, config.get("position_embedding_type"))
    long = facts.limit is None or facts.limit >= SHORTEST
    require(long, "--text", f"a context of at least {SHORTEST} tokens", facts.limit)
    require(split in ("tokenizer", "spaces"), "--split", "tokenizer or spaces", split)
    text = read_text(path, LARGEST_TEXT)
    if split == "tokenizer":
        _check_length(text, facts.family in BIDIRECTIONAL, lines)
        _check_vocabulary(recognised)


def _check_length(text: str, bidirectional: bool, lines: bool) -> None:
    parts = [line for line in text.splitlines() if line.strip()] if lines else [text.strip()]
    most = max((_most_tokens(part) for part in parts), default=0)
    if lines:
        needed = SHORTEST // 2 - 2 if bidirectional else SHORTEST
    else:
        needed = (2 if bidirectional else 4) * SHORTEST
    what = "a line of at least" if lines else "at least"
    require(most >= needed, "--text", f"{what} {needed} tokens", f"{most} at most")


def _most_tokens(text: str) -> int:
    size = len(text.encode())
    return 0 if not size else size + 1 if text.isascii() else 11 * size + 1


def _check_vocabulary(recognised: Recognised) -> None:
    """Require a tokenizer file: without one, transformers makes an empty tokenizer."""
    folder = recognised.checkpoint.path.parent
    inside = recognised.checkpoint.format == "GGUF"
    found = inside or any(any(folder.glob(pattern)) for pattern in _VOCABULARIES)
    require(
        found, str(folder), "a tokenizer beside the weights (tokenizer.json)", "no tokenizer file"
    )
