"""Fit an alarm to finished runs, and judge it on runs of settings that it has not seen.

A run gives one row per moment (steps limit / 64, / 32, ..., / 2) at which it is still unsolved. The
outcome of a row is the number of remaining steps; for a run that ended unsolved, only that there
were more. All rows of a run together have weight one. The coefficients maximise the likelihood,
with a small penalty on their squares.

**Judged** by whether the run was solved within its limit: the Brier score is the weighted mean of
(chance - outcome)^2 over the rows. A whole setting is held out: all runs of one T, or of one s.
`constant` predicts the share of solved rows among the other settings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.optimize import minimize
from scipy.stats import beta

from capax.boolean import parse
from capax.errors import InputError, require
from capax.sweep.storage.store import Store
from capax.training.alarm.alarm import Alarm, log_odds, logistic
from capax.training.alarm.features import FEATURES, KINDS, Kind, features, has_series
from capax.training.alarm.giving_up import MOMENTS

_RIDGE = 0.02  # per row of weight one: shares coefficients among correlated features


@dataclass(frozen=True)
class WatchedRun:
    """A finished run: its recorded series, and the step at which it was solved (or None)."""

    T: int
    s: int | None
    limit: int
    every: int
    solved_step: int | None
    curves: dict[str, Any]


@dataclass(frozen=True)
class Moments:
    """Rows of one kind: features, remaining steps until solved (an interval), number of the run."""

    x: Float[ndarray, "n k"]
    low: Float[ndarray, " n"]  # the run was unsolved after so many more steps,
    high: Float[ndarray, " n"]  # and solved after so many; infinite where it was not
    left: Float[ndarray, " n"]  # steps that were left to the limit
    weight: Float[ndarray, " n"]
    run: Float[ndarray, " n"]

    @property
    def solved(self) -> Bool[ndarray, " n"]:
        return np.isfinite(self.high)


_QUERY = """
    SELECT t.T, r.run_id, r.solved_step, r.spec, r.curves
    FROM trials t JOIN runs r USING (trial_id) WHERE r.outcome != 'diverged'
    ORDER BY t.panel, t.T, t.m, t.number, r.restart
"""


def watched_runs(store: Store) -> list[WatchedRun]:
    """The runs of a store with recorded progress."""
    found = []
    for block in store.blocks(_QUERY, 256):
        for values in zip(*block.values(), strict=True):
            row = dict(zip(block, values, strict=True))
            curves = store.series(row["curves"], f"curves of {row['run_id']}")
            if not has_series(curves, "blind"):
                continue
            spec = store.plain(row["spec"], f"spec of {row['run_id']}")
            function = spec["task"].get("function")
            s = None if function is None else parse(function, row["T"]).s
            about = (spec["steps"], spec["eval_every"], row["solved_step"])
            found.append(WatchedRun(row["T"], s, *about, curves))
    if not found:
        raise InputError(
            f"{store.path}: no run recorded its progress: train with `progress = true`"
        )
    return found


def moments(runs: Sequence[WatchedRun], kind: Kind, at_least: int = 1) -> Moments:
    """The rows of these runs; `InputError` if fewer than `at_least` runs have one."""
    parts = [_no_rows(kind)]
    for number, run in enumerate(runs):
        steps = np.asarray(run.curves["step"], float)
        wanted = [run.limit * share for share in MOMENTS]
        at = sorted({int(np.searchsorted(steps, w * (1 - 1e-9))) for w in wanted})
        last = np.inf if run.solved_step is None else run.solved_step
        at = [k for k in at if k < len(steps) and steps[k] < last and steps[k] < run.limit]
        if not at:
            continue
        x = features(run.curves, run.T, kind)[at]
        now = steps[at]
        high = last - now
        low = np.where(np.isfinite(high), np.maximum(high - run.every, 0.0), steps[-1] - now)
        parts.append((x, low, high, run.limit - now, np.full(len(at), 1 / len(at)),
                      np.full(len(at), float(number))))  # fmt: skip
    wanted = f"at least {at_least} runs that are unsolved at their first moments"
    require(len(parts) > at_least, "runs", wanted, len(parts) - 1)
    return Moments(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _no_rows(kind: Kind) -> tuple[ndarray, ...]:
    return (np.zeros((0, len(FEATURES[kind]))), *(np.zeros(0) for _ in range(5)))


def fit_alarm(runs: Sequence[WatchedRun], kind: Kind, about: dict[str, Any] | None = None) -> Alarm:
    """The alarm of largest penalised likelihood."""
    rows = moments(runs, kind)
    mean = np.average(rows.x, axis=0, weights=rows.weight)
    scale = np.sqrt(np.average((rows.x - mean) ** 2, axis=0, weights=rows.weight)) + 1e-9
    unit = np.clip((rows.x - mean) / scale, -3, 3)
    total = rows.weight.sum()
    center = float(np.log(np.median(np.where(rows.solved, rows.high, rows.left))))

    def loss(theta: ndarray) -> tuple[float, ndarray]:
        w, b, sigma, ceiling = (
            theta[:-3],
            theta[-3],
            np.exp(theta[-2]),
            float(logistic(theta[-1:])[0]),
        )
        chance, by_mu, by_sigma, by_ceiling = _likelihood(rows, b + unit @ w, sigma, ceiling)
        share = rows.weight / total / np.maximum(chance, 1e-12)
        by_last = (share @ by_ceiling) * ceiling * (1 - ceiling) - 2e-3 * (theta[-1] - 3)
        slopes = (unit.T @ (share * by_mu) - _RIDGE * w, share @ by_mu, share @ by_sigma, by_last)
        penalty = _RIDGE / 2 * (w @ w) + 1e-3 * (theta[-1] - 3) ** 2
        value = -(rows.weight @ np.log(np.maximum(chance, 1e-12))) / total + penalty
        return float(value), -np.concatenate([np.atleast_1d(slope) for slope in slopes])

    first = np.zeros(rows.x.shape[1] + 3)
    first[-3:] = center, 0.0, 3.0
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    numbers = [tuple(map(float, values)) for values in (mean, scale, found[:-3])]
    sigma, ceiling = float(np.exp(found[-2])), float(logistic(found[-1:])[0])
    ends = (float(found[-3]), sigma, ceiling)
    plain = Alarm(kind, numbers[0], numbers[1], numbers[2], *ends, about=about or {})
    return replace(plain, correction=_correction(rows, plain.chance(rows.x, rows.left)))


def _correction(rows: Moments, chance: ndarray) -> tuple[float, float]:
    """Shift and slope of the log odds that best predict whether runs were solved."""
    odds = log_odds(chance)

    def loss(theta: ndarray) -> float:
        said = np.clip(logistic(theta[0] + np.exp(theta[1]) * odds), 1e-9, 1 - 1e-9)
        hit = np.where(rows.solved, np.log(said), np.log(1 - said))
        return float(-(rows.weight @ hit) / rows.weight.sum() + 1e-3 * theta @ theta)

    shift, slope = minimize(loss, np.zeros(2), method="BFGS").x
    return float(shift), float(np.exp(slope))


def _likelihood(rows: Moments, mu: ndarray, sigma: float, ceiling: float) -> tuple[ndarray, ...]:
    """P(low < R <= high), or P(R > low) for a run that ended unsolved; and its derivatives by mu,
    log sigma and the ceiling."""
    before = (np.log(np.maximum(rows.low, 1e-9)) - mu) / sigma
    by = (np.log(np.where(rows.solved, rows.high, 1.0)) - mu) / sigma
    low, high = logistic(before), np.where(rows.solved, logistic(by), 0.0)
    down, up = low * (1 - low), high * (1 - high)
    chance = np.where(rows.solved, ceiling * high, 1.0) - ceiling * low
    return chance, ceiling * (down - up) / sigma, ceiling * (before * down - by * up), high - low


@dataclass(frozen=True)
class Judged:
    """Chances and outcomes of held-out rows, by kind of alarm; `constant` among them."""

    chances: dict[str, Float[ndarray, " n"]]
    outcomes: Float[ndarray, " n"]
    weight: Float[ndarray, " n"]
    setting: Float[ndarray, " n"]
    run: Float[ndarray, " n"]

    def brier(self, kind: str) -> float:
        """Mean of (chance - outcome)^2."""
        return float(np.average((self.chances[kind] - self.outcomes) ** 2, weights=self.weight))

    def difference(self, kind: str, other: str) -> tuple[float, float]:
        """Brier score of `kind` minus that of `other`, and its standard error over runs."""
        gap = (self.chances[kind] - self.outcomes) ** 2 - (self.chances[other] - self.outcomes) ** 2
        runs, place = np.unique(self.run, return_inverse=True)
        weight = np.bincount(place, self.weight)
        each = np.bincount(place, self.weight * gap) / weight
        mean = float(np.average(each, weights=weight))
        return mean, float(np.std(each) / np.sqrt(len(runs)))

    def calibration(self, kind: str, bins: int = 10) -> list[dict[str, float]]:
        """By bins of the chance: mean chance, share solved, and a 95% interval of that share.

        Rows of one run are not independent: the interval counts a run once.
        """
        place = np.minimum((self.chances[kind] * bins).astype(int), bins - 1)
        found = []
        for k in np.unique(place):
            chosen = place == k
            weight = self.weight[chosen]
            share = float(np.average(self.outcomes[chosen], weights=weight))
            n = len(np.unique(self.run[chosen]))
            hits = share * n
            found.append({
                "chance": float(np.average(self.chances[kind][chosen], weights=weight)),
                "share": share,
                "low": float(beta.ppf(0.025, hits, n - hits + 1)) if hits > 0 else 0.0,
                "high": float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0,
                "runs": n,
            })  # fmt: skip
        return found


def held_out(runs: Sequence[WatchedRun], by: Callable[[WatchedRun], Any]) -> Judged:
    """Hold out each setting in turn, fit the alarms to the others, and predict the one held out."""
    settings = sorted({by(run) for run in runs})
    require(len(settings) > 1, "runs", "runs of at least two settings", len(settings))
    kinds = [kind for kind in KINDS if all(has_series(run.curves, kind) for run in runs)]
    chances: dict[str, list[ndarray]] = {name: [] for name in ("constant", *kinds)}
    common: list[tuple[ndarray, ...]] = []
    for number, setting in enumerate(settings):
        seen = [run for run in runs if by(run) != setting]
        asked = [run for run in runs if by(run) == setting]
        train, test = moments(seen, "loss"), moments(asked, "loss", at_least=0)
        share = float(np.average(train.solved, weights=train.weight))
        chances["constant"].append(np.full(len(test.left), share))
        for kind in kinds:
            alarm = fit_alarm(seen, kind)
            chances[kind].append(alarm.chance(moments(asked, kind, at_least=0).x, test.left))
        place = np.full(len(test.left), float(number))
        common.append((test.solved.astype(float), test.weight, place, test.run + 1e6 * number))
    columns = (np.concatenate(column) for column in zip(*common, strict=True))
    return Judged({name: np.concatenate(x) for name, x in chances.items()}, *columns)


def describe(runs: Sequence[WatchedRun], **more: Any) -> dict[str, Any]:
    """A description of the runs an alarm was fitted on, for its provenance."""
    return {
        "runs": len(runs),
        "solved": sum(run.solved_step is not None for run in runs),
        "T": sorted({run.T for run in runs}),
        "s": sorted({run.s for run in runs if run.s is not None}),
        "limit": sorted({run.limit for run in runs}),
        "features": {kind: FEATURES[kind] for kind in KINDS},
        **more,
    }
