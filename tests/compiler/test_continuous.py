"""Piecewise-linear functions of numbers in [0, 1]: meaning, error, mistakes."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.compiler.extensions import continuous
from capax.compiler.extensions.continuous import compile_continuous, error_of, leak
from capax.compiler.extensions.piecewise_linear import parse_piecewise
from capax.errors import InfeasibleError, InputError

FUNCTIONS = {
    "x1": lambda x: x[:, 1],
    "max(x1, x3) - 0.5*x2": lambda x: np.maximum(x[:, 1], x[:, 3]) - 0.5 * x[:, 2],
    "abs(x0 - x4) * 3": lambda x: 3 * np.abs(x[:, 0] - x[:, 4]),
    "min(x0, x1, x2) + relu(0.7 - x3)": lambda x: (
        x[:, :3].min(axis=1) + np.maximum(0.7 - x[:, 3], 0)
    ),
    "max(x0, min(x1, 1 - x2)) - -2*(x3 + .25)": lambda x: (
        np.maximum(x[:, 0], np.minimum(x[:, 1], 1 - x[:, 2])) + 2 * (x[:, 3] + 0.25)
    ),
    "relu(0.1 - relu(x1 - 0.3*abs(x2 - x4)))": lambda x: np.maximum(
        0.1 - np.maximum(x[:, 1] - 0.3 * np.abs(x[:, 2] - x[:, 4]), 0), 0
    ),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_networks_are_within_the_proved_error(text):
    f, T = FUNCTIONS[text], 9
    made = compile_continuous(text, T, eps=0.02)
    certificate = made.certificate
    assert certificate.worst_case_error <= 0.02
    rng = np.random.default_rng(1)
    corners = np.arange(1 << T)[:, None] >> np.arange(T) & 1
    b = np.concatenate(
        [corners.astype(float), rng.random((2000, T)), rng.beta(0.2, 0.2, (2000, T))]
    )
    assert np.allclose(made.function(b), f(b), atol=1e-12)
    worst = np.abs(made(b) - f(b)).max()
    assert worst <= certificate.worst_case_error + 1e-12
    if text == "x1":  # attained at e_1
        assert worst == pytest.approx(certificate.worst_case_error, rel=1e-6)


def test_heads_are_a_softmax_over_tokens():
    """The closed form of the heads against tokens, matrices and softmax."""
    made, T = compile_continuous("max(x1, x3)", 6, eps=0.1), 6
    unit = np.eye(T + 2)
    b = np.random.default_rng(0).random((5, T))
    for row, seen in zip(b, made.heads(b), strict=True):
        X = np.concatenate([unit[:T] + row[:, None] * unit[T], unit[T + 1 :]])
        for i, h in zip((1, 3), seen, strict=True):
            q = made.a * unit[T + 1]
            scores = X @ unit[i] * (q @ unit[T + 1])
            weights = np.exp(scores) / np.exp(scores).sum()
            assert weights @ (X @ unit[T]) == pytest.approx(h, rel=1e-12)


@settings(max_examples=15)
@given(
    c=st.lists(st.fractions(-3, 3, max_denominator=1000), min_size=3, max_size=3),
    at=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    eta=st.fractions(0, 1, max_denominator=64),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=3, max_size=3),
)
def test_the_error_of_moved_numbers_is_never_exceeded(c, at, eta, signs):
    """In exact fractions: f with float64 coefficients at moved numbers against f itself."""
    p, q, r = (f"{float(x):.6f}" for x in (c[0], c[1], abs(c[2])))
    text = f"relu({p}*x0 - x1) - max({q}*x2, abs(x0 - {r}))"
    f = parse_piecewise(text)
    b = [Fraction(x) for x in at]
    moved = [min(max(x + s * eta, Fraction(0)), Fraction(1)) for x, s in zip(b, signs, strict=True)]

    def value(x, rounded):
        def coefficient(k):
            return Fraction(float(k)) if rounded else k

        units = []

        def form(a):
            total = coefficient(a.constant)
            total += sum(coefficient(k) * x[i] for i, k in a.variables.items())
            return total + sum(coefficient(k) * units[i] for i, k in a.units.items())

        for unit in f.units:
            units.append(max(form(unit), Fraction(0)))
        return form(f.output)

    assert abs(value(moved, True) - value(b, False)) <= error_of(f, eta)


def test_planted_faults_are_seen(monkeypatch):
    assert leak(10, 5.0) >= Fraction(10) / (Fraction(np.exp(5.0)) * (1 + Fraction(1, 10**12)) + 10)
    assert float(leak(1000, 0.0)) == pytest.approx(1000 / 1001)
    monkeypatch.setattr(continuous, "leak", lambda T, a: leak(T, a) / 2)
    made = compile_continuous("x1", 9, eps=0.02)
    b = np.eye(9)
    assert np.abs(made(b) - b[:, 1]).max() > made.certificate.worst_case_error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x1 * x2", "a number on one side"),
        ("max(x1, ", "the end"),
        ("x1 + y", "wanted a number, a variable"),
        ("x1 ^ x2", "cannot read"),
        ("x12", "out of range for T = 9"),
        ("3 - 1", "at least one variable"),
        ("(" * 50 + "x1" + ")" * 50, "nesting"),
        ("", "the end"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises(InputError, match=words):
        compile_continuous(text, 9, eps=0.1)


def test_an_error_below_rounding_is_refused():
    with pytest.raises(InfeasibleError, match="float64 reaches"):
        compile_continuous("0.1 * x1 + 0.3", 9, eps=1e-18)


def test_the_command(tmp_path, warm_commands):
    run = partial(warm_commands.capax, folder=tmp_path)
    made = run("compile", "max(x1, x5) - 0.5*x9", "-T", "1000", "--continuous", "--json")
    content = json.loads(made.stdout)
    assert content["worst_case_error"] <= 0.01 and content["units"] == 1
    assert not list(tmp_path.glob("*.safetensors"))
    refused = run("compile", "max(x1, x5)", "-T", "9", "--continuous", "--alphabet", "3")
    assert refused.returncode == 2 and "--alphabet" in refused.stderr
