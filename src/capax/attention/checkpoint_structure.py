"""The structure of a module as JSON, and back: kinds, static fields, shapes of arrays.

A module becomes {"kind": "ClsScalar", "fields": {...}}, an array {"shape": [...], "dtype": ...},
a tuple {"items": [...]}, a plain value {"value": ...}. Only kinds in `KINDS` can be built.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from capax.attention import encodings, head, layer, readout, stack
from capax.attention.parts import normalizers, scores
from capax.attention.transformer import Transformer, assemble, parameters, transformer_spec
from capax.errors import InputError, require

_CLASSES = (
    encodings.DeterministicPositions,
    encodings.OrthonormalBag,
    encodings.TrainablePositions,
    encodings.BagOfVectors,
    encodings.IncoherentCodes,
    normalizers.Softmax,
    normalizers.NormalizedSigmoid,
    normalizers.NormalizedSoftplus,
    normalizers.NormalizedReLU,
    normalizers.ScaledSigmoid,
    normalizers.Entmax,
    normalizers.Sparsemax,
    normalizers.Hardmax,
    normalizers.TopK,
    scores.BilinearScore,
    scores.FactoredScore,
    head.Linear,
    head.Head,
    layer.AttentionLayer,
    readout.ClsScalar,
    readout.ClsMLP,
    stack.PaperBlock,
    stack.PaperStack,
)
KINDS: dict[str, type[eqx.Module]] = {cls.__name__: cls for cls in _CLASSES}

_LATER = {"DeterministicPositions": {"alphabet": 2}}
"""Plain fields that were added to modules later. They are left out at these values, so old files
stay valid."""
_FLOATS = ("float16", "float32", "float64")
ToJax = Callable[[str, np.ndarray], jax.Array]


def describe(value: Any, path: str, leaves: dict[str, np.ndarray]) -> dict[str, Any]:
    """JSON structure of `value`; its arrays are put into `leaves` under their paths."""
    if isinstance(value, Transformer):
        return _describe_transformer(value, path, leaves)
    if isinstance(value, eqx.Module):
        kind = type(value).__name__
        known = KINDS.get(kind) is type(value)
        require(known, path or "module", "a module of a kind that Capax can save", kind)
        later = _LATER.get(kind, {})
        names = [field.name for field in dataclasses.fields(value)]
        names = [n for n in names if n not in later or getattr(value, n) != later[n]]
        parts = {name: describe(getattr(value, name), _join(path, name), leaves) for name in names}
        return {"kind": kind, "fields": parts}
    if isinstance(value, jax.Array | np.ndarray):
        return _describe_array(np.asarray(value), path, leaves)
    if isinstance(value, tuple):
        items = [describe(item, _join(path, str(i)), leaves) for i, item in enumerate(value)]
        return {"items": items}
    plain = value is None or isinstance(value, str | int | float)
    require(plain, path, "an array, a module or a plain value", value)
    return {"value": value}


def build(structure: Any, path: str, leaves: dict[str, np.ndarray], to_jax: ToJax) -> eqx.Module:
    """The module that `structure` describes; no array may be missing or left over."""
    module = _build(structure, path, leaves, to_jax)
    require(not leaves, ", ".join(sorted(leaves)), "only arrays of the module", "extra arrays")
    require(isinstance(module, eqx.Module), "structure", "a module", module)
    return module


def _build(structure: Any, path: str, leaves: dict[str, np.ndarray], to_jax: ToJax) -> Any:
    require(isinstance(structure, dict), path or "structure", "a JSON object", structure)
    if "kind" in structure:
        return _build_module(structure, path, leaves, to_jax)
    if "shape" in structure:
        return to_jax(path, _take(leaves, path, tuple(structure["shape"]), structure["dtype"]))
    if "items" in structure:
        items = enumerate(structure["items"])
        return tuple(_build(part, _join(path, str(i)), leaves, to_jax) for i, part in items)
    require("value" in structure, path, "kind, shape, items or value", structure)
    return structure["value"]


def _build_module(
    structure: dict[str, Any], path: str, leaves: dict[str, np.ndarray], to_jax: ToJax
) -> eqx.Module:
    kind, parts = str(structure["kind"]), structure.get("fields", {})
    if kind == "Transformer":
        return _build_transformer(structure, path, leaves, to_jax)
    require(kind in KINDS, path or "module", f"a kind among {', '.join(KINDS)}", kind)
    names = {field.name for field in dataclasses.fields(KINDS[kind])}
    where = _join(path, "fields")
    needed = names - set(_LATER.get(kind, {}))
    fits = isinstance(parts, dict) and needed <= set(parts) <= names
    require(fits, where, f"{sorted(names)}", parts)
    values = {name: _build(part, _join(path, name), leaves, to_jax) for name, part in parts.items()}
    try:
        return KINDS[kind](**values)
    except InputError as error:
        raise InputError(_join(path, str(error))) from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path or kind}: the parts do not fit together ({reason})") from None


def _describe_array(array: np.ndarray, path: str, leaves: dict[str, np.ndarray]) -> dict[str, Any]:
    require(array.dtype.name in _FLOATS, path, f"a dtype among {_FLOATS}", array.dtype.name)
    leaves[path] = array
    return {"shape": list(array.shape), "dtype": array.dtype.name}


def _describe_transformer(
    model: Transformer, path: str, leaves: dict[str, np.ndarray]
) -> dict[str, Any]:
    arrays = parameters(model)
    assemble(model.spec, arrays)  # checks shapes: a vmapped stack of models is refused here
    for name, leaf in arrays.items():
        _describe_array(np.asarray(leaf), _join(path, name), leaves)
    dtype = model.w.dtype.name
    return {"kind": "Transformer", "spec": model.spec.model_dump(), "dtype": dtype}


def _build_transformer(
    structure: dict[str, Any], path: str, leaves: dict[str, np.ndarray], to_jax: ToJax
) -> Transformer:
    spec, dtype = transformer_spec(**structure["spec"]), structure["dtype"]
    require(spec.layers <= len(leaves), _join(path, "layers"), "arrays for each", spec.layers)
    arrays = {}
    for name, shape in spec.shapes().items():
        where = _join(path, name)
        arrays[name] = to_jax(where, _take(leaves, where, shape, dtype))
    return assemble(spec, arrays)


def _take(
    leaves: dict[str, np.ndarray], path: str, shape: tuple[int, ...], dtype: str
) -> np.ndarray:
    """Remove the array at `path` from `leaves` after comparing it with its declaration."""
    require(dtype in _FLOATS, path, f"a dtype among {_FLOATS}", dtype)
    require(path in leaves, path, f"a {dtype} array of shape {shape}", "no such array")
    leaf = leaves.pop(path)
    require(leaf.shape == shape, path, f"shape {shape}", leaf.shape)
    require(leaf.dtype.name == dtype, path, f"dtype {dtype}", leaf.dtype.name)
    return leaf


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
