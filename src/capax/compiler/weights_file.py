"""Compiled networks in safetensors files: weights in float64, the certificate in the metadata.

Three kinds of files: networks of Boolean functions, heads that average (`average_file`), and the
networks of the paper's Appendix B (`paper_file`).
"""

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
from capax.files import check_writable
from capax.reading import parse_json

KIND, AVERAGE, PAPER = "capax-compiled-1", "capax-average-1", "capax-paper-1"
CONTENTS = {
    KIND: "the network of a Boolean function",
    AVERAGE: "a head that averages",
    PAPER: "a network of the paper's Appendix B",
}


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


def load_compiled(path: Path | str, kind: str = KIND) -> WeightsFile:
    """Read a compiled network, also one that was changed after it was saved.

    Raises `InputError` for a missing or truncated file, another format, another kind of module, or
    arrays that do not fit together or are not finite.
    """
    structure, claims, leaves = read_parts(path, kind)
    with jax.enable_x64(True):
        try:
            module = build(structure, "", leaves, _to_jax)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: the header is damaged ({error})") from None
        fits = isinstance(module, ClsScalar | ClsMLP)
        require(fits, str(path), "a ClsScalar or ClsMLP", type(module).__name__)
        return WeightsFile(module, claims, checkpoint.is_intact(path))  # type: ignore[arg-type]


def read_parts(
    path: Path | str, kind: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, np.ndarray]]:
    """The structure, the claims and the arrays of a file of this kind."""
    content, leaves = _read(Path(path))
    metadata, structure = content.get("metadata"), content.get("module")
    found = metadata.get("kind") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or found != kind:
        got = CONTENTS.get(found, "other metadata") if isinstance(found, str) else "other metadata"
        raise InputError(f"{path}: wanted {CONTENTS[kind]}, written by capax compile, got {got}")
    require(isinstance(structure, dict), f"{path}: module", "a JSON object", structure)
    claims = metadata.get("certificate")
    require(isinstance(claims, dict), f"{path}: certificate", "a JSON object", claims)
    return dict(structure), dict(claims), leaves  # type: ignore[arg-type]


def kind_of(path: Path | str) -> str | None:
    """The kind of a Capax file; None for another file or a missing one."""
    try:
        metadata = _header(Path(path)).get("metadata")
    except InputError:
        return None
    kind = metadata.get("kind") if isinstance(metadata, dict) else None
    return kind if isinstance(kind, str) and kind in CONTENTS else None


def is_compiled_file(path: Path | str) -> bool:
    """True for the network of a Boolean function that `capax compile` wrote."""
    return kind_of(path) == KIND


def check_destination(path: Path) -> None:
    """Raise `InputError` for a file that cannot be written, or an existing file of another kind."""
    check_writable(path)
    if path.exists() and kind_of(path) is None:
        raise InputError(
            f"{path}: exists and was not written by capax compile; choose another name"
        )


def _to_jax(name: str, leaf: np.ndarray) -> jax.Array:
    require(bool(np.isfinite(leaf).all()), name, "finite weights", "NaN or infinity")
    return jax.device_put(leaf.astype(np.float64))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON header and the arrays of a Capax file."""
    return _header(path), read_safetensors(path, "a weights file")[1]


def _header(path: Path) -> dict[str, Any]:
    header = safetensors_metadata(path, "a weights file")
    marked = header.get("format") == checkpoint.FORMAT
    require(marked, str(path), "a Capax file", "a safetensors file of another kind")
    content = parse_json(header.get("capax", "null"), f"{path}: header")
    require(isinstance(content, dict), f"{path}: header", "a JSON object", content)
    return dict(content)  # type: ignore[arg-type]
