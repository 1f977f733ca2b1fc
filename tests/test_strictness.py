"""The tests run with every annotation of the library checked; a slip here would hide others."""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from call_checks import check_calls
from capax.attention import BagOfVectors
from capax.capacity.network.sample_points import Sample
from capax.compiler.construction.choice import choose

ONE = Float[np.ndarray, " k"]


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


def test_what_fitted_once_is_asked_again_when_it_looks_different():
    @check_calls(typechecker=None)
    def first(x: Float[np.ndarray, "n k"], y: ONE, way: str = "") -> ONE:
        del y
        return {"": x[0], "whole": x, "none": None}[way]

    x, y = np.ones((5, 3)), np.ones(3)
    for _ in range(2):
        assert first(x, y) is not None and first(np.ones((7, 2)), np.ones(2)) is not None
        for wrong in (np.ones(5), np.ones((3, 1)), np.ones(3, np.float32).astype(int)):
            with pytest.raises(TypeCheckError):
                first(x, wrong)
        for way in ("whole", "none"):
            with pytest.raises(TypeCheckError):
                first(x, y, way)
        with pytest.raises(TypeCheckError):
            first(x, y, 3)


def test_an_answer_that_looks_different_is_asked_about():
    answers = [np.ones(3), np.ones(3), np.ones(2), np.ones(3)]

    @check_calls(typechecker=None)
    def next_answer(x: ONE) -> ONE:
        del x
        return answers.pop(0)

    for _ in range(2):
        next_answer(np.ones(3))
    with pytest.raises(TypeCheckError):
        next_answer(np.ones(3))
    assert next_answer(np.ones(3)) is not None
