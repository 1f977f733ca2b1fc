"""Lemmas B.2 to B.4 and Proposition B.1: the paper's heads by a plain forward pass."""

import itertools

import numpy as np
import pytest

from capax.compiler.paper.bump_network import injective_network, symmetric_network
from capax.compiler.paper.paper_heads import paper_heads
from capax.compiler.parts.literals import pattern_bits
from capax.errors import InputError

ENCODINGS = ("deterministic", "trainable", "bag")
T, SUPPORT = 6, (5, 0, 3)
BITS = np.array(list(itertools.product((0, 1), repeat=T)))
ROWS = sum(BITS[:, t] << i for i, t in enumerate(SUPPORT))


def plain_forward(heads, row):
    """Every matrix product of the paper, on the T + 1 tokens of one input."""
    X = heads.tokens(row)
    total = np.zeros(heads.wanted.shape[1])
    for W in heads.heads:
        scores = (X[-1] @ W.W_Q) @ (X @ W.W_K).T
        weights = np.exp(scores - scores.max())
        total += weights / weights.sum() @ X @ W.W_V @ W.W_C
    return total


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("support", [(2,), (5, 0), SUPPORT])
def test_heads_approximate_their_function_within_their_norms(encoding, vector, support):
    heads = paper_heads(T, support, encoding, vector=vector)
    outputs = heads.outputs(BITS)
    assert np.allclose(outputs[::7], [plain_forward(heads, row) for row in BITS[::7]], atol=1e-12)
    rows = sum(BITS[:, t] << i for i, t in enumerate(support))
    assert np.abs(outputs - heads.wanted[rows]).max() <= heads.gamma / 4
    assert heads.within_limits()
    s, bits = len(support), pattern_bits(len(support))
    assert len(heads.heads) == (s if vector and encoding != "bag" else 1)
    if vector:  # injective: patterns are gamma apart in some coordinate
        gaps = np.abs(heads.wanted[:, None] - heads.wanted[None]).max(axis=2)
        assert gaps[~np.eye(2**s, dtype=bool)].min() >= heads.gamma - 1e-12
    else:  # strictly monotone in the number of ones
        steps = [heads.wanted[bits.sum(1) == r].mean() for r in range(s + 1)]
        assert np.diff(steps).min() >= heads.gamma - 1e-12


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V", "W_C", "P"])
def test_limits_are_compared(name):
    heads = paper_heads(T, SUPPORT, "trainable")
    limits = {**heads.limits, name: 0.99 * heads.norms()[name]}
    planted = heads.__class__(**{**heads.__dict__, "limits": limits})
    assert heads.within_limits() and not planted.within_limits()


@pytest.mark.parametrize("gamma", [0.3, 0.01])
def test_a_finer_gamma_is_met(gamma):
    for encoding, vector in itertools.product(ENCODINGS, (False, True)):
        heads = paper_heads(T, SUPPORT, encoding, vector=vector, gamma=gamma)
        assert np.abs(heads.outputs(BITS) - heads.wanted[ROWS]).max() <= gamma / 4


def test_codes_need_the_dual_basis():
    rng = np.random.default_rng(0)
    codes = rng.choice([-1.0, 1.0], (40, 256)) / 16
    bits = rng.integers(0, 2, (60, 40))
    support = (7, 30, 2)
    rows = sum(bits[:, t] << i for i, t in enumerate(support))
    for encoding in ("deterministic", "bag"):
        heads = paper_heads(40, support, encoding, codes=codes)
        assert 0.05 < heads.Delta < 0.2 and heads.within_limits()
        assert np.abs(heads.outputs(bits) - heads.wanted[rows]).max() <= heads.gamma / 4
    printed = paper_heads(40, support, codes=codes, printed=True)
    assert np.abs(printed.outputs(bits) - printed.wanted[rows]).max() > printed.gamma / 4


def test_all_functions_of_three_bits_as_the_paper_builds_them():
    """All 256 at once: the first two layers of the network do not depend on the function."""
    tables = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(float)
    ones = pattern_bits(3).sum(axis=1).astype(int)
    symmetric = np.array([len(set(zip(ones, t, strict=True))) == 4 for t in tables])
    assert symmetric.sum() == 16
    for encoding in ENCODINGS:
        each = paper_heads(T, SUPPORT, encoding, vector=True)
        network = injective_network(each.wanted, np.ones(8), each.gamma)
        assert network.widths == (96, 16) and network.within_limits()
        indicators = hidden(network, each.outputs(BITS))  # [inputs, patterns]
        assert np.abs(indicators @ tables.T - tables.T[ROWS]).max() < 1e-9
        mean = paper_heads(T, SUPPORT, encoding)
        heights = np.array([mean.wanted[ones == r][0, 0] for r in range(4)])
        small = symmetric_network(heights, np.ones(4), mean.gamma)
        assert small.widths == (16, 8) and small.within_limits()
        levels = tables[symmetric][:, [0, 1, 3, 7]]  # values at 0, 1, 2, 3 ones
        found = hidden(small, mean.outputs(BITS)) @ levels.T
        assert np.abs(found - tables[symmetric].T[ROWS]).max() < 1e-9


def hidden(network, x):
    """The two units of every point, subtracted: 1 at its own point, 0 at the others."""
    first = np.maximum(x @ network.W_1[:-1] + network.W_1[-1], 0.0)
    second = np.maximum(first @ network.W_2[:-1] + network.W_2[-1], 0.0)
    n = second.shape[1] // 2
    return second[:, :n] - second[:, n:]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper_heads(4, ()), "support: wanted 1 to T"),
        (lambda: paper_heads(4, (0,), gamma=2.0), "gamma: wanted a number in"),
        (
            lambda: paper_heads(3, (0, 1), codes=np.full((3, 1), 1.0)),
            "Delta: wanted below 1/\\(2s-1\\)",
        ),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(InputError, match=message):
        call()
