"""Simulated learners of known law and curve: do intervals cover, are verdicts right, how often?

    python benchmarks/verdicts.py intervals 100     # coverage, closed intervals; grids of m
    python benchmarks/verdicts.py steps 100         # coverage for curves that rise at once
    python benchmarks/verdicts.py laws 50           # wrong verdicts for every law and shape
    python benchmarks/verdicts.py quick 30          # closed intervals and power of the quick scale
    python benchmarks/verdicts.py exponents 1000 --first 50000 --jobs 8 --out sweeps.jsonl
                                                    # exponent and verdict, 8 processes

With `--out` a second call goes on where the first one was stopped, by `--minutes` or by hand.

The number is that of simulated sweeps per line; `--first`, the first seed (0), gives other dice.
Nothing is trained.
"""

import argparse
import itertools
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np

import capax.analysis.laws as laws_module
from capax.analysis.positions import positions
from capax.analysis.scaling import Scaling, fit_scaling
from capax.analysis.summary import Answer, answer
from capax.analysis.threshold import threshold_of, thresholds
from capax.reading import existing_store
from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.families.simulated import SimulatedSpec
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import AdaptiveSearch
from capax.sweep.storage.store import Store

SHAPES = (("logistic", 0.2), ("weibull", 0.3), ("normal", 0.3))
GRIDS = {
    "40 trials, 10 sizes": ((30, 40, 50, 60, 70, 80, 90, 100, 120, 150), 40),
    "8 trials, 8 sizes": ((20, 30, 40, 50, 60, 80, 100, 140), 8),
}
LAWS = {
    "constant": SimulatedSpec(threshold=60.0),
    "log": SimulatedSpec(threshold=4.5, growth=10.9),
    "linear": SimulatedSpec(threshold=40.0, growth=0.06, exponent=1.0),
    "power": SimulatedSpec(threshold=20.0, growth=1.5, exponent=0.5),
}
TS = (10, 30, 100, 300, 1000)
SIZES = (15, 22, 30, 40, 55, 75, 100, 140)
MEASURED = SimulatedSpec(threshold=4.5, growth=10.9, spread=0.2, lapse=0.02)


def drawn(learner: SimulatedSpec, sizes: tuple[int, ...], trials: int, T: int, random) -> Counts:
    solved = tuple(int(random.binomial(trials, learner.success(m, T))) for m in sizes)
    return Counts(sizes, solved, (trials,) * len(sizes))


def intervals(repeats: int, seed: int) -> None:
    for name, (sizes, trials) in GRIDS.items():
        for shape, spread in SHAPES:
            for plateau, fall in (
                (1, 0),
                (0.9, 0),
                (0.85, 0),
                (0.79, 0),
                (0.7, 0),
                (0.6, 0),
                (1, 0.8),
            ):
                learner = SimulatedSpec(
                    shape=shape, spread=spread, lapse=1 - plateau, fall=fall, threshold=45.0
                )
                truth, random = learner.true_threshold() or np.inf, np.random.default_rng(seed + 1)
                found = [
                    threshold_of("p", 9, drawn(learner, sizes, trials, 9, random))
                    for _ in range(repeats)
                ]
                covered = sum((t.low or 0) <= truth <= (t.high or np.inf) for t in found)
                closed = sum(t.status == "closed" for t in found)
                print(
                    f"{name}, {shape}, plateau {plateau}, fall {fall}: m* = {truth}, "
                    f"covered {covered}, closed {closed} of {repeats}",
                    flush=True,
                )


def steps(repeats: int, seed: int) -> None:
    """Curves that rise at once, at any place between two m of a grid of octaves."""
    octaves = (8, 16, 32, 64, 128, 256)
    for trials in (8, 20, 40):
        for plateau in (1, 0.95, 0.9):
            covered, closed, worst = 0, 0, repeats
            for centre in (33, 35, 38, 45, 52, 58, 63, 64):
                learner = SimulatedSpec(
                    shape="normal", spread=0.01, threshold=centre, lapse=1 - plateau
                )
                truth, random = (
                    learner.true_threshold() or np.inf,
                    np.random.default_rng([seed, centre]),
                )
                found = [
                    threshold_of("p", 9, drawn(learner, octaves, trials, 9, random))
                    for _ in range(repeats)
                ]
                hits = sum((t.low or 0) <= truth <= (t.high or np.inf) for t in found)
                covered, worst = covered + hits, min(worst, hits)
                closed += sum(t.status == "closed" for t in found)
            print(
                f"octaves, {trials} trials, plateau {plateau}: covered {covered}, closed {closed} "
                f"of {8 * repeats}; at the worst place {worst} of {repeats}",
                flush=True,
            )


def wrong(name: str, found: Scaling) -> bool:
    """The true law is ruled out, or another one is named."""
    return name in found.ruled_out or (found.law is not None and found.law != name)


def laws(repeats: int, first: int) -> None:
    for name, base in LAWS.items():
        for shape, spread in SHAPES:
            learner = base.model_copy(update={"shape": shape, "spread": spread, "lapse": 0.05})
            said, bad = Counter(), 0
            for seed in range(first, first + repeats):
                random = np.random.default_rng(seed)
                curves = [(T, drawn(learner, SIZES, 12, T, random)) for T in TS]
                found = fit_scaling(positions(curves))
                said[found.status] += 1
                bad += wrong(name, found)
            print(f"{name}, {shape}: {dict(said)}, wrong {bad} of {repeats}", flush=True)


def searched(search: AdaptiveSearch, T: int, random: np.random.Generator) -> Counts:
    outcomes: list[tuple[int, bool]] = []
    while batch := search.next_round(Counts.of(outcomes), 5):
        outcomes += [(m, bool(random.random() < MEASURED.success(m, T))) for m in batch]
    return Counts.of(outcomes)


def quick(repeats: int, first: int) -> None:
    """Closed intervals and verdicts of figure2's quick scale, with the reference beside it."""
    panel = load_experiment(experiment_path("figure2"), "quick").panels[0]
    with Store.read(existing_store(panel.reference)) as store:
        beside = [t for t in thresholds(store, floors=False) if t.T not in panel.T]
    out: Counter[str] = Counter()
    for seed in range(first, first + repeats):
        random = np.random.default_rng(seed)
        own = [
            threshold_of("p", T, searched(panel.search.at_length(T), T, random)) for T in panel.T
        ]
        said = answer(tuple(sorted([*own, *beside], key=lambda t: t.T)))
        assert said.scaling is not None
        out.update(f"{law} ruled out" for law in said.scaling.ruled_out)
        out[f"law named: {said.scaling.law}"] += 1
        out[said.scaling.status] += 1
        out.update(f"closed at T = {t.T}" for t in own if t.status == "closed")
        out["all closed"] += all(t.status == "closed" for t in own)
    print(f"of {repeats}: {dict(out)}")


TRUTHS = {
    "log": (SimulatedSpec(threshold=4.5, growth=10.9), 0.0),
    "sqrt": (SimulatedSpec(threshold=20.0, growth=1.5, exponent=0.5), 0.5),
    "linear": (SimulatedSpec(threshold=40.0, growth=0.06, exponent=1.0), 1.0),
}
PLATEAUS = {"flat 0.98": (0.98, 0.98), "flat 0.90": (0.9, 0.9), "falls 1 to 0.81": (1.0, 0.81)}
DESIGNS = {
    "5 T, 8 m, 12 trials": (TS, SIZES, 12),
    "7 T, 10 m, 40 trials": (
        (50, 100, 200, 300, 400, 600, 800),
        GRIDS["40 trials, 10 sizes"][0],
        40,
    ),
}


def simulated_sweep(truth: str, plateau: str, design: str, seed: int) -> Answer:
    """One sweep of a known law, analysed as `capax thresholds` does it."""
    base, _ = TRUTHS[truth]
    (first, last), (lengths, sizes, trials) = PLATEAUS[plateau], DESIGNS[design]
    random = np.random.default_rng([seed, *map(ord, truth + plateau)])
    reach = np.log(lengths[-1] / lengths[0])
    if truth == "linear" and design.startswith("7"):
        base = base.model_copy(update={"growth": 0.09})
    found = []
    for T in lengths:
        level = first + (last - first) * np.log(T / lengths[0]) / reach
        learner = base.model_copy(update={"lapse": float(1 - level)})
        found.append(threshold_of("p", T, drawn(learner, sizes, trials, T, random)))
    return answer(tuple(found))


def judged(job: tuple[str, str, str, int]) -> tuple[Counter[str], float]:
    """What is right and wrong about one simulated sweep; the deviance of the true exponent."""
    said, (_, c) = simulated_sweep(*job), TRUTHS[job[0]]
    scaling = said.scaling
    if scaling is None:
        return Counter({"no law": 1}), 0.0
    own = scaling.fit("power").parameters[2]
    name = {"sqrt": "power"}.get(job[0], job[0])
    low, high = (
        (-np.inf if own.low is None else own.low),
        (np.inf if own.high is None else own.high),
    )
    right = Counter(
        {
            "covered": int(low <= c <= high),
            "ruled out": int(name in scaling.ruled_out),
            "other named": int(scaling.law not in (None, name)),
            "named": int(scaling.law == name),
            "sweeps": 1,
        }
    )
    return right, deviance_of(said, c)


def deviance_of(said: Answer, c: float) -> float:
    """2 (ℓ(power law) - ℓ(power law with this exponent)), before it is divided by anything."""
    rest = [t for t in said.thresholds if t.T not in said.unreached]
    found = positions([(t.T, t.counts if t.peak is None else t.rising) for t in rest])
    best = laws_module._search_exponents(found).log_likelihood.max()
    here = laws_module._search("power", found, np.array([c])).log_likelihood.max()
    return float(2 * max(0.0, best - here))


def exponents(
    repeats: int, first: int, jobs: int = 1, out: Path | None = None, minutes: float = 1e6
) -> None:
    """Coverage of the exponent's interval and wrong verdicts, plateaus flat and falling with T.

    out: a file with a line per sweep; those that it has are not simulated again. All lines of the
    table grow together, so that a run that is stopped leaves a table too.
    """
    from multiprocessing import Pool

    lines = out.read_text().splitlines() if out is not None and out.exists() else []
    found = {tuple(job): (Counter(right), d) for job, right, d in map(json.loads, lines)}
    wanted = [
        (truth, plateau, design, seed)
        for seed in range(first, first + repeats)
        for design, truth, plateau in itertools.product(DESIGNS, TRUTHS, PLATEAUS)
    ]
    waiting, end = [job for job in wanted if job not in found], time.time() + 60 * minutes
    with Pool(jobs) as pool:
        for job, (right, deviance) in zip(waiting, pool.imap(judged, waiting), strict=True):
            found[job] = right, deviance
            if out is not None:
                with out.open("a") as file:
                    file.write(json.dumps([job, right, deviance]) + "\n")
            if time.time() > end:
                break
    print_exponents([(job, found[job]) for job in wanted if job in found])


def print_exponents(found: list[tuple[tuple, tuple[Counter[str], float]]]) -> None:
    """The table of sweeps: (truth, plateau, design, seed), what was right, deviance."""
    columns = ("exponent covered", "true law ruled out", "other law named", "true law named")
    print(
        f"| trials | truth | plateau | sweeps | {' | '.join(columns)} | 95 % of deviances below |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for design, truth, plateau in itertools.product(DESIGNS, TRUTHS, PLATEAUS):
        own = [said for job, said in found if job[:3] == (truth, plateau, design)]
        if not own:
            continue
        total = sum((right for right, _ in own), Counter())
        n = max(1, total["sweeps"])
        shares = (total[k] / n for k in ("covered", "ruled out", "other named", "named"))
        cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
        most = np.quantile([deviance for _, deviance in own], 0.95)
        print(f"| {design} | {truth} | {plateau} | {n} | {cells} | {most:.1f} |", flush=True)


def main() -> None:
    commands = {f.__name__: f for f in (intervals, steps, laws, quick, exponents)}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=commands)
    parser.add_argument("repeats", type=int, help="simulated sweeps per line")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes (exponents)")
    parser.add_argument("--minutes", type=float, default=1e6, help="then it ends (exponents)")
    parser.add_argument("--out", type=Path, help="a file that is gone on with (exponents)")
    asked = parser.parse_args()
    more = (asked.jobs, asked.out, asked.minutes) if asked.command == "exponents" else ()
    commands[asked.command](asked.repeats, asked.first, *more)


if __name__ == "__main__":
    main()
