"""A verdict about all inputs: proved, refuted with an input, or open with the gap."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["proved", "refuted", "open"]


@dataclass(frozen=True)
class AllInputs:
    """The verdict over all inputs.

    `margin`: certified lower bound of the distance of the logit from the threshold on the right
    side over all inputs (negative: the gap that is open). `found_margin`: the smallest that a
    search met (None: no search). Both are about real arithmetic on the stored weights; `as_run` is
    the largest distance between the number that the model gave when it was run and the real one,
    on 64 inputs (None: not measured): a measurement, no bound. `counterexample`: the positions that
    are 1 in it (with more than two symbols: its T symbols). `proved_share`: probability under
    the data distribution of the inputs on which the formula is proved. `ones`: for the largest such
    interval, the formula is proved for every pattern and all fillers with so many ones;
    `ones_share` its probability. `asked_all`: the model was asked about all 2^T inputs, and both
    margins are those of its numbers as it gave them. `float32_margin`: the same as `margin` for the
    forward pass in float32, in any order of summation (None: nothing is proved of it).
    """

    status: Status
    margin: float | None
    found_margin: float | None
    counterexample: tuple[int, ...] | None
    proved_share: float
    ones: tuple[int, int] | None
    ones_share: float
    method: str
    as_run: float | None = None
    asked_all: bool = False
    float32_margin: float | None = None

    @property
    def holds(self) -> tuple[str, ...]:
        """The arithmetics in which the formula is proved on all inputs."""
        if self.status != "proved":
            return ()
        if self.asked_all:
            return ("as run",)
        return ("real arithmetic", "float32") if self.float32_margin else ("real arithmetic",)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        content = {**asdict(self), "holds": self.holds}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}


def unknown(method: str) -> AllInputs:
    return AllInputs("open", None, None, None, 0.0, None, 0.0, method)
