"""Workarounds in the programs of the tests, each as long as it is needed."""

from pathlib import Path
from time import process_time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import compilation_cache
from jax._src.interpreters import mlir
from jax._src.lru_cache import LRUCache

import eager_numpy
import plain_programs
from plain_programs import JAX_CONTEXT, JAX_PUT, write_whole


def seconds(function, number=8):
    start = process_time()
    for k in range(number):
        function(k)
    return process_time() - start


def test_contexts_are_shared_and_still_worth_it(monkeypatch):
    monkeypatch.setattr(compilation_cache, "is_cache_used", lambda *_: False)  # compiled anew
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


def test_kept_programs_are_forgotten_when_they_are_many(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    plain_programs.forget_many(folder)  # none yet
    cache = LRUCache(str(folder), max_size=-1)
    (folder / "part").symlink_to(folder / "renamed")  # a name that is gone when it is looked at
    cache.put("one", bytes(600))
    monkeypatch.setattr(plain_programs, "MOST_BYTES", 1000)
    plain_programs.forget_many(folder)
    assert cache.get("one") == bytes(600)
    cache.put("another", bytes(600))
    plain_programs.forget_many(folder)
    assert not folder.exists()


@pytest.fixture
def by_jax():
    """A function evaluated by programs of JAX, as without the tests."""

    def evaluate(function):
        eager_numpy.move_by_jax()
        try:
            return function()
        finally:
            eager_numpy.move_by_numpy()

    if jax.config.jax_platforms != "cpu":
        pytest.skip("nothing is moved by NumPy here")
    return evaluate


A = np.random.default_rng(0).normal(size=(3, 5)) * 10.0 ** np.arange(-150, 150, 60)
MOVES = {
    "copy": lambda: jnp.array(A),
    "narrow": lambda: jnp.asarray(A).astype(jnp.float32),
    "widen": lambda: jnp.asarray(np.arange(7, dtype=np.uint8), jnp.float64),
    "wrap": lambda: jnp.asarray(np.array([-1, 300, 2**40])).astype(jnp.uint8),
    "whole": lambda: jnp.array([np.inf, np.nan, -3.7, 1e30]).astype(jnp.int32),
    "truth": lambda: jnp.asarray(np.array([0.0, -0.0, np.nan, 2.0])).astype(bool),
    "python": lambda: (jnp.asarray(1.5), jnp.asarray(3), jnp.float32(0.1), jnp.full(2, 0.5)),
    "turn": lambda: jnp.asarray(A).T,
    "shape": lambda: (jnp.asarray(A).reshape(5, 3), jnp.asarray(A)[None, :, None]),
    "rows": lambda: (jnp.asarray(A)[1], jnp.asarray(A)[:, -1], jnp.asarray(A)[::2, 1:4]),
    "at": lambda: [lax.dynamic_slice(jnp.asarray(A), at, (2, 2)) for at in ((0, 1), (2, -9))],
    "join": lambda: jnp.concatenate([jnp.asarray(A), jnp.zeros((1, 5))]),
    "wide": lambda: jnp.broadcast_to(jnp.asarray(A[0]), (4, 5)),
    "count": lambda: (jnp.arange(9), lax.broadcasted_iota(np.float32, (2, 3), 1)),
    "sum": lambda: jnp.asarray(A) + 1.0,
    "product": lambda: jnp.asarray(np.float32(A[:, 2:4])) * jnp.asarray(np.float32(A[:1, 2:4])),
    "half": lambda: (jnp.asarray(A) / 3.0, -jnp.asarray(A), 1 - jnp.asarray(A)),
    "tiny": lambda: jnp.asarray([1e-308, 2e-308, 0.0]) * 0.3,
    "beyond": lambda: (jnp.asarray([1e308, -1.0]) * 10.0, jnp.asarray([0.0, 1.0]) / 0.0),
    "overflow": lambda: jnp.asarray(np.array([2**31 - 1, -(2**31)], np.int32)) * np.int32(3),
    "compare": lambda: (jnp.asarray(A) > 0, jnp.asarray(A) == jnp.asarray(A[:1])),
    "choose": lambda: jnp.where(jnp.asarray(A) > 0, jnp.asarray(A), 0.0),
    "both": lambda: jax.jit(lambda x: x * 3.0 + 0.1)(jnp.asarray(A)),
    "axes": lambda: (jnp.moveaxis(jnp.asarray(A), 0, 1), jnp.stack([jnp.asarray(A)] * 2)),
    "index": lambda: [jnp.asarray(A)[jnp.int32(i)] for i in (0, 2, -1)],
    "numbers": lambda: jnp.zeros((2, 3), jnp.int8),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_numbers_moved_by_numpy_are_those_of_jax(move, by_jax):
    ours, wanted = jax.tree.leaves(move()), jax.tree.leaves(by_jax(move))
    assert len(ours) == len(wanted)
    for a, b in zip(ours, wanted, strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_compiler_may_round_a_product_and_a_sum_once():
    assert eager_numpy.is_exact(jax.make_jaxpr(lambda x: jnp.where(x * 3.0 > 1, x.T[0], 0.0))(A[0]))
    assert not eager_numpy.is_exact(jax.make_jaxpr(lambda x: x * 3.0 + 0.1)(A))
    assert not eager_numpy.is_exact(jax.make_jaxpr(lambda x: x / 3.0)(A))  # by the reciprocal


def test_a_moved_array_is_nobody_elses_and_still_worth_it(by_jax):
    mine = np.arange(6.0)
    copies = jnp.asarray(mine), jnp.array(mine)
    mine[0] = 9
    assert all(copy[0] == 0 for copy in copies)
    shapes = iter(range(2003, 3000))
    ours = seconds(lambda _: jnp.array(np.zeros(next(shapes))))
    theirs = by_jax(lambda: seconds(lambda _: jnp.array(np.zeros(next(shapes)))))
    assert theirs > 4 * ours, "JAX copies without a program now: `eager_numpy.py` can go"
