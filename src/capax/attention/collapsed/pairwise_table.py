"""The first attention layer of all examples as one product with a table.

A token of the first layer is embed[c] + position_t: whatever m is, there are P = A (T + 1) pairs
(symbol, position), [CLS] being position T, with the same vector for every symbol and symbol 0 in
every example. Scores of query pair q with key pair p form one table S[h,p,q] for all examples, and
with E = exp(S - shift[h,q]) the head of an example with the pairs (b_u, u) is

    head[q] = sum_u E[b_u u, q] v[b_u u] / sum_u E[b_u u, q] = (X [E v])[q] / (X E)[q],

X the one-hot design matrix [m, P]: a product with the table [E v | E] of P rows and (k + 1) H P
columns, from which position t takes the columns of its own symbol. There is no exponential and no
array of the size m T^2, and the backward pass is one product with X too (X itself has no gradient).
The bias of the keys adds the same number to all scores of a query; it is left out.

Range (ours). An example's largest score with q lies between

    low[q] = max_u min_b S[b u, q]   and   high[q] = max_u max_b S[b u, q].

The shift is their mean, or high - 64 where that is larger. Up to high - low = 128 nats, then, no
weight exceeds e^64 and every sum of weights is at least e^-64: float32 loses nothing, where a shift
by `high` alone fails at 87 nats. The backward pass stays in range too: examples with pair p divide
by a sum that holds E[p], so that E dE is of the size of the cotangent. Beyond 128 nats, an example
whose own largest score lies as far below `high` gets no number (NaN), never a wrong one.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Integer

from capax.attention.block import Block, normalised
from capax.attention.collapsed.design import one_hot, over_pairs
from capax.attention.parts.scores import attention_scale

Pairs = Float[Array, "A n d"]  # vectors of (symbol, position)
Queries = Float[Array, "H A t k"]
Places = Integer[Array, "m n"]  # the symbol at each position

_HALF_RANGE = 64.0  # nats; e^64 = 2^92
_LEAST = math.exp(-72.0)  # a sum whose terms float32 still has, in three bfloat16 pieces too
PIECE = 1 << 21  # numbers in a piece of the table: hundreds of models may run together


def place_cls(symbols: Integer[Array, "m T"]) -> Integer[Array, "m n"]:
    """The symbols with [CLS] as a last position, which has symbol 0."""
    return jnp.pad(symbols, ((0, 0), (0, 1)))


def pairs_of(embed: Array, position: Array, cls: Array) -> Float[Array, "A n d"]:
    """embed[c] + position_t for all symbols and positions, [CLS] after them."""
    tokens = embed[:, None, :] + position[None, :, :]
    last = jnp.broadcast_to(cls[None, None, :], (tokens.shape[0], 1, tokens.shape[2]))
    return jnp.concatenate([tokens, last], axis=1)


def chosen(options: list[Array], places: Integer[Array, "..."]) -> Array:
    """options[c] at the positions of symbol c; shapes are equal or can be broadcast."""
    found = options[0]
    for c, option in enumerate(options[1:], start=1):
        found = jnp.where(places == c, option, found)
    return found


def tokens_of(pairs: Pairs, places: Places) -> Float[Array, "m n d"]:
    """The token of each position of each example."""
    return chosen([x[None] for x in pairs], places[:, :, None])


def first_heads(block: Block, pairs: Pairs, places: Places) -> Float[Array, "m n d"]:
    """The head outputs of all tokens in the first layer, columns in the order (k, H)."""
    k = block.W_Q.shape[2]
    sums = _by_tables(*_parts(block, pairs), places)
    heads = _ratio(sums[:, :k], _enough(sums[:, k:]))
    return jnp.swapaxes(heads.reshape(len(places), -1, places.shape[1]), 1, 2)


def first_head_columns(block: Block, pairs: Pairs, places: Places) -> Float[Array, "d N"]:
    """The same for a CPU: a column for every token of every example, rows in the order (H, k)."""
    k = block.W_Q.shape[2]
    sums = _by_values(*_parts(block, pairs), places)
    return _ratio(sums[:, :k], _enough(sums[:, k:])).reshape(-1, places.size)


def _parts(block: Block, pairs: Pairs) -> tuple[Queries, Array, Array]:
    """Of all pairs queries, keys [H, P, k], and values with a last row of ones, [k + 1, H, P]."""
    (A, n, _), (H, _, k) = pairs.shape, block.W_Q.shape
    x = normalised(block.ln1, pairs).reshape(A * n, -1)
    scale = attention_scale(k, block.scale)
    Q = scale * (_product("pd,hdk->hpk", x, block.W_Q) + block.b_Q[:, None, :])
    K = _product("pd,hdk->hpk", x, block.W_K)
    V = _product("pd,hdk->khp", x, block.W_V) + block.b_V.T[:, :, None]
    return Q.reshape(H, A, n, k), K, jnp.concatenate([V, jnp.ones_like(V[:1])])


def _enough(total: Array) -> Array:
    """Sums of weights that float32 still has; NaN for others."""
    return jnp.where(total >= _LEAST, total, jnp.nan)


def _by_values(Q: Queries, K: Array, V_1: Array, places: Places) -> Float[Array, "H k_1 m n"]:
    """(X v) E: as many numbers as the sums have, and no table; for a CPU."""
    (H, A, n, _), m = Q.shape, len(places)
    X = one_hot(places, A, V_1.dtype) > 0
    # chosen, not multiplied: for pairs not in an example the backward pass may leave the range
    mine = jnp.where(X[None, None], jnp.swapaxes(V_1, 0, 1)[:, :, None, :], 0.0)
    sums = _weighted(mine.reshape(H, -1, A * n), _weights(Q, K)).reshape(H, -1, m, A * n)
    return _of_own_symbol(sums, places[None, None], A)


@jax.custom_vjp
def _weighted(values: Float[Array, "H i P"], E: Float[Array, "H P q"]) -> Float[Array, "H i q"]:
    """values E of every head. Without its own gradient XLA turns the sums before a product."""
    return _product("hip,hpq->hiq", values, E)


def _weighted_back(kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    values, E = kept
    return _product("hiq,hpq->hip", dy, E), _product("hip,hiq->hpq", values, dy)


_weighted.defvjp(lambda values, E: (_weighted(values, E), (values, E)), _weighted_back)


def _by_tables(Q: Queries, K: Array, V_1: Array, places: Places) -> Float[Array, "m k_1 H n"]:
    """X [E v | E] for tensor cores: X is exact in bfloat16; the table is used piece by piece."""
    (H, A, n, _), (columns, _, P) = Q.shape, V_1.shape
    X = one_hot(places, A, jnp.bfloat16)
    size = -(-n // -(-P * columns * H * A * n // PIECE))  # positions of queries in a piece

    def sums(part: tuple[Array, Array]) -> Float[Array, "m k_1 H t"]:
        queries, here = part
        table = V_1[:, :, :, None] * _weights(queries, K)[None]
        found = over_pairs(X, jnp.moveaxis(table, 2, 0).reshape(P, -1))
        return _of_own_symbol(found.reshape(len(X), columns, H, -1), here[:, None, None], A)

    if size == n:
        return sums((Q, places))
    found = lax.map(sums, (_cut(Q, 2, size), _cut(places, 1, size)))
    return jnp.moveaxis(found, 0, 3).reshape(len(X), columns, H, -1)[..., :n]


def _of_own_symbol(sums: Array, places: Array, A: int) -> Array:
    """For each position, the sums for a query with its symbol; queries lie along the last axis."""
    return chosen(jnp.split(sums, A, axis=3), places)


def _product(equation: str, a: Array, b: Array) -> Array:
    """An einsum in float32, also on a GPU."""
    return jnp.einsum(equation, a, b, precision=lax.Precision.HIGHEST)


def _weights(queries: Queries, K: Float[Array, "H P k"]) -> Float[Array, "H P q"]:
    """E of key pair p and query pair q."""
    H, A, t, k = queries.shape
    S = _product("hpk,hqk->hpq", K, queries.reshape(H, A * t, k))
    each = lax.stop_gradient(S).reshape(H, A, -1, A * t)
    low = jnp.max(jnp.min(each, axis=1), axis=1)
    high = jnp.max(each, axis=(1, 2))
    return jnp.exp(S - jnp.maximum((low + high) / 2, high - _HALF_RANGE)[:, None, :])


@jax.custom_jvp
def _ratio(a: Array, b: Array) -> Array:
    """a / b; the derivative that comes with the division squares b, and leaves float32's range."""
    return a / b


@_ratio.defjvp
def _ratio_jvp(at: tuple[Array, Array], moved: tuple[Array, Array]) -> tuple[Array, Array]:
    y = at[0] / at[1]
    return y, (moved[0] - y * moved[1]) / at[1]


def _cut(x: Array, axis: int, size: int) -> Array:
    """Pieces of `size` along an axis, first; filled up with zeros."""
    n = x.shape[axis]
    parts = -(-n // size)
    widths = [(0, parts * size - n if i == axis else 0) for i in range(x.ndim)]
    whole = jnp.pad(x, widths)
    return jnp.moveaxis(whole.reshape(*x.shape[:axis], parts, size, *x.shape[axis + 1 :]), axis, 0)
