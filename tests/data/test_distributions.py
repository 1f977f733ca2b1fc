"""Bits from a key: right frequency, and the same whatever the batch, the order or the process."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from capax.data import bernoulli_bits, bernoulli_rows
from capax.data.distributions import word_threshold
from capax.errors import InputError


@pytest.mark.parametrize("p", [0.05, 0.5, 2 ** (-1 / 3)])
def test_frequency_and_independence(p):
    """5 standard errors on the mean and on a neighbour product: fails once in 10^6."""
    X = bernoulli_rows(2003, 101, p, key=(1, 2)).astype(float)
    assert set(np.unique(X)) == {0.0, 1.0}
    assert abs(X.mean() - p) < 5 * (p * (1 - p) / X.size) ** 0.5
    for product in (X[:, 1:] * X[:, :-1], X[1:] * X[:-1]):
        # neighbours overlap, so the variance is at most three times that of independent terms
        assert abs(product.mean() - p * p) < 5 * (3 * p * p / product.size) ** 0.5


def test_fewer_rows_are_a_prefix_and_streams_differ():
    many = bernoulli_rows(20_011, 61, 0.5, key=(3, 4))  # more than one internal block
    assert np.array_equal(bernoulli_rows(7, 61, 0.5, key=(3, 4)), many[:7])
    assert not np.array_equal(bernoulli_rows(7, 61, 0.5, key=(3, 4), stream=1), many[:7])
    assert not np.array_equal(bernoulli_rows(7, 61, 0.5, key=(3, 5)), many[:7])
    assert bernoulli_rows(0, 5, 0.5, key=(0, 0)).shape == (0, 5)


def test_known_words():
    """Philox with this key, as in any other implementation: a change here changes every result."""
    words = np.random.Philox(key=(3 << 32) | 4).random_raw(2)
    halves = [int(w) >> shift & 0xFFFFFFFF for w in words for shift in (0, 32)]
    expected = [int(h < 2**31) for h in halves]
    assert bernoulli_rows(1, 4, 0.5, key=(3, 4)).tolist() == [expected]


def test_jax_bits_alone_and_in_a_batch():
    keys = jax.random.split(jax.random.key(0), 3)
    batched = jax.vmap(lambda key: bernoulli_bits((5, 7), 0.3, key=key))(keys)
    alone = [jax.jit(lambda key: bernoulli_bits((5, 7), 0.3, key=key))(key) for key in keys]
    assert np.array_equal(batched, np.stack(alone)) and batched.dtype == np.uint8
    with jax.enable_x64(False):
        assert np.array_equal(bernoulli_bits((5, 7), 0.3, key=keys[0]), alone[0])


def test_extreme_probabilities_and_mistakes():
    assert word_threshold(0.0) == 0 and word_threshold(1.0) == 2**32 - 1
    assert bernoulli_rows(9, 9, 0.0, key=(0, 0)).sum() == 0
    for call in (
        lambda: bernoulli_rows(-1, 5, 0.5, key=(0, 0)),
        lambda: bernoulli_rows(1, 0, 0.5, key=(0, 0)),
        lambda: bernoulli_rows(1, 5, 1.5, key=(0, 0)),
    ):
        with pytest.raises(InputError):
            call()


def test_another_process_draws_the_same_task():
    code = (
        "from capax.data import TaskSpec, draw_task\n"
        "import hashlib, sys\n"
        "t = draw_task(TaskSpec(T=37, m=23, noise=0.1, validation_size=11, seed=5))\n"
        "assert 'jax' not in sys.modules\n"
        "arrays = (t.X_train, t.y_train, t.X_validation, t.y_validation)\n"
        "print(hashlib.sha256(b''.join(a.tobytes() for a in arrays)).hexdigest(), t.support)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import hashlib

    from capax.data import TaskSpec, draw_task

    for _ in range(2):
        t = draw_task(TaskSpec(T=37, m=23, noise=0.1, validation_size=11, seed=5))
        arrays = (t.X_train, t.y_train, t.X_validation, t.y_validation)
        name = hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()
        assert ran.stdout.strip() == f"{name} {t.support}"


def test_large_draws_in_threads_are_the_same_stretch_of_the_stream(monkeypatch):
    """Many short parts drawn side by side, against Philox's own raw words."""
    monkeypatch.setattr("capax.data.distributions._WORDS_AT_ONCE", 64)
    raw = np.random.Philox(counter=np.array([0, 0, 0, 3], np.uint64), key=(7 << 32) | 9)
    words = np.asarray(raw.random_raw(500), "<u8").view("<u4")
    wanted = (words[: 31 * 29] < word_threshold(0.3)).reshape(31, 29)
    assert np.array_equal(bernoulli_rows(31, 29, 0.3, key=(7, 9), stream=3), wanted)
