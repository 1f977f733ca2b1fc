"""Workarounds in the programs of the tests, each as long as it is needed."""

from time import process_time

import numpy as np
from jax import lax
from jax._src.interpreters import mlir

from plain_programs import JAX_CONTEXT


def seconds(function, number=8):
    start = process_time()
    for k in range(number):
        function(k)
    return process_time() - start


def test_contexts_are_shared_and_still_worth_it():
    first, second, third = (mlir.make_ir_context() for _ in range(3))
    assert first is second or second is third  # now and then a new one
    contexts = seconds(lambda _: JAX_CONTEXT())
    programs = seconds(lambda k: lax.add(np.zeros(1009 + k), np.zeros(1009 + k)))
    assert contexts > 0.1 * programs, "JAX makes contexts fast now: `share_contexts` can go"
