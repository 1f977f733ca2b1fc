"""Examples of a user's own: which are trained on, which judge, and what is refused."""

import os
import shutil

import numpy as np
import pytest

from capax.data.examples import read_examples
from capax.data.file_task import FileTask, described
from capax.data.task import TaskSpec, draw_task
from capax.data.task_files import write_task
from capax.errors import InputError
from capax.training import TrialSpec

N, T = 43, 11


@pytest.fixture
def plain(tmp_path):
    """A file with X and y only; no two rows are alike."""
    X = np.unpackbits(np.arange(N, dtype=np.uint8)[:, None], axis=1)
    X = np.concatenate([X, X[:, :3]], axis=1)
    path = tmp_path / "mine.npz"
    np.savez(path, X=X, y=np.arange(N) % 2)
    return path


def task_of(path, **fields):
    return FileTask(**{**described(path), "m": 7, **fields})


def test_a_training_set_is_a_subset_that_never_meets_the_validation_set(plain):
    kept = read_examples(plain, "train")
    known = {row.tobytes(): label for row, label in zip(kept.X, kept.y, strict=True)}
    judged = {row.tobytes() for row in task_of(plain).task().X_validation}
    assert len(judged) == N // 4
    for m in (1, 7, N - N // 4):
        drawn = task_of(plain, m=m, seed=m).training()
        rows = [row.tobytes() for row in drawn.X]
        assert len(set(rows)) == m and not judged & set(rows)
        assert [known[row] for row in rows] == drawn.y.tolist()
    pool = task_of(plain).pool()
    assert [known[row[:T].tobytes()] for row in pool] == pool[:, T].tolist()


def test_every_example_gets_its_turn(plain):
    drawn = [task_of(plain, seed=seed).training().X for seed in range(60)]
    seen = {row.tobytes() for X in drawn for row in X}
    assert len(seen) == N - N // 4
    assert not np.array_equal(drawn[0], drawn[1])


def test_content_makes_the_identity_and_the_name_does_not(plain, tmp_path):
    moved, other = tmp_path / "moved.npz", tmp_path / "other.npz"
    shutil.copy(plain, moved)
    with np.load(plain) as file:
        np.savez(other, X=file["X"], y=1 - file["y"])
    one, same, different = (
        TrialSpec(task=task_of(path), model={"T": T}) for path in (plain, moved, other)
    )
    assert one.trial_id == same.trial_id != different.trial_id
    assert one.run(0).run_id == same.run(0).run_id
    assert np.array_equal(one.task.training().X, same.task.training().X)
    assert TrialSpec(**one.model_dump()).trial_id == one.trial_id  # as a store gives it back


def test_a_written_task_is_read_with_its_own_validation_set(tmp_path):
    spec = TaskSpec(function="and2", T=T, m=41, noise=0.1, validation_size=97, seed=3)
    whole = draw_task(spec)
    path = write_task(tmp_path / "task.npz", spec, whole)
    again = task_of(path, m=41).task()
    assert np.array_equal(again.X_validation, whole.X_validation)
    assert np.array_equal(again.y_validation, whole.y_validation)
    assert np.array_equal(np.sort(again.X_train, axis=0), np.sort(whole.X_train, axis=0))
    assert again.y_train.sum() == whole.y_train.sum()


def test_what_does_not_fit_the_file_is_refused(plain, tmp_path):
    with pytest.raises(InputError, match="m: wanted at most 33, the training examples"):
        task_of(plain, m=34)
    with pytest.raises(InputError, match="T: wanted T = 11"):
        task_of(plain, T=12)
    with pytest.raises(InputError, match="validation_size: wanted fewer than the 43"):
        described(plain, 43)
    with pytest.raises(InputError, match=r"data: .*nothing.npz: file not found"):
        described(tmp_path / "nothing.npz")
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    for name in ("pipe.npz", "zero.npz"):
        with pytest.raises(InputError, match=r"data: .* wanted an .npz file, got 'a device, pipe"):
            described(tmp_path / name)
    with pytest.raises(InputError, match="full_batch"):
        TrialSpec(task=task_of(plain), model={"T": T}, mode="online")
    np.savez(tmp_path / "wide.npz", X_train=np.ones((5, 3)), y_train=np.ones(5), **_wider())
    with pytest.raises(InputError, match="X_validation: wanted rows of 3 bits, got 4"):
        described(tmp_path / "wide.npz")


def _wider():
    return {"X_validation": np.ones((5, 4)), "y_validation": np.ones(5)}


def test_a_file_that_changes_under_a_sweep_is_noticed(plain):
    task = task_of(plain)
    np.savez(plain, X=np.zeros((N, T)), y=np.zeros(N))
    from capax.data import file_task

    file_task.split_of.cache_clear()
    with pytest.raises(InputError, match="has changed"):
        task.training()
