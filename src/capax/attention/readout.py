"""Real-valued functions of bits from one head: the [CLS] token is the query (Section 3).

`ClsScalar` is f_tf-scalar: w^T W_C^T sigma(u). `ClsMLP` reads the same head through a ReLU MLP.
Both take u = W_V^T sum_t a_t x_t, where a = Norm(scores of the T tokens AND [CLS]).
"""

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float

from capax.attention.encodings import Encoding
from capax.attention.head import attend
from capax.attention.layer import AttentionLayer
from capax.attention.parts.activations import activation as activation_named
from capax.attention.parts.masks import Mask, keep_cls
from capax.attention.parts.normalizers import Normalizer, Softmax
from capax.attention.parts.scores import ScaleRule, attention_scale, factored_scores
from capax.attention.parts.tokens import Bits, Tokens
from capax.errors import require


def cls_head(
    X: Tokens,
    W_Q: Float[Array, "d r"],
    W_K: Float[Array, "d r"],
    W_V: Float[Array, "d k"],
    norm: Normalizer,
    scale: ScaleRule = "paper",
    mask: Mask = None,
) -> tuple[Float[Array, "k"], Float[Array, "T_1"]]:
    """(u, a): the mixture that the last token, [CLS], reads, and its attention weights."""
    weights = norm(factored_scores(X, X[-1], W_Q, W_K, scale), mask)  # [T + 1]
    return attend(weights, X @ W_V), weights


def _check_head(model: "ClsScalar | ClsMLP") -> None:
    W_Q, W_K, W_V, d = model.W_Q, model.W_K, model.W_V, model.encoding.d
    require(W_Q.shape[0] == d, "W_Q", f"{d} rows, the width of the tokens", W_Q.shape)
    require(W_K.shape == W_Q.shape, "W_K", f"the shape of W_Q {W_Q.shape}", W_K.shape)
    require(W_V.shape[0] == d, "W_V", f"{d} rows, the width of the tokens", W_V.shape)
    require(isinstance(model.norm, Normalizer), "norm", "a normalizer", model.norm)
    attention_scale(W_Q.shape[1], model.scale)


class ClsScalar(eqx.Module):
    """f_tf-scalar(b) = w^T W_C^T sigma(W_V^T sum_t a_t x_t), a = Norm(x_CLS^T W_Q W_K^T x_t)."""

    encoding: Encoding
    W_Q: Float[Array, "d r"]
    W_K: Float[Array, "d r"]
    W_V: Float[Array, "d k"]
    W_C: Float[Array, "k q"]
    w: Float[Array, "q"]
    activation: str = eqx.field(static=True, default="identity")
    norm: Normalizer = Softmax()
    scale: ScaleRule = eqx.field(static=True, default="paper")

    def __check_init__(self) -> None:
        _check_head(self)
        k = self.W_V.shape[1]
        require(self.W_C.shape[0] == k, "W_C", f"{k} rows, the columns of W_V", self.W_C.shape)
        require(
            self.w.shape == self.W_C.shape[1:], "w", f"shape {self.W_C.shape[1:]}", self.w.shape
        )
        activation_named(self.activation)

    @property
    def threshold(self) -> float:
        """An output above it is the decision 1: the labels are -1 and +1."""
        return 0.0

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.encoding.T

    def layer(self) -> AttentionLayer:
        """The same head as a full self-attention layer; the read-out is w . (its last row)."""
        one = jax.tree.map(lambda M: M[None], (self.W_Q, self.W_K, self.W_V, self.W_C))
        return AttentionLayer(*one, activation=self.activation, norm=self.norm, scale=self.scale)

    def __call__(
        self, bits: Bits, *, mask: Bool[Array, "T"] | None = None, return_weights: bool = False
    ) -> Float[Array, ""] | tuple[Float[Array, ""], Float[Array, "T_1"]]:
        X = self.encoding(bits)
        head = (self.W_Q, self.W_K, self.W_V, self.norm, self.scale)
        u, weights = cls_head(X, *head, keep_cls(mask))
        y = activation_named(self.activation)(u) @ self.W_C @ self.w
        return (y, weights) if return_weights else y


class ClsMLP(eqx.Module):
    """f(b) = w_2^T relu(W_1^T u + b_1) + b_2, u = W_V^T sum_t a_t x_t."""

    encoding: Encoding
    W_Q: Float[Array, "d r"]
    W_K: Float[Array, "d r"]
    W_V: Float[Array, "d k"]
    W_1: Float[Array, "k n"]
    b_1: Float[Array, "n"]
    w_2: Float[Array, "n"]
    b_2: Float[Array, ""]
    norm: Normalizer = Softmax()
    scale: ScaleRule = eqx.field(static=True, default="paper")

    def __check_init__(self) -> None:
        _check_head(self)
        k, n = self.W_1.shape
        require(k == self.W_V.shape[1], "W_1", f"{self.W_V.shape[1]} rows", self.W_1.shape)
        require(self.b_1.shape == (n,), "b_1", f"shape ({n},)", self.b_1.shape)
        require(self.w_2.shape == (n,), "w_2", f"shape ({n},)", self.w_2.shape)
        require(self.b_2.shape == (), "b_2", "a scalar array", self.b_2.shape)

    @property
    def threshold(self) -> float:
        """An output above it is the decision 1: the output stands for the values 0 and 1 of f."""
        return 0.5

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.encoding.T

    def __call__(
        self, bits: Bits, *, mask: Bool[Array, "T"] | None = None, return_weights: bool = False
    ) -> Float[Array, ""] | tuple[Float[Array, ""], Float[Array, "T_1"]]:
        X = self.encoding(bits)
        head = (self.W_Q, self.W_K, self.W_V, self.norm, self.scale)
        u, weights = cls_head(X, *head, keep_cls(mask))
        y = self.w_2 @ jax.nn.relu(u @ self.W_1 + self.b_1) + self.b_2
        return (y, weights) if return_weights else y
