"""Products with tokens: their gradients are those of the plain product, at once and in groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention.products import (
    channel_products,
    in_groups,
    matmul,
    over_positions,
    over_width,
    token_products,
)

M, T, C, N = 12, 7, 5, 3


def _draw(number: int, *shape: int):
    return jax.random.normal(jax.random.key(number), shape, jnp.float32)


@pytest.mark.parametrize("product", [over_width, over_positions])
def test_gradients_are_those_of_the_product(product) -> None:
    a, b = (
        (_draw(0, M, T, C), _draw(1, C, N))
        if product is over_width
        else (
            _draw(0, N, T),
            _draw(1, M, T, C),
        )
    )
    weights = _draw(2, *jnp.matmul(a, b).shape)
    mine = jax.grad(lambda a, b: jnp.sum(weights * product(a, b)), (0, 1))(a, b)
    plain = jax.grad(lambda a, b: jnp.sum(weights * matmul(a, b)), (0, 1))(a, b)
    for x, y in zip(mine, plain, strict=True):
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
