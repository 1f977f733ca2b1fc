"""Properties of Norm, the map from scores to attention weights, that bounds use.

The constant C_N belongs to a number of tokens: sparsemax on n tokens has C_N = n, so a bound takes
the sample's T + 1 and never a default. Three properties sharpen a bound, and no property is
assumed: `ratio` the finite form 2 tanh(C_N e / 2), `shift_invariant` keys around a centre and no
key bias, `stochastic` values around a centre and constants (b_V, b_O) routed past the mixture.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from capax.errors import require


@dataclass(frozen=True)
class Weighting:
    """lipschitz(n): C_N for n tokens, from the sup norm of scores to the 1-norm of weights.

    ratio: weights h / sum h with |(ln h)'| <= C_N. shift_invariant: a constant added to all scores
    changes nothing. stochastic: the weights sum to 1 (their sum is at most 1 in any case).
    """

    lipschitz: Callable[[int], float]
    ratio: bool = False
    shift_invariant: bool = False
    stochastic: bool = False

    def C_N(self, num_tokens: int) -> float:
        """The constant for this many tokens, [CLS] included; raises InputError if not finite."""
        constant = self.lipschitz(num_tokens)
        admissible = math.isfinite(constant) and constant > 0
        require(admissible, "C_N", "a finite Lipschitz constant (Assumption 4.1)", constant)
        return constant

    def log_C_N(self, num_tokens: int) -> float:
        """ln C_N."""
        return math.log(self.C_N(num_tokens))

    def slope(self, num_tokens: int) -> float | None:
        """lambda of the finite form 2 tanh(lambda e / 2); None if it does not hold."""
        return self.C_N(num_tokens) if self.ratio else None


SOFTMAX = Weighting(lambda _: 1.0, ratio=True, shift_invariant=True, stochastic=True)


def only_lipschitz(C_N: float) -> Weighting:
    """A normalizer of which only the constant is known."""
    weighting = Weighting(lambda _: C_N)
    weighting.C_N(1)
    return weighting
