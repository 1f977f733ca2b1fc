"""Instances for other verifiers: an ONNX network, VNN-LIB properties, known answers.

One property for each pattern of the relevant bits: these are fixed, every other input is any number
in [0, 1], and the property asks for an input whose output is on the WRONG side of the threshold. So
`unsat` means: on this box the network decides as f. A folder has the layout of the yearly
competition (VNN-COMP): `onnx/`, `vnnlib/`, `instances.csv` with network, property and time limit.
In addition `answers.csv` has the known answer of each instance:

- `unsat`: proved on the whole box, for the network in the file, in real arithmetic (`box_range`);
- `sat`: a violating input, found by search at a corner and written out. It exceeds the threshold by
  far more than the rounding of float32 in these sums;
- `unknown`: neither. For trained networks `corners` may still be `proved`: Capax's proofs of
  trained networks hold for bits, not for numbers between 0 and 1.

VNN-LIB has no strict inequality: an output exactly at the threshold counts as a violation.
"""

import csv
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from capax.attention import ClsMLP, ClsScalar, checkpoint
from capax.attention.transformer import Transformer
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import function_from
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.linear_fractional import all_patterns
from capax.compiler.proof.tables import HeadTables, readout_output
from capax.compiler.weights_file import is_compiled_file, load_compiled
from capax.decompile.proof.counterexample import search
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward
from capax.errors import require
from capax.files import write_atomically
from capax.proving.box_range import box_range
from capax.proving.onnx_network import float_head, head_graph, transformer_graph

Answer = Literal["unsat", "sat", "unknown"]
CLEAR = 1e-3
"""Smallest distance of a violation, relative to 1 + |output|: larger than float32 rounding."""


@dataclass(frozen=True)
class Instance:
    """One property and its known answer.

    `margin` is the certified distance from the threshold over the box (negative: not proved; None:
    no bound), `ones` the positions of the ones of a violating input.
    """

    network: str
    property: str
    row: int
    f: int
    answer: Answer
    margin: float | None
    ones: tuple[int, ...] | None


@dataclass(frozen=True)
class InstanceSet:
    """The files of one network: names relative to a folder, contents, and the instances."""

    files: dict[str, bytes]
    instances: tuple[Instance, ...]

    def write(self, folder: Path | str, timeout: int = 60) -> Path:
        """Write all files, `instances.csv` and `answers.csv` below `folder`."""
        folder = Path(folder)
        rows = [[i.network, i.property, str(timeout)] for i in self.instances]
        tables = {"instances.csv": _csv(rows), "answers.csv": _csv(self._answers())}
        for name, content in (self.files | tables).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, lambda file, data=content: file.write(data))
        return folder

    def _answers(self) -> list[list[str]]:
        names = list(Instance.__dataclass_fields__)
        shown = ([_shown(value) for value in asdict(i).values()] for i in self.instances)
        return [names, *shown]

    def joined(self, other: "InstanceSet") -> "InstanceSet":
        """Both sets in one folder."""
        same = self.files.keys() & other.files.keys()
        require(not same, "name", "another name for each network", ", ".join(sorted(same)))
        return InstanceSet(self.files | other.files, self.instances + other.instances)


def verification(
    model: ClsScalar | ClsMLP | Transformer, f: SparseFunction, name: str = "network"
) -> InstanceSet:
    """The ONNX file of a network and one property for each pattern of the bits that f reads.

    Examples:
        >>> import capax
        >>> from capax.proving.vnnlib import verification
        >>> f = capax.boolean.parse("x0 & x2", T=4)
        >>> model = capax.compile(f, 4).model
        >>> found = verification(model, f)
        >>> [i.answer for i in found.instances]
        ['unsat', 'unsat', 'unsat', 'unsat']
    """
    require(f.is_boolean, "function", "a Boolean function", "real values")
    T = length(model)
    require(f.T == T, "function", f"a function of {T} bits, like the network", f.T)
    if isinstance(model, Transformer):
        graph, known = transformer_graph(model), _searched(model, f)
    else:
        graph, known = _compiled(model, f)
    network, files, instances = f"onnx/{name}.onnx", {}, []
    for row, (answer, margin, ones) in enumerate(known):
        place = f"vnnlib/{name}_{row:0{len(str((1 << f.s) - 1))}d}.vnnlib"
        files[place] = property_text(f, T, row, model.threshold).encode()
        value = int(f.table[row] > 0.5)
        instances.append(Instance(network, place, row, value, answer, margin, ones))
    return InstanceSet({network: graph} | files, tuple(instances))


def length(model: ClsScalar | ClsMLP | Transformer) -> int:
    """T, the number of input bits."""
    return model.spec.T if isinstance(model, Transformer) else model.T


def network_and_function(
    path: Path | str,
) -> tuple[ClsScalar | ClsMLP | Transformer, SparseFunction | None]:
    """The network of a weights file; of a compiled one also its function."""
    if is_compiled_file(path):
        file = load_compiled(path)
        claims = file.claims
        f = function_from(claims.get("support"), claims.get("table"), file.model.T)
        return file.model, f
    module, _ = checkpoint.load(path, dtype=np.float32)
    fits = isinstance(module, ClsScalar | ClsMLP | Transformer)
    require(fits, str(path), "a compiled network or a Transformer", type(module).__name__)
    return module, None  # type: ignore[return-value]


def property_text(f: SparseFunction, T: int, row: int, threshold: float) -> str:
    """VNN-LIB 1.0: the box of a pattern, and an output on the wrong side."""
    value = bool(f.table[row] > 0.5)
    shown = dict(zip(f.support, all_patterns(f.s)[row].tolist(), strict=True))
    ends = [(shown.get(t, 0), shown.get(t, 1)) for t in range(T)]
    where = ", ".join(f"x{t} = {b}" for t, b in shown.items()) or "no relevant bit"
    lines = [f"; {where}: f = {int(value)}. A violation is an output on the other side."]
    lines += [f"(declare-const X_{t} Real)" for t in range(T)]
    lines.append("(declare-const Y_0 Real)")
    for t, (low, high) in enumerate(ends):
        lines += [f"(assert (>= X_{t} {low}.0))", f"(assert (<= X_{t} {high}.0))"]
    lines.append(f"(assert ({'<=' if value else '>='} Y_0 {float(threshold)}))")
    return "\n".join(lines) + "\n"


Known = tuple[Answer, float | None, tuple[int, ...] | None]


def _compiled(model: ClsScalar | ClsMLP, f: SparseFunction) -> tuple[bytes, list[Known]]:
    head = float_head(model)
    tables = head.tables
    low, high = box_range(head.model, tables, f.support)
    one = f.table > 0.5
    margins = np.where(one, low - model.threshold, model.threshold - high)
    return head_graph(head), [
        ("unsat", float(m), None) if m > 0 else _attacked(head.model, tables, f, row, float(m))
        for row, m in enumerate(margins)
    ]


def _attacked(
    model: ClsScalar | ClsMLP, tables: HeadTables, f: SparseFunction, row: int, margin: float
) -> Known:
    """The input with the output furthest on the wrong side, found by a search over bits."""
    far = 1e6 if f.table[row] < 0.5 else -1e6  # ascend towards the wrong side
    away = np.full(1 << f.s, -far)
    bits = attack(tables, f.support, away, lambda u: readout_output(model, u), rows=[row]).bits
    output = float(readout_output(model, tables.head(bits[None]))[0])
    return _violation(bits, output - model.threshold, bool(f.table[row] > 0.5), margin)


def _violation(bits: np.ndarray, above: float, value: bool, margin: float | None) -> Known:
    beyond = -above if value else above
    if beyond > CLEAR * (1 + abs(above)):
        return "sat", margin, tuple(int(t) for t in np.flatnonzero(bits))
    return "unknown", margin, None


def _searched(model: Transformer, f: SparseFunction) -> list[Known]:
    """Counterexamples at corners, pattern by pattern; no claim about the box."""
    known: list[Known] = [("unknown", None, None)] * (1 << f.s)
    if model.spec.layers > 1:
        return known
    forward = TableForward(one_query_layer(model))
    found = search(forward, f, np.random.default_rng(0), threshold=model.threshold, p=0.5)
    row = int(found.bits[list(f.support)] @ (1 << np.arange(f.s)))
    above = float(forward.logits(forward.sums(found.bits[None]))[0]) - model.threshold
    known[row] = _violation(found.bits, above, bool(f.table[row] > 0.5), None)
    return known


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
