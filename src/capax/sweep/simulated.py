"""Simulated learners: a success curve that is known, so that the search can be checked against it.

Every restart of a trial is solved with a chance that makes the whole trial succeed with probability
ψ(m): r = 1 - (1 - ψ)^(1/K). The dice are thrown by the hash of the run, so a simulated sweep is as
reproducible as a real one.
"""

import math
import time
from collections.abc import Iterator
from statistics import NormalDist
from typing import Literal

import numpy as np
from pydantic import Field

from capax.data.specs import Spec
from capax.identity import digest, key_words
from capax.sweep.curve import TARGET
from capax.sweep.trial import Outcome, Run, Trial


class SimulatedSpec(Spec):
    """A learner whose threshold is `threshold + growth · ln T` examples, and whose curve is known.

    `shape`: logistic in log m, weibull in m, or normal in m (the last two are not what the
    estimator assumes). `spread` is the width on that scale, relative to the threshold.
    """

    shape: Literal["logistic", "weibull", "normal"] = "logistic"
    threshold: float = Field(default=40.0, gt=0)
    growth: float = 0.0
    spread: float = Field(default=0.2, gt=0)
    lapse: float = Field(default=0.0, ge=0, lt=1)
    seconds: float = Field(default=0.0, ge=0)

    def success(self, m: int, T: int = 1) -> float:
        """ψ(m): probability that a trial succeeds; equals 0.8 at the threshold (if λ < 0.2)."""
        centre = self.threshold + self.growth * math.log(T)
        reached = TARGET / (1 - self.lapse)
        if self.shape == "logistic":
            z = math.log(reached / (1 - reached)) + math.log(m / centre) / self.spread
            return (1 - self.lapse) / (1 + math.exp(-max(-700.0, z)))
        if self.shape == "weibull":
            power = (m / centre) ** (1 / self.spread)
            return (1 - self.lapse) * -math.expm1(power * math.log1p(-reached))
        z = NormalDist().inv_cdf(reached) + (m - centre) / (self.spread * centre)
        return (1 - self.lapse) * NormalDist().cdf(z)

    def true_threshold(self, T: int = 1) -> int:
        """The smallest m with ψ(m) >= 0.8."""
        m = 1
        while self.success(m, T) < TARGET:
            m += 1
        return m


class SimulatedTrial(Spec):
    """Everything that determines the outcome of a simulated trial."""

    learner: SimulatedSpec
    T: int = Field(ge=1)
    m: int = Field(ge=1)
    seed: int = 0
    restarts: int = Field(default=1, ge=1)

    @property
    def trial_id(self) -> str:
        return digest(self.model_dump())

    def run_fields(self, restart: int) -> dict[str, object]:
        return {**self.model_dump(exclude={"restarts"}), "restart": restart}


class SimulatedLearner:
    """Runs trials one after the other; sleeps `seconds` per run."""

    def __call__(self, trials: Iterator[Trial | None]) -> Iterator[Outcome]:
        for trial in trials:
            if trial is not None:
                yield _play(trial)


def _play(trial: Trial) -> Outcome:
    spec: SimulatedTrial = trial.spec
    chance = -math.expm1(
        math.log1p(-min(spec.learner.success(spec.m, spec.T), 1 - 1e-12)) / spec.restarts
    )
    runs = []
    for restart in range(spec.restarts):
        runs.append(_run(spec, restart, chance))
        if runs[-1].outcome == "solved":
            break
    return Outcome(trial, runs[-1].outcome == "solved", tuple(runs))


def _run(spec: SimulatedTrial, restart: int, chance: float) -> Run:
    fields = spec.run_fields(restart)
    started = time.perf_counter()
    time.sleep(spec.learner.seconds)
    solved = np.random.default_rng(key_words(fields, "simulated")).random() < chance
    return Run(
        run_id=digest(fields),
        restart=restart,
        outcome="solved" if solved else "failed",
        solved_step=1 if solved else None,
        steps=1,
        seconds=time.perf_counter() - started,
        spec=fields,
        curves={"step": [1.0], "validation_accuracy": [1.0 if solved else 0.5]},
        path="simulated",
    )
