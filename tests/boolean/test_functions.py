"""Sparse functions and their properties against brute force over all inputs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.boolean import (
    SparseFunction,
    conjunction,
    constant,
    disjunction,
    from_table,
    literal,
    majority,
    monotone_symmetric,
    parity,
    random_function,
    random_support,
    symmetric,
    threshold,
)
from capax.boolean.parser import parse
from capax.boolean.traits.bias import bias
from capax.boolean.traits.fourier import (
    degree,
    fourier_coefficients,
    influences,
    properties,
    sensitivities,
)
from capax.boolean.traits.leap import leap
from capax.errors import InputError

BITS_3 = list(itertools.product((0, 1), repeat=3))  # (x0, x1, x2)


def value(number: int, x: tuple[int, ...]) -> int:
    """Truth table `number` at x, row = x0 + 2 x1 + 4 x2, written out independently."""
    return (number >> (x[0] + 2 * x[1] + 4 * x[2])) & 1


def flipped(x: tuple[int, ...], i: int) -> tuple[int, ...]:
    return tuple(b ^ (k == i) for k, b in enumerate(x))


@pytest.mark.parametrize("block", range(8))
def test_all_functions_of_three_bits_against_brute_force(block):
    for number in range(32 * block, 32 * block + 32):
        f = from_table(number, (0, 1, 2))
        at = {x: value(number, x) for x in BITS_3}
        assert all(f(np.array(x)) == at[x] for x in BITS_3)
        orders = itertools.permutations(range(3))
        invariant = all(at[tuple(x[i] for i in o)] == at[x] for o in orders for x in BITS_3)
        assert f.is_symmetric == invariant
        pairs = [
            (x, z) for x in BITS_3 for z in BITS_3 if all(a <= b for a, b in zip(x, z, strict=True))
        ]
        assert f.is_monotone == all(at[x] <= at[z] for x, z in pairs)
        changes = [sum(at[x] != at[flipped(x, i)] for x in BITS_3) for i in range(3)]
        assert f.relevant().support == tuple(i for i in range(3) if changes[i])
        assert np.array_equal(influences(f), np.array(changes) / 8)
        by_hand = [
            sum(at[x] * (-1) ** sum(x[i] for i in S) for x in BITS_3) / 8 for S in subsets(3)
        ]
        assert np.array_equal(fourier_coefficients(f), by_hand)
        sizes = [len(S) for S, c in zip(subsets(3), by_hand, strict=True) if c]
        assert degree(f) == max(sizes, default=0)
        assert sensitivities(f).max() == max(
            sum(at[x] != at[flipped(x, i)] for i in range(3)) for x in BITS_3
        )
        p = 0.3
        weight = {x: p ** sum(x) * (1 - p) ** (3 - sum(x)) for x in BITS_3}
        assert bias(f, p) == pytest.approx(sum(at[x] * weight[x] for x in BITS_3), abs=1e-15)


def subsets(s: int) -> list[tuple[int, ...]]:
    return [tuple(i for i in range(s) if number >> i & 1) for number in range(1 << s)]


@pytest.mark.parametrize("s", [1, 2, 5, 7])
def test_families_are_what_their_names_say(s):
    support = tuple(range(3, 3 + 2 * s, 2))
    X = np.random.default_rng(s).integers(0, 2, (211, 3 + 2 * s))
    ones = X[:, support].sum(axis=1)
    expected = {
        conjunction: ones == s,
        disjunction: ones > 0,
        parity: ones % 2 == 1,
        majority: 2 * ones > s,
    }
    for family, labels in expected.items():
        assert np.array_equal(family(support)(X), labels)
    for r in range(s + 2):
        assert np.array_equal(threshold(r, support)(X), ones >= r)
    phi = np.linspace(-1.0, 2.0, s + 1) ** 2
    f = symmetric(phi, support)
    assert np.array_equal(f(X), phi[ones]) and np.array_equal(f.symmetric_values(), phi)
    assert monotone_symmetric(np.arange(s + 1.0), support).is_monotone


@pytest.mark.parametrize("s", range(1, 7))
def test_staircases_have_the_leap_of_their_name(s):
    """Labels from the bits themselves; leap r and degree s, from the parity down to one by one."""
    X = np.array(list(itertools.product((0, 1), repeat=s)))
    for r in range(1, s + 1):
        f = parse(f"leap{r}of{s}")
        parities = [X[:, :end].sum(axis=1) % 2 for end in [*range(r, s, r), s]]
        assert np.array_equal(f(X), 2 * np.sum(parities, axis=0) > len(parities))
        assert (f.s, leap(f), degree(f)) == (s, r, s)
    assert np.array_equal(parse(f"leap{s}of{s}").table, parse(f"parity{s}").table)
    assert np.array_equal(parse(f"staircase{s}").table, parse(f"leap1of{s}").table)


def test_negated_literals_and_constants():
    X = np.array(list(itertools.product((0, 1), repeat=5)))
    f = conjunction((0, 2, 4), negated=(2,))
    assert np.array_equal(f(X), X[:, 0] & (1 - X[:, 2]) & X[:, 4])
    g = disjunction((1, 3), negated=(3,))
    assert np.array_equal(g(X), X[:, 1] | (1 - X[:, 3]))
    assert np.array_equal(literal(3, negated=True)(X), 1 - X[:, 3])
    assert (constant(0.5)(X) == 0.5).all() and constant(1).s == 0


def test_jax_under_jit_and_vmap_equals_numpy():
    f = majority((1, 4, 6), T=7)
    X = np.random.default_rng(0).integers(0, 2, (13, 7)).astype(np.uint8)
    assert np.array_equal(jax.jit(jax.vmap(f))(jnp.asarray(X)), f(X))
    assert f(X.reshape(13, 1, 7)).shape == (13, 1)


def test_moving_and_comparing():
    f = parity((0, 1, 2))
    moved = f.on((9, 4, 7), T=11)
    assert moved.support == (9, 4, 7) and moved.T == 11
    assert f == parity((0, 1, 2)) and hash(f) == hash(parity((0, 1, 2)))
    assert f != moved and f != conjunction((0, 1, 2)) and f != "parity"
    with pytest.raises(ValueError, match="read-only"):
        f.table[0] = 1.0


def test_relevant_drops_variables_and_says_so():
    f = from_table([0, 0, 0, 1, 0, 0, 0, 1], (5, 3, 8))  # AND of x5 and x3
    g = f.relevant()
    assert g.support == (5, 3) and np.array_equal(g.table, [0, 0, 0, 1])
    assert g.notes == ("x8 does not matter and was dropped",)
    X = np.random.default_rng(1).integers(0, 2, (31, 9))
    assert np.array_equal(f(X), g(X))
    assert properties(f).support == (5, 3)


def test_real_valued_tables():
    f = from_table([0.5, -1.0, 2.0, 2.0], (0, 1))
    assert not f.is_boolean and not f.is_monotone
    c = fourier_coefficients(f)
    X = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    signs = [(-1.0) ** X[:, list(S)].sum(axis=1) for S in subsets(2)]
    assert np.allclose(sum(a * b for a, b in zip(c, signs, strict=True)), f(X))


def test_random_functions_come_from_their_key():
    keys = jax.random.split(jax.random.key(3), 2)
    f = random_function(4, T=23, key=keys[0])
    assert f == random_function(4, T=23, key=keys[0]) and f != random_function(4, T=23, key=keys[1])
    assert f.is_boolean and max(f.support) < 23
    words = tuple(jax.random.key_data(keys[0]).tolist())
    assert random_function(4, T=23, key=words) == f


def test_random_supports_are_uniform():
    """Chi-square over the 10 pairs of 5 positions; fails by chance once in 10^6 (9 d.o.f.)."""
    draws = [random_support(5, 2, key=(7, i)) for i in range(2000)]
    counts = [draws.count(pair) for pair in itertools.combinations(range(5), 2)]
    assert sum(counts) == 2000
    assert sum((c - 200) ** 2 / 200 for c in counts) < 45
    ordered = {random_support(5, 2, key=(7, i), ordered=True) for i in range(300)}
    assert len(ordered) == 20


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: conjunction((1, 1)), "distinct"),
        (lambda: conjunction((-1,)), "0-based"),
        (lambda: conjunction((5,), T=5), "0-based, the last one is x4"),
        (lambda: conjunction(range(21)), "s <= 20"),
        (lambda: SparseFunction((0,), np.zeros(3)), "2 values"),
        (lambda: from_table([0.0, float("nan")], (0,)), "finite"),
        (lambda: from_table(16, (0, 1)), "at most 4 bits"),
        (lambda: from_table(-1, (0, 1)), "at most 4 bits"),
        (lambda: symmetric([0, 1], (0, 1)), "3 numbers"),
        (lambda: monotone_symmetric([1, 0], (0,)), "non-decreasing"),
        (lambda: threshold(5, (0, 1)), "0..3"),
        (lambda: conjunction((0,), negated=(1,)), "positions of the support"),
        (lambda: from_table(2, (0, 1)).symmetric_values(), "symmetric"),
        (lambda: conjunction((0, 3))(np.zeros((2, 3))), "at least 4"),
        (lambda: conjunction((0, 3), T=5)(np.zeros((2, 6))), "5 bits"),
        (lambda: conjunction((0, 3)).on((1,)), "2 positions"),
        (lambda: constant(1, T=-1), "T: wanted"),
        (lambda: bias(literal(0), 1.5), "probability"),
        (lambda: random_support(3, 4, key=(0, 0)), "T = 3"),
        (lambda: random_function(21, key=(0, 0)), "20"),
        (lambda: random_function(2, key=(0, 2**32)), "two 32-bit words"),
    ],
)
def test_mistakes_are_named_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
