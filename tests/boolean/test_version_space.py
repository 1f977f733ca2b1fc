"""The packed search against brute force over every placement."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.boolean import (
    SparseFunction,
    conjunction,
    disjunction,
    from_table,
    is_unique,
    parse,
    random_function,
    survivors,
    symmetric,
)
from capax.boolean.consistent.conjunctions import conjunction_placements
from capax.boolean.consistent.placement_search import consistent_placements
from capax.boolean.consistent.survivors import count_up_to
from capax.boolean.traits.symmetries import num_automorphisms, swap_classes
from capax.errors import InfeasibleError, InputError

FORMULAS = [
    "and1", "and2", "and3", "or3", "parity2", "parity3", "maj3", "thr2of4", "and4",
    "sym(0110; x0,x1,x2)", "x0 & (x1 | x2)", "x0 ^ (x1 & x2)", "x0 & ~x1", "~x0 & ~x1 & x2",
    "(x0 & x1) | (x2 & x3)", "x0 | ~x1", "~x0",
]  # fmt: skip


def brute_force(f: SparseFunction, X: np.ndarray, y: np.ndarray) -> set[bytes]:
    """Distinct functions (as value vectors on all inputs they can tell apart) that fit."""
    T = X.shape[1]
    everything = np.array(list(itertools.product((0, 1), repeat=T)), dtype=np.uint8)
    found = set()
    for J in itertools.permutations(range(T), f.s):
        placed = f.on(J, T)
        if np.array_equal(placed(X), y):
            found.add(placed(everything).tobytes())
    return found


def check(f: SparseFunction, X: np.ndarray, y: np.ndarray) -> None:
    T = X.shape[1]
    everything = np.array(list(itertools.product((0, 1), repeat=T)), dtype=np.uint8)
    expected, found = brute_force(f, X, y), survivors(f, X, y, keep=10**6)
    images = [f.on(J, T)(everything).tobytes() for J in found.supports]
    assert found.count == len(expected) == len(images)
    assert set(images) == expected  # every placement is right, and none is listed twice
    assert found.unique == (len(expected) == 1) == is_unique(f, X, y)


@pytest.mark.parametrize("formula", FORMULAS)
def test_equals_brute_force_over_all_placements(formula):
    f = parse(formula)
    random = np.random.default_rng(len(formula))
    for T, m in ((5, 0), (6, 4), (7, 12), (7, 70)):
        X = random.integers(0, 2, (m, T)).astype(np.uint8)
        check(f, X, f.on(random.permutation(T)[: f.s].tolist(), T)(X))


@pytest.mark.parametrize("formula", ["and3", "or3", "parity3", "maj3", "thr2of4"])
def test_equals_brute_force_over_all_subsets_of_twelve(formula):
    f, T = parse(formula), 12
    random = np.random.default_rng(3)
    for m, p in ((5, 0.5), (15, 0.7), (40, 0.5), (130, 0.3)):
        X = (random.random((m, T)) < p).astype(np.uint8)
        y = f.on((11, 2, 7, 5)[: f.s], T)(X)
        subsets = itertools.combinations(range(T), f.s)
        expected = [J for J in subsets if np.array_equal(f.on(J, T)(X), y)]
        assert sorted(survivors(f, X, y).supports) == expected


@settings(max_examples=40)
@given(st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_any_function_of_three_bits_and_any_labels(number, seed, m):
    f = from_table(number, (0, 1, 2)).relevant()
    random = np.random.default_rng(seed)
    X = random.integers(0, 2, (m, 5)).astype(np.uint8)
    y = random.integers(0, 2, m) if seed % 2 else f.on(range(f.s), 5)(X)
    check(f, X, y)


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.integers(0, 150), st.floats(0.3, 0.9))
def test_covers_equal_the_general_search(s, seed, m, p):
    f = conjunction(range(s), T=9)
    X = (np.random.default_rng(seed).random((m, 9)) < p).astype(np.uint8)
    both = [
        sorted(map(tuple, np.concatenate([np.empty((0, s), int), *blocks]).tolist()))
        for blocks in (
            conjunction_placements(s, X, f(X), 10**9),
            consistent_placements(f, X, f(X), 10**9),
        )
    ]
    assert both[0] == both[1]
    assert tuple(range(s)) in both[0]


def test_real_valued_tables():
    f = symmetric([0.0, 0.5, 2.0], (0, 1))
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (6, 6)).astype(np.uint8)
    check(f, X, f.on((4, 1), 6)(X))
    assert survivors(f, X, np.full(6, 7.0)).count == 0


def test_symmetries():
    assert swap_classes(parse("(x0 & x1) | (x2 & x3)")) == ((0, 1), (2, 3))
    assert num_automorphisms(parse("(x0 & x1) | (x2 & x3)")) == 8
    assert num_automorphisms(parse("maj5")) == 120
    assert num_automorphisms(parse("x0 & ~x1")) == 1
    f = parse("table(0xD8D8D8; x0, x1, x2, x3, x4)")
    orders = itertools.permutations(range(f.s))
    X = np.array(list(itertools.product((0, 1), repeat=f.s)))
    same = sum(np.array_equal(f.on(range(f.s))(X), f.on(o)(X)) for o in orders)
    assert num_automorphisms(f) == same


def test_constants_and_limits():
    X = np.zeros((3, 4), dtype=np.uint8)
    one = parse("1")
    assert survivors(one, X, np.ones(3)).count == 1
    assert survivors(one, X, np.array([1, 0, 1])).count == 0
    assert survivors(conjunction(range(5)), X, np.zeros(3)).count == 0  # s > T: no placement
    f = conjunction((0, 1))
    assert survivors(f, X, np.zeros(3), keep=2).supports == ((0, 1), (0, 2))
    assert survivors(f, X, np.zeros(3), keep=2).count == 6
    assert count_up_to(f, X, np.zeros(3), 4) == 4


@pytest.mark.parametrize("family", [conjunction, disjunction])
def test_hundred_thousand_positions(family):
    T, m = 100_000, 1_000
    p = 2 ** (-1 / 3) if family is conjunction else 1 - 2 ** (-1 / 3)
    f = family((17, 50_021, 99_991), T)
    X = (np.random.default_rng(5).random((m, T), dtype=np.float32) < p).astype(np.uint8)
    y = f(X)
    found = survivors(f, X, y)
    assert found.unique and found.supports == (f.support,)


@pytest.mark.parametrize("formula", ["parity3", "maj3", "x0 ^ (x1 & x2)", "sym(0110; x0,x1,x2)"])
def test_three_of_three_hundred(formula):
    f = parse(formula).on((7, 250, 131), 300)
    X = np.random.default_rng(6).integers(0, 2, (150, 300)).astype(np.uint8)
    assert is_unique(f, X, f(X))


def test_infeasible_is_said_not_tried():
    f = parse("parity5")
    X = np.random.default_rng(0).integers(0, 2, (40, 200)).astype(np.uint8)
    with pytest.raises(InfeasibleError, match="smaller T or s"):
        survivors(f, X, f(X), max_work=10**6)
    with pytest.raises(InfeasibleError, match="orders of its 10 variables"):
        survivors(random_function(10, key=(1, 2)), X, np.zeros(40))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros(3), np.zeros(3), "matrix"),
        (np.zeros((3, 2)), np.zeros(2), "one label for each of 3"),
        (np.full((3, 2), 0.5), np.zeros(3), "bits"),
        (np.full((3, 2), 2), np.zeros(3), "bits"),
    ],
)
def test_mistakes(X, y, message):
    with pytest.raises(InputError, match=message):
        survivors(conjunction((0,)), X, y)
