"""The measures of hidden progress: changes of a run while its loss is still flat.

Notation: f = tanh(z / 2) for the logit z of the network, so that f lies in [-1, 1] and its mean
given x is 2 P(y = 1) - 1; inputs have independent bits with P(x_i = 1) = p; S is the support of the
target; x^(i) is x with bit i flipped; P_t is the embedding of position t and P_t^0 its first value;
phi_i = (p - x_i) / sqrt(p (1 - p)), which is (-1)^x_i where p = 1/2, and phi_A their product over A
(the Fourier basis). Means are over the first validation inputs; their labels are used only by
`target_coefficient` and its error.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """knows_support: it uses S, which a user does not know. attention: of Transformers alone."""

    name: str
    meaning: str
    knows_support: bool = False
    attention: bool = False


MEASURES = (
    Measure("weight_movement", "largest |theta - theta^0| over all parameters"),
    Measure("variance", "variance of f"),
    Measure("sensitivity", "sum over i of p (1 - p) E[(f(x) - f(x^(i)))^2]"),
    Measure("sensitivity_error", "its standard error"),
    Measure("influence_peak", "largest share of one position in the sensitivity"),
    Measure("influence_share", "share of the support in the sensitivity", True),
    Measure("target_coefficient", "E[f(x) (2 y - 1)]; for a parity +- E[f phi_S]", True),
    Measure("target_error", "its standard error", True),
    Measure("smaller_coefficient", "largest |E[f phi_A]| over A = S without one position", True),
    Measure("larger_coefficient", "largest |E[f phi_A]| over A = S with one more", True),
    Measure("position_largest", "largest |P_t - P_t^0|_2", attention=True),
    Measure("position_typical", "median |P_t - P_t^0|_2", attention=True),
    Measure("position_relevant", "largest |P_t - P_t^0|_2 with t in S", True, True),
    Measure("position_irrelevant", "largest |P_t - P_t^0|_2 with t not in S", True, True),
    Measure("stable_rank", "|D|_F^2 / |D|_2^2 of D = P - P^0", attention=True),
    Measure("attention_entropy", "entropy of [CLS]'s weights / log(T + 1)", attention=True),
    Measure("attention_peak", "largest mean weight of a head on a position", attention=True),
)
NAMES = tuple(measure.name for measure in MEASURES)
KNOWING = frozenset(m.name for m in MEASURES if m.knows_support) | {"attention_mass"}
"""Series of a run that use the support, which a user does not know."""


def recorded(transformer: bool, known_support: bool) -> tuple[str, ...]:
    """The measures that a run has, in their order."""
    return tuple(
        m.name
        for m in MEASURES
        if (transformer or not m.attention) and (known_support or not m.knows_support)
    )
