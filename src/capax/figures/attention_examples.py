"""The three attention modules of Figure 1, run on actual bits: their scores and weights.

All three use orthonormal positions, tokens x_t = E_{b_t} + P_t, so that what a head looks for can
be read off its W_QK: an entry between two basis vectors is what their meeting adds to the score.
Each module is compiled as a whole: operation by operation there are a hundred programs to compile.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    ClsScalar,
    DeterministicPositions,
    Head,
    Linear,
    Softmax,
    factored_scores,
)
from capax.errors import require

BITS = (1, 0, 1, 1, 0, 1)
SUPPORT = (1, 3)  # the relevant bits of the [CLS] example, 0-based


@dataclass(frozen=True)
class AttentionPanel:
    """What one panel shows: contexts look at tokens (scores), outputs mix tokens (weights)."""

    name: str
    title: str
    formula: str
    remark: str
    value: str  # what is read from the output, empty if the output is the end
    tokens: tuple[str, ...]
    bits: tuple[int | None, ...]
    contexts: tuple[str, ...]
    outputs: tuple[str, ...]
    scores: Float[ndarray, "contexts tokens"]
    weights: Float[ndarray, "contexts tokens"]
    own_contexts: tuple[int | None, ...]  # which token a context is, None if it is from outside

    def __post_init__(self) -> None:
        shape = (len(self.contexts), len(self.tokens))
        require(self.scores.shape == shape, "scores", f"shape {shape}", self.scores.shape)
        require(self.weights.shape == shape, "weights", f"shape {shape}", self.weights.shape)


def attention_panels(bits: tuple[int, ...] = BITS) -> tuple[AttentionPanel, ...]:
    """The panels of Figure 1 on `bits`: general head, self-attention layer, [CLS] scalar."""
    require(len(bits) > max(SUPPORT), "bits", f"at least {max(SUPPORT) + 1} bits", bits)
    require(len(bits) <= 8, "bits", "at most 8 bits, to stay readable", len(bits))
    return general_head(bits), self_attention(bits), cls_scalar(bits)


def general_head(bits: tuple[int, ...]) -> AttentionPanel:
    """f_tf-head with a context z = E_1 + P_2 from outside: ones score, position 2 scores more."""
    T = len(bits)
    encoding = DeterministicPositions(T)

    def look() -> tuple[Array, Array]:
        X = encoding(np.array(bits)).dense(jnp.float32)[:T]
        z = jnp.zeros(encoding.d, jnp.float32).at[jnp.array([T + 1, 2])].set(1.0)
        identity = jnp.eye(encoding.d, dtype=jnp.float32)
        head = Head(BilinearScore(1.5 * identity), Softmax(), Linear(identity), lambda u: u)
        return head.score(X, z), head(X, z, return_weights=True)[1]

    scores, weights = jax.jit(look)()
    return AttentionPanel(
        name="tf-head",
        title="Head with a context $z$",
        formula=r"$y=\phi_{\mathrm{out}}\left(\sum_t\alpha_t\,\phi_{\mathrm{in}}(x_t)\right)$",
        remark=r"$\alpha=\mathrm{Norm}(\mathrm{Score}(x_1,z),\dots,\mathrm{Score}(x_T,z))$",
        value="",
        tokens=_token_names(T),
        bits=bits,
        contexts=("$z$",),
        outputs=("$y$",),
        scores=_plain(scores)[None],
        weights=_plain(weights)[None],
        own_contexts=(None,),
    )


def self_attention(bits: tuple[int, ...]) -> AttentionPanel:
    """f_tf-layer: every token looks for its own symbol, and for the token before it."""
    T = len(bits)
    encoding = DeterministicPositions(T)
    W_QK = np.zeros((1, encoding.d, encoding.d), np.float32)
    W_QK[0, range(1, T), range(T - 1)] = 3.0
    W_QK[0, [T, T + 1], [T, T + 1]] = 1.5

    def look() -> tuple[Array, Array]:
        X = encoding(np.array(bits)).dense(jnp.float32)[:T]
        identity = jnp.eye(encoding.d, dtype=jnp.float32)[None]
        layer = AttentionLayer.from_W_QK(jnp.asarray(W_QK), identity, identity)
        return layer.scores(X), layer(X, return_weights=True)[1]

    scores, weights = jax.jit(look)()
    return AttentionPanel(
        name="tf-layer",
        title="Self-attention layer",
        formula=r"$Y=\sigma\left(\mathrm{RowNorm}(XW_{QK}X^{\!\top})\,XW_V\right)W_C$",
        remark="Every token is a context, and gets an output.",
        value="",
        tokens=_token_names(T),
        bits=bits,
        contexts=_token_names(T),
        outputs=tuple(f"$y_{t}$" for t in range(1, T + 1)),
        scores=_plain(scores[0]),
        weights=_plain(weights[0]),
        own_contexts=tuple(range(T)),
    )


def cls_scalar(bits: tuple[int, ...]) -> AttentionPanel:
    """f_tf-scalar for AND of the bits in SUPPORT: [CLS] looks for a relevant zero or at itself."""
    T = len(bits)
    model = and_by_zero_detection(T)

    def look() -> tuple[Array, Array, Array]:
        X = model.encoding(np.array(bits))
        f, weights = model(np.array(bits), return_weights=True)
        return f, weights, factored_scores(X, X[-1], model.W_Q, model.W_K)

    f, weights, scores = jax.jit(look)()
    sign, y = (">", 0) if f > 0 else ("<", 1)
    i, j = (t + 1 for t in SUPPORT)
    return AttentionPanel(
        name="tf-scalar",
        title="[CLS] scalar",
        formula=r"$f=w^{\!\top}y_{[\mathrm{CLS}]}$, a number for every $x_{1:T}$",
        remark=f"The context is [CLS] itself. Here $f{sign}0$: $x_{i}$ AND $x_{j}$ is {y}.",
        value=f"$f={float(f):.2f}$",
        tokens=(*_token_names(T), "CLS"),
        bits=(*bits, None),
        contexts=("CLS",),
        outputs=("$y$",),
        scores=_plain(scores)[None],
        weights=_plain(weights)[None],
        own_contexts=(T,),
    )


def and_by_zero_detection(T: int, a: float = 4.0, D: float = 3.0) -> ClsScalar:
    """A [CLS] head whose sign is AND of the bits in SUPPORT: negative if all are one.

    Scores: relevant zero a, relevant one a - D, [CLS] a - 1, irrelevant 0 or -D; values: relevant
    tokens 1, [CLS] -1 (Section 5, with [CLS] weight 1/e relative to a relevant zero).
    """
    d = T + 3
    key, query, value = (np.zeros((d, 1), np.float32) for _ in range(3))
    key[list(SUPPORT)], key[T + 1], key[T + 2] = a, -D, a - 1.0
    query[T + 2] = 1.0
    value[list(SUPPORT)], value[T + 2] = 1.0, -1.0
    one = jnp.ones((1, 1), jnp.float32)
    W_Q, W_K, W_V = map(jnp.asarray, (query, key, value))
    return ClsScalar(DeterministicPositions(T), W_Q, W_K, W_V, W_C=one, w=one[0])


def _token_names(T: int) -> tuple[str, ...]:
    return tuple(f"$x_{t}$" for t in range(1, T + 1))


def _plain(values: object) -> ndarray:
    return np.asarray(values, dtype=np.float64)
