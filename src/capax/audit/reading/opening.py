"""Opening a checkpoint: a file, or a folder with weights and a configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capax.audit.reading.gguf_file import read_gguf
from capax.audit.reading.gguf_names import config_of, renamed
from capax.audit.reading.onnx_file import read_onnx
from capax.audit.reading.safetensors_file import parse_json, read_safetensors
from capax.audit.reading.shards import read_shards
from capax.audit.reading.stored import Checkpoint, StoredTensor, check_number
from capax.audit.reading.torch_file import read_torch
from capax.errors import InputError, require
from capax.reading import existing, read_limited

LONGEST_CONFIG = 16 * 2**20  # bytes
# Names of weights in a folder, in order of preference.
IN_A_FOLDER = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json", "*.safetensors", "*.gguf", "*.pt", "*.pth", "*.bin", "*.onnx",
)  # fmt: skip
NOT_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt", "optimizer.bin")
TORCH = (".bin", ".pt", ".pth")
FORMATS = ".safetensors, .gguf, .onnx, .bin, .pt, .pth, or an .index.json of shards"


def open_checkpoint(path: Path | str) -> Checkpoint:
    """The tensors and the configuration at `path`; nothing is downloaded, nothing is run."""
    given = Path(path)
    file = existing(_in_folder(given) if given.is_dir() else given, "a checkpoint")
    try:
        return _open(file)
    except OSError as error:
        raise InputError(f"{file}: could not be read ({error.strerror or error})") from None


def _in_folder(folder: Path) -> Path:
    for pattern in IN_A_FOLDER:
        found = sorted(p for p in folder.glob(pattern) if p.name not in NOT_WEIGHTS)
        if len(found) > 1:
            names = ", ".join(p.name for p in found[:4])
            raise InputError(
                f"{folder}: holds several checkpoints ({names}): name the file to audit"
            )
        if found:
            return found[0]
    raise InputError(f"{folder}: no weights found in this folder (looked for {FORMATS})")


def _open(file: Path) -> Checkpoint:
    if file.suffix == ".gguf":
        tensors, metadata = read_gguf(file)
        check_number(len(tensors), file)
        config = config_of(metadata, tensors)
        return Checkpoint(file, "GGUF", renamed(tensors), config, "metadata of the file")
    tensors, name = _tensors(file)
    check_number(len(tensors), file)
    config, origin = _config_beside(file)
    return Checkpoint(file, name, tensors, config, origin)


def _tensors(file: Path) -> tuple[dict[str, StoredTensor], str]:
    plain: dict[str, tuple[Callable[[Path], dict[str, StoredTensor]], str]] = {
        ".safetensors": (_safetensors, "safetensors"),
        ".onnx": (read_onnx, "ONNX"),
        **dict.fromkeys(TORCH, (read_torch, "PyTorch (tensors only)")),
    }
    if file.name.endswith(".index.json"):
        inner = Path(file.name.removesuffix(".index.json")).suffix
        require(inner in plain and inner != ".onnx", str(file), "an index of shards", file.name)
        reader, name = plain[inner]
        return read_shards(file, reader), f"{name}, in shards"
    require(file.suffix in plain, str(file), FORMATS, file.name)
    reader, name = plain[file.suffix]
    return reader(file), name


def _safetensors(path: Path) -> dict[str, StoredTensor]:
    return read_safetensors(path)[0]


def _config_beside(file: Path) -> tuple[dict[str, Any], str]:
    path = file.parent / "config.json"
    if not path.exists():
        return {}, ""
    return parse_json(read_limited(path, LONGEST_CONFIG), path), "config.json"
