"""The identity of a specification: its canonical text, its hash, and the random key from that hash.

A run's randomness comes from its specification, never from the order, the batch or the machine: the
PRNG key is derived from SHA-256 of the canonical JSON of the specification and of the purpose.
"""

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax


def canonical_json(fields: object) -> str:
    """The one spelling of `fields`: sorted names, no spaces, floats as `repr`, no NaN."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(fields: object) -> str:
    """Hexadecimal SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(fields).encode()).hexdigest()


def key_words(fields: object, purpose: str) -> tuple[int, int]:
    """Two 32-bit words for a threefry key; different purposes give independent keys."""
    return words_of(canonical_json(fields), purpose)


def words_of(text: str, purpose: str) -> tuple[int, int]:
    """The same from the canonical text, for several purposes of one spec."""
    raw = hashlib.sha256(f"{purpose}\0{text}".encode()).digest()
    return int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:8], "big")


def key_from(fields: object, purpose: str) -> "jax.Array":
    """A JAX PRNG key (threefry2x32) that depends on `fields` and `purpose` only."""
    import jax
    import jax.numpy as jnp

    words = jnp.array(key_words(fields, purpose), dtype=jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")
