"""The sums over tokens as kernels: `token_sums` on a GPU that supports them.

The source is in `cuda/`. XLA runs its PTX in a custom call, as in `capax.training.fused`. Tokens
and masks are made in registers and never stored; device memory holds the table of (symbol,
position) pairs, and a vector per example and head in each direction.
"""

import functools
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped, UInt8, UInt32

from capax.attention.transformer import TransformerSpec
from capax.training.dropout.dropout_masks import Masks, thresholds
from capax.training.dropout.token_sums import TokenSums, scaled_epsilon
from capax.training.fused.nvrtc import NvrtcError, kept_ptx
from capax.training.fused.step import has_hopper, pack
from capax.training.specs.trial_specs import DropoutSpec
from capax.training.steps.together import one_launch

_WIDTH, _HEADS = 64, 16  # the sizes that the kernels are written for
_WARPS, _TILE, _ROW_BYTES = 8, 16, 256  # `tokens.cuh`: warps of a block, positions, a table's row
_FACTOR_BYTES = 4096  # a factor of a product in pieces
_MOST_DROPPED = 0.5  # thresholds of bytes are compared in seven bits

_Arrays = tuple[Array, ...]


def not_covered(spec: TransformerSpec, dropout: DropoutSpec) -> str | None:
    """Why the kernels do not cover these runs, in one line; None if they do."""
    if (spec.d, spec.heads, spec.alphabet) != (_WIDTH, _HEADS, 2) or not spec.layer_norm:
        return f"only d = {_WIDTH}, {_HEADS} heads, bits and LayerNorm"
    if max(dropout.attention, dropout.embedding, dropout.output) >= _MOST_DROPPED:
        return f"only dropout below {_MOST_DROPPED}"
    if not dropout.attention and not dropout.embedding:
        return "only dropout of attention or embedding"
    return None


def why_not(spec: TransformerSpec, dropout: DropoutSpec, device: jax.Device) -> str | None:
    """Why the kernels cannot be used for these runs on this device; None if they can."""
    if not has_hopper(device):
        return "no GPU of compute capability 9.0 (H100, H200)"
    return not_covered(spec, dropout) or _trouble(dropout, device)


@functools.cache
def _trouble(dropout: DropoutSpec, device: jax.Device) -> str | None:
    """Why the kernels do not run on this machine; tested on one token, which has weight 1."""
    try:
        with jax.default_device(device):
            table = np.zeros((1, 2, 1, _WIDTH), np.uint32)
            U = np.zeros((1, 1, _HEADS, _WIDTH), np.float32)
            words, used = np.zeros((1, 1, 1), np.uint32), np.ones(1, np.int32)
            seeds = np.zeros((1, 3), np.uint32)
            function = jax.jit(functools.partial(_forward, ptx(dropout)))
            total = float(function(table, U, words, used, seeds)[2][0, 0, 0])
    except (NvrtcError, jax.errors.JaxRuntimeError) as error:
        return f"the kernel does not run here: {str(error).splitlines()[0]}"
    return None if abs(total - 1.0) < 1e-6 else f"the kernel gave {total}, not 1"


def macros_of(dropout: DropoutSpec) -> tuple[str, ...]:
    """The macros that the source needs."""
    values: dict[str, str] = {"EPSILON": f"{scaled_epsilon(dropout.embedding)!r}f"}
    for name in ("embedding", "attention", "output"):
        whole, part = thresholds(getattr(dropout, name))
        values |= {f"{name.upper()}_WHOLE": f"{whole}u", f"{name.upper()}_PART": f"{part}u"}
    return tuple(f"-D{name}={value}" for name, value in values.items())


@functools.cache
def ptx(dropout: DropoutSpec) -> str:
    """PTX of `cuda/` for these rates, compiled once and stored on disk."""
    folder = resources.files("capax.training.dropout") / "cuda"
    files = {entry.name: entry.read_text() for entry in folder.iterdir()}
    options = ["--gpu-architecture=compute_90", "--std=c++17", *macros_of(dropout)]
    return kept_ptx(files.pop("token_sums.cu"), files, options)


def kernel_sums(used: Shaped[Array, "m"]) -> Callable[..., TokenSums]:
    """`token_sums` by kernels; used: 1 for rows that are examples, which come first, else 0.

    Rows without an example give zeros.
    """

    def sums(
        position: Array,
        embed: Array,
        U: Array,
        bits: UInt8[Array, "m T"],
        masks: Masks,
        dropout: DropoutSpec,
        layer_norm: bool,
    ) -> TokenSums:
        assert layer_norm, "the kernels are written for LayerNorm"
        number = jnp.sum(used != jnp.zeros_like(used), dtype=jnp.int32)
        fixed = (pack(bits), number, _seeds(masks))
        return TokenSums(*_sums(ptx(dropout), position, embed, U, fixed))

    return sums


def kernel_masks(masks: Masks, m: int, T: int, dropout: DropoutSpec) -> Masks:
    """These masks; a kernel makes the masks of single places of m examples."""
    kept = _batched(_single_masks, ptx(dropout), m, T)(_seeds(masks))
    return masks._replace(single=kept > 0)


def _seeds(masks: Masks) -> UInt32[Array, "3"]:
    return jnp.concatenate([masks.key, masks.step.astype(jnp.uint32)[None]])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sums(source: str, position: Array, embed: Array, U: Array, fixed: _Arrays) -> _Arrays:
    return _sums_forward(source, position, embed, U, fixed)[0]


def _sums_forward(source: str, position: Array, embed: Array, U: Array, fixed: _Arrays) -> Any:
    table = packed_table(position, embed)
    out = _batched(_forward, source)(table, U, *fixed)
    return tuple(out), (table, U, fixed, out[3])


def _sums_backward(source: str, kept: Any, slopes: Any) -> Any:
    table, U, fixed, mu = kept
    d_pooled, d_kept, d_total, _ = slopes  # no gradient flows through mu
    d_U, factors = _batched(_backward_U, source)(table, U, *fixed, mu, d_pooled, d_kept, d_total)
    rest = (*fixed, mu, d_kept, d_total)
    d_position, d_symbol = _batched(_backward_table, source)(table, factors, *rest)
    one = jnp.sum(d_symbol, axis=0)
    d_embed = jnp.stack([jnp.sum(d_position, axis=1) - one, one])
    return d_position, d_embed, d_U, None


_sums.defvjp(_sums_forward, _sums_backward)


def packed_table(position: Array, embed: Array) -> UInt32[Array, "2 T d"]:
    """E_b + P_t as two bfloat16 pieces, in the order in which the lanes of a warp read them.

    A word holds the same piece of two neighbouring columns; see `Tokens::make` in `tokens.cuh`.
    """
    d, T = position.shape
    e = embed[:, None, :] + position.T[None]
    # cut by its bits: XLA removes a conversion to bfloat16 and back, so that the remainder would be
    # 0 (seen on 2026-11-17 with JAX 0.11.2 on an H200)
    top = jax.lax.bitcast_convert_type(e, jnp.uint32) & jnp.uint32(0xFFFF0000)
    first = jax.lax.bitcast_convert_type(top, jnp.float32)
    pieces = jnp.stack([first, e - first], axis=2).astype(jnp.bfloat16)  # [2, T, piece, d]
    pieces = pieces.reshape(2, T, 2, d // 16, 2, 4, 2)  # d as (n / 2, n % 2, quad, one)
    pieces = pieces.transpose(0, 1, 3, 5, 4, 2, 6)
    words = jax.lax.bitcast_convert_type(pieces, jnp.uint32)
    return words.reshape(2, T, d)


@functools.cache
def _batched(launch: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    return one_launch(functools.partial(launch, *first))


def _forward(source: str, table: Array, U: Array, words: Array, used: Array, seeds: Array) -> Any:
    B, m, H, d = U.shape
    shapes = [(B, m, H, d), (B, m, H), (B, m, H), (B, m, H)]
    shared = _chunks_bytes() + _WARPS * _FACTOR_BYTES
    arguments = (table, U, words, used, seeds, _sizes(table, words))
    return _call(source, "forward", (B, -(-m // _WARPS)), shared, shapes, arguments)


def _backward_U(source: str, table: Array, U: Array, *rest: Array) -> Any:
    B, m, _, _ = U.shape
    shared = _chunks_bytes() + 2 * _WARPS * _FACTOR_BYTES
    arguments = (table, U, *rest, _sizes(table, rest[0]))
    shapes = [U.shape, (B, m, _FACTOR_BYTES)]  # four factors of 4-byte words
    return _call(source, "backward_U", (B, -(-m // _WARPS)), shared, shapes, arguments)


def _backward_table(source: str, table: Array, factors: Array, *rest: Array) -> Any:
    B, _, T, d = table.shape
    blocks = -(-T // (_WARPS * _TILE))
    sums = 32 * _WARPS * d  # 16 numbers of four bytes for every thread
    shared = _WARPS * 2 * _TILE * _ROW_BYTES + 2 * 4 * _FACTOR_BYTES + sums
    arguments = (table, factors, *rest, _sizes(table, rest[0]))
    shapes = [(B, d, T), (B, blocks, d)]
    return _call(source, "backward_table", (B, blocks), shared, shapes, arguments)


def _single_masks(source: str, m: int, T: int, seeds: Array) -> Any:
    B = len(seeds)
    shapes = [(B, m, 3 * _WIDTH + _HEADS)]
    arguments = (seeds, jnp.array([m, T], jnp.int32))
    return _call(source, "single_masks", (B, -(-m // _WARPS)), 0, shapes, arguments)[0]


def _chunks_bytes() -> int:
    """Two chunks of 32 positions with both symbols."""
    return 2 * 2 * 32 * _ROW_BYTES


def _sizes(table: Array, words: Array) -> Array:
    return jnp.array([words.shape[1], table.shape[2], words.shape[2]], jnp.int32)


def _call(
    source: str,
    name: str,
    grid: tuple[int, int],
    shared: int,
    shapes: Sequence[tuple[int, ...]],
    arguments: _Arrays,
) -> Any:
    """One launch; every output is of float32 numbers."""
    numbers = {"grid_x": grid[0], "grid_y": grid[1], "grid_z": 1, "block_x": 32 * _WARPS}
    numbers |= {"block_y": 1, "block_z": 1, "shared_mem_bytes": shared}
    out = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", out)
    attributes = {key: np.int32(value) for key, value in numbers.items()}
    return call(*arguments, name=name, kernel_type="ptx", kernel_data=source, **attributes)
