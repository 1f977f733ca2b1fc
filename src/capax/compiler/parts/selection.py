"""The selection head: one query vector that finds s positions among T (Section 5).

The query is [CLS] and W_QK = v kappa^T, so the score of a token x is kappa . x. With

    kappa = a sum_{i in I} P_i + b E_beta + (b - D) E_{1-beta} + (a' + b) v,
    a' = a + ln omega,  b = (D - a')/3,   tau = e^{-a},  delta = e^{-D},

the softmax weights are, up to the common factor e^{a+b},

    relevant active 1, relevant inactive delta, irrelevant active tau, irrelevant inactive
    tau delta, [CLS] omega,

where a bit is active when it equals beta. Softmax is invariant under the shift b; this b is the one
that minimises ||kappa||. The bag of vectors (x_t = b_t v_t) has no symbol vectors: there
kappa = a sum v_i + a' v and every token that is not "relevant and on" weighs tau.

With an alphabet of M symbols the function has K <= M *classes* of them (symbols that it treats
alike share one; two symbols are two classes). Class c weighs

    w_c = delta + (1 - delta) c/(K - 1)     (beta = 0: in the opposite order),

so the weights are equally spaced from delta to 1, and K = 2 gives the two weights above. kappa has
b - g_c in the direction of a symbol of class c, g_c = -ln w_c, and b = (sum g - a')/(M + 1).

Values are read in the directions P_i (i in I) and v only, so irrelevant tokens enter through the
normaliser Z alone: leakage is a positive *scale* of the output, never an additive error.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from capax.errors import require

EncodingName = Literal["deterministic", "trainable", "bag", "incoherent"]
ENCODINGS: tuple[EncodingName, ...] = ("deterministic", "trainable", "bag", "incoherent")


@dataclass(frozen=True)
class Selection:
    """The parameters of one selection head.

    Arguments: `encoding`; `T` tokens of which `s` are relevant; `slots` = number of different
    vectors P_i (s, fewer if trainable positions share one); `beta` = the active symbol; `a` =
    position gap, the inverse temperature; `D` = symbol gap; `omega` = weight of [CLS]; `classes` =
    the class of each symbol of the alphabet.
    Derived: `tau` = e^{-a}, `delta` = e^{-D}, `delta_v` = the share that an inactive relevant token
    adds to the numerator (delta; 0 in the bag), `cls_gap` = a' = a + ln omega, `is_bag`. Raises
    `InputError` for a < 0, D < 0, omega <= 0 or beta not in {0, 1}.
    """

    encoding: EncodingName
    T: int
    s: int
    slots: int
    beta: int = 1
    a: float = 0.0
    D: float = 1.0
    omega: float = 1.0
    classes: tuple[int, ...] = (0, 1)

    tau: float = field(init=False, compare=False, repr=False)
    delta: float = field(init=False, compare=False, repr=False)
    delta_v: float = field(init=False, compare=False, repr=False)
    cls_gap: float = field(init=False, compare=False, repr=False)
    is_bag: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Derive tau, delta, delta_v (0 in the bag), a' and whether zeros are invisible (bag)."""
        is_bag = self.encoding == "bag"
        if not _sound(self.a, self.D, self.omega) or self.beta not in ((1,) if is_bag else (0, 1)):
            self._complain()
        require(0 <= self.s <= self.T, "s", f"0 <= s <= T = {self.T}", self.s)
        delta = math.exp(-self.D)
        derived = {
            "tau": math.exp(-self.a),
            "delta": delta,
            "delta_v": 0.0 if is_bag else delta,
            "cls_gap": self.a + math.log(self.omega),
            "is_bag": is_bag,
        }
        self.__dict__.update(derived)

    def _complain(self) -> None:
        require(self.a >= 0 and math.isfinite(self.a), "a", "a finite gap >= 0", self.a)
        require(self.D >= 0 and math.isfinite(self.D), "D", "a finite gap >= 0", self.D)
        require(self.omega > 0, "omega", "a finite weight > 0", self.omega)
        allowed = "1 (zeros are invisible in the bag)" if self.encoding == "bag" else "0 or 1"
        require(False, "beta", allowed, self.beta)

    def active(self, ones: Any) -> Any:
        """Number of active relevant bits when `ones` relevant bits are 1."""
        return ones if self.beta == 1 else self.s - ones

    def normaliser(self, ones: Any, active_irrelevant: Any) -> Any:
        """Z(j,n) = omega + j + (s-j) delta + tau (n + (T-s-n) delta); bag: omega + j + (T-j)tau."""
        j, n = self.active(np.asarray(ones, dtype=np.float64)), active_irrelevant
        if self.is_bag:
            return self.omega + j + (self.T - j) * self.tau
        leak = self.tau * (n + (self.T - self.s - n) * self.delta)
        return self.omega + j + (self.s - j) * self.delta + leak

    def largest_leak(self, ones: int) -> float:
        """The most that tokens without a value add to Z: (T-s) tau; in the bag (T-j) tau,
        always."""
        hidden = self.T - self.active(ones) if self.is_bag else self.T - self.s
        return hidden * self.tau

    def normaliser_range(self, ones: Any) -> tuple[Any, Any]:
        """The smallest and the largest Z over all irrelevant bits: all inactive, all active."""
        least = self.normaliser(ones, 0)
        swing = 0.0 if self.is_bag else self.tau * (self.T - self.s) * (1 - self.delta)
        return least, least + swing

    @property
    def class_weights(self) -> np.ndarray:
        """w_c of the K classes, equally spaced from delta to 1."""
        K = max(self.classes) + 1
        rising = self.delta + (1 - self.delta) * np.arange(K) / max(K - 1, 1)
        return rising if self.beta else rising[::-1]

    @property
    def symbol_gaps(self) -> tuple[float, ...]:
        """g_c of every symbol: D for the lightest class, 0 for the heaviest."""
        K = max(self.classes) + 1
        ranks = [c if self.beta else K - 1 - c for c in self.classes]
        rest = [-math.log(self.delta + (1 - self.delta) * r / max(K - 1, 1)) for r in ranks]
        return tuple(self.D if r == 0 else g for r, g in zip(ranks, rest, strict=True))

    @property
    def key_coefficients(self) -> dict[str, float]:
        """kappa by basis vector: `P` (each slot), `E_0`, `E_1`, .., `v`; the bag has no symbols."""
        if self.is_bag:
            return {"P": self.a, "v": self.cls_gap}
        gaps = self.symbol_gaps
        b = (sum(gaps) - self.cls_gap) / (len(gaps) + 1)
        symbols = {f"E_{c}": b - gap for c, gap in enumerate(gaps)}
        return {"P": self.a, **symbols, "v": self.cls_gap + b}

    @property
    def key_norm(self) -> float:
        """||kappa|| = ||W_QK||_F: sqrt(slots a^2 + a'^2 + sum g^2 - (sum g - a')^2/(M + 1)).

        With two symbols the last three terms are 2/3 (a'^2 + a' D + D^2); the bag has a'^2 alone.
        """
        gap = self.cls_gap
        if self.is_bag:
            return math.sqrt(self.slots * self.a**2 + gap**2)
        gaps = self.symbol_gaps
        shift = (sum(gaps) - gap) ** 2 / (len(gaps) + 1)
        return math.sqrt(self.slots * self.a**2 + gap**2 + sum(g * g for g in gaps) - shift)

    @property
    def query_scale(self) -> float:
        """||W_Q||_F: W_QK = (q v)(kappa/q)^T, q = max(a, D), so that W_K does not grow with T."""
        return max(self.a, 0.0 if self.is_bag else self.D) or 1.0

    def additive_leak(self, position_values: np.ndarray, cls_values: np.ndarray) -> np.ndarray:
        """The change of n numerators by irrelevant tokens: zero with orthonormal vectors."""
        del position_values
        return np.zeros_like(cls_values)


def _sound(a: float, D: float, omega: float) -> bool:
    return 0 <= a < math.inf and 0 <= D < math.inf and 0 < omega < math.inf
