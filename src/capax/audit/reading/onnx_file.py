"""ONNX: initialisers, under their PyTorch names where the graph still has them.

PyTorch's exporter transposes the weight of a Linear and calls it `onnx::MatMul_470`. Only the NODE
that uses it still has the name of the module: `/encoder/layer.0/attention/self/query/MatMul`. Such
an initialiser is transposed back and named `encoder.layer.0.attention.self.query.weight` again.
Quantised graphs and graphs with fused attention keep no such names: their tensors stay as they are.
"""

import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from capax.audit.reading.protobuf import fields, varints
from capax.audit.reading.stored import StoredTensor, stored
from capax.errors import InputError, require

GRAPH = 7
NODE, INITIALISER = 1, 5
KINDS = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
         10: "float16", 11: "float64", 16: "bfloat16"}  # fmt: skip


@dataclass(frozen=True)
class _OnnxNode:
    name: str
    kind: str
    inputs: tuple[str, ...]


def read_onnx(path: Path) -> dict[str, StoredTensor]:
    """Initialisers with raw data in the file, by name."""
    require(path.stat().st_size > 0, str(path), "an ONNX file", "an empty one")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
        view = memoryview(source)
        try:
            tensors, nodes = _graph(path, view)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        finally:
            view.release()
    require(
        tensors, str(path), "an ONNX graph with initialisers inside the file", "no initialisers"
    )
    return _renamed(tensors, nodes)


def _graph(path: Path, data: memoryview) -> tuple[dict[str, StoredTensor], list[_OnnxNode]]:
    tensors: dict[str, StoredTensor] = {}
    nodes: list[_OnnxNode] = []
    for graph in fields(data, 0, len(data)):
        if graph.number != GRAPH or graph.end == 0:
            continue
        for part in fields(data, graph.start, graph.end):
            if part.number == NODE:
                nodes.append(_node(data, part.start, part.end))
            elif part.number == INITIALISER:
                tensors.update(_initialiser(path, data, part.start, part.end))
    return tensors, nodes


def _node(data: memoryview, start: int, end: int) -> _OnnxNode:
    texts: dict[int, list[str]] = {1: [], 3: [], 4: []}
    for field in fields(data, start, end):
        if field.number in texts:
            texts[field.number].append(_text(data, field.start, field.end))
    return _OnnxNode("".join(texts[3][:1]), "".join(texts[4][:1]), tuple(texts[1]))


def _initialiser(path: Path, data: memoryview, start: int, end: int) -> dict[str, StoredTensor]:
    shape: list[int] = []
    name, kind, place, elsewhere = "", 0, None, False
    for field in fields(data, start, end):
        if field.number == 1:
            shape += varints(data, field.start, field.end) if field.end else [field.value]
        elif field.number == 2:
            kind = field.value
        elif field.number == 8:
            name = _text(data, field.start, field.end)
        elif field.number == 9:
            place = (field.start, field.end - field.start)
        elif field.number in (13, 14):
            elsewhere = elsewhere or field.number == 13 or field.value == 1
    if elsewhere:
        raise InputError(f"{name[:60]!r} lies in another file: save the model with its data inside")
    if place is None or kind not in KINDS:
        return {}  # scalars in typed fields and strings are not weights
    tensor = stored(path, KINDS[kind], tuple(shape), place[0], name)
    require(tensor.num_bytes == place[1], name, f"{tensor.num_bytes} bytes", place[1])
    return {name: tensor}


def _renamed(tensors: dict[str, StoredTensor], nodes: list[_OnnxNode]) -> dict[str, StoredTensor]:
    named = dict(tensors)
    for node in nodes:
        weights = [name for name in node.inputs if name in tensors]
        if node.kind != "MatMul" or not node.name.endswith("/MatMul") or len(weights) != 1:
            continue
        module = node.name.removesuffix("/MatMul").strip("/").replace("/", ".")
        if len(tensors[weights[0]].shape) == 2:
            named[f"{module}.weight"] = _transposed(tensors[weights[0]])
            named.pop(weights[0], None)
    return named


def _transposed(tensor: StoredTensor) -> StoredTensor:
    def load() -> Shaped[np.ndarray, "..."]:
        return np.ascontiguousarray(tensor.load().T)

    return StoredTensor(tensor.shape[::-1], tensor.kind, tensor.num_bytes, load)


def _text(data: memoryview, start: int, end: int) -> str:
    return bytes(data[start:end]).decode("utf-8", errors="replace")
