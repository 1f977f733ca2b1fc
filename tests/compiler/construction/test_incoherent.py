"""Codes shorter than a basis: every function of 3 bits and many of 4 bits, on every input."""

from dataclasses import replace

import numpy as np
import pytest
from naive_head import all_inputs, outputs, truth

from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import proven_error
from capax.compiler.construction.assemble import assemble, matrices
from capax.compiler.construction.choice import choose
from capax.compiler.construction.families import Construction
from capax.compiler.construction.general import exact_readout, pattern_margins
from capax.compiler.parts.readouts import ScalarReadout
from capax.compiler.proof.tables import head_tables

LENGTH = 128  # one length for all, so that no shorter one is tried first


def every_output(made: Construction, bits: np.ndarray) -> np.ndarray:
    T, codes = bits.shape[1], made.basis.codes
    tokens = codes[None, :T] + codes[T : T + 2, None]
    return outputs(matrices(made), tokens, bits, codes[-1])


def tables(s: int) -> np.ndarray:
    """All 256 truth tables of 3 bits, or 144 random ones of 4 bits."""
    if s == 3:
        return (np.arange(256)[:, None] >> np.arange(8)) & 1
    return np.random.default_rng(11).integers(0, 2, (144, 16))


@pytest.mark.parametrize(("s", "T"), [(3, 5), (4, 6)])
def test_one_head_serves_every_function(s: int, T: int):
    """The head is chosen once, for a function with 2^s values, and keeps every pattern apart."""
    support, bits = tuple(range(T - s, T))[::-1], all_inputs(T)
    all_apart = SparseFunction(support, np.arange(1 << s, dtype=np.float64), T)
    made = choose(all_apart, "incoherent", family="general", dim=LENGTH)
    for table in tables(s).astype(np.float64):
        f = SparseFunction(support, table, T)
        assert (pattern_margins(made.selection, f) > 0).all()
        readout = exact_readout(made.selection, f)
        out = every_output(replace(made, function=f, readout=readout), bits)
        assert np.abs(out - truth(table, support, bits)).max() < 1e-11


@pytest.mark.parametrize("number", range(1, 256, 23))
def test_what_is_chosen_is_right_and_its_error_is_that_of_the_worst_input(number: int):
    T = 5
    table = np.array([number >> row & 1 for row in range(8)], dtype=np.float64)
    f, bits = SparseFunction((T - 1, 0, T // 2), table, T).relevant(), all_inputs(T)
    made = choose(f, "incoherent", dim=LENGTH)
    out, y = every_output(made, bits), truth(f.table, f.support, bits)
    signed = isinstance(made.readout, ScalarReadout)
    target, cut = (2 * y - 1, 0.0) if signed else (y, 0.5)
    model = assemble(made)
    error, margin = proven_error(model, head_tables(model), f)
    assert ((out > cut) == (y > 0.5)).all()
    assert np.abs(out - target).max() == pytest.approx(error, abs=1e-11)
    assert np.where(y > 0.5, out - cut, cut - out).min() == pytest.approx(margin, abs=1e-11)
