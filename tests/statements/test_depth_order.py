"""A.17 with the product over j < i: each step of the argument that it is true up to L^3."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capax.attention.numpy_block import BlockMatrices, longest_row, project, spectral, stack
from capax.statements.forms.depth_order import (
    input_length,
    restored_form,
    smallest_printed_form,
    weight_change_bound,
)
from capax.statements.forms.printed_bounds import LayerBounds, theorem_a_17

sizes = st.floats(0.01, 20)
SAMPLE = {"m": 50, "T": 9}


def layer(QK, V, C, factors):
    """(2,1) norms are at least the spectral ones."""
    return LayerBounds(QK, V, C, *(x * f for x, f in zip((QK, V, C), factors, strict=True)))


layers = st.lists(
    st.builds(layer, sizes, sizes, sizes, st.tuples(*[st.floats(1, 8)] * 3)), min_size=1, max_size=5
)


@given(layers, st.integers(1, 64), st.integers(0, 64), sizes)
def test_the_printed_form_has_the_product_of_all_gains(stacked, k, more, B_w):
    counts = {"d": k + more, "k": k, **SAMPLE}
    least = smallest_printed_form(stacked, B_w, 0.5, **counts)
    assert least <= restored_form(stacked, B_w, 0.5, **counts) * (1 + 1e-9)


def test_the_factors_d_and_k_are_what_saves_it():
    """Without them (d = k = 1 in the sum) the form is too small by more than any constant."""
    stacked = [layer(1.0, 1.0, 1.0, (1.0, 1.0, 1.0))] * 2
    for k in (10, 100, 1000):
        plain = restored_form(stacked, 1.0, 0.5, d=1, k=1, **SAMPLE)
        assert smallest_printed_form(stacked, 1.0, 0.5, d=k, k=k, **SAMPLE) > k * plain / 100


def test_the_order_of_the_product():
    """Reversed layers turn one product into the other; the printed form lacks B_w as well."""
    first, second = layer(2.0, 1.0, 1.0, (1.0, 2.0, 3.0)), layer(0.1, 0.3, 0.5, (1.0, 1.0, 1.0))
    counts = {"d": 8, "k": 4, **SAMPLE}
    printed = theorem_a_17([first, second], 1.0, 0.5, printed=True, **counts)
    assert math.isclose(restored_form([first, second], 1.0, 0.5, **counts), printed)
    assert not math.isclose(theorem_a_17([first, second], 1.0, 0.5, **counts), printed)
    assert restored_form([first, second], 3.0, 0.5, **counts) > 2 * printed


def bounds_of(first, second):
    """Spectral norms of both; the (2,1) norms do not matter here."""
    names = ("W_QK", "W_V", "W_C")
    norms = [max(spectral(getattr(W, n)) for W in (first, second)) for n in names]
    return LayerBounds(*norms, 0.0, 0.0, 0.0)


def drawn_stack(rng, depth, d=3, k=2):
    shapes = ((d, k), (d, k), (d, k), (k, d))
    return [
        BlockMatrices(*(rng.choice([0.2, 0.7, 1.5]) * rng.normal(size=shape) for shape in shapes))
        for _ in range(depth)
    ]


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_a_layer_moves_the_output_by_its_tokens_and_the_later_gains(depth, at, seed):
    rng = np.random.default_rng(seed)
    i, blocks = at % depth, drawn_stack(rng, depth)
    step = rng.choice([0.01, 0.5])
    moved = BlockMatrices(*(M + step * rng.normal(size=M.shape) for M in vars(blocks[i]).values()))
    others = [*blocks[:i], moved, *blocks[i + 1 :]]
    X, w = project(2 * rng.normal(size=(4, 3))), rng.normal(size=3)
    norms = [bounds_of(W, V) for W, V in zip(blocks, others, strict=True)]
    entering = stack(X, tuple(blocks[:i]), np.tanh)
    assert longest_row(entering) <= input_length(norms, i) + 1e-12
    change = abs(w @ (stack(X, tuple(blocks), np.tanh) - stack(X, tuple(others), np.tanh))[-1])
    names = ("W_QK", "W_V", "W_C")
    moves = {n: spectral(getattr(blocks[i], n) - getattr(moved, n)) for n in names}
    allowed = weight_change_bound(norms, i, float(np.linalg.norm(w)), **moves)
    assert change <= allowed + 1e-12


def test_the_product_over_earlier_layers_does_not_bound_a_change():
    """Two tokens, one of them [CLS]; layer 1 is nearly off, layer 2 multiplies by ten."""
    one = np.ones((1, 1))
    quiet, loud = BlockMatrices(0 * one, 0 * one, 0.01 * one, one), BlockMatrices(
        0 * one, 0 * one, 10 * one, one
    )  # fmt: skip
    changed = replace(quiet, W_V=0.02 * one)
    X = np.ones((2, 1))
    change = abs(stack(X, (changed, loud), np.tanh) - stack(X, (quiet, loud), np.tanh)).max()
    norms = [bounds_of(quiet, changed), bounds_of(loud, loud)]
    moves = {"W_QK": 0.0, "W_V": 0.01, "W_C": 0.0}
    assert 0.05 < change <= weight_change_bound(norms, 0, 1.0, **moves)
    assert change > weight_change_bound(norms[:1], 0, 1.0, **moves)  # without the later gain
