"""Norms of a concrete model, and the class of all models with those norms."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from capax.attention.parts.normalizers import Normalizer
from capax.capacity.bound import Assumption
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID, Rounded, round_up
from capax.capacity.weights.assumptions import normalizer_assumption
from capax.errors import require

Quantities = dict[str, float]
# The grid of measured norms has no zero: a zero matrix counts as this.
ALMOST_ZERO = 1e-12


@dataclass(frozen=True)
class MeasuredModel:
    """The measured quantities of a model by name, and how they make a class.

    build: the class of all models whose quantities are at most these. T: context length (None when
    the module does not fix it). alphabet: symbols per position when tokens are discrete. norm: the
    normalizer, whose constant depends on the number of tokens. B_X: the token length that was
    assumed for a module without an encoding.
    """

    kind: str
    quantities: Quantities
    build: Callable[[Quantities], FunctionClass]
    T: int | None = None
    alphabet: int | None = None
    norm: Normalizer | None = None
    B_X: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.quantities.items():
            require(math.isfinite(value), name, "a finite size", value)

    def exact(self) -> FunctionClass:
        """The class at the measured quantities themselves (norms treated as fixed in advance)."""
        return self.build(self.quantities)

    def rounded(self, g: float = GRID) -> tuple[FunctionClass, Rounded]:
        """The class at the next grid point above every quantity, and the cost of the choice."""
        grid = round_up(self.quantities, g=g)
        return self.build(grid.values), grid

    def sample(self, m: int, T: int | None = None) -> Sample:
        """m sequences of this model's length, or of the given T if the model has no fixed length.
        Raises InputError for a T that contradicts the model, or a missing T that is needed.
        """
        if self.T is None:
            require(T is not None, "T", f"a context length ({self.kind} does not fix one)", None)
        else:
            require(T is None or T == self.T, "T", f"{self.T}, the length of this model", T)
        return Sample(m, self.T or T or 1, alphabet=self.alphabet)

    def checks(self, T: int | None = None) -> tuple[Assumption, ...]:
        """Assumption 4.1 for this model on sequences of its length (or T if it has none)."""
        length = self.T or T or 1
        found = () if self.norm is None else (normalizer_assumption(self.norm, length + 1),)
        return (*found, *token_assumptions(self.B_X))


def token_assumptions(B_X: float | None) -> tuple[Assumption, ...]:
    """The assumption about the tokens of a module without an encoding."""
    if B_X is None:
        return ()
    text = f"every token and query has length at most B_X = {B_X:g}"
    return (Assumption(text, None, "not measured: give the length of your longest token"),)


def matrix_quantities(name: str, norms: MatrixNorms) -> Quantities:
    """The norms of a matrix by name: `W_2`, `W_F`, `W_21` and, if it is known, `W_11`."""
    sizes = (norms.norm_2, norms.norm_F, norms.norm_2_1)
    require(max(sizes) < math.inf, name, "weights whose squares fit a float", "larger ones")
    values = {
        f"{name}_2": norms.norm_2,
        f"{name}_F": norms.norm_F,
        f"{name}_21": norms.norm_2_1,
        f"{name}_11": norms.norm_1_1,
    }
    return {key: max(x, ALMOST_ZERO) for key, x in values.items() if x < math.inf}


def matrix_of(q: Quantities, name: str, rank: int | None = None) -> MatrixNorms:
    """Undoes `matrix_quantities`; rank: of the product, a property of the architecture."""
    entries = q.get(f"{name}_11", math.inf)
    return MatrixNorms(q[f"{name}_2"], q[f"{name}_F"], q[f"{name}_21"], math.inf, entries, rank)
