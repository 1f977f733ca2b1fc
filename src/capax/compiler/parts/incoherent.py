"""Random-sign codes of length d << T instead of orthonormal vectors: the dual basis.

Let R stack the s+3 vectors that matter (P_I, E_0, E_1, v), G = R R^T. With the coefficients
kappa_c, v_c of the orthonormal construction put kappa = R^T G^{-1} kappa_c, W_V = R^T G^{-1} v_c:
relevant tokens and [CLS] then behave exactly as before. For an irrelevant position t let
g_t = G^{-1} R P_t in R^{s+3}. Its score is shifted by eta_t = g_t . kappa_c and its value is
g_t . v_c instead of 0, so leakage gains an additive part,

    |numerator shift| <= sum_t tau e^{eta_t} |g_t . v_c|.

All of this is *measured* on the drawn codes, so the certificate holds for these codes; their
coherence mu = max |<different codes>| is reported beside it.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from capax.compiler.parts.selection import Selection
from capax.data.distributions import bernoulli_rows
from capax.errors import InfeasibleError, require
from capax.identity import key_words

MAX_CODE_ENTRIES = 1 << 27
"""At most 2^27 numbers (1 GiB in float64) for the table of codes."""


@dataclass(frozen=True)
class DualBasis:
    """Codes [T+3, d] in the order P_0..P_{T-1}, E_0, E_1, v, and the dual basis of the support."""

    codes: Float[np.ndarray, "n d"]
    dual: Float[np.ndarray, "s_3 d"]
    cross: Float[np.ndarray, "rest s_3"]
    mu: float


@dataclass(frozen=True)
class CodedSelection(Selection):
    """A selection head on codes: `cross` [T-s, s+3] holds g_t of every irrelevant position."""

    cross: Float[np.ndarray, "rest s_3"] = field(
        default_factory=lambda: np.zeros((0, 3)), compare=False, repr=False
    )

    def _leak_weights(self) -> Float[np.ndarray, " rest"]:
        """tau e^{eta_t} for every irrelevant position."""
        key = self.key_coefficients
        symbols = [key["E_0"], key["E_1"], key["v"]]
        shift = self.cross @ np.array([key["P"]] * self.s + symbols)
        return np.exp(shift - self.a)

    def largest_leak(self, ones: int) -> float:
        """sum_t tau e^{eta_t}."""
        del ones
        return float(self._leak_weights().sum())

    def normaliser_range(self, ones: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """Z with every irrelevant bit inactive, and with every one active."""
        j = self.active(np.asarray(ones, dtype=np.float64))
        base, leak = self.omega + j + (self.s - j) * self.delta, self.largest_leak(0)
        return base + leak * self.delta, base + leak

    def additive_leak(self, position_values: np.ndarray, cls_values: np.ndarray) -> np.ndarray:
        """sum_t tau e^{eta_t} |g_t . v_c| for values [n, s] of the positions and [n] of [CLS]."""
        symbols = np.zeros((len(cls_values), 2))
        values = np.concatenate([position_values, symbols, cls_values[:, None]], axis=1)
        return np.abs(values @ self.cross.T) @ self._leak_weights()


def draw_codes(T: int, d: int) -> Float[np.ndarray, "n d"]:
    """T+3 random-sign vectors of length 1, determined by T and d."""
    check_code_size(T, d)
    words = key_words({"T": T, "d": d}, "incoherent codes")
    signs = 2.0 * bernoulli_rows(T + 3, d, 0.5, key=words) - 1.0
    return signs / math.sqrt(d)


def check_code_size(T: int, d: int) -> None:
    """Refuse tables of codes beyond 1 GiB before a code is drawn."""
    require(d >= 1, "dim", "a code length >= 1", d)
    if (T + 3) * d > MAX_CODE_ENTRIES:
        gigabytes = (T + 3) * d * 8 / 2**30
        raise InfeasibleError(
            f"encoding: incoherent codes of length d = {d} for T = {T} need {gigabytes:.1f} GiB "
            "(limit 1 GiB); use deterministic, trainable or bag"
        )


def dual_basis(codes: Float[np.ndarray, "n d"], support: tuple[int, ...]) -> DualBasis | None:
    """G^{-1} R and the g_t; None when the relevant vectors are (nearly) dependent."""
    T = len(codes) - 3
    kept = [*support, T, T + 1, T + 2]
    R = codes[kept]
    gram = R @ R.T
    if np.linalg.cond(gram) > 1e8:
        return None
    dual = np.linalg.solve(gram, R)
    rest = np.delete(np.arange(T), np.asarray(support, dtype=np.int64))
    products = codes @ R.T
    products[kept, np.arange(len(kept))] = 0.0
    return DualBasis(codes, dual, codes[rest] @ dual.T, float(np.abs(products).max()))


def coded(selection: Selection, basis: DualBasis) -> CodedSelection:
    """The same head on codes."""
    names = ("T", "s", "slots", "beta", "a", "D", "omega")
    knobs = {name: getattr(selection, name) for name in names}
    return CodedSelection(encoding="incoherent", cross=basis.cross, **knobs)


def code_lengths(T: int, s: int) -> list[int]:
    """Lengths to try, doubling from the first power of two that is at least s+3."""
    first = max(16, 1 << math.ceil(math.log2(4 * (s + 3))))
    last = max(first, MAX_CODE_ENTRIES // (T + 3))
    lengths = [first]
    while 2 * lengths[-1] <= last:
        lengths.append(2 * lengths[-1])
    return lengths


def at_length(selection: Selection, support: tuple[int, ...], d: int) -> DualBasis | None:
    """Codes of length d for this support; None when they are dependent."""
    return dual_basis(draw_codes(selection.T, d), support)
