"""`data = "mine.npz"` in an experiment file, from the file to the thresholds."""

import jax
import numpy as np
import pytest

from capax.analysis.reference.threshold_curves import threshold_curves
from capax.boolean.parser import parse
from capax.errors import InputError
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.families.known_families import check_experiment
from capax.sweep.running.question import in_range
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store
from capax.training import train

T, N = 11, 300
FILE = 'data = "mine.npz"\nfamily = "{family}"\n'


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2, (N, T)).astype(np.uint8)
    np.savez(tmp_path / "mine.npz", X=X, y=parse("x2 & x7", T)(X))
    return tmp_path


def load(folder, text, family="tree"):
    (folder / "own.toml").write_text(text.format(family=family))
    return load_experiment(folder / "own.toml")


def test_the_file_says_T_and_ends_the_search(folder):
    (panel,) = load(folder, FILE).panels
    assert panel.T == (T,)
    assert panel.task["validation_size"] == N // 4
    search, note = in_range(panel, T)
    assert search.m_high == N - N // 4 and not note
    check_experiment(load(folder, FILE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T = [12]\n", "T: wanted 11, the bits of mine.npz"),
        ('function = "and3"\n', "function: unknown field of a task with data"),
        ("[task]\nnoise = 0.1\n", "noise: unknown field of a task with data"),
        ("[task]\nvalidation_size = 300\n", "validation_size: wanted fewer than the 300 examples"),
    ],
)
def test_what_contradicts_the_file_is_refused(folder, text, message):
    with pytest.raises(InputError, match=message):
        load(folder, FILE + text)


def test_a_list_of_m_beyond_the_file_is_refused(folder):
    plan = load(folder, FILE + 'search = {{ method = "grid", m = [5, 226] }}\n')
    with pytest.raises(InputError, match="m: wanted at most 225, the training examples"):
        check_experiment(plan)


LEARNER = """
import numpy as np

def fit(X, y):
    '''The pair of bits whose conjunction is right most often.'''
    pairs = [(i, j) for i in range(X.shape[1]) for j in range(i)]
    best = max(pairs, key=lambda p: np.mean((X[:, p[0]] & X[:, p[1]]) == y))
    return lambda Z: Z[:, best[0]] & Z[:, best[1]]
"""


def test_a_sweep_belongs_to_the_content_and_finds_a_threshold(folder, monkeypatch):
    monkeypatch.setattr("capax.sweep.families.fit_pool.num_cores", lambda: 1)  # one process
    (folder / "pairs.py").write_text(LEARNER)
    family = f"{folder / 'pairs.py'}:fit"
    text = FILE + 'search = {{ method = "grid", m = [5, 20, 80, 200], trials = 3 }}\n'
    plan = load(folder, text, family)
    with Store.create_or_resume(folder / "s.sqlite", plan) as store:
        status = run_sweep(plan, store)
        (curve,) = threshold_curves([store])
    assert status.trials == 12 and 0 < status.solved < 12
    (found,) = curve.answer.thresholds
    assert found.floor is None and 5 <= found.m_star <= 200
    (folder / "there").mkdir()
    (folder / "mine.npz").rename(folder / "there" / "mine.npz")
    moved = load(folder, text.replace("mine.npz", "there/mine.npz"), family)
    with Store.create_or_resume(folder / "s.sqlite", moved) as store:
        assert run_sweep(moved, store).trials == 12
    np.savez(folder / "there" / "mine.npz", X=np.eye(T), y=np.zeros(T))
    other = load(folder, text.replace("mine.npz", "there/mine.npz").replace("200", "8"), family)
    with pytest.raises(InputError, match="belongs to another spec"):
        Store.create_or_resume(folder / "s.sqlite", other)


def test_the_engine_judges_by_the_labels_of_the_file(folder):
    """Against the model's own answers, on rows whose labels are no function of the bits."""
    rng = np.random.default_rng(7)
    X = rng.integers(0, 2, (601, T)).astype(np.uint8)
    np.savez(
        folder / "mine.npz",
        X_train=X[:40],
        y_train=rng.integers(0, 2, 40),
        X_validation=X,
        y_validation=rng.integers(0, 2, 601),
    )
    (folder / "own.toml").write_text(
        'data = "mine.npz"\nfamily = "transformer"\n'
        '[model]\nd = 6\nheads = 3\nmlp_width = 7\nlayer_norm = false\nactivation = "relu"\n'
        "[training]\nsteps = 20\neval_every = 10\nrestarts = 1\n[optimiser]\nlr = 0.01\n"
    )
    (panel,) = load_experiment(folder / "own.toml").panels
    from capax.sweep.families.known_families import family_of

    spec = family_of(panel).trial(panel, T, 31, 0).spec
    (result,) = train([spec], keep="final", full_validation=True)
    run, split = result.runs[0], spec.task.split
    answers = np.asarray(jax.jit(jax.vmap(run.parameters))(split.X_validation)) > 0
    right = answers == (split.y_validation == 1)
    assert run.evals["validation_accuracy"][-1] == pytest.approx(right.mean(), abs=2 / 601)
    assert run.evals["validation_rows"].tolist() == [601, 601]
    assert "attention_mass" not in run.evals
    assert 0.3 < right.mean() < 0.7 and not result.solved
