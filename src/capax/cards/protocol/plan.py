"""The protocol of a card: learners, targets, lengths, and settings that are the same for all."""

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from capax.cards.protocol.card_search import CardSearch
from capax.cards.protocol.targets import target_of
from capax.data.spec_base import Spec
from capax.errors import require
from capax.learners.names import Entry
from capax.sweep.experiments.spec import Experiment, Panel
from capax.sweep.searching.search import GridSearch

ACCURACIES = (1.0, 0.99, 0.95)
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
SLOW = ("transformer2", "cnn", "lstm", "gru", "ssm", "mixer")
"""Learners whose cost grows with m T, or that take T steps in a row."""
BRIEF = ("mlp",)
"""Learners of the engine whose steps are short and whose program is compiled soon."""
QUADRATIC = ("transformer2",)
"""Learners whose cost grows with m T^2."""
COSTLY_FITS = ("forest", "boosting", "neighbours", "version_space")
"""Plain learners whose fits or answers take long where m is large."""
_MEASURED = ("support", "noise", "steps", "eval_every", "rates", "tuning_trials",
             "validation_size", "stop_memorised")  # fmt: skip
"""Fields of a plan on which the outcome of a trial, or the choice of its rate, depends."""
TIMED = ("support", "rates", "tuning_trials", "validation_size", "parity_steps", "parity_every",
         "parity_batch")  # fmt: skip
"""The same for steps to solve parities."""
TUNING_SEEDS = 1_000_000  # the first of the seeds that only choose the rate
LONGEST = 100_000  # largest T: beyond it the floor alone takes minutes and gigabytes


class Plan(Spec):
    """The protocol of a card. All learners get the same data: seed, support and examples.

    A trial is one fit: `steps` steps of AdamW on the full batch (looked at every `eval_every`), or
    the learner's own stopping rule. It passes at an accuracy if some look at the validation set
    finds at least that share right. Rates race at every T on `tuning_trials` seeds that are never
    scored: all of them on the first, the better half on the next.

    design: how m* is looked for. `adaptive`: rounds where they tell most, few trials (`max_trials`,
    and `more_trials` for each accuracy but one), one round after the other. A trial aims at an
    accuracy and ends when it reaches it, in the race of the rates at the middle one. An accuracy is
    left as it is when the trials that aim at it, 4 or more, took `effort` examples x steps, and all
    would take three times that.
    `grid`: scouts (on the first seed at the largest m only where no rate passed below it), then
    up to `grid_trials` trials at every m of a geometric grid over the range that the scouts leave
    open (`capax.cards.measuring.grid_rounds`): few and large rounds, for machines that train many
    models at once.
    m_high_slow: the largest m of learners that are slow (`SLOW`, `COSTLY_FITS`). slow_T: beyond it
    slow learners are asked about the first target only; those whose cost grows like T^2 beyond half
    of it, and about nothing beyond twice of it.
    parity_steps, parity_every, parity_batch, parity_trials: limit of steps, steps between looks,
    fresh examples per step and trials that count, where steps to solve parities are measured.
    stop_memorised: a run of the engine that has memorised its sample and found no rule (training
    loss below 0.02, less than 85 % of the validation rows right) ends there.
    """

    targets: tuple[str, ...] = ("and3",)
    T: tuple[int, ...] = (20, 50, 100)
    accuracies: tuple[float, ...] = ACCURACIES
    rates: tuple[float, ...] = Field(default=RATES, min_length=1)
    tuning_trials: int = Field(default=2, ge=1)
    design: Literal["adaptive", "grid"] = "adaptive"
    grid_trials: int = Field(default=8, ge=1)
    m_high: int = Field(default=640, ge=8)
    m_high_slow: int | None = Field(default=None, ge=8)
    batch: int = Field(default=8, ge=1)
    max_trials: int = Field(default=40, ge=8)
    more_trials: int = Field(default=12, ge=0)
    effort: float = Field(default=1e6, gt=0)
    precision: float = Field(default=1.5, gt=1)
    steps: int = Field(default=1000, ge=1)
    eval_every: int = Field(default=100, ge=1)
    validation_size: int = Field(default=4096, ge=1)
    support: Literal["random", "contiguous"] = "random"
    noise: float = Field(default=0.0, ge=0, lt=0.5)
    time_limit: float = Field(default=60.0, gt=0)
    slow_T: int | None = None
    parity_steps: int = Field(default=5000, ge=1)
    parity_every: int = Field(default=50, ge=1)
    parity_batch: int = Field(default=256, ge=1)
    parity_trials: int = Field(default=10, ge=1)
    stop_memorised: bool = True

    def differs_from(
        self, protocol: dict[str, Any], fields: tuple[str, ...] = _MEASURED
    ) -> str | None:
        """Fields in which another card's protocol leads to other trials: `noise = 0.0, not 0.2`.

        None where its rows may stand beside this card's. How m* was searched for is not compared.
        """
        own = self.model_dump(mode="json")
        other = [f"{k} = {protocol.get(k)}, not {own[k]}" for k in fields
                 if protocol.get(k) != own[k]]  # fmt: skip
        return ", ".join(other) or None

    def asks(self, entry: Entry, target: str, T: int) -> bool:
        """Whether this is measured, by the rule of `slow_T`."""
        if self.slow_T is None or entry.name not in SLOW:
            return True
        square = entry.name in QUADRATIC
        if target == self.targets[0]:
            return not square or 2 * self.slow_T >= T
        return (self.slow_T // 2 if square else self.slow_T) >= T

    def highest(self, entry: Entry) -> int:
        """The largest m at which a learner is tried."""
        slow = entry.name in SLOW or entry.name in COSTLY_FITS
        return self.m_high_slow if slow and self.m_high_slow is not None else self.m_high

    def scouts(self, entry: Entry, fewest: int) -> tuple[int, ...]:
        """Where rates are compared: near the threshold they differ, at the largest m they may not.

        Twice and four times `fewest`, a bound below the floor, and half way from there to the
        largest m, on a log scale. A grid also needs the largest m, to see what it leaves open, and
        the one between only where these lie far apart; an adaptive search looks there itself.
        """
        high = self.highest(entry)
        near = [min(2 * fewest, high), min(4 * fewest, high)]
        between = round((near[1] * high) ** 0.5)
        if self.design == "adaptive":
            return tuple(sorted({*near, between}))
        return tuple(sorted({*near, *([between] if high > 8 * near[1] else []), high}))

    @property
    def tuning_aim(self) -> float:
        """The accuracy at which tuning trials end: the middle one, but on a grid the highest.

        Where a learner is slow to get the last examples right, rates differ in how fast they come
        near; to wait for the last examples would take most of the time of a race.
        """
        if self.design == "grid":
            return 1.0
        return sorted(self.accuracies)[len(self.accuracies) // 2]

    def grid(self, low: int, high: int) -> GridSearch:
        """From `low` to `high` in steps of a factor 2^(1/2), about."""
        steps = max(1, round(2 * math.log2(high / low)))
        values = {round(low * (high / low) ** (i / steps)) for i in range(steps + 1)}
        return GridSearch(m=tuple(sorted(values)), trials=self.grid_trials)

    @model_validator(mode="after")
    def _makes_sense(self) -> "Plan":
        for text in self.targets:
            target = target_of(text)
            fits = all(target.s <= T for T in self.T)
            require(fits, "T", f"at least s = {target.s} for {text}", list(self.T))
        require(self.T and self.targets, "T", "at least one T and one target", list(self.T))
        require(max(self.T) <= LONGEST, "T", f"at most {LONGEST}", max(self.T))
        ok = self.accuracies and min(self.accuracies) > 0.5 and max(self.accuracies) <= 1
        whole = self.parity_steps % self.parity_every == 0
        wanted = f"a multiple of parity_every = {self.parity_every}"
        require(whole, "parity_steps", wanted, self.parity_steps)
        require(ok, "accuracies", "shares in (0.5, 1]", list(self.accuracies))
        return self

    def search(self, m_low: int, high: int) -> CardSearch:
        """The adaptive search for the first accuracy, between two m."""
        return CardSearch(
            m_low=min(m_low, high - 1),
            m_high=high,
            batch=self.batch,
            min_trials=min(self.max_trials, 24),
            max_trials=self.max_trials,
            precision=self.precision,
        )

    def panel(self, entry: Entry, target: str) -> Panel:
        """The panel of one learner on one target, without its rate."""
        chosen = target_of(target)
        task: dict[str, Any] = {
            "function": chosen.function,
            "support": self.support,
            "noise": self.noise,
            "reject_ambiguous": False,
            "validation_size": self.validation_size,
        }
        training: dict[str, Any] = {"steps": self.steps, "eval_every": self.eval_every}
        if not entry.in_lanes:
            training["time_limit"] = self.time_limit
        return Panel(
            name=f"{entry.name} on {target}",
            T=self.T,
            search=self.search(5, self.highest(entry)),
            task=task,
            model={"family": entry.name, "source": entry.source},
            training={**training, "restarts": 1},
            stop_memorised=self.stop_memorised and entry.in_lanes,
        )

    def experiment(self, entries: tuple[Entry, ...]) -> Experiment:
        """All panels, as a store knows them."""
        panels = tuple(self.panel(e, t) for t in self.targets for e in entries)
        return Experiment(name="card", scale="card", panels=panels)


QUICK = Plan()
REFERENCE = Plan(
    targets=("and3", "parity3", "maj5", "staircase", "shuffled", "xor2", "or3"),
    T=(20, 50, 100, 200, 400),
    design="grid",
    m_high=2048,
    m_high_slow=1024,
    slow_T=100,
)
