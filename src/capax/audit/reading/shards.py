"""Checkpoints in several files: an index names the file of every tensor."""

from collections.abc import Callable
from pathlib import Path

from capax.audit.reading.safetensors_file import parse_json
from capax.audit.reading.stored import LONGEST_HEADER, StoredTensor
from capax.errors import InputError, require

Reader = Callable[[Path], dict[str, StoredTensor]]


def read_shards(index: Path, reader: Reader) -> dict[str, StoredTensor]:
    """All tensors of `*.index.json`; every shard lies in the same folder, by its plain name."""
    require(index.stat().st_size <= LONGEST_HEADER, str(index), "a short index", "a huge one")
    places = parse_json(index.read_bytes(), index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{index}: wanted a weight_map from tensor names to files, got none")
    shards = {
        shard: reader(_beside(index, shard)) for shard in sorted(set(map(str, places.values())))
    }
    tensors = {}
    for name, shard in places.items():
        require(name in shards[shard], f"{index}: {name}", f"a tensor in {shard}", "nothing")
        tensors[name] = shards[shard][name]
    return tensors


def _beside(index: Path, shard: str) -> Path:
    plain = shard == Path(shard).name and shard not in ("", ".", "..")
    require(plain, str(index), "shards in its own folder", shard)
    path = index.parent / shard
    require(path.is_file(), str(index), f"the shard {shard} beside it", "nothing there")
    return path
