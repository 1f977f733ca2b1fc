"""Weight files: broken bytes, lying headers, numbers that are none, and metadata of strangers.

Bent arrays and metadata are signed anew, so that what is behind the fingerprint is reached too.
"""

import hashlib
import json
import struct
from random import Random
from typing import Any

import numpy as np

from fuzzing import hostile, samples
from fuzzing.case import Case

Tensors = dict[str, np.ndarray]
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {np.dtype(code).str: name for name, code in _TYPES.items()}


def case(random: Random) -> Case:
    """A bent file and a command that reads it."""
    label = random.choice(list(samples.weight_files()))
    content = bent_file(random, samples.weight_files()[label])
    files = {"w.safetensors": content}
    if random.random() < 0.2 and label in samples.CONFIGS:
        tree: Any = hostile.bent(random, json.loads(json.dumps(samples.CONFIGS[label])))
        files["config.json"] = _json(tree).encode("utf-8", "replace")
    argv = random.choice(_commands(label))
    flags = ("--json",) if random.random() < 0.2 else ()
    return Case("weights", (*argv, *flags), files, kept=tuple(files))


def _commands(label: str) -> list[tuple[str, ...]]:
    name = "w.safetensors"
    if label in ("gpt2", "bert"):
        return [("bound", name, "--heads", "2"), ("audit", name), ("audit", "."),
                ("audit", name, "--family", label, "--heads", "2")]  # fmt: skip
    own = [("verify", name), ("bound", name), ("decompile", name, "--cells", "8")]
    return [*own, ("bound", name, "--explain"), ("bound", name, "--latex"), ("audit", name)]


def bent_file(random: Random, content: bytes) -> bytes:
    """The file changed in one way or another."""
    roll = random.random()
    if roll < 0.15:
        return hostile.scrambled(random, content)
    header, data = _split(content)
    if roll < 0.3:
        header = hostile.bent(random, header)
        return _joined(header, data)
    if roll < 0.34:
        return _strange(random, header, data)
    tensors, about = _tensors(header, data), dict(header.get("__metadata__", {}))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if "capax" in about and random.random() < 0.6:
            about["capax"] = _bent_text(random, about["capax"])
        else:
            _bend_tensor(random, tensors)
    if "capax" in about and random.random() < 0.5:
        declare(about, tensors)
    if random.random() < 0.9 and "sha256" in about:
        about["sha256"] = _fingerprint(str(about["capax"]), tensors)
    return _file(tensors, about)


def opened(content: bytes) -> tuple[Tensors, dict[str, Any]]:
    """The arrays and the metadata of a file."""
    header, data = _split(content)
    return _tensors(header, data), dict(header.get("__metadata__", {}))


def signed(tensors: Tensors, about: dict[str, Any]) -> bytes:
    """A file of these arrays and metadata, with the fingerprint that they should have."""
    if "sha256" in about:
        about["sha256"] = _fingerprint(str(about["capax"]), tensors)
    return _file(tensors, about)


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _joined(header: Any, data: bytes) -> bytes:
    text = _json(header).encode("utf-8", "replace")
    return struct.pack("<Q", len(text)) + text + data


def _json(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _strange(random: Random, header: Any, data: bytes) -> bytes:
    """Headers that are no JSON, or one that never ends."""
    text = random.choice((b"[" * 100_000, b'{"a":' * 50_000, b"9" * 6000, b"{}", b"null", b'""',
                          _json(header).encode() + b" " * 9))  # fmt: skip
    size = random.choice((len(text), 0, 2**63, 2**40, len(text) + 1))
    return struct.pack("<Q", size) + text + data


def _tensors(header: dict[str, Any], data: bytes) -> Tensors:
    found = {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            flat = np.frombuffer(data[start:end], _TYPES[about["dtype"]])
            found[name] = flat.reshape(about["shape"]).copy()
    return found


def _file(tensors: Tensors, about: dict[str, Any]) -> bytes:
    header: dict[str, Any] = {"__metadata__": about} if about else {}
    data = b""
    for name, array in tensors.items():
        span = [len(data), len(data) + array.nbytes]
        code = _NAMES.get(array.dtype.str, "F64")
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": span}
        data += array.tobytes()
    return _joined(header, data)


def _bent_text(random: Random, text: str) -> str:
    """The JSON in the metadata with a node changed, or something that is no such JSON."""
    if random.random() < 0.08:
        return random.choice(("[" * 20_000, '{"a":' * 5000, "9" * 5000, "null", "[]", "{}",
                              hostile.text(random), '{"module": 1e999}'))  # fmt: skip
    try:
        return _json(hostile.bent(random, json.loads(text)))
    except (ValueError, RecursionError, TypeError):  # bent before
        return hostile.text(random)


def _bend_tensor(random: Random, tensors: Tensors) -> None:
    if not tensors:
        return
    name = random.choice(list(tensors))
    array = tensors[name]
    roll = random.randrange(9)
    if roll < 3 and array.size and array.dtype.kind == "f":
        odd = np.array(random.choice(hostile.FLOATS), np.float64)
        with np.errstate(all="ignore"):
            array.reshape(-1)[random.randrange(array.size)] = odd.astype(array.dtype)
    elif roll == 3:
        with np.errstate(all="ignore"):
            factor = np.float64(random.choice((0.0, 1e150, 1e-150, 1e300, -1.0, 1e5, 1e-5)))
            tensors[name] = (array * factor).astype(array.dtype)
    elif roll == 4:
        shape = list(array.shape)
        shape = random.choice((shape[:-1], [*shape, 1], shape[::-1], [0], [3, 5], [1, *shape], [2]))
        tensors[name] = np.resize(array, shape)
    elif roll == 5:
        with np.errstate(all="ignore"):
            tensors[name] = array.astype(random.choice(list(_TYPES.values())))
    elif roll == 6:
        del tensors[name]
    elif roll == 7:
        tensors[hostile.text(random)] = array
    else:
        tensors[random.choice(list(tensors))] = array


def declare(about: dict[str, Any], tensors: Tensors) -> None:
    """Let the structure declare the shapes that the arrays have."""
    try:
        content = json.loads(about["capax"])
    except (ValueError, RecursionError):
        return
    pending = [(content.get("module") if isinstance(content, dict) else None, "")]
    while pending:
        node, path = pending.pop()
        if not isinstance(node, dict):
            continue
        if "shape" in node and path in tensors:
            node["shape"], node["dtype"] = list(tensors[path].shape), str(tensors[path].dtype)
        fields = node.get("fields")
        for name, part in (fields if isinstance(fields, dict) else {}).items():
            pending.append((part, f"{path}.{name}" if path else name))
    about["capax"] = _json(content)


def _fingerprint(text: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace"))
    for name in sorted(tensors):
        leaf = np.ascontiguousarray(tensors[name])
        digest.update(f"\0{name}\0{leaf.dtype.str}\0{leaf.shape}\0".encode("utf-8", "replace"))
        digest.update(leaf.tobytes())
    return digest.hexdigest()
