"""Point and data files: .csv, .tsv, .txt, .npy, .npz that lie about themselves."""

import io
import json
import struct
import zipfile
from random import Random

import numpy as np

from fuzzing import hostile, samples
from fuzzing.case import Case

_DTYPES = ("<f8", "<f4", "<f2", "<i8", "|b1", "|u1", "<c16", "|O", "<M8[s]", "|S5", "<U3", "|V8")
_SHAPES = ((), (0,), (3,), (3, 2), (0, 5), (2, 0), (1, 1, 1), (10**12,), (2**62, 4), (-1,), (5, 5))


def point_case(random: Random) -> Case:
    """`capax cover` on a table."""
    ending = random.choice(("csv", "tsv", "txt", "npy", "CSV", "dat"))
    name = f"p.{ending}"
    content = _npy(random) if ending == "npy" else _csv(random, ending)
    if random.random() < 0.3:
        content = hostile.scrambled(random, content)
    eps = ("--eps", str(random.choice((0, 0.5, 1, 3, -1, 1e300, 1e-300, "nan", "inf"))))
    metrics = ("euclidean", "manhattan", "chebyshev", "hamming", "angular")
    more = random.choice(((), (), ("--metric", random.choice(metrics)), ("--distances",),
                          ("--curve",), ("--json",)))  # fmt: skip
    argv = ("cover", name, *eps, *more, "--time-limit", "1")
    return Case("points", argv, {name: content}, kept=(name,))


def data_case(random: Random) -> Case:
    """`capax bound` and `capax decompile` with a data file."""
    content = _npz(random)
    if random.random() < 0.4:
        content = hostile.scrambled(random, content)
    model = samples.weight_files()[random.choice(("scalar",) * 19 + ("transformer",))]
    files = {"m.safetensors": model, "d.npz": content}
    argv = random.choice((
        ("bound", "m.safetensors", "--data", "d.npz"),
        ("bound", "m.safetensors", "--holdout", "d.npz", "--json"),
        ("bound", "m.safetensors", "--data", "d.npz", "--holdout", "d.npz", "--family", "and2"),
        ("decompile", "m.safetensors", "--data", "d.npz", "--cells", "8"),
    ))  # fmt: skip
    return Case("data", argv, files, kept=("m.safetensors", "d.npz"))


def _csv(random: Random, ending: str) -> bytes:
    comma = {"csv": ",", "CSV": ",", "tsv": "\t"}.get(ending, " ")
    rows = [[str(x), str(x * x % 7)] for x in range(random.choice((1, 9, 12)))]
    for _ in range(random.choice((0, 1, 1, 3))):
        row = random.choice(rows)
        cells = (hostile.text(random), str(random.choice(hostile.FLOATS)), "", '"', '"1"',
                 "1" * 140_000,
                 str(hostile.INTEGERS[random.randrange(20)]))  # fmt: skip
        row[random.randrange(len(row)) : 2] = [random.choice(cells)] * random.choice((1, 1, 2))
    rows = [["x", "y"], *rows] if random.random() < 0.3 else rows
    end = random.choice(("\n", "\n", "\r\n", "\r", "\u2028"))
    return end.join(comma.join(row) for row in rows).encode("utf-8", "surrogateescape")


def _npy(random: Random) -> bytes:
    if random.random() < 0.4:
        return _saved(_array(random))
    descr, shape = random.choice(_DTYPES), random.choice(_SHAPES)
    order = random.choice(("False", "True", "0", "None"))
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    roll = random.random()
    if roll < 0.1:
        header = random.choice(
            ("(" * 300, "{", "'" * 3, hostile.text(random), "{'a': 1}", "[" * 9000)
        )
    text = header.encode("utf-8", "surrogateescape") + b"\n"
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = (
        struct.pack("<H", len(text) % 65536)
        if version == b"\x01\x00"
        else struct.pack("<I", len(text))
    )
    payload = random.choice((b"", bytes(48), hostile.PICKLES[0], hostile.PICKLES[1]))
    return b"\x93NUMPY" + version + size + text + payload


def _array(random: Random) -> np.ndarray:
    shape = random.choice(((3, 2), (5, 5), (20, 5), (30, 5), (20,), (), (1, 1), (0, 5)))
    rng = np.random.default_rng(random.randrange(2**32))
    kind = random.randrange(6)
    if kind == 0:
        return rng.integers(0, 2, shape).astype(np.uint8)
    if kind == 1:
        return rng.choice(np.array(hostile.FLOATS), shape)
    if kind == 2:
        return rng.normal(size=shape) * random.choice((1.0, 1e300, 1e-300))
    if kind == 3:
        return np.full(shape, hostile.text(random) or "?", dtype="<U40")
    if kind == 4:
        return rng.integers(-(2**62), 2**62, shape)
    return rng.integers(0, 2, shape) > 0


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _npz(random: Random) -> bytes:
    arrays = samples.arrays_of_data()
    if random.random() < 0.3:
        arrays = {"X": arrays["X_train"], "y": arrays["y_train"]}
    contents = {f"{name}.npy": _saved(array) for name, array in arrays.items()}
    for _ in range(random.choice((0, 1, 1, 2))):
        name = random.choice(list(contents))
        roll = random.random()
        if roll < 0.3:
            contents[name] = _npy(random)
        elif roll < 0.5:
            contents[name] = _saved(_array(random))
        elif roll < 0.6:
            contents[name] = random.choice(hostile.PICKLES)
        elif roll < 0.7:
            del contents[name]
        elif roll < 0.8:
            contents[random.choice(("../x.npy", "/tmp/x", "X.npy", "x" * 300))] = contents[name]
        elif "spec.npy" in contents:
            contents["spec.npy"] = _saved(np.array(_spec(random, arrays)))
    buffer = io.BytesIO()
    how = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _spec(random: Random, arrays: dict[str, np.ndarray]) -> str:
    if random.random() < 0.2 or "spec" not in arrays:
        return random.choice(("[" * 5000, "{", "9" * 5000, "null", "[]", "1"))
    tree = hostile.bent(random, json.loads(str(arrays["spec"])))
    return json.dumps(tree).encode("utf-8", "replace").decode()
