"""Made-up results with a known shape for tests of figures and reports; nothing was measured."""

import hashlib

import numpy as np

from capax.analysis.laws import Parameter
from capax.figures.experiments.learning_curves import LearningCurve, LearningCurves
from capax.figures.experiments.parity_transition import ParityPanel, ParityRun, ParityTransition
from capax.figures.experiments.threshold_scaling import (
    FittedLaw,
    ReferenceCurve,
    SuccessRates,
    ThresholdPoint,
    ThresholdScaling,
)
from capax.figures.heads.attention_weights import AttentionMap

LENGTHS = (53, 101, 307, 809)
SIZES = (17, 31, 47, 61, 79, 97)


def identifier(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def logistic(z):
    return 0.5 * (1 + np.tanh(np.asarray(z) / 2))


def threshold_scaling() -> ThresholdScaling:
    """Thresholds near 12 + 9 log T; the largest T leaves its upper side open."""
    grid = np.geomspace(LENGTHS[0], LENGTHS[-1], 23)
    measured = np.array(LENGTHS, dtype=float)
    stars = [round(12 + 9 * np.log(T)) for T in LENGTHS]
    highs = [m + 8 for m in stars[:-1]] + [None]
    return ThresholdScaling(
        task="3-bit AND",
        p=2 ** (-1 / 3),
        points=tuple(
            ThresholdPoint(T, m, m - 7, high, 6 * len(SIZES))
            for T, m, high in zip(LENGTHS, stars, highs, strict=True)
        ),
        rates=tuple(
            SuccessRates(
                T, SIZES, tuple(round(6 * logistic((m - star) / 6)) for m in SIZES), (6,) * 6
            )
            for T, star in zip(LENGTHS, stars, strict=True)
        ),
        laws=(
            FittedLaw(
                "log T",
                "m* = a + b ln T",
                0.75,
                (Parameter("a", 12.0, 3.0, None), Parameter("b", 9.0, 6.0, 12.0)),
                grid,
                12 + 9 * np.log(grid),
                8 + 9 * np.log(grid),
                16 + 9 * np.log(grid),
            ),
            FittedLaw(
                "constant", "m* = a", 0.25, (Parameter("a", 60.0, 50.0, 70.0),), grid, 60 + 0 * grid
            ),
        ),
        references=(
            ReferenceCurve("best learner", measured, 8 + 4 * np.log(measured)),
            ReferenceCurve("union bound", measured, 13 + 4 * np.log(measured)),
        ),
        verdict="Toy numbers: log T is preferred; a constant is not ruled out.",
        status="not settled",
    )


def learning_curves() -> LearningCurves:
    step = np.arange(0, 1001, 50.0)
    rising = np.minimum(1.0, 0.5 + 0.51 * logistic((step - 300) / 40))
    stuck = 0.5 + 0.31 * logistic((step - 200) / 40)
    fitted = np.minimum(1.0, 0.5 + 0.51 * logistic((step - 150) / 30))
    return LearningCurves(
        "3-bit AND",
        307,
        (
            LearningCurve(identifier("above"), 199, step, fitted, rising, 600),
            LearningCurve(identifier("below"), 53, step, fitted, stuck, None),
        ),
        threshold=67,
    )


def attention_map(num_heads: int, examples: int, *, T: int = 41) -> AttentionMap:
    """Every second head looks at the relevant ones of the example, the others everywhere."""
    generator = np.random.default_rng(num_heads)
    support = (5, 17, 29)
    bits = (generator.random((examples, T)) < 0.79).astype(np.int64)
    scores = generator.normal(0, 0.1, (num_heads, examples, T + 1))
    relevant = np.isin(np.arange(T), support)
    scores[::2, :, :T] += np.where(relevant & (bits == 1), 5.0, 0.0)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    mass = weights[..., list(support)].sum(-1) / weights[..., :T].sum(-1)
    effect = np.where(np.arange(num_heads) % 2 == 0, 0.5, 1e-4)
    order = np.argsort(-effect, kind="stable")
    return AttentionMap(
        run_id=identifier("attention", num_heads),
        T=T,
        m=300,
        support=support,
        heads=tuple(f"head {h}" for h in order),
        weights=weights[order],
        bits=bits,
        share=mass.mean(axis=1)[order],
        effect=effect[order],
        accuracy=1.0,
    )


def parity_transition() -> ParityTransition:
    """Ten seeds per T; the last one at the larger T never leaves chance."""
    return ParityTransition((_parity_panel(11, 10), _parity_panel(13, 9)))


def _parity_panel(T: int, num_solved: int) -> ParityPanel:
    step = np.arange(0, 4001, 100.0)
    runs = []
    for seed in range(10):
        solved_at = 900 + 200 * seed if seed < num_solved else None
        progress = logistic((step - (solved_at or 1e6)) / 60)
        runs.append(
            ParityRun(
                identifier("parity", T, seed),
                step,
                np.log(2) * (1 - progress),
                0.5 + 0.5 * progress,
                3 / (T + 1) + 0.5 * logistic((step - (solved_at or 1e6) + 200) / 150),
                solved_at,
            )
        )
    return ParityPanel(T, 3, tuple(runs))
