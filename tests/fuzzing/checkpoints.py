"""Checkpoints of strangers for `audit`: PyTorch, GGUF and ONNX files that pass their first checks.

The containers are written here, byte by byte, from a tree of names, shapes and numbers. One node of
the tree is bent; the file around it is well-formed, so that what is behind the magic number, the
zip archive and the header is reached too.
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from fuzzing import hostile, samples, weights
from fuzzing.case import Case

Tree = dict[str, Any]
MOST = 2**63 - 1


def case(random: Random) -> Case:
    """A bent file and `capax audit` on it, or on its folder."""
    ending = random.choice(list(WRITERS))
    content = bent_checkpoint(random, ending)
    files = {f"w{ending}": content}
    if random.random() < 0.6:
        config: Any = json.loads(json.dumps(samples.CONFIGS["bert"]))
        config = hostile.bent(random, config) if random.random() < 0.3 else config
        files["config.json"] = json.dumps(config).encode("utf-8", "replace")
    argv = random.choice(
        [("audit", f"w{ending}"), ("audit", "."), ("audit", f"w{ending}", "--heads", "2")]
    )
    if ending == ".pt" and random.random() < 0.4:
        argv = ("decompile", f"w{ending}", "--cells", "8")
    flags = ("--json",) if random.random() < 0.2 else ()
    return Case("checkpoint", (*argv, *flags), files, kept=tuple(files))


def bent_checkpoint(random: Random, ending: str) -> bytes:
    """A good checkpoint, its tree bent, its bytes scrambled, or both left alone."""
    tree, roll = tree_of(ending), random.random()
    if roll < 0.75:
        for _ in range(random.choice((1, 1, 2, 4))):
            tree = hostile.bent(random, tree)
    content = WRITERS[ending](tree if isinstance(tree, dict) else {})
    return hostile.scrambled(random, content) if roll > 0.95 or roll < 0.1 else content


def tree_of(ending: str) -> Tree:
    """The tensors of a tiny BERT, or of a tiny Llama for GGUF, and where their numbers lie."""
    if ending == ".gguf":
        return _llama()
    tensors, _ = weights.opened(samples.weight_files()["bert"])
    entries = []
    for name, array in tensors.items():
        strides = [int(n) for n in np.array(array.strides) // array.itemsize]
        entries.append({"name": name, "shape": list(array.shape), "stride": strides, "offset": 0,
                        "kind": "FloatStorage", "length": int(array.size), "type": 1,
                        "data": array.tobytes().hex()})  # fmt: skip
    return {"tensors": entries, "wrapper": "", "version": 8}


def _llama(d: int = 4) -> Tree:
    at = "llama."
    settings = {f"{at}block_count": 1, f"{at}embedding_length": d, f"{at}feed_forward_length": 6,
                f"{at}context_length": 8, f"{at}attention.head_count": 2,
                f"{at}attention.layer_norm_rms_epsilon": 1e-5, f"{at}rope.freq_base": 1e4,
                "general.architecture": "llama"}  # fmt: skip
    shapes = {"token_embd": (d, 9), "blk.0.attn_norm": (d,), "blk.0.ffn_norm": (d,),
              "output_norm": (d,), "blk.0.ffn_gate": (d, 6), "blk.0.ffn_up": (d, 6),
              "blk.0.ffn_down": (6, d)}  # fmt: skip
    shapes |= {f"blk.0.attn_{name}": (d, d) for name in ("q", "k", "v", "output")}
    rng, tensors, offset = np.random.default_rng(2), [], 0
    for name, shape in shapes.items():
        content = rng.normal(size=shape).astype("<f4").tobytes()
        tensors.append({"name": f"{name}.weight", "shape": list(shape), "type": 0,
                        "offset": offset, "data": content.hex()})  # fmt: skip
        offset += -(-len(content) // 32) * 32
    return {"settings": settings, "tensors": tensors, "version": 3}


def _number(value: Any) -> int:
    """Any node as a whole number that fits into eight bytes."""
    try:
        return min(max(int(value), 0), MOST)
    except (TypeError, ValueError, OverflowError):
        return 0


def _numbers(value: Any) -> list[int]:
    return [_number(v) for v in value] if isinstance(value, list) else [_number(value)]


def _text(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.encode("utf-8", "surrogatepass")


def _bytes(value: Any) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        return _text(value)


def _entries(tree: Tree) -> list[Tree]:
    found = tree.get("tensors")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def torch_file(tree: Tree) -> bytes:
    """The zip archive of `torch.save`: a pickle of protocol 2 and one file per storage."""
    rows = [_torch_tensor(str(i), entry) for i, entry in enumerate(_entries(tree))]
    table = b"}(" + b"".join(rows) + b"u"
    if tree.get("wrapper"):
        table = b"}" + _unicode(tree["wrapper"]) + table + b"s"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + table + b".")
        archive.writestr("archive/version", b"3\n")
        for i, entry in enumerate(_entries(tree)):
            archive.writestr(f"archive/data/{i}", _bytes(entry.get("data")))
    return buffer.getvalue()


def _torch_tensor(key: str, entry: Tree) -> bytes:
    """name -> _rebuild_tensor_v2(storage, offset, shape, stride, False, {})."""
    kind = _text(entry.get("kind", "FloatStorage")).replace(b"\n", b"")
    storage = (
        b"(" + _unicode("storage") + b"ctorch\n" + kind + b"\n" + _unicode(key) + _unicode("cpu")
        + _long(entry.get("length")) + b"tQ"
    )  # fmt: skip
    shape, stride = (
        b"(" + b"".join(_long(n) for n in _numbers(entry.get(name, []))) + b"t"
        for name in ("shape", "stride")
    )
    call = b"ctorch._utils\n_rebuild_tensor_v2\n("
    arguments = storage + _long(entry.get("offset")) + shape + stride + b"\x89" + b"}" + b"tR"
    return _unicode(entry.get("name", "")) + call + arguments


def _unicode(value: Any) -> bytes:
    text = _text(value)
    return b"X" + struct.pack("<I", len(text)) + text


def _long(value: Any) -> bytes:
    return b"\x8a\x09" + _number(value).to_bytes(9, "little")


def gguf_file(tree: Tree) -> bytes:
    """Header, settings, tensor infos, then the data at multiples of 32."""
    settings = tree.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    entries = _entries(tree)
    head = b"GGUF" + struct.pack("<I", _number(tree.get("version", 3)) & 0xFFFFFFFF)
    head += struct.pack("<QQ", len(entries), len(settings))
    for name, value in settings.items():
        head += _gguf_text(name) + _gguf_value(value)
    data = b""
    for entry in entries:
        shape = _numbers(entry.get("shape", []))
        head += _gguf_text(entry.get("name", "")) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in shape)
        head += struct.pack("<IQ", _number(entry.get("type")) & 0xFF, _number(entry.get("offset")))
        content = _bytes(entry.get("data"))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def _gguf_text(value: Any) -> bytes:
    text = _text(value)
    return struct.pack("<Q", len(text)) + text


def _gguf_value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<IQ", 10, _number(value))
    if isinstance(value, float):
        return struct.pack("<Id", 12, value)
    if isinstance(value, list):
        texts = b"".join(_gguf_text(v) for v in value)
        return struct.pack("<IIQ", 9, 8, len(value)) + texts
    return struct.pack("<I", 8) + _gguf_text(value)


def onnx_file(tree: Tree) -> bytes:
    """A model of one graph whose initialisers are the tensors."""
    graph = b"".join(_field(5, _onnx_tensor(entry)) for entry in _entries(tree))
    version = _varint(1 << 3) + _varint(_number(tree.get("version", 8)))
    return version + _field(7, _field(2, b"g") + graph)


def _onnx_tensor(entry: Tree) -> bytes:
    dims = b"".join(_varint(1 << 3) + _varint(n) for n in _numbers(entry.get("shape", [])))
    kind = _varint(2 << 3) + _varint(_number(entry.get("type", 1)))
    name, content = _text(entry.get("name", "")), _bytes(entry.get("data"))
    return dims + kind + _field(8, name) + _field(9, content)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


WRITERS: dict[str, Callable[[Tree], bytes]] = {
    ".pt": torch_file, ".gguf": gguf_file, ".onnx": onnx_file,
}  # fmt: skip
