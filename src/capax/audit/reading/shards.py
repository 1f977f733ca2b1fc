"""Checkpoints in several files: an index names the file of every tensor."""

from collections.abc import Callable
from pathlib import Path

from capax.audit.reading.safetensors_file import parse_json
from capax.audit.reading.stored import LONGEST_HEADER, StoredTensor, check_number
from capax.errors import InputError, inside, require
from capax.foreign import one_line
from capax.reading import existing, read_limited

Reader = Callable[[Path], dict[str, StoredTensor]]


def read_shards(index: Path, reader: Reader) -> dict[str, StoredTensor]:
    """All tensors of `*.index.json`; every shard lies in the same folder, by its plain name."""
    places = parse_json(read_limited(index, LONGEST_HEADER), index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{index}: no weight_map from tensor names to files in it")
    check_number(len(places), index)
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
    with inside(f"{index}: "):
        return existing(path, f"the shard {one_line(shard)} beside it")
