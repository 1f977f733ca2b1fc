"""The general attention head (Definition 3.1): score, normalise, mix, map.

f(X, z) = phi_out( phi_in(X)^T Norm(Score(x_1, z), ..., Score(x_T, z)) )
"""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float

from capax.attention.parts.masks import Mask
from capax.attention.parts.normalizers import Normalizer
from capax.attention.parts.tokens import Token, Tokens, TwoHotTokens


def attend(
    weights: Float[Array, "*queries T"], values: Float[Array, "T k"]
) -> Float[Array, "*queries k"]:
    """u = sum_t a_t values_t: the weighted mixture of the rows of `values`."""
    return weights @ values


class Linear(eqx.Module):
    """phi(x) = W^T x, on one vector or on the rows of a matrix (`X @ W`)."""

    W: Float[Array, "d k"]

    def __call__(self, X: Float[Array, "*rows d"] | TwoHotTokens) -> Float[Array, "*rows k"]:
        return X @ self.W


class Rowwise(eqx.Module):
    """Any function of one token, applied to every row: how to supply your own phi_in."""

    function: Callable[[Float[Array, "d"]], Float[Array, "k"]]

    def __call__(self, X: Float[Array, "T d"]) -> Float[Array, "T k"]:
        return jax.vmap(self.function)(X)


class Head(eqx.Module):
    """An attention head with a context z, from parts a user can supply.

    `score(X, z)` gives T numbers, `norm(scores, mask)` T weights, `phi_in(X)` T rows of values,
    `phi_out(u)` maps the mixture; `Linear` and `Rowwise` make the maps of the paper.
    """

    score: Callable[[Tokens, Token], Float[Array, "T"]]
    norm: Normalizer
    phi_in: Callable[[Tokens], Float[Array, "T k"]]
    phi_out: Callable[[Float[Array, "k"]], Float[Array, "*out"]]

    def __call__(
        self, X: Tokens, z: Token, *, mask: Mask = None, return_weights: bool = False
    ) -> Float[Array, "*out"] | tuple[Float[Array, "*out"], Float[Array, "T"]]:
        weights = self.norm(self.score(X, z), mask)  # [T]
        y = self.phi_out(attend(weights, self.phi_in(X)))
        return (y, weights) if return_weights else y
