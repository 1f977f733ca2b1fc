"""The view Create: a network is trained, and its formula is read at every evaluation."""

import shlex
from typing import Any

from pydantic import Field, model_validator

from capax.data.spec_base import Spec
from capax.errors import require

MAX_CELLS = 2_000_000
"""Largest T times m: the tables of such a training set take tens of megabytes."""
MAX_LOOKED = 5_000_000
"""Largest T times steps: the attention at all evaluations then takes a few megabytes."""


LOOK = 10  # steps between two evaluations, which the page shows
ROWS = 128  # m is padded to a multiple of this, so that another m needs no new program


class RunQuestion(Spec):
    """One run: the rule, T, m and the seed, the learning rate at its start, and its size."""

    formula: str = Field(default="and3", max_length=4096)
    T: int = Field(default=50, ge=2, le=1000)
    m: int = Field(default=200, ge=1, le=20_000)
    seed: int = Field(default=0, ge=0, lt=2**31)
    lr: float = Field(default=1e-3, ge=1e-6, le=1.0, allow_inf_nan=False)
    steps: int = Field(default=1000, ge=100, le=20_000, multiple_of=100)
    heads: int = Field(default=16, ge=1, le=16)
    d: int = Field(default=64, ge=4, le=128)

    @model_validator(mode="after")
    def _fits_a_laptop(self) -> "RunQuestion":
        wanted = f"T m <= {MAX_CELLS}"
        require(self.T * self.m <= MAX_CELLS, "m", wanted, f"{self.T} * {self.m}")
        wanted = f"T steps <= {MAX_LOOKED}"
        require(self.T * self.steps <= MAX_LOOKED, "steps", wanted, f"{self.T} * {self.steps}")
        return self

    @property
    def command(self) -> str:
        """The command that trains the same network."""
        words = ["capax", "train", self.formula, "-T", str(self.T), "-m", str(self.m)]
        for name in ("seed", "steps", "lr", "heads"):
            words += [f"--{name}", str(getattr(self, name))]
        words += ["--eval-every", str(LOOK), "--max-m", str(self.max_m)]
        words += ["--progress"] if self.is_parity else []
        return shlex.join([*words, "-d", str(self.d), "--restarts", "1", "--json"])

    @property
    def is_parity(self) -> bool:
        """Whether every flip of a relevant bit changes the label; then progress is hidden."""
        table = self.trial().task.rule.table
        size = len(table)
        flips = [1 << i for i in range(size.bit_length() - 1)]
        return len(flips) > 1 and all(
            table[row] != table[row ^ flip] for row in range(size) for flip in flips
        )

    @property
    def max_m(self) -> int:
        """Number of rows of the compiled program: m rounded up."""
        return -(-self.m // ROWS) * ROWS

    def trial(self) -> Any:
        """The trial of `capax train` with one run."""
        from capax.training.one_model import trial_of

        model = {"layers": 1, "heads": self.heads, "d": self.d, "mlp_width": 4 * self.d}
        return trial_of(
            self.formula, self.T, self.m,
            seed=self.seed, restarts=1, steps=self.steps, lr=self.lr, model=model,
            training={"eval_every": LOOK},
        )  # fmt: skip


class CreateQuestion(Spec):
    """Two runs side by side that differ in m: above and below the threshold."""

    formula: str = "and3"
    T: int = 50
    m: int = 200
    m2: int = 30
    seed: int = 0
    lr: float = 1e-3
    steps: int = 1000
    heads: int = 16
    d: int = 64

    def runs(self) -> tuple[RunQuestion, RunQuestion]:
        """The run with m examples and the run with m2."""
        shared = self.model_dump(exclude={"m", "m2"})
        return RunQuestion(**shared, m=self.m), RunQuestion(**shared, m=self.m2)
