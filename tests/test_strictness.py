"""The tests run with every annotation of the library checked; a slip here would hide others."""

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from capax.attention import BagOfVectors
from capax.capacity.network.sample_points import Sample
from capax.compiler.construction.choice import choose


@pytest.mark.parametrize(
    "call",
    [
        lambda: choose("x1 & x2"),
        lambda: Sample("ten", 5),
        lambda: BagOfVectors(jnp.ones((5, 4)), jnp.ones(3)),
    ],
    ids=["argument of a function", "field of a record", "shape of an array"],
)
def test_wrong_types_are_noticed(call):
    with pytest.raises(TypeCheckError):
        call()
