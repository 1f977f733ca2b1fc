"""One decision rule: every route of a network that is decided at 1/2 judges it at 1/2."""

import jax
import numpy as np
import pytest
from extended_forward import naive_outputs

from capax.capacity.certificates.gibbs import gibbs_errors
from capax.capacity.margins.decision import decision_rule, threshold_of
from capax.capacity.margins.margins import holdout_errors, margins_of
from capax.capacity.routes.model_routes import read_out_route
from capax.compiler import compile
from capax.data.examples import Examples

X = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
Y = X[:, 1] ^ X[:, 4]


@pytest.fixture(scope="module")
def xor():
    """A network with outputs near 0 and 1: by their sign half of them are wrong."""
    return compile("x1 ^ x4", 6).model


def test_margins_are_distances_from_the_threshold(xor):
    assert threshold_of(xor) == 0.5 and threshold_of(compile("x1 & x4", 6).model) == 0.0
    assert decision_rule(0.5) == "1 where the output is above 0.5, else 0"
    margins = margins_of(xor, X, Y)
    outputs = naive_outputs(xor, X)
    assert margins == pytest.approx((2.0 * Y - 1.0) * (outputs - 0.5), abs=1e-9)
    assert margins.min() > 0.4 and holdout_errors(xor, X, Y) == (0, 64)
    assert holdout_errors(xor, X, 1 - Y) == (64, 64)


def test_the_gibbs_predictor_is_judged_at_the_threshold(xor):
    tried = gibbs_errors(xor, xor, X, Y, key=jax.random.key(0), sigmas=(1e-6,), draws=4)
    assert tried.errors == (0.0,)


def test_the_linear_read_out_takes_the_threshold_off_its_intercept(xor):
    many = Examples(np.tile(X, (200, 1)), np.tile(Y, 200))
    right = read_out_route(xor, many).ask(0.05, 0.0)
    wrong = read_out_route(xor, Examples(many.X, 1 - many.y)).ask(0.05, 0.0)
    assert right.terms[0].value < 0.4  # by its sign the ramp loss would be at least 1/2
    assert wrong.terms[0].value > 0.9
