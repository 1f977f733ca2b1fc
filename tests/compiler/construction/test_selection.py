"""The selection head: the worked example of the theory, its weights, and its norm."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_head import all_inputs, token_vectors

from capax.compiler.parts.selection import Selection
from capax.errors import InputError


def kappa_vector(head: Selection, support: tuple[int, ...]) -> np.ndarray:
    """kappa in the basis of the encoding, entry by entry."""
    key = head.key_coefficients
    d = head.T + (1 if head.is_bag else 3)
    kappa = np.zeros(d)
    kappa[list(support)] = key["P"]
    kappa[-1] = key["v"]
    if not head.is_bag:
        kappa[head.T], kappa[head.T + 1] = key["E_0"], key["E_1"]
    return kappa


def test_worked_example_by_hand():
    # T = 4, I = {0, 2}, AND by zero detection: a = 4, D = 3, omega = 1/e.
    head = Selection("deterministic", 4, 2, 2, beta=0, a=4.0, D=3.0, omega=math.exp(-1))
    kappa = kappa_vector(head, (0, 2))
    assert np.allclose(kappa, [4, 0, 4, 0, 0, -3, 3], atol=1e-12)
    assert abs(head.key_norm**2 - 50) < 1e-12
    W_V = np.array([1, 0, 1, 0, 0, 0, -1.0])
    tokens, f = token_vectors("deterministic", 4), {}
    for b in itertools.product((0, 1), repeat=4):
        X = np.concatenate([tokens[list(b), np.arange(4)], np.eye(7)[-1:]])
        weights = np.exp(X @ kappa)
        f[b] = float(weights @ (X @ W_V) / weights.sum())
    e = math.e
    assert abs(f[1, 1, 1, 1] - (2 * e - e**3) / (2 * e + 2 * e**-3 + e**3)) < 1e-12
    assert abs(f[1, 1, 1, 1] + 0.57174) < 1e-5
    worst = (e**4 + e - e**3) / (e**4 + e + e**3 + 2)
    assert abs(min(abs(v) for v in f.values()) - worst) < 1e-12
    assert all((v < 0) == bool(b[0] and b[2]) for b, v in f.items())


@settings(max_examples=30)
@given(
    st.sampled_from(["deterministic", "bag"]),
    st.integers(0, 1),
    st.floats(0, 9),
    st.floats(0.1, 9),
    st.floats(0.01, 3),
)
def test_normaliser_and_norm_match_the_naive_head(
    encoding: str, beta: int, a: float, D: float, omega: float
):
    T, support = 7, (1, 4, 5)
    beta = 1 if encoding == "bag" else beta
    head = Selection(encoding, T, 3, 3, beta, a, D, omega)
    kappa = kappa_vector(head, support)
    assert abs(np.linalg.norm(kappa) - head.key_norm) < 1e-9
    tokens, bits = token_vectors(encoding, T), all_inputs(T)
    mass = np.exp(tokens @ kappa)[bits, np.arange(T)]
    unit = np.exp(kappa[-1]) / omega  # weight of a relevant active token
    Z = mass.sum(axis=1) / unit + omega
    relevant = bits[:, list(support)]
    rest = np.delete(bits, support, axis=1)
    n = (rest == beta).sum(axis=1)
    assert np.allclose(Z, head.normaliser(relevant.sum(axis=1), n), rtol=1e-9)
    low, high = head.normaliser_range(relevant.sum(axis=1))
    assert (low <= Z * (1 + 1e-12)).all() and (high * (1 + 1e-12) >= Z).all()


@pytest.mark.parametrize("shift", [-1.0, 0.3, 2.0])
def test_the_symbol_offset_is_the_one_of_least_norm(shift: float):
    # softmax does not see a common shift of E_0, E_1 and v; any other one has a larger norm
    head = Selection("deterministic", 9, 2, 2, 1, 3.0, 2.0, 0.7)
    kappa = kappa_vector(head, (0, 1))
    moved = kappa.copy()
    moved[-3:] += shift
    assert np.linalg.norm(moved) > np.linalg.norm(kappa)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"a": -1.0}, "a:"),
        ({"D": math.inf}, "D:"),
        ({"omega": 0.0}, "omega:"),
        ({"beta": 2}, "beta:"),
        ({"encoding": "bag", "beta": 0}, "beta:"),
        ({"s": 9}, "s:"),
    ],
)
def test_impossible_knobs_are_refused(change: dict, word: str):
    knobs = {"encoding": "deterministic", "T": 5, "s": 2, "slots": 2, **change}
    with pytest.raises(InputError, match=word):
        Selection(**knobs)
