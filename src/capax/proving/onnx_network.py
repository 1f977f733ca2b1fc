"""A network as an ONNX graph of plain operations, for other verifiers.

The input is a row of T numbers: bits, or any numbers between 0 and 1. A token interpolates between
its two symbols, x_t = x_{t,0} + b_t (x_{t,1} - x_{t,0}); for bits this is the network itself.

A compiled head needs only the score and the value of each token. Both are linear in b_t:

    scores = s + b * ds,   a = softmax(scores),   u = a V + (a * b) dV,

with [CLS] as a last token whose bit is always 0: a product with [I 0] appends it, since some
verifiers cannot bound a Concat with a constant. The numbers s, ds, V, dV and the read-out are
rounded to float32 once, here. The rounded numbers ARE the network from then on: `FloatHead.tables`
gives the proof exactly the numbers in the graph.

Trained Transformers are written layer by layer. LayerNorm and gelu are written as operations of
opset 17 (ReduceMean, Sqrt, Div, Erf).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from capax.attention import ClsScalar, attention_scale
from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm
from capax.attention.parts.normalizers import Softmax
from capax.attention.transformer import Transformer
from capax.compiler.proof.enclosed import exactly, joined
from capax.compiler.proof.tables import HeadTables, Model, head_tables
from capax.errors import InputError, require

OPSET = 17
READOUT = ("W_C", "w", "W_1", "b_1", "w_2", "b_2")


class Graph:
    """Nodes and constants of a graph, written one operation at a time; names are numbered."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError:
            message = "ONNX files need the package onnx: pip install 'capax[onnx]'"
            raise InputError(message) from None
        self._onnx, self._nodes, self._constants = onnx, [], []

    def constant(self, value: Any, kind: type = np.float32) -> str:
        """A stored array."""
        name = f"c{len(self._constants)}"
        array = np.ascontiguousarray(np.asarray(value, kind))
        require(
            bool(np.isfinite(array).all()),
            "weights",
            "numbers in the range of float32",
            "larger numbers",
        )
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add one operation; returns the name of its result."""
        name = f"n{len(self._nodes)}"
        node = self._onnx.helper.make_node(operation, list(inputs), [name], **attributes)
        self._nodes.append(node)
        return name

    def finished(self, output: str, T: int) -> bytes:
        """The file with input X [1, T] and output Y [1, 1]."""
        helper, real = self._onnx.helper, self._onnx.TensorProto.FLOAT
        self._nodes.append(helper.make_node("Identity", [output], ["Y"]))
        X = helper.make_tensor_value_info("X", real, [1, T])
        Y = helper.make_tensor_value_info("Y", real, [1, 1])
        graph = helper.make_graph(self._nodes, "capax", [X], [Y], self._constants)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="capax")
        self._onnx.checker.check_model(model)
        return model.SerializeToString()


class FloatHead(NamedTuple):
    """A compiled network in float32, as in the graph. [CLS] is the last of T + 1 rows."""

    model: Model
    scores: np.ndarray  # [T + 1]
    score_steps: np.ndarray
    values: np.ndarray  # [T + 1, k]
    value_steps: np.ndarray

    @property
    def tables(self) -> HeadTables:
        """The same numbers for the proof; sums of two of them carry their rounding errors."""
        s, ds, V, dV = (exactly(part) for part in self[1:])
        logits, values = (
            joined(zero[:-1, None], one[:-1, None], axis=1)
            for zero, one in ((s, s + ds), (V, V + dV))
        )
        return HeadTables(logits, values, s[-1], V[-1])


def float_head(model: Model) -> FloatHead:
    """The network with every number rounded to float32."""
    tables = head_tables(model)
    scores, values = tables.logits.mid, tables.values.mid
    s = np.append(scores[:, 0], tables.cls_logit.mid)
    V = np.concatenate([values[:, 0], tables.cls_value.mid[None]])
    ds = np.append(scores[:, 1] - scores[:, 0], 0.0)
    dV = np.concatenate([values[:, 1] - values[:, 0], np.zeros((1, tables.k))])
    names = [name for name in READOUT if hasattr(model, name)]
    with np.errstate(over="ignore"):
        rounded = {name: jax.device_put(np.float32(getattr(model, name))) for name in names}
        parts = [part.astype(np.float32).astype(np.float64) for part in (s, ds, V, dV)]
    return FloatHead(dataclasses.replace(model, **rounded), *parts)


def head_graph(head: FloatHead) -> bytes:
    """The ONNX file of a compiled network."""
    graph, model = Graph(), head.model
    s, ds, V, dV = (graph.constant(part) for part in head[1:])
    bits = graph.add("MatMul", "X", graph.constant(np.eye(model.T, model.T + 1)))
    scores = graph.add("Add", graph.add("Mul", bits, ds), s)
    a = graph.add("Softmax", scores, axis=1)
    moved = graph.add("MatMul", graph.add("Mul", a, bits), dV)
    u = graph.add("Add", graph.add("MatMul", a, V), moved)
    if isinstance(model, ClsScalar):
        read = graph.add("MatMul", u, graph.constant(model.W_C))
        return graph.finished(_dot(graph, read, model.w), model.T)
    hidden = graph.add("Relu", _affine(graph, u, model.W_1, model.b_1))
    out = graph.add("Add", _dot(graph, hidden, model.w_2), graph.constant(model.b_2))
    return graph.finished(out, model.T)


def transformer_graph(model: Transformer) -> bytes:
    """The ONNX file of a trained Transformer over two symbols."""
    spec = model.spec
    require(spec.alphabet == 2, "alphabet", "two symbols", spec.alphabet)
    graph = Graph()
    embed, position = (np.asarray(part, np.float64) for part in (model.embed, model.position))
    bits = graph.add("MatMul", "X", graph.constant(np.eye(spec.T, spec.T + 1)))
    column = graph.add("Transpose", bits, perm=[1, 0])
    step = graph.add("MatMul", column, graph.constant(embed[1:] - embed[:1]))
    still = np.concatenate([position + embed[0], np.asarray(model.cls)[None]])
    x = graph.add("Add", step, graph.constant(still))
    for block in model.blocks[:-1]:
        x = _block(graph, block, x, x)
    last = (graph.constant([n], np.int64) for n in (spec.T, spec.T + 1, 0))
    row = _block(graph, model.blocks[-1], graph.add("Slice", x, *last), x)
    read = _dot(graph, _normed(graph, model.ln_final, row), model.w)
    return graph.finished(graph.add("Add", read, graph.constant(model.b)), spec.T)


def _block(graph: Graph, block: Block, rows: str, x: str) -> str:
    """The block for the queries `rows` and the tokens `x`."""
    plain = isinstance(block.norm, Softmax) and block.norm.temperature == 1.0
    require(plain, "normalizer", "a softmax of temperature 1", type(block.norm).__name__)
    H, d, k = block.W_Q.shape
    normed = [_normed(graph, block.ln1, part) for part in (rows, x, x)]
    scale = attention_scale(k, block.scale)
    parts = ((block.W_Q * scale, block.b_Q * scale), (block.W_K, block.b_K), (block.W_V, block.b_V))
    heads = [
        graph.add("Add", graph.add("MatMul", source, graph.constant(W)),
                  graph.constant(np.asarray(b)[:, None]))
        for source, (W, b) in zip(normed, parts, strict=True)
    ]  # fmt: skip
    keys = graph.add("Transpose", heads[1], perm=[0, 2, 1])
    weights = graph.add("Softmax", graph.add("MatMul", heads[0], keys), axis=2)
    mixed = graph.add("MatMul", weights, heads[2])  # [H, Q, k]
    mixed = graph.add("Transpose", mixed, perm=[1, 0, 2])
    flat = graph.add("Reshape", mixed, graph.constant([-1, H * k], np.int64))
    read = _affine(graph, flat, np.asarray(block.W_O).reshape(H * k, d), block.b_O)
    rows = graph.add("Add", rows, read)
    hidden = _affine(graph, _normed(graph, block.ln2, rows), block.W_in, block.b_in)
    hidden = _ACTIVATIONS[block.activation](graph, hidden)
    return graph.add("Add", rows, _affine(graph, hidden, block.W_out, block.b_out))


def _affine(graph: Graph, x: str, W: Any, b: Any) -> str:
    return graph.add("Add", graph.add("MatMul", x, graph.constant(W)), graph.constant(b))


def _dot(graph: Graph, x: str, w: Any) -> str:
    return graph.add("MatMul", x, graph.constant(np.asarray(w)[:, None]))


def _normed(graph: Graph, ln: LayerNorm | None, x: str) -> str:
    if ln is None:
        return x
    centred = graph.add("Sub", x, graph.add("ReduceMean", x, axes=[-1], keepdims=1))
    square = graph.add("Mul", centred, centred)
    variance = graph.add("ReduceMean", square, axes=[-1], keepdims=1)
    root = graph.add("Sqrt", graph.add("Add", variance, graph.constant(LAYER_NORM_EPSILON)))
    unit = graph.add("Div", centred, root)
    gained = graph.add("Mul", unit, graph.constant(ln.gain))
    return graph.add("Add", gained, graph.constant(ln.bias))


def _gelu(graph: Graph, h: str) -> str:
    inside = graph.add("Erf", graph.add("Mul", h, graph.constant(np.sqrt(0.5))))
    half = graph.add("Mul", h, graph.constant(0.5))
    return graph.add("Mul", half, graph.add("Add", inside, graph.constant(1.0)))


_ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "gelu": _gelu,
    "relu": lambda graph, h: graph.add("Relu", h),
    "tanh": lambda graph, h: graph.add("Tanh", h),
    "identity": lambda _, h: h,
}
