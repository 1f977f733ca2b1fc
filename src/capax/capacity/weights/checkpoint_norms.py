"""One tidy table per checkpoint: norms of W_QK and W_VO for every head of GPT-2 and BERT files.

GPT-2 (`c_attn.weight` is [d, 3d], x @ W form): W_Q^h = W[:, hk:(h+1)k], then K and V;
W_O^h = c_proj.weight[hk:(h+1)k, :]. BERT (`nn.Linear`, weight is [out, in]):
W_Q^h = query.weight[hk:(h+1)k, :]^T, W_O^h = output.dense.weight[:, hk:(h+1)k]^T. Scores are
divided by sqrt(k). LayerNorms are folded into the matrices, so that rows have length sqrt(d)
without data.

BERT has its LayerNorms after the sums (post-LN), so gain and offset act on the residual stream as
well, and every block is stretched by 1/sqrt(eps_0): it has a separate recursion.

Numbers for such models compare heads and checkpoints; they are not certificates: tokens are
dependent, inputs come from layers trained on the same data, and the depth makes bounds vacuous.
"""

import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped
from threadpoolctl import threadpool_limits

from capax.array_files import read_safetensors
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.network_bounds import ResidualBlock, residual_network
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.block_norms import BlockWeights, Fold, block_norms
from capax.errors import InputError, require
from capax.machine import num_cores

Weights = Mapping[str, Shaped[np.ndarray, "..."]]
GELU_SLOPE = 1.1290
LARGEST = 1e30  # of a weight: products of four matrices of such numbers still have a square
GPT2 = re.compile(r"^(?P<prefix>.*?)h\.(?P<layer>\d+)\.attn\.c_attn\.weight$")
BERT = re.compile(
    r"^(?P<prefix>.*?)encoder\.layer\.(?P<layer>\d+)\.attention\.self\.query\.weight$"
)


@dataclass(frozen=True)
class HeadRow:
    """One line of the table: layer, head, the norms of its products, and its capacity constant."""

    layer: int
    head: int
    W_QK_F: float
    W_QK_2: float
    W_VO_F: float
    W_VO_2: float
    W_VO_21: float
    log10_capacity: float


def read_tensors(path: Path | str) -> dict[str, Shaped[np.ndarray, "..."]]:
    """All tensors of a safetensors file; raises a one-line InputError for other files."""
    return read_safetensors(path)[1]


def checkpoint_blocks(weights: Weights, num_heads: int | None = None) -> list[ResidualBlock]:
    """The norms of every block of a GPT-2 or BERT state dict, recognised by its names.

    num_heads: must be given, because the file does not contain it. Raises InputError without it,
    and for tensor names of an unknown family.
    """
    for pattern, extract in ((GPT2, _gpt2_block), (BERT, _bert_block)):
        found = [match for match in map(pattern.match, weights) if match]
        if found:
            prefix = found[0]["prefix"]
            layers = sorted(int(match["layer"]) for match in found)
            blocks = partial(_extracted, extract, weights, prefix, num_heads)
            # LAPACK releases the GIL: one layer per core, each with one thread
            with threadpool_limits(1), ThreadPoolExecutor(num_cores()) as pool:
                return list(pool.map(blocks, layers))
    some = ", ".join(sorted(weights)[:3]) or "no tensors"
    raise InputError(f"checkpoint: wanted GPT-2 or BERT tensor names, got {some}")


def _extracted(
    extract: Callable[..., BlockWeights], weights: Weights, prefix: str, H: int | None, layer: int
) -> ResidualBlock:
    return block_norms(extract(weights, prefix, layer, H))


def _tensor(weights: Weights, name: str, *shape: int | None) -> Float[np.ndarray, "..."]:
    """A tensor of these lengths (None: any), its numbers finite and of a size that has squares."""
    require(name in weights, name, "a tensor of this name", "no such tensor")
    found = weights[name]
    fits = found.ndim == len(shape) and all(
        wanted in (None, length) and length > 0
        for wanted, length in zip(shape, found.shape, strict=True)
    )
    lengths = ", ".join("any" if n is None else str(n) for n in shape)
    require(fits, name, f"shape ({lengths})", found.shape)
    require(found.dtype.kind == "f", name, "real numbers", found.dtype)
    tensor = np.asarray(found, np.float64)
    most = float(np.abs(tensor).max())
    require(most < LARGEST, name, f"finite numbers below {LARGEST:g}", most)
    return tensor


def _heads(d: int, num_heads: int | None) -> tuple[int, int]:
    if num_heads is None:
        raise InputError(
            "heads: the file does not contain the number of heads; give --heads, or use "
            "`capax audit`, which reads the number from the model's config.json"
        )
    require(num_heads >= 1 and d % num_heads == 0, "heads", f"a divisor of d = {d}", num_heads)
    return num_heads, d // num_heads


def _split(W: Float[np.ndarray, "d n"], H: int) -> Float[np.ndarray, "H d k"]:
    """[d, H k] in x @ W form to [H, d, k]."""
    return W.reshape(W.shape[0], H, -1).transpose(1, 0, 2)


def _fold(weights: Weights, name: str, d: int) -> Fold:
    return _tensor(weights, f"{name}.weight", d), _tensor(weights, f"{name}.bias", d)


def _gpt2_block(weights: Weights, prefix: str, layer: int, num_heads: int | None) -> BlockWeights:
    at = f"{prefix}h.{layer}."
    d = _tensor(weights, f"{at}attn.c_attn.weight", None, None).shape[0]
    W = _tensor(weights, f"{at}attn.c_attn.weight", d, 3 * d)
    b = _tensor(weights, f"{at}attn.c_attn.bias", 3 * d)
    H, k = _heads(d, num_heads)
    W_1 = _tensor(weights, f"{at}mlp.c_fc.weight", d, None)
    n = W_1.shape[1]
    (W_Q, W_K, W_V), (b_Q, _, b_V) = np.split(W, 3, axis=1), np.split(b, 3)
    return BlockWeights(
        W_Q=_split(W_Q, H),
        W_K=_split(W_K, H),
        W_V=_split(W_V, H),
        W_O=_tensor(weights, f"{at}attn.c_proj.weight", d, d).reshape(H, k, d),
        b_Q=b_Q.reshape(H, k),
        b_V=b_V.reshape(H, k),
        b_O=_tensor(weights, f"{at}attn.c_proj.bias", d),
        W_1=W_1,
        b_1=_tensor(weights, f"{at}mlp.c_fc.bias", n),
        W_2=_tensor(weights, f"{at}mlp.c_proj.weight", n, d),
        b_2=_tensor(weights, f"{at}mlp.c_proj.bias", d),
        ln_1=_fold(weights, f"{at}ln_1", d),
        ln_2=_fold(weights, f"{at}ln_2", d),
        scale=1 / math.sqrt(k),
        L_sigma=GELU_SLOPE,
    )


def _bert_block(weights: Weights, prefix: str, layer: int, num_heads: int | None) -> BlockWeights:
    at = f"{prefix}encoder.layer.{layer}."
    before = (
        f"{prefix}embeddings.LayerNorm" if layer == 0
        else f"{prefix}encoder.layer.{layer - 1}.output.LayerNorm"
    )  # fmt: skip

    def linear(
        name: str, rows: int, columns: int
    ) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        W = _tensor(weights, f"{at}{name}.weight", columns, rows)
        return W.T, _tensor(weights, f"{at}{name}.bias", columns)

    d = _tensor(weights, f"{at}attention.output.dense.weight", None, None).shape[0]
    n = _tensor(weights, f"{at}intermediate.dense.weight", None, d).shape[0]
    parts = [linear(f"attention.self.{name}", d, d) for name in ("query", "key", "value")]
    W_O, b_O = linear("attention.output.dense", d, d)
    (W_1, b_1), (W_2, b_2) = linear("intermediate.dense", d, n), linear("output.dense", n, d)
    H, k = _heads(d, num_heads)
    return BlockWeights(
        W_Q=_split(parts[0][0], H),
        W_K=_split(parts[1][0], H),
        W_V=_split(parts[2][0], H),
        W_O=W_O.reshape(H, k, d),
        b_Q=parts[0][1].reshape(H, k),
        b_V=parts[2][1].reshape(H, k),
        b_O=b_O,
        W_1=W_1,
        b_1=b_1,
        W_2=W_2,
        b_2=b_2,
        ln_1=_fold(weights, before, d),
        ln_2=_fold(weights, f"{at}attention.output.LayerNorm", d),
        scale=1 / math.sqrt(k),
        L_sigma=GELU_SLOPE,
        post=True,
    )


def head_table(blocks: list[ResidualBlock], sample: Sample) -> list[HeadRow]:
    """One row per head; the capacity constant is the closed form of Corollary 4.5 for that head."""
    rows = []
    for i, block in enumerate(blocks):
        inputs = Inputs(B_X=math.sqrt(block.d + 1))
        for h, (qk, vo) in enumerate(block.heads):
            cls = multi_head([ResidualHead(qk, vo)], d=block.d + 1, d_out=block.d, inputs=inputs)
            capacity = cls.log_C(sample) / math.log(10.0)
            rows.append(
                HeadRow(i, h, qk.norm_F, qk.norm_2, vo.norm_F, vo.norm_2, vo.norm_2_1, capacity)
            )
    return rows


# The eps of LayerNorm in the two families; the files do not contain it.
PRE_EPS, POST_EPS = 1e-5, 1e-12


def whole_network(blocks: list[ResidualBlock]) -> FunctionClass:
    """Theorem 4.7, pre- or post-LayerNorm, for one linear read-out of unit length: vacuous."""
    post = all(block.skip_1 is not None for block in blocks)
    eps, shape = (POST_EPS, "post_layer_norm") if post else (PRE_EPS, "layer_norm")
    network = residual_network(
        blocks, 1.0, B_X=math.sqrt(blocks[0].d), shape=shape, layer_norm_eps=eps
    )
    note = f"LayerNorm taken with eps_0 = {eps:g} (not in the file), embeddings as fixed"
    return replace(network, notes=(*network.notes, note), status="comparison")
