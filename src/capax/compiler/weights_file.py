"""Compiled networks in safetensors files: weights in float64, the certificate in the metadata."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from capax.array_files import read_safetensors, safetensors_metadata
from capax.attention import ClsMLP, ClsScalar, checkpoint
from capax.attention.checkpoint_structure import build
from capax.compiler.compiling import Compiled
from capax.compiler.construction.assemble import Model, assemble
from capax.errors import InputError, require
from capax.reading import parse_json

KIND = "capax-compiled-1"


class WeightsFile(NamedTuple):
    """The content of a file: the network, its claims, and whether it is unchanged since saved."""

    model: Model
    claims: dict[str, Any]
    intact: bool


def save_compiled(path: Path | str, compiled: Compiled) -> Path:
    """Write weights (float64) and certificate to `path`, whole or not at all."""
    model = assemble(compiled.construction, np.float64)
    metadata = {"kind": KIND, "certificate": compiled.certificate.to_json()}
    return checkpoint.save(path, model, metadata)


def load_compiled(path: Path | str) -> WeightsFile:
    """Read a compiled network, also one that was changed after it was saved.

    Raises `InputError` when the file is missing, truncated, no safetensors file, holds another kind
    of module, or arrays that do not fit together or are not finite.
    """
    content, leaves = _read(Path(path))
    metadata, structure = content.get("metadata"), content.get("module")
    if not isinstance(metadata, dict) or metadata.get("kind") != KIND:
        raise InputError(f"{path}: wanted a network written by capax compile, got other metadata")
    require(isinstance(structure, dict), f"{path}: module", "a JSON object", structure)
    claims = metadata.get("certificate")
    require(isinstance(claims, dict), f"{path}: certificate", "a JSON object", claims)
    with jax.enable_x64(True):
        try:
            module = build(dict(structure), "", dict(leaves), _to_jax)  # type: ignore[arg-type]
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: the header is damaged ({error})") from None
        fits = isinstance(module, ClsScalar | ClsMLP)
        require(fits, str(path), "a ClsScalar or ClsMLP", type(module).__name__)
        return WeightsFile(module, claims, _is_intact(path))  # type: ignore[arg-type]


def is_compiled_file(path: Path | str) -> bool:
    """True when `path` is a file that `capax compile` wrote (so it may be overwritten)."""
    try:
        metadata = _read(Path(path))[0].get("metadata")
    except InputError:
        return False
    return isinstance(metadata, dict) and metadata.get("kind") == KIND


def _is_intact(path: Path | str) -> bool:
    """Does the fingerprint in the file match its content?"""
    try:
        checkpoint.load(path)
    except InputError:
        return False
    return True


def _to_jax(name: str, leaf: np.ndarray) -> jax.Array:
    require(bool(np.isfinite(leaf).all()), name, "finite weights", "NaN or infinity")
    return jax.device_put(leaf.astype(np.float64))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON header and the arrays of a Capax file."""
    header = safetensors_metadata(path, "a weights file")
    marked = header.get("format") == checkpoint.FORMAT
    require(marked, str(path), "a Capax file", "a safetensors file of another kind")
    content = parse_json(header.get("capax", "null"), f"{path}: header")
    require(isinstance(content, dict), f"{path}: header", "a JSON object", content)
    return content, read_safetensors(path, "a weights file")[1]
