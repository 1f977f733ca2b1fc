"""Prior and posterior: who saw what, and the certificate they give together."""

import jax
import numpy as np
import pytest

from capax.attention.transformer import Transformer, TransformerSpec
from capax.capacity.certificates.gibbs import distance_squared, gibbs_errors
from capax.capacity.certificates.pac_bayes import gaussian_pac_bayes_bound
from capax.errors import InputError
from capax.training import OptimiserSpec
from capax.training.posterior import train_prior_and_posterior

SIMPLE = {"layer_norm": False, "activation": "relu"}  # half as long to compile
SPEC = TransformerSpec(T=5, d=4, heads=1, mlp_width=3, init_scale=0.3, **SIMPLE)
OPTIMISER = OptimiserSpec(lr=0.03)


def examples(m, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (m, 5))
    return X, X[:, 2] ^ (rng.random(m) < noise)


def trained(X, y, **options):
    key = jax.random.key(3)
    return train_prior_and_posterior(
        SPEC, X, y, key=key, optimiser=OPTIMISER, steps=120, posterior_steps=10, **options
    )


def test_prior_and_posterior_give_a_certificate():
    X, y = examples(400, 0.15)
    pair = trained(X, y, prior_size=200)
    assert 0 < distance_squared(pair.posterior, pair.prior) < 10
    assert distance_squared(pair.prior, pair.prior) == 0
    tried = gibbs_errors(
        pair.posterior, pair.prior, X[200:], y[200:], key=jax.random.key(0),
        sigmas=(0.1, 0.03), draws=1000,
    )  # fmt: skip
    bound = gaussian_pac_bayes_bound(tried, 0.05)
    assert tried.errors[1] < tried.errors[0] < bound.value < 0.5
    # the prior never saw the second half: other labels there leave it as it was
    other = y.copy()
    other[200:] = 1 - other[200:]
    again = trained(X, other, prior_size=200)
    assert distance_squared(again.prior, pair.prior) == 0
    assert distance_squared(again.posterior, pair.posterior) > 0


@pytest.mark.parametrize(
    ("size", "message"), [(0, "prior_size: wanted"), (400, "prior_size: wanted")]
)
def test_a_prior_must_leave_something_to_be_judged_on(size, message):
    X, y = examples(400, 0.1)
    with pytest.raises(InputError, match=message):
        trained(X, y, prior_size=size)


def test_models_of_different_shape_have_no_distance():
    widths = (SPEC, SPEC.model_copy(update={"mlp_width": 7}))
    model, prior = (Transformer.init(spec, key=jax.random.key(0)) for spec in widths)
    with pytest.raises(InputError, match="prior: wanted a network of the same shape"):
        distance_squared(model, prior)
