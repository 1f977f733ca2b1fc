"""How often the interval of a card's row covers the truth, the choice of the rate included.

python benchmarks/card_coverage.py --cards 1000 --jobs 2

Simulated learners whose thresholds are known, at every rate and accuracy, go through the whole
procedure of a card: the rates race on the tuning seeds, the search asks, the rows are read. A line
for every kind of learner: the share of rows whose interval covers m* of the rate that it shows
(`covered`, at the accuracy where it is least), and m* of the best rate (`best`); the share of
intervals with two ends and the median of high / low among them; the rate's own m* beside that of
the best rate (median and 90 %); trials, and examples x steps in millions.
"""

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace

import numpy as np

from capax.cards.answers.read_card import threshold_at
from capax.cards.measuring.card_question import CardQuestion
from capax.cards.protocol.plan import RATES, TUNING_SEEDS, Plan
from capax.learners.names import entry_of
from capax.sweep.trial import Outcome, Run, Trial
from capax.training.specs.trial_specs import SuccessRule

ACCURACIES = (1.0, 0.99, 0.95)
_SHOWN = (
    1.0,
    0.994,
    0.97,
)  # what a trial that passes at an accuracy, and not at a higher one, shows
_AT_TARGET = math.log(0.8 / 0.2)
_NEVER = 10**9


@dataclass(frozen=True)
class Kind:
    """A learner: m* at 100 % and T = 20, by rate, and how it is left behind as T grows.

    parts: m* at 99 and 95 % as a part of that at 100 %. growth: m* grows like (T/20)^growth, by
    rate: another rate may be the best at another T. spread: of log m in a trial's luck. lapse:
    share of trials that no number of examples helps, by rate. fall: share of success that is lost
    beyond four times m*. shape: of the luck. quick: steps of a trial that passes at 100 %.
    """

    thresholds: tuple[float, ...]
    parts: tuple[float, float] = (0.9, 0.8)
    growth: tuple[float, ...] = (0.5, 0.5, 0.5, 0.5)
    spread: float = 0.25
    lapse: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    fall: float = 0.0
    shape: str = "logistic"
    quick: int = 200

    def centre(self, rate: int, accuracy: int, T: int) -> float:
        part = (1.0, *self.parts)[accuracy]
        return self.thresholds[rate] * part * (T / 20) ** self.growth[rate]

    def chance(self, rate: int, accuracy: int, T: int, m: float) -> float:
        """Of a trial with m examples to pass; where there are no lapses 0.8 at the centre."""
        centre = self.centre(rate, accuracy, T)
        kept = 1 - self.lapse[rate] - self.fall / (1 + (4 * centre / m) ** 6)
        return max(0.0, kept) * _below(self.shape, math.log(m / centre) / self.spread)

    @cache  # noqa: B019
    def truth(self, rate: int, accuracy: int, T: int) -> int:
        """The smallest m at which trials pass with probability 0.8."""
        top = 64 * self.centre(rate, accuracy, T)
        values = np.unique(np.ceil(np.geomspace(1, top, 6000)).astype(int))
        good = [m for m in values if self.chance(rate, accuracy, T, m) >= 0.8]
        if not good:
            return _NEVER
        return next(m for m in range(max(1, int(good[0] / 1.02) - 1), good[0] + 1)
                    if self.chance(rate, accuracy, T, m) >= 0.8)  # fmt: skip

    def trial(
        self, rate: int, T: int, m: int, luck: float, chance: float, aim: float
    ) -> tuple[float, int]:
        """Its best accuracy and its steps. luck: how hard its data is; chance: of this run."""
        for accuracy, shown in enumerate(_SHOWN):
            centre = self.centre(rate, accuracy, T)
            kept = 1 - self.lapse[rate] - self.fall / (1 + (4 * centre / m) ** 6)
            if chance < kept and luck < _below(self.shape, math.log(m / centre) / self.spread):
                return shown, self.quick if shown >= aim else 1000
        near = _below(self.shape, math.log(m / self.centre(rate, 2, T)) / self.spread)
        return 0.55 + 0.38 * min(1.0, near * (1 - luck)), 1000 if chance < 0.6 else 300


def _below(shape: str, z: float) -> float:
    """A step with the value 0.8 at 0."""
    if shape == "weibull":
        return -math.expm1(math.log1p(-0.8) * math.exp(min(50.0, z)))
    return 1 / (1 + math.exp(-max(-700.0, _AT_TARGET + z)))


KINDS = {
    "all rates alike": Kind((60, 60, 60, 60)),
    "one rate is best": Kind((160, 90, 60, 120)),
    "best only at large T": Kind((70, 64, 60, 56), growth=(0.3, 0.5, 0.7, 0.9)),
    "best only at small T": Kind((150, 90, 60, 40), growth=(0.1, 0.3, 0.6, 1.2)),
    "nearly alike": Kind((72, 66, 60, 66), spread=0.4),
    "accuracies far apart": Kind((400, 300, 350, 420), parts=(0.3, 0.15), spread=0.5, quick=500),
    "lapses at high rates": Kind((90, 75, 60, 50), lapse=(0.0, 0.02, 0.08, 0.3)),
    "slow at the last": Kind(
        (600, 450, 550, 600), parts=(0.12, 0.08), growth=(0.7,) * 4, spread=0.5
    ),
    "steep": Kind((90, 70, 60, 60), spread=0.06),
    "shallow": Kind((90, 70, 60, 60), spread=0.8),
    "weibull": Kind((90, 70, 60, 60), shape="weibull"),
    "near the largest m": Kind((900, 600, 560, 700), growth=(0, 0, 0, 0)),
    "beyond the largest m": Kind((2000, 1500, 1500, 1600), parts=(0.5, 0.2)),
    "success falls": Kind((90, 70, 60, 60), fall=0.6),
}


class _Family:
    """Trials that say where they are, and nothing more."""

    def trial(self, panel, T: int, m: int, index: int) -> Trial:
        lr, rule = panel.optimiser.get("lr"), SuccessRule(**panel.training.get("success", {}))
        spec = SimpleNamespace(optimiser=SimpleNamespace(lr=lr), success=rule)
        return Trial(panel.name, T, m, index, f"{lr} {m} {index} {rule.accuracy}", spec)


def played(kind: Kind, plan: Plan, T: int, seed: int) -> dict:
    """One question of a card, answered by a simulated learner: what its rows say."""
    question = CardQuestion(plan, entry_of("mlp"), "and3", T)
    question.__dict__["_family"] = _Family()
    cost = tuned = 0
    while (trial := question.take()) is not None:
        rate = plan.rates.index(trial.spec.optimiser.lr)
        data = np.random.default_rng([seed, T, trial.m, trial.index]).random()
        own = np.random.default_rng([seed, T, trial.m, trial.index, rate, 1]).random(2)
        luck = data if own[0] < 0.5 else own[1]  # the data decides half of the luck, for all rates
        chance = np.random.default_rng([seed, T, trial.m, trial.index, rate, 2]).random()
        aim = trial.spec.success.accuracy
        seen, steps = kind.trial(rate, T, trial.m, luck, chance, aim)
        if seen >= aim:  # it ends there: no better look follows
            seen = 1.0 if aim == 1.0 else aim + 0.001
        tuned += trial.index >= TUNING_SEEDS
        cost += steps * trial.m
        curves = {"validation_accuracy": [seen]}
        spec = {"success": {"accuracy": aim}}
        run = Run(trial.trial_id, 0, "failed", None, steps, 0.0, spec, curves)
        question.record(Outcome(trial, seen == 1.0, (run,)))
    rate = plan.rates.index(question._rate)
    rows = []
    for i, accuracy in enumerate(plan.accuracies):
        found = threshold_at(plan, "and3", T, accuracy, question.scores)
        truth = kind.truth(rate, i, T)
        best = min(kind.truth(r, i, T) for r in range(len(plan.rates)))
        low, high = found.low or 0, found.high or 10 * _NEVER
        rows.append({
            "covered": low <= truth <= high, "best": low <= best <= high,
            "closed": found.low is not None and found.high is not None,
            "ratio": high / low if found.low and found.high else None,
            "regret": truth / best,
        })  # fmt: skip
    scored = len(question.scores)
    return {"rows": rows, "tuned": tuned, "scored": scored, "cost": cost / 1e6}


def line(kind: Kind, plan: Plan, cards: range) -> list[dict]:
    """A question of every card, at one T after the other."""
    return [played(kind, plan, plan.T[seed % len(plan.T)], seed) for seed in cards]


def summary(answers: list[dict]) -> dict:
    rows = [[a["rows"][i] for a in answers] for i in range(len(answers[0]["rows"]))]
    every = [row for at in rows for row in at]
    ratios = [row["ratio"] for row in every if row["ratio"]]
    regrets = [row["regret"] for row in every]
    return {
        "rows": len(every),
        "covered": min(float(np.mean([r["covered"] for r in at])) for at in rows),
        "best": min(float(np.mean([r["best"] for r in at])) for at in rows),
        "closed": float(np.mean([r["closed"] for r in every])),
        "ratio": float(np.median(ratios)) if ratios else None,
        "regret": [float(np.quantile(regrets, q)) for q in (0.5, 0.9)],
        "tuned": float(np.mean([a["tuned"] for a in answers])),
        "scored": float(np.mean([a["scored"] for a in answers])),
        "cost": float(np.mean([a["cost"] for a in answers])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cards", type=int, default=1000, help="simulated cards per line")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--T", default="20,100")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--reference", action="store_true", help="the grid of the reference set")
    parser.add_argument("--plan", default="{}", help="fields of the plan, as JSON")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lengths = tuple(int(T) for T in options.T.split(","))
    fields = {"design": "grid", "m_high": 2048} if options.reference else {}
    plan = Plan(T=lengths, rates=RATES, accuracies=ACCURACIES, **fields, **json.loads(options.plan))
    whole = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        parts = [range(i, options.cards, 4 * options.jobs) for i in range(4 * options.jobs)]
        for name in options.kinds:
            found = pool.map(partial(line, KINDS[name], plan), parts)
            whole[name] = summary([answer for part in found for answer in part])
            if not options.json:
                print(_told(name, whole[name]), flush=True)
    if options.json:
        print(json.dumps(whole))


def _told(name: str, s: dict) -> str:
    ratio = "-" if s["ratio"] is None else f"{s['ratio']:.2f}"
    return (
        f"{name:22} covered {100 * s['covered']:5.1f} %  best {100 * s['best']:5.1f} %  "
        f"closed {100 * s['closed']:3.0f} %  ratio {ratio}  "
        f"regret {s['regret'][0]:.2f} {s['regret'][1]:.2f}  "
        f"trials {s['tuned']:.0f} + {s['scored']:.0f}  {s['cost']:.1f} M"
    )


if __name__ == "__main__":
    main()
