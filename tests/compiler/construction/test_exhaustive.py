"""Every function of 3 bits up to their order, 240 of 4 bits shared among the encodings: on every
input, against a naive head."""

from itertools import permutations

import numpy as np
import pytest
from naive_head import all_inputs, outputs, token_vectors, truth

from capax.boolean import SparseFunction
from capax.compiler.certificate.norm_table import closed_form_norms
from capax.compiler.construction.assemble import matrices, slot_of_positions
from capax.compiler.construction.choice import choose
from capax.compiler.construction.families import Construction
from capax.compiler.parts.readouts import ScalarReadout

ENCODINGS = ("deterministic", "trainable", "bag")


def order_of_bits(table: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The table of the function whose bit i is bit order[i] of this one."""
    rows = np.arange(len(table))
    return table[sum(((rows >> i & 1) << bit for i, bit in enumerate(order)), 0 * rows)]


def three_bits() -> dict[tuple[float, ...], int]:
    """A table for each set of functions that differ in the order of their bits, with their number:
    80 in place of 256."""
    tables = [np.array([n >> row & 1 for row in range(8)], dtype=np.float64) for n in range(256)]
    orders = list(permutations(range(3)))
    first = [min(tuple(order_of_bits(table, order)) for order in orders) for table in tables]
    return {table: first.count(table) for table in sorted(set(first))}


def positions_of(construction: Construction) -> np.ndarray | None:
    head = construction.selection
    if head.encoding != "trainable":
        return None
    P = np.zeros((head.T, head.slots + 3))
    P[list(construction.function.support)] = np.eye(head.slots + 3)[slot_of_positions(construction)]
    return P


def check(
    f: SparseFunction, encoding: str, eps: float | None, bits: np.ndarray, norms: bool = True
) -> None:
    """Worst-case error, margin and signs on all inputs; norms of the matrices as they are."""
    made = choose(f, encoding, eps=eps)
    parts = matrices(made)
    out = outputs(parts, token_vectors(encoding, bits.shape[1], positions_of(made)), bits)
    y = truth(f.table, f.support, bits)
    signed = isinstance(made.readout, ScalarReadout)
    target, cut = (2 * y - 1, 0.0) if signed else (y, 0.5)
    assert abs(np.abs(out - target).max() - made.worst_case_error) < 1e-12
    assert eps is None or made.worst_case_error <= eps
    assert ((out > cut) == (y > 0.5)).all()
    assert abs(np.where(y > 0.5, out - cut, cut - out).min() - made.margin) < 1e-12
    if norms:
        check_norms(made, parts)


def check_norms(made: Construction, parts: dict[str, np.ndarray]) -> None:
    """Closed forms against NumPy's norms of the dense matrices."""
    claimed = closed_form_norms(made)
    dense = {**parts, "W_QK": parts["W_Q"] @ parts["W_K"].T}
    for name, M in dense.items():
        matrix = np.atleast_1d(M)
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        if not matrix.size:
            continue
        found = (
            np.linalg.norm(matrix),
            np.linalg.norm(matrix, ord=2),
            np.linalg.norm(matrix, axis=0).sum(),
        )
        assert np.allclose(list(claimed[name].values()), found, rtol=1e-12, atol=1e-12), name
    assert abs(claimed["W_QK"]["frobenius"] - made.selection.key_norm) < 1e-12


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("eps", "T", "step"), [(None, 8, 1), (0.1, 6, 3)])
def test_all_functions_of_three_bits(encoding: str, eps: float | None, T: int, step: int):
    bits = all_inputs(T)
    supports = list(permutations((T - 1, 0, T // 2)))
    for number, table in enumerate(list(three_bits())[::step]):
        f = SparseFunction(supports[number % 6], np.array(table), T).relevant()
        check(f, encoding, eps, bits, norms=number % 2 == 0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_random_functions_of_four_bits(encoding: str):
    T, generator = 6, np.random.default_rng(7)
    bits = all_inputs(T)
    for trial in range(240):
        support = tuple(generator.permutation(T)[:4].tolist())
        f = SparseFunction(support, generator.integers(0, 2, 16).astype(float), T).relevant()
        if ENCODINGS[trial % 3] == encoding:
            check(f, encoding, (None, 0.05)[trial % 2], bits, norms=trial % 8 < 2)


def test_scalar_read_outs_cover_exactly_the_threshold_functions():
    # Of the 256 functions of 3 bits, 104 are linear threshold functions, constants included.
    scalar, functions = 0, three_bits()
    for table, number in functions.items():
        f = SparseFunction((0, 1, 2), np.array(table), 4).relevant()
        scalar += number * (f.s == 0 or isinstance(choose(f).readout, ScalarReadout))
    assert scalar == 104 and sum(functions.values()) == 256


def test_a_larger_context_exhaustively():
    T = 12
    bits = all_inputs(T)
    table = np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=np.float64)
    for encoding in ENCODINGS:
        check(SparseFunction((2, 3, 10), table, T), encoding, None, bits)
        check(SparseFunction((2, 3, 10), table, T), encoding, 0.01, bits)
