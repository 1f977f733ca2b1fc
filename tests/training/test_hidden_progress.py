"""Hidden progress: every measure against plain NumPy on the kept parameters; no effect on a run."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from capax.attention.transformer import Transformer, parameters
from capax.data.task import draw_task
from capax.errors import InputError
from capax.identity import key_from
from capax.training import train
from capax.training.programs.hidden_progress import hidden_progress, stable_rank
from capax.training.programs.seeds import pool_for, seed_for
from capax.training.programs.shape import program_of
from capax.training.specs.progress_names import KNOWING, MEASURES, NAMES
from capax.training.steps.paths import NaivePath
from plain_programs import plain_jit

ROWS = 64  # of 23 x 10 examples in a chunk one in 32 is answered, and at least 64


def trained(trial, hardware, **options):
    (result,) = train([trial], hardware=hardware, keep="final", early_exit=False, **options)
    return result.runs[0]


def answers(w, X):
    """Logits and [CLS] weights of a layer without LayerNorm, in float64, from its stored arrays."""
    cls = np.broadcast_to(w["cls"], (len(X), 1, len(w["cls"])))
    x = np.concatenate([w["embed"][X] + w["position"], cls], axis=1)
    b = {name.removeprefix("blocks.0."): value for name, value in w.items()}
    Q, K, V = (np.einsum("ntd,hdk->nhtk", x, b[f"W_{c}"]) + b[f"b_{c}"][:, None] for c in "QKV")
    scores = np.einsum("nhk,nhtk->nht", Q[:, :, -1], K) / np.sqrt(Q.shape[-1])
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    heads = np.einsum("nht,nhtk->nhk", weights, V)
    row = x[:, -1] + np.einsum("nhk,hkd->nd", heads, b["W_O"]) + b["b_O"]
    row = row + np.maximum(row @ b["W_in"] + b["b_in"], 0) @ b["W_out"] + b["b_out"]
    return row @ w["w"] + w["b"], weights


def recomputed(run, task, p):
    """All measures as their definitions say them, in loops."""
    start = Transformer.init(run.spec.model, key=key_from(run.spec.model_dump(mode="json"), "init"))
    now, first = ({name: np.asarray(x, float) for name, x in parameters(m).items()}
                  for m in (run.parameters, start))  # fmt: skip
    X = np.asarray(task.X_validation[:ROWS], np.int64)
    y = 2.0 * task.y_validation[:ROWS] - 1
    n, T = X.shape
    S = list(task.support)
    f = np.tanh(answers(now, X)[0] / 2)
    weights = answers(now, X)[1]
    changed, positions = np.zeros(n), [r * T // n for r in range(n)]
    for r, i in enumerate(positions):
        other = X[r].copy()
        other[i] = 1 - other[i]
        changed[r] = p * (1 - p) * (f[r] - np.tanh(answers(now, other[None])[0][0] / 2)) ** 2
    influence = np.array([changed[np.array(positions) == i].mean() for i in range(T)])
    phi = (p - X) / np.sqrt(p * (1 - p))
    coefficient = lambda A: abs(np.mean(f * phi[:, A].prod(axis=1)))  # noqa: E731
    D = now["position"] - first["position"]
    lengths = np.linalg.norm(D, axis=1)
    others = [t for t in range(T) if t not in S]
    entropy = -(weights * np.log(weights)).sum(axis=2) / np.log(T + 1)
    return {
        "weight_movement": max(np.abs(now[name] - first[name]).max() for name in now),
        "variance": f.var(),
        "sensitivity": T * changed.mean(),
        "sensitivity_error": T * changed.std() / np.sqrt(n),
        "influence_peak": influence.max() / influence.sum(),
        "influence_share": influence[S].sum() / influence.sum(),
        "target_coefficient": np.mean(f * y),
        "target_error": (f * y).std() / np.sqrt(n),
        "smaller_coefficient": max(coefficient([t for t in S if t != i]) for i in S),
        "larger_coefficient": max(coefficient([*S, t]) for t in others),
        "position_largest": lengths.max(),
        "position_typical": np.median(lengths),
        "position_relevant": lengths[S].max(),
        "position_irrelevant": lengths[others].max(),
        "stable_rank": np.linalg.norm(D) ** 2 / np.linalg.norm(D, 2) ** 2,
        "attention_entropy": entropy.mean(),
        "attention_peak": weights.mean(axis=0)[:, :T].max(),
    }


@pytest.mark.parametrize("p", [0.5, 0.3])
def test_every_measure_equals_its_definition_on_the_kept_parameters(online_trial, four_slots, p):
    trial = online_trial(task={"p": p})
    run = trained(trial, four_slots, measure_progress=True)
    wanted = recomputed(run, draw_task(trial.task), p)
    assert tuple(wanted) == NAMES
    for name, value in wanted.items():
        assert run.evals[name][-1] == pytest.approx(value, rel=3e-3), name


def test_a_run_is_the_same_to_the_last_bit_with_and_without(online_trial, four_slots):
    trial = online_trial()
    plain, measured = trained(trial, four_slots), trained(trial, four_slots, measure_progress=True)
    assert not set(NAMES) & set(plain.evals) and set(NAMES) <= set(measured.evals)
    assert plain.run_id == measured.run_id
    for name, column in plain.evals.items():
        np.testing.assert_array_equal(column, measured.evals[name], err_msg=name)
    for a, b in zip(*(jax.tree.leaves(r.parameters) for r in (plain, measured)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def looks(program, params, targets, pool):
    look = plain_jit(partial(hidden_progress, program))
    key = np.array([3, 4], np.uint32)
    return [np.asarray(look(params, key, target, pool)) for target in targets]


def test_two_layers_as_written_and_by_tables_of_pairs(online_trial, one_by_one):
    trial = online_trial(model={"layers": 2})
    program = program_of(trial, one_by_one)
    target, pool = seed_for(trial.run(0), None, program)[0].target, pool_for(trial.task)
    params = program.path.init(jax.random.key(1))
    written = replace(program, path=NaivePath(program.path.spec, "an oracle"))
    assert program.path.name == "pairwise"
    (a,), (b,) = (looks(one, params, [target], pool) for one in (program, written))
    assert np.isfinite(a).all()
    np.testing.assert_allclose(a, b, rtol=2e-3)


def test_only_marked_measures_depend_on_the_support(online_trial, one_by_one):
    """The same weights and inputs beside two targets."""
    trials = [online_trial(task={"support": "formula"}, function=formula)
              for formula in ("x0 ^ x4 ^ x7", "x1 ^ x2 ^ x9")]  # fmt: skip
    program = program_of(trials[0], one_by_one)
    targets = [seed_for(trial.run(0), None, program)[0].target for trial in trials]
    params = program.path.init(jax.random.key(1))
    a, b = looks(program, params, targets, pool_for(trials[0].task))
    moved = {name for name, x, y in zip(NAMES, a, b, strict=True) if x != y}
    marked = {measure.name for measure in MEASURES if measure.knows_support}
    assert moved | {"position_irrelevant"} == marked == KNOWING - {"attention_mass"}


def test_only_bits_are_measured(trial_of, one_by_one):
    task = {"alphabet": 3, "p": "uniform", "support": "random"}
    symbols = {"function": "x0 == 1 & x3 == 2", "task": task, "model": {"alphabet": 3}}
    with pytest.raises(InputError, match="measure_progress: wanted two symbols, got 3"):
        trained(trial_of(0, **symbols), one_by_one, measure_progress=True)


def test_stable_rank_of_matrices_with_known_spectrum():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, 7)))[0] for n in (13, 7))
    rank = plain_jit(stable_rank)
    for spectrum in ([3, 0, 0, 0, 0, 0, 0], [1] * 7, [5, 4, 3, 2, 1, 0.5, 0.1]):
        D = (U * spectrum) @ V.T
        wanted = sum(x * x for x in spectrum) / max(spectrum) ** 2
        for matrix in (D, D.T):
            assert rank(np.float32(matrix)) == pytest.approx(wanted, rel=2e-3)
    assert rank(np.zeros((13, 7), np.float32)) == 1
