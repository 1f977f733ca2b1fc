"""Norm: from alignment scores to attention weights, each map beside its Lipschitz constant.

The capacity of a head depends on the normalizer through one number (Lemma 4.3),

    |Norm(theta) - Norm(theta')|_1 <= C_N |theta - theta'|_inf,    |Norm(theta)|_1 <= 1.

`lipschitz(T)` is C_N = sup |J|_{inf->1} and `paper_constant(T)` is the paper's (larger)
C_Norm = sup |J|_{1,1}, J the Jacobian. Where C_N grows with T the capacity bound is no longer
logarithmic in T; where C_N is infinite, no bound of this kind exists. `note` says which case holds.

A mask (True = keep) is the same as deleting the other tokens; C_N does not change.
"""

import math
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from capax.attention.parts.entmax import entmax
from capax.attention.parts.masks import Mask, hide
from capax.errors import require


def masked_softmax(scores: Float[Array, "*batch T"], mask: Mask = None) -> Float[Array, "*batch T"]:
    """a_t = exp(theta_t) / sum_u exp(theta_u) over the kept tokens; all zero without any."""
    scores = hide(scores, mask)
    peak = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    unnormalised = jnp.exp(scores - jnp.where(jnp.isfinite(peak), peak, jnp.zeros_like(peak)))
    total = jnp.sum(unnormalised, axis=-1, keepdims=True)
    return unnormalised / jnp.where(total > 0, total, jnp.ones_like(total))


def log_softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """ln ln(1 + e^x) without underflow: for x < -17 it is x - e^x / 2 to the last digit."""
    small = x < -17.0
    ordinary = jnp.log(jax.nn.softplus(jnp.where(small, jnp.zeros_like(x), x)))
    tiny = jnp.where(small, x, jnp.full_like(x, -17.0))
    return jnp.where(small, tiny - 0.5 * jnp.exp(tiny), ordinary)


class Normalizer(eqx.Module):
    """A map from scores [..., T] to non-negative weights of sum at most 1, with its constants."""

    shift_invariant: ClassVar[bool] = False  # Norm(theta + c 1) = Norm(theta)
    stochastic: ClassVar[bool] = True  # the weights sum to 1
    note: ClassVar[str] = ""

    @abstractmethod
    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        """The weights; masked tokens get exactly 0."""

    @abstractmethod
    def lipschitz(self, T: int) -> float:
        """C_N for T tokens; `math.inf` if no constant exists."""

    @abstractmethod
    def paper_constant(self, T: int) -> float:
        """C_Norm = sup |J|_{1,1} for T tokens; `math.inf` if no constant exists."""

    @property
    def grows_with_T(self) -> bool:
        """Whether C_N is unbounded in T, so that no bound logarithmic in T follows from it."""
        return self.lipschitz(2) < self.lipschitz(4)

    @property
    def admissible(self) -> bool:
        """Whether C_N is finite at every T."""
        return math.isfinite(self.lipschitz(2))


class RatioNormalizer(Normalizer):
    """a_t = h(theta_t) / sum_u h(theta_u) with h > 0: softmax of ln h.

    If |(ln h)'| <= lambda then C_N = lambda and C_Norm = 2 lambda. Proof (ours): softmax has
    |J s|_1 = sum_t a_t |s_t - a.s| <= 4 p (1 - p) <= 1 for s in {-1, 1}^T, p the weight of s = 1,
    and |J|_{1,1} = 2 (1 - |a|_2^2) < 2; the entrywise map ln h multiplies both by at most lambda.
    Along a segment: |a - a'|_1 <= 2 tanh(lambda |theta - theta'|_inf / 2), attained at T = 2.
    """

    @abstractmethod
    def log_weight(self, scores: Float[Array, "..."]) -> Float[Array, "..."]:
        """ln h, entry by entry."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """lambda = sup |(ln h)'|."""

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        return masked_softmax(self.log_weight(scores), mask)

    def lipschitz(self, T: int) -> float:
        require(T >= 1, "T", "at least one token", T)
        return self.slope

    def paper_constant(self, T: int) -> float:
        return 2.0 * self.lipschitz(T)


class Softmax(RatioNormalizer):
    """a = softmax(theta / temperature); C_N = 1 / temperature, where the paper uses twice that."""

    temperature: float = eqx.field(static=True, default=1.0)
    shift_invariant: ClassVar[bool] = True

    def __check_init__(self) -> None:
        require(self.temperature > 0, "temperature", "a positive number", self.temperature)

    def log_weight(self, scores: Float[Array, "..."]) -> Float[Array, "..."]:
        return scores if self.temperature == 1.0 else scores / self.temperature

    @property
    def slope(self) -> float:
        return 1.0 / self.temperature


class NormalizedSigmoid(RatioNormalizer):
    """h = sigmoid; (ln h)' = 1 - sigmoid < 1, so C_N = 1."""

    def log_weight(self, scores: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.nn.log_sigmoid(scores)

    @property
    def slope(self) -> float:
        return 1.0


class NormalizedSoftplus(RatioNormalizer):
    """h(x) = ln(1 + e^x); (ln h)' = sigmoid / softplus < 1, so C_N = 1."""

    def log_weight(self, scores: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_softplus(scores)

    @property
    def slope(self) -> float:
        return 1.0


class NormalizedReLU(RatioNormalizer):
    """h(x) = max(x, 0) + tau; (ln h)' <= 1 / tau, so C_N = 1 / tau. tau = 0 has no constant."""

    tau: float = eqx.field(static=True)
    note: ClassVar[str] = "C_N = 1/tau: unbounded as tau -> 0, where the map is discontinuous"

    def __check_init__(self) -> None:
        require(self.tau > 0, "tau", "a positive number (tau = 0 has no finite C_N)", self.tau)

    def log_weight(self, scores: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.log(jax.nn.relu(scores) + self.tau)

    @property
    def slope(self) -> float:
        return 1.0 / self.tau


class ScaledSigmoid(Normalizer):
    """a_t = sigmoid(theta_t) / T, sub-stochastic; J is diagonal, so C_N = C_Norm = 1/4."""

    stochastic: ClassVar[bool] = False
    note: ClassVar[str] = "C_N = 1/4, but every weight is at most 1/T: one token cannot dominate"

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        gates = jax.nn.sigmoid(scores)
        if mask is None:
            return gates / scores.shape[-1]
        keep = jnp.broadcast_to(mask, scores.shape).astype(scores.dtype)
        count = jnp.maximum(jnp.sum(keep, axis=-1, keepdims=True), 1.0)
        return keep * gates / count

    def lipschitz(self, T: int) -> float:
        require(T >= 1, "T", "at least one token", T)
        return 0.25

    def paper_constant(self, T: int) -> float:
        return self.lipschitz(T)


class Entmax(Normalizer):
    """alpha-entmax, 1 < alpha <= 2: sparse weights; C_N = T^(alpha - 1) GROWS WITH T.

    On a support of size kappa, J = diag(s) - s s^T / |s|_1 with s_t = a_t^(2 - alpha), hence
    |J|_{inf->1} <= |s|_1 <= kappa^(alpha - 1), attained at theta = 0 for even T, and
    |J|_{1,1} = 2 (|s|_1 - |s|_2^2 / |s|_1) <= 2 kappa^(alpha - 1) (1 - 1 / kappa) (ours).
    """

    alpha: float = eqx.field(static=True, default=1.5)
    shift_invariant: ClassVar[bool] = True
    note: ClassVar[str] = (
        "C_N = T^(alpha-1) grows with T: the capacity bound is polynomial in T, not logarithmic"
    )

    def __check_init__(self) -> None:
        require(1 < self.alpha <= 2, "alpha", "a number in (1, 2]", self.alpha)

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        return entmax(hide(scores, mask), self.alpha)

    def lipschitz(self, T: int) -> float:
        require(T >= 1, "T", "at least one token", T)
        return float(T) ** (self.alpha - 1.0)

    def paper_constant(self, T: int) -> float:
        return 2.0 * self.lipschitz(T) * (1.0 - 1.0 / T)


class Sparsemax(Normalizer):
    """Euclidean projection onto the simplex: entmax with alpha = 2; C_N = T GROWS WITH T."""

    shift_invariant: ClassVar[bool] = True
    note: ClassVar[str] = (
        "C_N = T grows with T: the capacity bound is polynomial in T, not logarithmic"
    )

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        return Entmax(2.0)(scores, mask)

    def lipschitz(self, T: int) -> float:
        return Entmax(2.0).lipschitz(T)

    def paper_constant(self, T: int) -> float:
        return Entmax(2.0).paper_constant(T)


class Hardmax(Normalizer):
    """All weight on the largest score, shared equally on ties: the limit of temperature 0."""

    shift_invariant: ClassVar[bool] = True
    note: ClassVar[str] = "discontinuous: no finite C_N, no capacity bound of this kind"

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        scores = hide(scores, mask)
        peak = jnp.max(scores, axis=-1, keepdims=True)
        winners = ((scores == peak) & jnp.isfinite(scores)).astype(scores.dtype)
        return winners / jnp.maximum(jnp.sum(winners, axis=-1, keepdims=True), 1.0)

    def lipschitz(self, T: int) -> float:
        require(T >= 1, "T", "at least one token", T)
        return math.inf

    def paper_constant(self, T: int) -> float:
        return self.lipschitz(T)


class TopK(Hardmax):
    """Softmax over the k largest scores (ties with the k-th are kept); discontinuous."""

    k: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require(self.k >= 1, "k", "a positive integer", self.k)

    def __call__(
        self, scores: Float[Array, "*batch T"], mask: Mask = None
    ) -> Float[Array, "*batch T"]:
        scores = hide(scores, mask)
        k = min(self.k, scores.shape[-1])
        threshold = jax.lax.top_k(scores, k)[0][..., -1:]
        return masked_softmax(scores, scores >= threshold)


# the names of normalizers in specifications, with their default parameters
_NAMED: dict[str, Normalizer] = {
    "softmax": Softmax(),
    "sigmoid": NormalizedSigmoid(),
    "softplus": NormalizedSoftplus(),
    "relu": NormalizedReLU(1.0),
    "scaled_sigmoid": ScaledSigmoid(),
    "entmax15": Entmax(1.5),
    "sparsemax": Sparsemax(),
    "hardmax": Hardmax(),
}
NORMALIZERS = tuple(_NAMED)


def normalizer(name: str) -> Normalizer:
    """The normalizer that a specification calls `name`; `InputError` for an unknown name."""
    require(name in _NAMED, "normalizer", f"one of {', '.join(NORMALIZERS)}", name)
    return _NAMED[name]
