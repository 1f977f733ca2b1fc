"""The alarm: a distribution of the remaining steps until a run is solved, given its features.

    P(R <= r) = c / (1 + (r / e^mu)^(-1 / sigma)),     mu = b + w . (x - mean) / scale,

a log-logistic law of the remaining steps R, where c <= 1 is the share of runs that are ever solved.
It answers both questions: whether (r = the steps up to the limit) and when (the median). Easy and
hopeless runs together do not follow this law exactly, so the predicted chance is corrected:
P' = 1 / (1 + e^-(a + b log(P / (1 - P)))), with a and b fitted to whether runs were solved.
Features are clipped at three standard deviations of the runs that the alarm was fitted on.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.errors import InputError, require
from capax.training.alarm.features import FEATURES, Kind, Series, features

_CUT = 3.0
_SEVERAL = ("mean", "scale", "weights", "correction")


@dataclass(frozen=True)
class Alarm:
    """Coefficients of one kind of alarm, and a description of the fitted runs (`about`)."""

    kind: Kind
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    sigma: float
    ceiling: float
    correction: tuple[float, float] = (0.0, 1.0)
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        k = len(FEATURES[self.kind])
        for name in ("mean", "scale", "weights"):
            got = len(getattr(self, name))
            require(got == k, name, f"{k} numbers, one per feature", got)
        require(self.sigma > 0, "sigma", "a positive number", self.sigma)
        require(0 < self.ceiling <= 1, "ceiling", "a share in (0, 1]", self.ceiling)
        require(self.correction[1] > 0, "correction", "a positive slope", self.correction)

    def log_median(self, rows: Float[ndarray, "n k"]) -> Float[ndarray, " n"]:
        """mu for each row of features."""
        unit = (rows - np.array(self.mean)) / np.array(self.scale)
        return self.intercept + np.clip(unit, -_CUT, _CUT) @ np.array(self.weights)

    def chance(
        self, rows: Float[ndarray, "n k"], left: float | Float[ndarray, " n"]
    ) -> Float[ndarray, " n"]:
        """P(solved within `left` more steps) for each row of features."""
        plain = self.ceiling * logistic(
            (np.log(np.maximum(left, 1e-9)) - self.log_median(rows)) / self.sigma
        )
        shift, slope = self.correction
        return logistic(shift + slope * log_odds(plain))

    def forecast(self, curves: Series, T: int, limit: int) -> "Forecast":
        """The forecast from the last evaluation of a run with a limit of `limit` steps."""
        rows = features(curves, T, self.kind)[-1:]
        step = int(curves["step"][-1])
        shift, slope = self.correction
        half = float(logistic(np.array([-shift / slope]))[0]) / self.ceiling
        median = None
        if half < 1:
            later = float(self.log_median(rows)[0] + self.sigma * np.log(half / (1 - half)))
            median = int(step + np.exp(min(later, 40.0)))
        chance = float(self.chance(rows, float(limit - step))[0])
        return Forecast(step, limit, chance, median, self.kind)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Forecast:
    """chance: of being solved within the limit of steps; median: the step by which half of such
    runs are solved, `None` if fewer than half are ever solved."""

    step: int
    limit: int
    chance: float
    median: int | None
    kind: Kind


def logistic(x: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
    """1 / (1 + e^-x)."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def log_odds(p: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
    """log(p / (1 - p)), finite."""
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return np.log(p / (1 - p))


def from_json(fields: dict[str, Any]) -> Alarm:
    """The alarm in plain data. Raises `InputError` for anything else."""
    try:
        numbers = {name: tuple(map(float, fields[name])) for name in _SEVERAL}
        single = {name: float(fields[name]) for name in ("intercept", "sigma", "ceiling")}
        given: dict[str, Any] = {**numbers, **single, "about": fields["about"]}
        return Alarm(kind=fields["kind"], **given)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"alarm: not the coefficients of an alarm ({error})") from None


@cache
def shipped_alarm(kind: Kind) -> Alarm:
    """The alarm of the package (`reference/alarm.json` describes the runs it was fitted on)."""
    text = files("capax").joinpath("reference", "alarm.json").read_text()
    return from_json(json.loads(text)["alarms"][kind])
