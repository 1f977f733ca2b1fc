"""Cases that once ended in a traceback, a hang or the wrong exit code, each under its name."""

import json
import struct
from typing import Any

import numpy as np

from fuzzing import hostile, samples, weights
from fuzzing.case import Case

_TOML = 'function = "and2"\nfamily = "simulated"\nT = [5]\n'
EXPERIMENTS = {
    "a list for a family": 'function = "and2"\nfamily = ["simulated"]\nT = [5]\n',
    "a number for panels": _TOML + "panels = 3\n",
    "a number for a panel": _TOML.replace("T = [5]", "[panels]\na = 1.5"),
    "a truth for axes": _TOML + "axes = true\n",
    "a date for training": _TOML + "training = 1979-05-27T07:32:00Z\n",
    "a time for T": 'function = "and2"\nT = 07:32:00\n',
    "a number for an axis": _TOML + "axes = {spread = 0.3}\n",
    "a number for a scale": _TOML + "scales = {quick = 1}\n",
    "a list in a list in a list": _TOML + f"claim = {'[' * 3000}{']' * 3000}\n",
    "an integer of 5000 digits": _TOML + f"seed = {'9' * 5000}\n",
    "an integer of 400 digits": _TOML + f"axes = {{threshold = [{'9' * 400}]}}\n",
}


def experiments() -> dict[str, Case]:
    """`capax sweep` on each."""
    argv = ("sweep", "x.toml", "--store", "x.sqlite")
    return {name: Case("experiment", argv, {"x.toml": text.encode()}, kept=("x.toml",))
            for name, text in EXPERIMENTS.items()}  # fmt: skip


def weight_files() -> dict[str, Case]:
    """`capax verify` and `capax bound` on files that are signed as they should be."""
    found = {}
    for name, command, label, change in (
        ("an integer of 400 digits", "verify", "scalar", _set_number(10**400)),
        ("an integer of 400 digits in bound", "bound", "scalar", _set_number(10**400)),
        ("brackets without end", "verify", "scalar", _set_text("[" * 20_000)),
        ("a table in a table in a table", "bound", "transformer", _set_text('{"a":' * 20_000)),
        ("infinite weights", "bound", "transformer", _fill(np.inf)),
        ("weights that are no numbers", "bound", "gpt2", _fill(np.nan)),
        ("matrices that do not fit", "verify", "scalar", _reshape),
        ("a matrix too short", "bound", "mlp", _reshape),
        ("a closing tag for a name", "bound", "gpt2", _rename("[/b]")),
        ("a closing tag in the metadata", "verify", "scalar", _set_text('{"module": "[/b]"}')),
    ):
        tensors, about = weights.opened(samples.weight_files()[label])
        change(tensors, about)
        flags = ("--heads", "2") if label == "gpt2" else ()
        files = {"w.safetensors": weights.signed(tensors, about)}
        argv = (command, "w.safetensors", *flags)
        found[name] = Case("weights", argv, files, kept=tuple(files))
    return found


def _set_text(text: str) -> Any:
    def change(_: weights.Tensors, about: dict[str, Any]) -> None:
        about["capax"] = text

    return change


def _set_number(number: int) -> Any:
    """Every number of the structure becomes this one."""

    def changed(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: changed(part) for key, part in node.items()}
        if isinstance(node, list):
            return [changed(part) for part in node]
        return number if isinstance(node, float) else node

    def change(_: weights.Tensors, about: dict[str, Any]) -> None:
        about["capax"] = json.dumps(changed(json.loads(about["capax"])))

    return change


def _fill(value: float) -> Any:
    def change(tensors: weights.Tensors, _: dict[str, Any]) -> None:
        for name, array in tensors.items():
            if array.dtype.kind == "f":
                tensors[name] = np.full_like(array, value)

    return change


def _reshape(tensors: weights.Tensors, about: dict[str, Any]) -> None:
    name = next(name for name, array in tensors.items() if array.ndim == 2 and array.size > 1)
    tensors[name] = np.resize(tensors[name], (3, 7))
    weights.declare(about, tensors)


def _rename(text: str) -> Any:
    def change(tensors: weights.Tensors, _: dict[str, Any]) -> None:
        tensors[f"{text}.weight"] = tensors.pop(next(iter(tensors)))

    return change


def _npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def tables() -> dict[str, Case]:
    """`capax cover` and `capax bound --data` on files that are none."""
    huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }"
    points = {
        "a header that breaks off": ("p.npy", _npy("{'descr': '<f8', 'shape': ((((")),
        "a terabyte that is not there": ("p.npy", _npy(huge)),
        "a field of 140000 letters": ("p.csv", b"1,2\n3," + b"4" * 140_000 + b"\n"),
        "a pickle": ("p.npy", _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                                   hostile.PICKLES[0])),
    }  # fmt: skip
    found = {
        name: Case("points", ("cover", file, "--eps", "1"), {file: content}, kept=(file,))
        for name, (file, content) in points.items()
    }
    model = samples.weight_files()["scalar"]
    for name, content in (("a zip that is none", b"PK\x03\x04" + b"x" * 200),
                          ("no archive at all", b"\x93NUMPY nothing")):  # fmt: skip
        files = {"m.safetensors": model, "d.npz": content}
        argv = ("bound", "m.safetensors", "--data", "d.npz")
        found[name] = Case("data", argv, files, kept=tuple(files))
    return found


def everything() -> dict[str, Case]:
    """All of them, by kind and name."""
    groups = {"experiment": experiments(), "weights": weight_files(), "table": tables()}
    return {f"{kind}: {name}": case
            for kind, group in groups.items() for name, case in group.items()}  # fmt: skip
