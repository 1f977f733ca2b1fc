"""Hidden units that read one direction: a piecewise-linear function of one number, exactly.

Units whose columns of W_1 agree in every bit add up to h(l) = sum_i w_i relu(l + b_i). Between two
kinks -b_i it is S l + C with S = sum of the active w_i and C = sum of w_i b_i, and these sums are
formed exactly (rational numbers): a plateau, S = 0, has one value for every rounding of l. Its
range over an interval is attained at the ends and at the kinks inside.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from capax.compiler.proof.enclosed import Enclosed, exactly, nearest


@dataclass(frozen=True)
class Ridge:
    """h: segment j lies between kinks j-1 and j; `at_kinks` = the values there."""

    kinks: Float[np.ndarray, " n"]
    slopes: Enclosed
    offsets: Enclosed
    at_kinks: Enclosed

    @property
    def ends_flat(self) -> bool:
        """True when h is constant to the right of the last kink (to the left it is zero)."""
        return bool(self.slopes.mid[-1] == 0 and self.slopes.rad[-1] == 0)

    def segment(self, l: np.ndarray) -> np.ndarray:
        """Which segment each l lies in; a kink belongs to the one on its left."""
        return np.searchsorted(self.kinks, l, side="left")

    def at(self, l: Float[np.ndarray, " n"]) -> Enclosed:
        """h at exactly these float64 numbers."""
        j = self.segment(l)
        return _product(self.slopes[j], l) + self.offsets[j]

    def bounds(
        self, low: Float[np.ndarray, " n"], high: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """(lower, upper) bound of h over each [low, high]."""
        ends = self.at(low), self.at(high)
        bottom = np.minimum(ends[0].low, ends[1].low)
        top = np.maximum(ends[0].high, ends[1].high)
        for kink, least, most in zip(
            self.kinks, self.at_kinks.low, self.at_kinks.high, strict=True
        ):
            inside = (low < kink) & (kink < high)
            bottom = np.where(inside, np.minimum(bottom, least), bottom)
            top = np.where(inside, np.maximum(top, most), top)
        flat = self.segment(low) == self.segment(high)
        flat &= self.slopes.mid[self.segment(low)] == 0
        flat &= self.slopes.rad[self.segment(low)] == 0
        value = self.offsets[self.segment(low)]
        return np.where(flat, value.low, bottom), np.where(flat, value.high, top)


def ridge(biases: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Ridge:
    """h of the units with these b_i and w_i."""
    order = np.argsort(-biases, kind="stable")
    b = [Fraction(x) for x in biases[order].tolist()]
    w = [Fraction(x) for x in weights[order].tolist()]
    slopes, offsets, values = [Fraction(0)], [Fraction(0)], []
    for bias, weight in zip(b, w, strict=True):
        values.append(offsets[-1] - slopes[-1] * bias)
        slopes.append(slopes[-1] + weight)
        offsets.append(offsets[-1] + weight * bias)
    return Ridge(-biases[order], nearest(slopes), nearest(offsets), nearest(values))


def _product(slope: Enclosed, l: np.ndarray) -> Enclosed:
    """slope l; zero where the slope is, so that a plateau stays exact."""
    product = slope * exactly(l)
    zero = (slope.mid == 0) & (slope.rad == 0)
    return Enclosed(np.where(zero, 0.0, product.mid), np.where(zero, 0.0, product.rad))
