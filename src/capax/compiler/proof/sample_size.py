"""How many samples a compiled network implies, by route: norms (Corollary 4.5) and bits (Occam).

*corollary_4_5*: the class of all networks with these norms; any rule that returns one of them with
this margin on the sample generalises. Scalar read-out: pieces W_QK and v = W_V W_C w; MLP: W_QK,
U = [W_V W_1; b_1], w_2. It says nothing about gradient descent, and for MLPs the product of norms
makes it vacuous in practice: the number is given, and called so.

*occam*: a network compiled here is described by its function, since the compiler is fixed in
advance: Elias gamma of s+1, the positions in ceil(log2 C(T, s)) bits, one bit for the kind, then s
signs and s+1 levels (symmetric in literals) or the 2^s bits of the table (ours).

*occam_integer_model*: conjunctions as a one-layer table model with integer logits and values.
"""

import math
from typing import Any

import numpy as np

from capax.boolean import SparseFunction
from capax.capacity.bound import Bound
from capax.capacity.certificates.margin_bounds import realizable_bound
from capax.capacity.certificates.occam import conjunction_model, elias_gamma_bits, occam_bound
from capax.capacity.linear.norms import matrix_norms
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import mlp_head
from capax.capacity.network.sample_points import Sample
from capax.compiler.construction.assemble import head_coefficients
from capax.compiler.construction.families import Construction
from capax.compiler.construction.literals import literal_form
from capax.compiler.construction.readouts import MLPReadout, ScalarReadout

TARGET_ERROR, DELTA = 0.1, 0.05
VACUOUS = 10**9
"""Above a thousand million samples we say `vacuous in practice`."""
REFERENCE_SAMPLES = 10**6
"""The bound is also evaluated at this sample size, where its cover is reported."""


def description_bits(f: SparseFunction) -> int:
    """Length of the prefix-free description of a Boolean function on T bits."""
    assert f.T is not None
    positions = (math.comb(f.T, f.s) - 1).bit_length()
    content = 2 * f.s + 1 if literal_form(f) is not None else 1 << f.s
    return elias_gamma_bits(f.s + 1) + positions + 1 + content


def capacity_routes(construction: Construction) -> dict[str, Bound]:
    """The bounds at `REFERENCE_SAMPLES`, by route, each with m needed for error 0.1 at 95 %."""
    f = construction.function
    if not f.is_boolean:
        return {}
    routes: dict[str, Bound] = {}
    if f.s:
        routes["corollary_4_5"] = _norm_route(construction)
    routes["occam"] = _occam(description_bits(f))
    if f.s and _is_conjunction(f):
        assert f.T is not None
        model = conjunction_model(f.T, f.support, minimal=True)
        routes["occam_integer_model"] = _occam(model.bits)
    return routes


def sample_sizes(routes: dict[str, Bound]) -> dict[str, int | None]:
    """m needed by route; None when no number of samples would do."""
    return {name: bound.m_needed for name, bound in routes.items()}


def capacity_report(routes: dict[str, Bound]) -> dict[str, dict[str, Any]]:
    """ln N at the reference sample, the bits, and whether the route is vacuous in practice."""
    return {name: _summary(bound) for name, bound in routes.items()}


def _summary(bound: Bound) -> dict[str, Any]:
    m = bound.m_needed
    bits = bound.norms.get("bits")
    return {
        "statement": bound.statement,
        "log_cover": bound.to_json()["log_cover"],
        "bits": None if bits is None else int(bits),
        "m": REFERENCE_SAMPLES,
        "error_bound": bound.to_json()["value"],
        "vacuous": bound.vacuous,
        "vacuous_in_practice": m is None or m > VACUOUS,
    }


def _occam(bits: int) -> Bound:
    return occam_bound(bits, REFERENCE_SAMPLES, DELTA, target=TARGET_ERROR)


def _norm_route(construction: Construction) -> Bound:
    assert construction.margin is not None
    readout = construction.readout
    scalar = isinstance(readout, ScalarReadout)
    cls = _scalar_class(construction) if scalar else _mlp_class(construction, readout)
    sample = Sample(REFERENCE_SAMPLES, construction.selection.T, alphabet=2)
    margin = construction.margin
    return realizable_bound(cls, sample, margin, DELTA, separated=True, target=TARGET_ERROR)


def _scalar_class(construction: Construction) -> FunctionClass:
    """Corollary 4.5 for a linear read-out: v = W_V W_C w, B_phi = half the spread of v . x."""
    readout = construction.readout
    assert isinstance(readout, ScalarReadout)
    v = readout.scale * head_coefficients(construction)[2].stacked()[:, 0]
    values = readout.scale * np.array([0.0, *readout.nu, readout.cls_value])
    reach = float(values.max() - values.min()) / 2
    reach = None if construction.basis is not None else reach
    norm = _width(construction)
    return linear_head(
        _key_norm(construction),
        norm * float(np.linalg.norm(v)),
        B_phi=reach,
        inputs=_inputs(construction),
    )


def _mlp_class(construction: Construction, readout: MLPReadout) -> FunctionClass:
    """Corollary 4.5 for head and MLP: U = [W_V W_1; b_1^T], w_2; b_2 is fixed."""
    rows = head_coefficients(construction)[2].stacked() @ readout.W_1
    U = matrix_norms(np.concatenate([_width(construction) * rows, readout.b_1[None]]), "U")
    tokens = np.concatenate([readout.position_values, readout.cls_values[None]]) @ readout.W_1
    reach = float(np.linalg.norm(tokens, axis=1).max())
    return mlp_head(
        _key_norm(construction),
        U,
        float(np.linalg.norm(readout.w_2)),
        hidden=readout.num_units,
        reach=None if construction.basis is not None else reach,
        inputs=_inputs(construction),
    )


def _key_norm(construction: Construction) -> float:
    """||W_QK||_F, never below a hair: a head that needs no attention has norm zero."""
    return max(_width(construction) * construction.selection.key_norm, 1e-9)


def _width(construction: Construction) -> float:
    """||R^T G^{-1}||_2 of the dual basis: what codes can add to a norm; 1 when orthonormal."""
    basis = construction.basis
    return 1.0 if basis is None else float(np.linalg.norm(basis.dual, ord=2))


def _inputs(construction: Construction) -> Inputs:
    """B_X, B_z and r_X of the tokens: sqrt 2 around (E_0 + E_1)/2, 1 in the bag, measured codes."""
    if construction.selection.is_bag:
        return Inputs(B_X=1.0, B_z=1.0)
    if construction.basis is None:
        return Inputs(B_X=math.sqrt(2.0), B_z=1.0, r_X=math.sqrt(1.5))
    codes = construction.basis.codes
    T = len(codes) - 3
    return Inputs(B_X=math.sqrt(2 + 2 * float((codes[:T] @ codes[T : T + 2].T).max())), B_z=1.0)


def _is_conjunction(f: SparseFunction) -> bool:
    return bool(f.table[-1] == 1 and f.table.sum() == 1)
