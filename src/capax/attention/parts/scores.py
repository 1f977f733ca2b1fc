"""Score: how well a token x fits a context z. Only this file chooses the scale of the scores."""

import math
from typing import Literal

import equinox as eqx
from jaxtyping import Array, Float

from capax.attention.parts.tokens import Token, Tokens
from capax.errors import require

ScaleRule = Literal["paper", "sqrt"]


def attention_scale(d_head: int, rule: str = "paper") -> float:
    """The factor on every score: 1 (`paper`: absorbed in W_QK) or 1 / sqrt(d_head) (`sqrt`).

    No other line of Capax divides scores; a module stores the rule, not the number.
    """
    require(rule in ("paper", "sqrt"), "scale", "paper or sqrt", rule)
    require(d_head >= 1, "d_head", "a positive integer", d_head)
    return 1.0 if rule == "paper" else 1.0 / math.sqrt(d_head)


def bilinear_scores(X: Tokens, z: Token, W_QK: Float[Array, "d_z d"]) -> Float[Array, "T"]:
    """theta_t = z^T W_QK x_t (Definition 3.2 with W_QK = W_Q W_K^T)."""
    return X @ (z @ W_QK)


def factored_scores(
    X: Tokens,
    z: Token,
    W_Q: Float[Array, "d_z r"],
    W_K: Float[Array, "d r"],
    scale: ScaleRule = "paper",
) -> Float[Array, "T"]:
    """theta_t = (W_Q^T z).(W_K^T x_t) times the scale for r = d_head; never forms W_QK."""
    return attention_scale(W_Q.shape[1], scale) * (X @ (W_K @ (z @ W_Q)))


class BilinearScore(eqx.Module):
    """Score(x, z) = z^T W_QK x."""

    W_QK: Float[Array, "d_z d"]

    def __call__(self, X: Tokens, z: Token) -> Float[Array, "T"]:
        return bilinear_scores(X, z, self.W_QK)


class FactoredScore(eqx.Module):
    """Score(x, z) = (W_Q^T z).(W_K^T x), times 1/sqrt(r) if `scale` is `sqrt`."""

    W_Q: Float[Array, "d_z r"]
    W_K: Float[Array, "d r"]
    scale: ScaleRule = eqx.field(static=True, default="paper")

    def __check_init__(self) -> None:
        require(
            self.W_Q.shape[1] == self.W_K.shape[1], "W_K", "as many columns as W_Q", self.W_K.shape
        )
        attention_scale(self.W_Q.shape[1], self.scale)

    def __call__(self, X: Tokens, z: Token) -> Float[Array, "T"]:
        return factored_scores(X, z, self.W_Q, self.W_K, self.scale)
