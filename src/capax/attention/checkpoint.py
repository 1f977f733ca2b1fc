"""Modules in files: safetensors for the arrays, JSON for everything else, no pickle.

The arrays are stored under their paths (`blocks.0.W_Q`). The header holds the structure (kinds and
static fields), the caller's metadata and a SHA-256 of both. Loading checks leaf by leaf and names
the path of the first part that does not fit; every defect of a file is a one-line `InputError`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors.numpy import save as to_safetensors

from capax.array_files import read_safetensors, safetensors_metadata
from capax.attention.checkpoint_structure import build, describe
from capax.errors import InputError, require
from capax.files import check_writable, write_atomically
from capax.identity import canonical_json
from capax.reading import parse_json

FORMAT = "capax-module-1"


def save(path: Path | str, module: eqx.Module, metadata: Mapping[str, Any] | None = None) -> Path:
    """Write `module` and JSON-able `metadata` to `path`, whole or not at all."""
    check_writable(path)
    content = to_bytes(module, metadata)
    return write_atomically(path, lambda file: file.write(content))


def to_bytes(module: eqx.Module, metadata: Mapping[str, Any] | None = None) -> bytes:
    """The bytes that `save` writes."""
    leaves: dict[str, np.ndarray] = {}
    structure = describe(module, "", leaves)
    text = _canonical({"module": structure, "metadata": dict(metadata or {})})
    header = {"format": FORMAT, "capax": text, "sha256": fingerprint(text, leaves)}
    return to_safetensors(leaves, metadata=header)


def load(path: Path | str, *, dtype: Any = None) -> tuple[eqx.Module, dict[str, Any]]:
    """The module and the metadata saved in `path`; `dtype` converts the arrays (default: as saved).

    Raises `InputError` for a file that is missing, is not a Capax checkpoint, is damaged, or
    does not fit the structure it declares.
    """
    header, leaves = _read(Path(path))
    try:
        content = parse_json(header["capax"], "header")
        structure, metadata = content["module"], content["metadata"]
        module = build(structure, "", dict(leaves), lambda name, leaf: _to_jax(name, leaf, dtype))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: the header is damaged ({_first_line(error)})") from None
    same = fingerprint(header["capax"], leaves) == header.get("sha256")
    require(same, str(path), "the content that was saved", "a file changed afterwards")
    require(isinstance(metadata, dict), f"{path}: metadata", "a JSON object", metadata)
    return module, metadata


def is_intact(path: Path | str) -> bool:
    """Does the fingerprint in a file match its header and its arrays?"""
    header, leaves = _read(Path(path))
    return fingerprint(header["capax"], leaves) == header.get("sha256")


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Header and arrays of a safetensors file with our format mark."""
    header = safetensors_metadata(path, "a checkpoint")
    marked = header.get("format") == FORMAT and "capax" in header
    require(marked, str(path), f"a Capax checkpoint ({FORMAT})", header.get("format"))
    return read_safetensors(path, "a checkpoint")


def _to_jax(name: str, leaf: np.ndarray, dtype: Any) -> jax.Array:
    """The array in JAX, in the wanted precision; never narrowed silently."""
    wanted = np.dtype(leaf.dtype if dtype is None else dtype)
    require(bool(np.isfinite(leaf).all()), name, "finite numbers", "NaN or infinity")
    able = wanted != np.float64 or jax.config.jax_enable_x64  # type: ignore[attr-defined]
    require(able, name, "jax_enable_x64 for float64, or dtype=float32", "32-bit JAX")
    return jax.device_put(leaf.astype(wanted))


def _canonical(content: dict[str, Any]) -> str:
    try:
        return canonical_json(content)
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata: wanted plain JSON values, got {_first_line(error)}") from None


def fingerprint(text: str, leaves: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the header text and of every array with its path, shape and dtype."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(leaves):
        leaf = np.ascontiguousarray(leaves[name])
        digest.update(f"\0{name}\0{leaf.dtype.str}\0{leaf.shape}\0".encode())
        digest.update(leaf.tobytes())
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
