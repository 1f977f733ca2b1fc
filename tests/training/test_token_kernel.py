"""The kernels of dropout against `token_sums`: everywhere by emulation of their warps, where there
is a C++ compiler; and themselves where there is a GPU they are written for."""

import ctypes
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention.transformer import TransformerSpec
from capax.training.dropout import token_kernel
from capax.training.dropout.dropout_masks import EMBEDDING, OUTPUT, Masks
from capax.training.dropout.token_sums import token_sums
from capax.training.fused.step import pack
from capax.training.specs.trial_specs import DropoutSpec
from plain_programs import plain_jit

SPREAD = 20  # nats, of the emulated kernels
RATES = DropoutSpec(attention=0.2, embedding=0.1, output=0.3)
EMULATED = Path(__file__).parent / "emulated"


def has_hopper():
    return any(getattr(d, "compute_capability", "") == "9.0" for d in jax.devices())


on_hopper = pytest.mark.skipif("not has_hopper()", reason="needs a GPU of compute capability 9.0")


def sources():
    folder = resources.files("capax.training.dropout") / "cuda"
    return {entry.name: entry.read_text() for entry in folder.iterdir()}


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """`token_kernel._call` on a CPU: the sources of the kernels, each thread a fiber."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("emulated")
    for name, text in sources().items():
        (folder / name).write_text(text)
    for file in EMULATED.iterdir():  # its warp.cuh takes the place of the real one
        shutil.copy(file, folder)
    library = folder / "kernels.so"
    options = ["-O1", "-std=c++17", "-shared", "-fPIC", "-w", *token_kernel.macros_of(RATES)]
    subprocess.run([compiler, *options, "-o", library, folder / "blocks.cpp"], check=True)
    launch = ctypes.CDLL(str(library)).launch

    def call(_source, name, grid, _shared, shapes, arguments):
        given = [np.ascontiguousarray(x) for x in arguments]
        out = [np.full(shape, np.nan, np.float32) for shape in shapes]
        pointers = (ctypes.c_void_p * (len(given) + len(out)))(
            *(x.ctypes.data for x in (*given, *out))
        )
        launch(name.encode(), *grid, pointers)
        return [jnp.asarray(x) for x in out]

    return call


def problem(B, m, T, spread, seed):
    """B models with scores spread over about `spread` nats, and slopes of all outputs."""
    random = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(random.standard_normal(shape), jnp.float32)  # noqa: E731
    position, embed = (jnp.asarray(0.3 * random.standard_normal(shape), jnp.float32)
                       for shape in ((B, 64, T), (B, 2, 64)))  # fmt: skip
    scores = random.standard_normal((B, m, 16, 64))
    scores = (scores - scores.mean(axis=-1, keepdims=True)) * spread / 24
    bits = jnp.asarray(random.random((B, m, T)) < 0.5, jnp.uint8)
    seeds = jnp.asarray(random.integers(0, 2**16, (B, 3)), jnp.uint32)
    slopes = normal(B, m, 16, 64), normal(B, m, 16), normal(B, m, 16)
    used = jnp.asarray(np.arange(m - B + 1, m + 1), jnp.int32)  # the first model has a row less
    return position, embed, jnp.asarray(scores, jnp.float32), bits, seeds, slopes, used


def wanted(position, embed, U, bits, seeds, slopes, used):
    """Values and gradients by JAX, model after model."""

    def one(position, embed, U, bits, seeds, slopes, used):
        masks = Masks(seeds[:2], seeds[2].astype(jnp.int32))
        real = jnp.arange(len(U), dtype=jnp.int32) < used

        def inner(position, embed, U):
            found = token_sums(position, embed, U, bits, masks, RATES, True)
            parts = found[:3]
            return sum(
                jnp.sum(jnp.where(real.reshape(-1, *(1,) * (x.ndim - 1)), x * s, 0.0))
                for x, s in zip(parts, slopes, strict=True)
            ), found

        gradient, found = jax.grad(inner, argnums=(0, 1, 2), has_aux=True)(position, embed, U)
        return found, gradient

    return plain_jit(jax.vmap(one))(position, embed, U, bits, seeds, slopes, used)


def compare(found, gradient, to, used, spread):
    """Numbers of 16 bits give scores to `spread` times 2^-16, and weights to as much.

    Sums of weights and pooled tokens are compared head by head. The largest score, mu, has a sign,
    gradients are differences: both may vanish, and are compared with the largest of their model.
    """
    (values, slopes), share = to, 2e-5 * (5 + spread)
    for model, n in enumerate(used):
        for name, a, b in zip(values._fields, found, values, strict=True):
            a, b = np.asarray(a)[model], np.asarray(b)[model]
            axes = None if name == "mu" else tuple(range(2, b.ndim))
            size = np.abs(b[:n]).max(axis=axes, keepdims=True) + 1e-6
            assert np.all(np.abs(a[:n] - b[:n]) < share * size), name
            assert not a[n:].any()
        assert not np.asarray(gradient[2])[model][n:].any()
        for a, b in zip(gradient, slopes, strict=True):
            a, b = np.asarray(a)[model], np.asarray(b)[model]
            assert np.abs(a - b).max() < share * np.abs(b).max()


def by_kernels(call, position, embed, U, bits, seeds, slopes, used, monkeypatch):
    monkeypatch.setattr(token_kernel, "_call", call)
    table = plain_jit(jax.vmap(token_kernel.packed_table))(position, embed)
    fixed = (table, U, plain_jit(jax.vmap(pack))(bits), used, seeds)
    found = token_kernel._forward("", *fixed)
    d_U, factors = token_kernel._backward_U("", *fixed, found[3], *slopes)
    rest = (*fixed[2:], found[3], *slopes[1:])
    d_position, d_symbol = token_kernel._backward_table("", table, factors, *rest)
    d_position, one = np.asarray(d_position), np.asarray(d_symbol).sum(axis=1)
    d_embed = np.stack([d_position.sum(axis=2) - one, one], axis=1)
    return found, (d_position, d_embed, d_U)


def test_emulated_kernels_give_sums_and_gradients(emulated, monkeypatch):
    given = problem(2, m=9, T=131, spread=SPREAD, seed=9)
    compare(
        *by_kernels(emulated, *given, monkeypatch), wanted(*given), np.asarray(given[-1]), SPREAD
    )


@pytest.mark.parametrize("T", [45, 131])  # [CLS] in the second and in the first half of a tile
def test_masks_of_single_places_are_those_of_their_counters(emulated, monkeypatch, T):
    monkeypatch.setattr(token_kernel, "_call", emulated)
    seeds = jnp.array([[1, 2, 3], [4, 5, 6]], jnp.uint32)
    kept = np.asarray(token_kernel._single_masks("", 9, T, seeds)) > 0
    check_single_masks(kept, seeds, T)


def check_single_masks(kept, seeds, T):
    places = ((EMBEDDING, RATES.embedding, T), (OUTPUT, RATES.output, 0), (OUTPUT, 0.3, 1))

    @plain_jit
    @jax.vmap
    def both(run, single):
        masks = Masks(run[:2], run[2].astype(jnp.int32))
        return [
            [*(one.columns_of_examples(*place, 9, 64) for place in places),
             one.heads_at(RATES.attention, T, 9, 16)]
            for one in (masks._replace(single=single), masks)
        ]  # fmt: skip

    for found, wanted in zip(*both(seeds, jnp.asarray(kept)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_two_pieces_of_the_table_are_its_numbers():
    """To 16 bits; the way back to the order of columns is that of `Tokens::make`."""
    position, embed = (
        jax.random.normal(jax.random.key(i), s) for i, s in ((0, (64, 7)), (1, (2, 64)))
    )
    given = position.astype(jnp.float32), embed.astype(jnp.float32)
    words = np.asarray(plain_jit(token_kernel.packed_table)(*given))
    halves = words.view(np.uint16).reshape(2, 7, 4, 4, 2, 2, 2)  # n / 2, quad, n % 2, piece, one
    numbers = (halves.astype(np.uint32) << 16).view(np.float32).sum(axis=5)
    found = numbers.transpose(0, 1, 2, 4, 3, 5).reshape(2, 7, 64)
    wanted = np.asarray(given[1])[:, None, :] + np.asarray(given[0]).T[None]
    assert np.abs(found - wanted).max() < 2**-15 * np.abs(wanted).max()
    assert np.abs(found - wanted).mean() > 0


def by_kernel_sums(position, embed, U, bits, seeds, slopes, used):
    """Values and gradients of one model, as a program of kernels."""
    sums = token_kernel.kernel_sums(jnp.arange(len(U), dtype=jnp.int32) < used)
    masks = Masks(seeds[:2], seeds[2].astype(jnp.int32))
    masks = token_kernel.kernel_masks(masks, len(U), bits.shape[1], RATES)

    def inner(position, embed, U):
        found = sums(position, embed, U, bits, masks, RATES, True)
        return sum(jnp.sum(x * s) for x, s in zip(found[:3], slopes, strict=True)), found

    gradient, found = jax.grad(inner, argnums=(0, 1, 2), has_aux=True)(position, embed, U)
    return found, gradient, masks.single


def test_the_program_of_the_kernels_can_be_made_without_a_gpu(monkeypatch):
    monkeypatch.setattr(token_kernel, "ptx", lambda _: "PTX")
    given = problem(2, m=3, T=20, spread=1, seed=3)
    text = jax.jit(jax.vmap(by_kernel_sums)).trace(*given).lower(lowering_platforms=("cuda",))
    launched = re.findall(r'name = "(\w+)"', text.as_text())
    assert sorted(launched) == ["backward_U", "backward_table", "forward", "single_masks"]


def test_every_macro_of_the_source_is_given():
    listed = re.search(r"Macros: (.*?)\n//\n", sources()["tokens.cuh"], re.DOTALL)
    assert listed is not None
    names = [macro.split("=")[0].removeprefix("-D") for macro in token_kernel.macros_of(RATES)]
    assert sorted(names) == sorted(re.findall(r"[A-Z]{3,}[A-Z_]*", listed[1]))


@pytest.mark.parametrize(
    ("model", "dropout", "part"),
    [
        ({"d": 32}, {"embedding": 0.1}, "d = 64"),
        ({"layer_norm": False}, {"embedding": 0.1}, "LayerNorm"),
        ({}, {"embedding": 0.5}, "below"),
        ({}, {"embedding": 0.1, "output": 0.5}, "below"),
        ({}, {"output": 0.1}, "attention or embedding"),
    ],
)
def test_what_the_kernels_do_not_cover_is_said(model, dropout, part):
    spec = TransformerSpec(**{"T": 30, **model})
    assert part in str(token_kernel.not_covered(spec, DropoutSpec(**dropout)))
    assert token_kernel.not_covered(TransformerSpec(T=30), RATES) is None


def test_a_cpu_takes_the_sums_of_xla():
    device = jax.local_devices(backend="cpu")[0]
    assert "9.0" in str(token_kernel.why_not(TransformerSpec(T=30), RATES, device))


@on_hopper
@pytest.mark.parametrize(
    ("m", "T", "spread"), [(9, 35, 1), (3, 130, 20), (60, 300, 1), (100, 801, 30), (17, 15, 1)]
)
def test_the_kernels_give_sums_and_gradients(m, T, spread):
    given = problem(3, m, T, spread, seed=m)

    found, gradient, single = jax.jit(jax.vmap(by_kernel_sums))(*given)
    compare(found, gradient, wanted(*given), np.asarray(given[-1]), spread)
    order = np.array([2, 0, 1])
    moved = jax.jit(jax.vmap(by_kernel_sums))(*jax.tree.map(lambda x: x[order], given))
    before = jax.tree.leaves((found, gradient, single))
    for a, b in zip(before, jax.tree.leaves(moved), strict=True):
        np.testing.assert_array_equal(np.asarray(a)[order], np.asarray(b))


@on_hopper
def test_the_kernel_gives_the_masks_of_single_places():
    seeds = jnp.array([[1, 2, 3], [4, 5, 6]], jnp.uint32)

    def one(seeds):
        masks = Masks(seeds[:2], seeds[2].astype(jnp.int32))
        return token_kernel.kernel_masks(masks, 9, 131, RATES).single

    check_single_masks(np.asarray(jax.jit(jax.vmap(one))(seeds)), seeds, 131)
