"""Simulated learners: a success curve that is known, so that the search can be checked against it.

Every restart of a trial is solved with a chance that makes the whole trial succeed with probability
ψ(m): r = 1 - (1 - ψ)^(1/K). Random outcomes come from the hash of the run, so a simulated sweep is
as reproducible as a real one.
"""

import math
import time
from collections.abc import Iterator
from statistics import NormalDist
from typing import Literal

import numpy as np
from pydantic import Field

from capax.data.spec_base import Spec
from capax.errors import inside, require
from capax.identity import digest, key_words
from capax.sweep.experiments.spec import Panel, check_names
from capax.sweep.searching.counts import TARGET
from capax.sweep.trial import Learner, Outcome, Run, Trial


class SimulatedSpec(Spec):
    """A learner whose threshold is `threshold + growth (T^c - 1)/c` examples, c = `exponent`.

    c = 0 is the log law, 1 the linear one. `shape`: logistic in log m, weibull in m, or normal in
    m. `spread` is the width on that scale, relative to the threshold. Success levels off at
    1 - `lapse`; if that is below the target, the threshold is the middle of the rise. Beyond twice
    the threshold success loses the share `fall`.
    """

    shape: Literal["logistic", "weibull", "normal"] = "logistic"
    threshold: float = Field(default=40.0, gt=0)
    growth: float = 0.0
    exponent: float = 0.0
    spread: float = Field(default=0.2, gt=0)
    lapse: float = Field(default=0.0, ge=0, lt=1)
    fall: float = Field(default=0.0, ge=0, le=1)
    seconds: float = Field(default=0.0, ge=0)

    def centre(self, T: int = 1) -> float:
        """The position of the curve of T: its threshold, if the plateau exceeds the target."""
        c = self.exponent
        try:
            found = self.threshold + self.growth * (math.log(T) if c == 0 else (T**c - 1) / c)
        except OverflowError:
            found = math.inf
        require(1e-9 < found < 1e15, "threshold", f"m above 0 and below 1e15 at T = {T}", found)
        return found

    def success(self, m: int, T: int = 1) -> float:
        """ψ(m): probability that a trial succeeds; 0.8 at the centre (if λ < 0.2, without fall)."""
        plateau, centre = 1 - self.lapse, self.centre(T)
        reached = TARGET / plateau if plateau > TARGET else 0.5
        lost = self.fall / (1 + (2 * centre / m) ** 6)
        return (1 - lost) * plateau * self._step(m, centre, reached)

    def _step(self, m: int, centre: float, reached: float) -> float:
        """A step from 0 to 1 with the value `reached` at the centre."""
        if self.shape == "logistic":
            z = math.log(reached / (1 - reached)) + math.log(m / centre) / self.spread
            return 1 / (1 + math.exp(-max(-700.0, z)))
        if self.shape == "weibull":
            power = min((m / centre) ** (1 / self.spread), 1e6)
            return -math.expm1(power * math.log1p(-reached))
        return NormalDist().cdf(
            NormalDist().inv_cdf(reached) + (m - centre) / (self.spread * centre)
        )

    def true_threshold(self, T: int = 1) -> int | None:
        """The smallest m with ψ(m) >= 0.8, up to ten times the centre; otherwise `None`."""
        most = math.ceil(10 * self.centre(T))
        return next((m for m in range(1, most) if self.success(m, T) >= TARGET), None)


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


class SimulatedFamily:
    """Learners with a known success curve: [model] holds the fields of `SimulatedSpec`."""

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        for part in ("task", "optimiser"):
            check_names(getattr(panel, part), (), f"{part} (a simulated learner has none)")
        check_names(panel.training, ("restarts",), "training")
        with inside("model."):
            learner = SimulatedSpec(**{k: v for k, v in panel.model.items() if k != "family"})
            learner.centre(T)
        seed = panel.task_seed(index)
        spec = SimulatedTrial(learner=learner, T=T, m=m, seed=seed, restarts=panel.restarts)
        return Trial(panel.name, T, m, index, spec.trial_id, spec)

    def learner(self, panel: Panel, T: int) -> Learner:
        del panel, T
        return SimulatedLearner()

    def prepare(self, panel: Panel, T: int) -> None:
        del panel, T
