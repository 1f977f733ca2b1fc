"""Workarounds in the programs of the tests, each as long as it is needed."""

from pathlib import Path
from time import process_time

import numpy as np
from jax import lax
from jax._src.interpreters import mlir
from jax._src.lru_cache import LRUCache

from plain_programs import JAX_CONTEXT, JAX_PUT, write_whole


def seconds(function, number=8):
    start = process_time()
    for k in range(number):
        function(k)
    return process_time() - start


def test_contexts_are_shared_and_still_worth_it():
    first, second, third = (mlir.make_ir_context() for _ in range(3))
    assert first is second or second is third  # now and then a new one
    contexts = seconds(lambda _: JAX_CONTEXT())
    programs = seconds(lambda k: lax.add(np.zeros(1009 + k), np.zeros(1009 + k)))
    assert contexts > 0.1 * programs, "JAX makes contexts fast now: `share_contexts` can go"


def test_programs_enter_the_shared_folder_whole_and_jax_still_writes_them_in_place(
    tmp_path, monkeypatch
):
    written, write = [], Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda *it: written.append(it[0].name) or write(*it))
    monkeypatch.setattr(LRUCache, "put", JAX_PUT)  # a user's own folder is left as it is
    write_whole()
    cache = LRUCache(str(tmp_path), max_size=-1)
    cache.put("ours", b"program")
    JAX_PUT(cache, "theirs", b"program")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["ours-cache", "theirs-cache"]
    assert cache.get("ours") == cache.get("theirs") == b"program"
    assert written[0] != "ours-cache"
    assert written[1] == "theirs-cache", "JAX writes elsewhere first: `write_whole` can go"
