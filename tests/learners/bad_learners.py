"""Learners that misbehave, one way each; loaded by reference in the tests."""

import os
import time

import numpy as np


def majority(X, y, *, key):
    label = int(y.mean() > 0.5)
    return lambda inputs: np.full(len(inputs), label)


def raises(X, y, *, key):
    broken = {}
    return broken["missing"]  # the tests name this line


def nan(X, y, *, key):
    return lambda inputs: np.full(len(inputs), np.nan)


def wrong_shape(X, y, *, key):
    return lambda inputs: np.zeros((len(inputs), 3))


def logits(X, y, *, key):
    return lambda inputs: np.linspace(-2.0, 3.0, len(inputs))


def not_a_predictor(X, y, *, key):
    return 7


def works(X, y, *, key):
    """So many tenths of a second on a core, then an answer."""
    end = time.process_time() + key / 10
    while time.process_time() < end:
        pass
    return lambda inputs: np.zeros(len(inputs))


def hangs(X, y, *, key):
    while True:
        time.sleep(0.05)


def eats_memory(X, y, *, key):
    kept = []
    while True:
        kept.append(np.ones(1 << 22))
        time.sleep(0.01)


def dies(X, y, *, key):
    os._exit(3)


def leaves(X, y, *, key):
    raise SystemExit(0)


def prints(X, y, *, key):
    print("hello from the user")
    return lambda inputs: np.zeros(len(inputs))


def not_deterministic(X, y, *, key):
    noise = int.from_bytes(os.urandom(4), "big")
    return lambda inputs: np.random.default_rng(noise).integers(0, 2, len(inputs))


def build(T):
    """A factory of fit functions."""

    def fit(X, y):
        assert X.shape[1] == T
        return lambda inputs: np.zeros(len(inputs))

    return fit


def hangs_up(X, y):
    import os
    import signal

    del X, y
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it
    os.kill(0, signal.SIGHUP)


def closes_everything(X, y):
    import os

    del X, y
    os.closerange(0, 256)
    return lambda inputs: [0] * len(inputs)
