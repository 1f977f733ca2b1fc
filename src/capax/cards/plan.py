"""What a card measures: learners, targets, lengths, and the protocol that is the same for all."""

from typing import Any, Literal

from pydantic import Field, model_validator

from capax.cards.targets import target_of
from capax.data.specs import Spec
from capax.errors import require
from capax.learners.names import Entry
from capax.sweep.counts import Counts
from capax.sweep.search import AdaptiveSearch
from capax.sweep.spec import Experiment, Panel

ACCURACIES = (1.0, 0.99, 0.95)
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
PROBES = 6  # trials at the largest m that must all fail before a learner is given up
SLOW = ("transformer2", "cnn", "lstm", "gru", "ssm", "mixer")
"""Learners whose cost grows with m T, or that take T steps in a row."""
TUNING_SEEDS = 1_000_000  # the first of the seeds that only choose the rate


class CardSearch(AdaptiveSearch):
    """The adaptive search, after a look at the largest m: who fails there is not searched for."""

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """Probes first; nothing more if all of them failed."""
        at = {m: (k, n) for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True)}
        solved, tried = at.get(self.m_high, (0, 0))
        if tried < PROBES:
            return (self.m_high,) * (PROBES - tried)
        return super().next_round(counts, restarts) if solved else ()


class Plan(Spec):
    """The protocol of a card. All learners get the same data: seed, support and examples.

    A trial is one fit: `steps` steps of AdamW on the full batch (looked at every `eval_every`), or
    the learner's own stopping rule. It passes at an accuracy if some look at the validation set
    finds at least that share right. Rates are chosen at every T on seeds that are never scored.
    """

    targets: tuple[str, ...] = ("and3",)
    T: tuple[int, ...] = (20, 50, 100)
    accuracies: tuple[float, ...] = ACCURACIES
    rates: tuple[float, ...] = Field(default=RATES, min_length=1)
    tuning_trials: int = Field(default=2, ge=1)
    m_high: int = Field(default=640, ge=8)
    batch: int = Field(default=8, ge=1)
    max_trials: int = Field(default=40, ge=8)
    more_trials: int = Field(default=16, ge=0)
    precision: float = Field(default=1.5, gt=1)
    steps: int = Field(default=1000, ge=1)
    eval_every: int = Field(default=100, ge=1)
    validation_size: int = Field(default=4096, ge=1)
    support: Literal["random", "contiguous"] = "random"
    noise: float = Field(default=0.0, ge=0, lt=0.5)
    time_limit: float = Field(default=60.0, gt=0)
    slow_T: int | None = None

    def asks(self, entry: Entry, target: str, T: int) -> bool:
        """Whether this is measured: slow learners beyond `slow_T` on the first target only."""
        late = self.slow_T is not None and self.slow_T < T and entry.name in SLOW
        return target == self.targets[0] or not late

    @model_validator(mode="after")
    def _makes_sense(self) -> "Plan":
        for text in self.targets:
            target = target_of(text)
            fits = all(target.s <= T for T in self.T)
            require(fits, "T", f"at least s = {target.s} for {text}", list(self.T))
        require(self.T and self.targets, "T", "at least one T and one target", list(self.T))
        ok = self.accuracies and min(self.accuracies) > 0.5 and max(self.accuracies) <= 1
        require(ok, "accuracies", "shares in (0.5, 1]", list(self.accuracies))
        return self

    def search(self, m_low: int) -> CardSearch:
        """The search for the first accuracy."""
        return CardSearch(
            m_low=min(m_low, self.m_high - 1),
            m_high=self.m_high,
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
            search=self.search(5),
            task=task,
            model={"family": entry.name, "source": entry.source},
            training={**training, "restarts": 1},
        )

    def experiment(self, entries: tuple[Entry, ...]) -> Experiment:
        """All panels, as a store knows them."""
        panels = tuple(self.panel(e, t) for t in self.targets for e in entries)
        return Experiment(name="card", scale="card", panels=panels)


QUICK = Plan()
REFERENCE = Plan(
    targets=("and3", "parity3", "maj5", "staircase", "shuffled", "xor2", "or3"),
    T=(20, 50, 100, 200, 400),
    m_high=1024,
    batch=32,
    max_trials=64,
    more_trials=32,
    precision=1.3,
    slow_T=100,
)
