"""The three attention modules of Figure 1, run on actual bits: their scores and weights.

All three use orthonormal positions, tokens x_t = E_{b_t} + P_t, so that W_QK shows directly what a
head looks for: an entry between two basis vectors is added to the score of tokens with these
vectors. Positions are counted from 0, and an output above its threshold means "true", as everywhere
in the package. The [CLS] scalar comes from the compiler and computes the user's function. Each
module is one jitted program, which avoids a hundred small compilations.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    DeterministicPositions,
    Head,
    Linear,
    Softmax,
    factored_scores,
)
from capax.boolean import SparseFunction
from capax.compiler import compile
from capax.errors import InputError, require

BITS = (1, 0, 1, 1, 0, 1)
FUNCTION = "x1 & x3"
MOST_TOKENS = 8  # more would be unreadable: one token represents all the others


@dataclass(frozen=True)
class AttentionPanel:
    """The data of one panel: scores between contexts and tokens, weights of tokens in outputs."""

    name: str
    title: str
    formula: str
    remark: str
    value: str  # the number read from the output; empty if the output itself is the result
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


def attention_panels(
    function: str | SparseFunction = FUNCTION, bits: tuple[int, ...] = BITS
) -> tuple[AttentionPanel, ...]:
    """The panels of Figure 1: general head, self-attention layer, [CLS] scalar of `function`.

    The first two show the first six bits. The third shows all bits; beyond eight, only the
    relevant bits and one token that represents the others.
    """
    require(len(bits) >= 3, "bits", "at least 3 bits", bits)
    first = bits[: len(BITS)]
    return general_head(first), self_attention(first), cls_scalar(bits, function)


def bits_from(text: str | None, T: int | None) -> tuple[int, ...]:
    """Bits as typed ("101101"), or T bits that repeat the pattern of the paper's picture."""
    if text is None:
        length = len(BITS) if T is None else T
        require(3 <= length <= 10**6, "T", "a length in 3..1000000", length)
        return tuple(BITS[t % len(BITS)] for t in range(length))
    if set(text) - {"0", "1"}:
        raise InputError(f"bits: wanted zeros and ones such as 101101, got {text!r}")
    require(T in (None, len(text)), "bits", f"T = {T} bits", len(text))
    return tuple(int(bit) for bit in text)


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
        remark=r"$\alpha=\mathrm{Norm}(\mathrm{Score}(x_0,z),\dots,\mathrm{Score}(x_{T-1},z))$",
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
        outputs=tuple(f"$y_{t}$" for t in range(T)),
        scores=_plain(scores[0]),
        weights=_plain(weights[0]),
        own_contexts=tuple(range(T)),
    )


def cls_scalar(bits: tuple[int, ...], function: str | SparseFunction = FUNCTION) -> AttentionPanel:
    """f_tf-scalar compiled from `function`: where [CLS] looks on these bits, and the answer."""
    compiled = compile(function, len(bits))
    model, f = compiled.model, compiled.construction.function

    def look() -> tuple[Array, Array, Array]:
        X = model.encoding(np.array(bits))
        y, weights = model(np.array(bits), return_weights=True)
        return y, weights, factored_scores(X, X[-1], model.W_Q, model.W_K)

    y, weights, scores = jax.jit(look)()
    answer = "true" if f(np.array(bits)) else "false"
    shown = f"f = {compiled.certificate.function}" if len(str(function)) <= 24 else "f"
    panel = AttentionPanel(
        name="tf-scalar",
        title="[CLS] scalar",
        formula=r"$f=w^{\!\top}y_{[\mathrm{CLS}]}$, a number for every $x_{0:T-1}$",
        remark=f"The context is [CLS] itself. {shown} is {answer} here.".replace("$", ""),
        value=f"$f={float(y):.2f}$",
        tokens=(*_token_names(len(bits)), "CLS"),
        bits=(*bits, None),
        contexts=("CLS",),
        outputs=("$y$",),
        scores=_plain(scores)[None],
        weights=_plain(weights)[None],
        own_contexts=(len(bits),),
    )
    return _elided(panel, f.support) if len(bits) > MOST_TOKENS else panel


def _elided(panel: AttentionPanel, support: tuple[int, ...]) -> AttentionPanel:
    """The same panel with its heaviest irrelevant tokens; one token represents all others.

    Its weight is the sum of their weights, so the weights still add up to 1; its score is their
    highest score.
    """
    T = len(panel.tokens) - 1
    others = np.setdiff1d(np.arange(T), support)
    room = max(MOST_TOKENS - len(support) - 1, 1)
    by_weight = others[np.argsort(-panel.weights[0, others], kind="stable")]
    kept = sorted({*support, *by_weight[:room].tolist()})
    hidden = np.setdiff1d(np.arange(T), kept)
    more = f"{len(hidden)}\nmore" if len(hidden) < 10**4 else "more"

    def row(values: ndarray, rest: float) -> ndarray:
        return np.array([[*values[0, kept], rest, values[0, T]]])

    return replace(
        panel,
        tokens=(*(panel.tokens[t] for t in kept), more, panel.tokens[T]),
        bits=(*(panel.bits[t] for t in kept), None, None),
        scores=row(panel.scores, float(panel.scores[0, hidden].max())),
        weights=row(panel.weights, float(panel.weights[0, hidden].sum())),
        own_contexts=(len(kept) + 1,),
    )


def _token_names(T: int) -> tuple[str, ...]:
    return tuple(f"$x_{{{t}}}$" for t in range(T))


def _plain(values: object) -> ndarray:
    return np.asarray(values, dtype=np.float64)
