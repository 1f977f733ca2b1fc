"""Tables of a head against the tokens themselves: each encoding, each bit, and the forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forward_pass import outputs
from naive_head import all_inputs

from capax.attention import (
    BagOfVectors,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.compiler.proof.enclosed import exactly
from capax.compiler.proof.tables import head_tables, readout_output, token_images

T, k = 5, 3


def drawn(*shape: int) -> jax.Array:
    return jax.device_put(np.random.default_rng(sum(shape)).normal(size=shape))


ENCODINGS = {
    "deterministic": lambda: DeterministicPositions(T),
    "orthonormal bag": lambda: OrthonormalBag(T),
    "trainable": lambda: TrainablePositions(drawn(2, 7), drawn(T, 7), drawn(7)),
    "bag": lambda: BagOfVectors(drawn(T, 7), drawn(7)),
    "incoherent": lambda: IncoherentCodes(T, 7, codes=drawn(T + 3, 7)),
}


@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_images_are_those_of_the_tokens(make):
    code = make()
    W = np.random.default_rng(1).normal(size=(code.d, k))
    images, cls = (part.mid for part in token_images(code, exactly(W)))
    tokens = jax.jit(lambda bits, W: code(bits) @ W)
    for bit in (0, 1):
        wanted = np.asarray(tokens(jnp.full(T, bit), W))
        np.testing.assert_allclose(images[:, bit], wanted[:-1], atol=1e-13)
        np.testing.assert_allclose(cls, wanted[-1], atol=1e-13)


@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_tables_give_the_outputs_of_the_network(make):
    code = make()
    weights = drawn(code.d, 2), drawn(code.d, 2), drawn(code.d, k), drawn(k, 2), drawn(2)
    model = ClsScalar(code, *weights, scale="sqrt")
    found = readout_output(model, head_tables(model).head(all_inputs(T)))
    np.testing.assert_allclose(found, outputs(model, all_inputs(T)), atol=1e-12)
