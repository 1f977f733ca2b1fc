"""Recurrent cells: their gradients by hand are those of differentiation, and the kernel's numbers
are those of the loops (where there is a GPU; elsewhere all that is around it)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from capax.training.recurrent import cells, recurrence_kernel
from capax.training.recurrent.cells import CELLS, CellInputs
from capax.training.recurrent.columns import last_column
from capax.training.recurrent.recurrence import last_state

on_gpu = pytest.mark.skipif("jax.devices()[0].platform != 'gpu'", reason="needs a GPU")


def _arguments(name: str, T: int, m: int, n: int, *lanes: int, dtype=jnp.float32):
    random, wide = np.random.default_rng(3), CELLS[name].num_gates * n
    shapes = (2, T, wide), (n, wide), (wide,)
    table, W, b = (jnp.asarray(random.normal(size=(*lanes, *shape)), dtype) for shape in shapes)
    bits = jnp.asarray(random.random((*lanes, m, T)) < 0.4, dtype)
    return table, bits, jnp.asarray(0.5 * np.asarray(W), dtype), b


def _plain(name: str, table, bits, W, b):
    """The cell as its papers write it, in PyTorch."""
    h = c = torch.zeros((bits.shape[0], W.shape[0]), dtype=W.dtype)
    for t in range(bits.shape[1]):
        a = torch.where(bits[:, t, None] > 0, table[1, t], table[0, t])
        u = h @ W + b
        if name == "lstm":
            i, f, g, o = torch.chunk(a + u, 4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        else:
            (a_r, a_z, a_n), (u_r, u_z, u_n) = torch.chunk(a, 3, 1), torch.chunk(u, 3, 1)
            z = torch.sigmoid(a_z + u_z)
            h = (1 - z) * torch.tanh(a_n + torch.sigmoid(a_r + u_r) * u_n) + z * h
    return h


@pytest.mark.parametrize("ours", [last_state, last_column])
@pytest.mark.parametrize("name", CELLS)
def test_states_and_gradients_are_those_of_the_plain_cell(name, ours):
    arguments = _arguments(name, 3, 7, 5, dtype=jnp.float64)
    weights = np.random.default_rng(9).normal(size=(7, 5))

    @jax.jit
    def both(table, bits, W, b):
        def loss(table, W, b):
            return jnp.sum(weights * ours(name, table, bits, W, b))

        return ours(name, table, bits, W, b), *jax.grad(loss, (0, 1, 2))(table, W, b)

    table, bits, W, b = (torch.tensor(np.asarray(x), requires_grad=True) for x in arguments)
    state = _plain(name, table, bits, W, b)
    slopes = torch.autograd.grad((torch.tensor(weights) * state).sum(), (table, W, b))
    for x, y in zip(both(*arguments), (state.detach(), *slopes), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_one_position_has_no_gradient_for_what_meets_the_state(name):
    table, bits, W, b = _arguments(name, 1, 4, 3)
    gradient = jax.jit(jax.grad(lambda W: jnp.sum(last_state(name, table, bits, W, b))))(W)
    assert not np.any(gradient)


@pytest.mark.parametrize("name", CELLS)
def test_models_share_a_launch_and_one_has_its_own(name, monkeypatch):
    """The kernel's work done by the loops: what is around it must not mix models up."""
    launched = []

    def instead(_source, what, shapes, arrays, sizes, *_):
        launched.append((what, sizes))
        cell = CELLS[name]
        if what == "back":
            found = jax.vmap(lambda *x: cells.back(cell, x[0], cells.Kept(*x[1:4]), x[4]))(*arrays)
            return list(found)[: len(shapes)]
        loop = cells.kept if len(shapes) > 1 else cells.last
        found = jax.tree.leaves(
            jax.vmap(lambda *x: loop(cell, CellInputs(*x[:3]), *x[3:]))(*arrays)
        )
        assert [x.shape for x in found] == shapes
        return found

    monkeypatch.setattr(recurrence_kernel, "_launch", instead)
    monkeypatch.setattr(recurrence_kernel, "_ptx", lambda *_: "")
    lanes, T, m, n = 2, 3, 5, 4
    table, bits, W, b = _arguments(name, T, m, n, lanes)
    inputs = CellInputs(table[:, 0], table[:, 1] - table[:, 0], bits.transpose(0, 2, 1))
    cell, dh = CELLS[name], jnp.ones((lanes, m, n), jnp.float32)

    def one_model(room, inputs, W, b, dh):
        h, seen = room.kept(cell, inputs, W, b)
        return h, seen, room.last(cell, inputs, W, b), room.back(cell, dh, seen, W)

    arguments = (inputs, W, b, dh)
    second = jax.tree.map(lambda x: x[1], arguments)
    together = jax.jit(jax.vmap(partial(one_model, recurrence_kernel)))(*arguments)
    alone, wanted = jax.jit(lambda *x: (one_model(recurrence_kernel, *x), one_model(cells, *x)))(
        *second
    )
    for x, y, z in zip(*map(jax.tree.leaves, (together, alone, wanted)), strict=True):
        np.testing.assert_allclose(x[1], z, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6)
    assert ("ahead", (lanes, T, m)) in launched and ("ahead", (1, T, m)) in launched


def test_without_a_driver_or_with_odd_sizes_the_loops_stay(monkeypatch, tmp_path):
    monkeypatch.setattr(recurrence_kernel, "_DRIVER", tmp_path)  # a driver that finds no device
    assert not recurrence_kernel.runs_here(CELLS["lstm"], 30)
    assert not recurrence_kernel.runs_here(CELLS["lstm"], 68)
    if jax.devices()[0].platform == "cpu":
        assert not recurrence_kernel.runs_here(CELLS["lstm"], 40)
    monkeypatch.setattr(recurrence_kernel, "_DRIVER", tmp_path / "none")
    assert not recurrence_kernel.runs_here(CELLS["gru"], 48)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_kernel_is_for_float32_alone(dtype, monkeypatch):
    """It would read the bytes of other numbers as if they were its own."""
    asked = []
    monkeypatch.setattr(recurrence_kernel, "runs_here", lambda *_: True)
    monkeypatch.setattr(recurrence_kernel, "last", lambda *x: asked.append(1) or cells.last(*x))
    jax.eval_shape(partial(last_state, "gru"), *_arguments("gru", 2, 3, 8, dtype=dtype))
    assert bool(asked) == (dtype == jnp.float32)


@on_gpu
@pytest.mark.parametrize(("name", "n"), [("lstm", 40), ("gru", 48), ("lstm", 64), ("gru", 8)])
def test_the_kernel_gives_the_numbers_of_the_loops(name, n):
    cell, lanes, T, m = CELLS[name], 3, 11, 77
    assert recurrence_kernel.runs_here(cell, n)
    table, bits, W, b = _arguments(name, T, m, n, lanes)
    W = W / jnp.float32(np.sqrt(n))
    inputs = CellInputs(table[:, 0], table[:, 1] - table[:, 0], bits.transpose(0, 2, 1))
    dh = jax.random.normal(jax.random.key(1), (lanes, m, n), jnp.float32)

    def run(room):
        h, seen = jax.vmap(lambda *x: room.kept(cell, *x))(inputs, W, b)
        end = jax.vmap(lambda *x: room.last(cell, *x))(inputs, W, b)
        return h, seen, end, jax.vmap(lambda *x: room.back(cell, *x))(dh, seen, W)

    mine, wanted = jax.jit(lambda: run(recurrence_kernel))(), jax.jit(lambda: run(cells))()
    for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
