"""Cases that once ended in a traceback, a hang or the wrong exit code, each under its name."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing import samples, weights
from fuzzing.case import Case

_TOML = 'function = "and2"\nfamily = "simulated"\nT = [5]\n'
EXPERIMENTS = {
    "a list in a list in a list": _TOML + f"claim = {'[' * 3000}{']' * 3000}\n",
    "an integer of 5000 digits": _TOML + f"seed = {'9' * 5000}\n",
}


Make = Callable[[], Case]  # the names are known before a file is made


def experiments() -> dict[str, Make]:
    """`capax sweep` on each."""
    argv = ("sweep", "x.toml", "--store", "x.sqlite")
    return {name: partial(Case, "experiment", argv, {"x.toml": text.encode()}, kept=("x.toml",))
            for name, text in EXPERIMENTS.items()}  # fmt: skip


def weight_files() -> dict[str, Make]:
    """`capax verify` and `capax bound` on files that are signed as they should be."""
    bound, verify = ("bound", "w.safetensors"), ("verify", "w.safetensors")
    matrix, bias = "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias"  # of the GPT-2 of the samples
    return {
        name: partial(_weights, argv, label, change)
        for name, argv, label, change in (
            ("an integer of 400 digits", bound, "scalar", _set_number(10**400)),
            ("brackets without end", verify, "scalar", _set_text("[" * 20_000)),
            ("weights as large as can be", verify, "mlp", _fill(1.7e308)),
            ("a closing tag for a formula", verify, "scalar", _tagged),
            ("a matrix that meets no other in matmul", (*bound, "--heads", "2"), "gpt2",
             _resize(matrix, (5, 6))),
            ("a bias that cannot be broadcast", (*bound, "--heads", "2"), "gpt2",
             _resize(bias, (5,))),
        )
    }  # fmt: skip


def _weights(argv: tuple[str, ...], label: str, change: Any) -> Case:
    tensors, about = weights.opened(samples.weight_files()[label])
    change(tensors, about)
    files = {"w.safetensors": weights.signed(tensors, about)}
    return Case("weights", argv, files, kept=tuple(files))


def _resize(name: str, shape: tuple[int, ...]) -> Any:
    def change(tensors: weights.Tensors, _: dict[str, Any]) -> None:
        tensors[name] = np.resize(tensors[name], shape)

    return change


def _set_text(text: str) -> Any:
    def change(_: weights.Tensors, about: dict[str, Any]) -> None:
        about["capax"] = text

    return change


def _set_number(number: int) -> Any:
    """Every number of the structure becomes this one."""

    def change(_: weights.Tensors, about: dict[str, Any]) -> None:
        about["capax"] = json.dumps(
            _changed(json.loads(about["capax"]), lambda _, x: number if type(x) is float else x)
        )

    return change


def _tagged(_: weights.Tensors, about: dict[str, Any]) -> None:
    """Names that a terminal would take for the end of bold letters."""
    names = ("formula", "function", "name")
    tree = json.loads(about["capax"])
    about["capax"] = json.dumps(_changed(tree, lambda key, x: "[/b]" if key in names else x))


def _changed(node: Any, leaf: Callable[[str, Any], Any], key: str = "") -> Any:
    if isinstance(node, dict):
        return {name: _changed(part, leaf, name) for name, part in node.items()}
    if isinstance(node, list):
        return [_changed(part, leaf) for part in node]
    return leaf(key, node)


def _fill(value: float) -> Any:
    def change(tensors: weights.Tensors, _: dict[str, Any]) -> None:
        for name, array in tensors.items():
            if array.dtype.kind == "f":
                tensors[name] = np.full_like(array, value)

    return change


def _npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def tables() -> dict[str, Make]:
    """`capax cover` and `capax bound --data` on files that are none."""
    huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }"
    points = {
        "a header that breaks off": ("p.npy", _npy("{'descr': '<f8', 'shape': ((((")),
        "a terabyte that is not there": ("p.npy", _npy(huge)),
        "a field of 140000 letters": ("p.csv", b"1,2\n3," + b"4" * 140_000 + b"\n"),
    }  # fmt: skip
    found = {
        name: partial(Case, "points", ("cover", file, "--eps", "1"), {file: content}, kept=(file,))
        for name, (file, content) in points.items()
    }
    return {**found, "a zip that is none": _broken_zip}


def _broken_zip() -> Case:
    model = samples.weight_files()["scalar"]
    files = {"m.safetensors": model, "d.npz": b"PK\x03\x04" + b"x" * 200}
    argv = ("bound", "m.safetensors", "--data", "d.npz")
    return Case("data", argv, files, kept=tuple(files))


def kept() -> dict[str, Make]:
    """Bent files that were found by chance: wrong types in experiments, shapes that do not fit."""
    folder = Path(__file__).parent / "corpus"
    return {path.stem: partial(Case.read, path) for path in sorted(folder.glob("*.json"))}


def everything() -> dict[str, Make]:
    """All of them, by kind and name."""
    groups = {"experiment": experiments(), "weights": weight_files(), "table": tables(),
              "kept": kept()}  # fmt: skip
    return {f"{kind}: {name}": case
            for kind, group in groups.items() for name, case in group.items()}  # fmt: skip
