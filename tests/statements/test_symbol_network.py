"""Functions of symbols, counting."""

import itertools

import numpy as np
import pytest

from capax.boolean import from_table
from capax.boolean.best_possible.limits import counting
from capax.errors import InputError
from capax.statements.forms.symbol_network import (
    SymbolNetwork,
)


@pytest.mark.parametrize("M", [2, 3, 5])
def test_functions_of_symbols_are_exact(M):
    rng = np.random.default_rng(M)
    symbols = np.array(list(itertools.product(range(M), repeat=4)))
    for support in ((0, 2), (3, 1)):
        table = rng.normal(size=(M, M))
        network = SymbolNetwork(4, support, M, lambda a, b, t=table: t[a, b])
        wanted = table[symbols[:, support[0]], symbols[:, support[1]]]
        assert np.abs(network(symbols) - wanted).max() < 1e-9
        assert network.network.widths == (4 * 2 * M**2, 2 * M**2)
        assert np.abs(network.heads(symbols) - symbols[:, list(support)]).max() <= 0.25
    with pytest.raises(InputError, match="M: wanted at least two symbols"):
        SymbolNetwork(4, (0,), 1, float)


def test_no_rule_beats_counting():
    """All 3^4 rules from the labels of two inputs to one of three ANDs, on every pair of inputs."""
    ands, inputs = [(0, 1), (0, 2), (1, 2)], list(itertools.product((0, 1), repeat=3))
    best = 0.0
    for pair in itertools.product(inputs, repeat=2):
        labels = [tuple(int(x[a] and x[b]) for x in pair) for a, b in ands]
        for answers in itertools.product(range(3), repeat=4):
            right = sum(answers[2 * u + v] == i for i, (u, v) in enumerate(labels))
            best = max(best, right / 3)
    f = from_table(0b1000, (0, 1), 3)
    assert best <= counting(f, 3, 2)
    assert counting(f, 3, 1) == 2 / 3
