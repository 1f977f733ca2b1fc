"""Products with tokens: their gradients are those of the plain product, at once and in groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from capax.attention.products import (
    channel_products,
    computed_once,
    in_groups,
    over_positions,
    over_width,
    token_products,
)

M, T, C, N = 12, 7, 5, 3


def _draw(number: int, *shape: int):
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("product", [over_width, over_positions])
def test_gradients_are_those_of_the_product(product) -> None:
    """Of sum w (a b): w b^T in a, a^T w in b, in float64."""
    wide = product is over_width
    a, b = (_draw(0, M, T, C), _draw(1, C, N)) if wide else (_draw(0, N, T), _draw(1, M, T, C))
    exact_a, exact_b = np.float64(a), np.float64(b)
    weights = _draw(2, *np.matmul(a, b).shape)
    mine = jax.jit(jax.grad(lambda a, b: jnp.sum(weights * product(a, b)), (0, 1)))(a, b)
    in_a = weights @ np.swapaxes(exact_b, -1, -2)
    in_b = np.swapaxes(exact_a, -1, -2) @ weights
    wanted = (in_a, in_b.sum(axis=0)) if wide else (in_a.sum(axis=0), in_b)
    for x, y in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m", [23, 48])
def test_groups_add_up(m: int) -> None:
    x, dy = _draw(0, m, T, C), _draw(1, m, T, N)
    wanted = np.einsum("mtc,mtn->cn", np.float64(x), np.float64(dy))
    found = jax.jit(lambda x, dy: in_groups(token_products, x, dy))(x, dy)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    dy = _draw(1, m, N, C)
    wanted = np.einsum("med,mtd->et", np.float64(dy), np.float64(x))
    found = jax.jit(lambda dy, x: in_groups(channel_products, dy, x))(dy, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_part_that_is_computed_once_stays_a_call() -> None:
    """Its results have two uses, the same numbers, and a gradient."""
    part = computed_once(lambda x: (2 * x, lax.rsqrt(x * x + 1)))

    def twice(x):
        doubled, small = part(x)
        return doubled * small + jnp.tanh(doubled)

    x = _draw(0, T, C)
    wanted = 2 * x / np.sqrt(x * x + 1) + np.tanh(2 * x)
    np.testing.assert_allclose(jax.jit(twice)(x), wanted, rtol=1e-5, atol=1e-6)
    slope = 2 / (x * x + 1) ** 1.5 + 2 / np.cosh(2 * x) ** 2
    found = jax.jit(jax.grad(lambda x: jnp.sum(twice(x))))(x)
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-5)
    assert " call(" in jax.jit(twice).lower(x).compile().as_text()
