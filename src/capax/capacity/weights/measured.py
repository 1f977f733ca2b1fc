"""Norms of a concrete model, and the class of all models with those norms."""

from collections.abc import Callable
from dataclasses import dataclass

from capax.capacity.bound import Assumption
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID, Rounded, round_up


@dataclass(frozen=True)
class Measured:
    """What was measured on a model: quantities by name, and how they make a class.

    build: the class of all models whose quantities are at most these. T: context length (None when
    the module does not fix it). alphabet: symbols per position when tokens are discrete.
    """

    kind: str
    quantities: dict[str, float]
    build: Callable[[dict[str, float]], FunctionClass]
    T: int | None = None
    alphabet: int | None = None
    assumptions: tuple[Assumption, ...] = ()
    proxy: bool = False

    def exact(self) -> FunctionClass:
        """The class at the measured quantities themselves (norms treated as fixed in advance)."""
        return self.build(self.quantities)

    def rounded(self, g: float = GRID) -> tuple[FunctionClass, Rounded]:
        """The class at the next grid point above every quantity, and the cost of the choice."""
        grid = round_up(self.quantities, g=g)
        return self.build(grid.values), grid

    def sample(self, m: int, T: int | None = None) -> Sample:
        """m sequences of this model's length (or T where the model leaves it open)."""
        length = self.T if self.T is not None else (T or 1)
        return Sample(m, length, alphabet=self.alphabet)
