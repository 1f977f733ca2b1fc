"""Sample sizes of a compiled network by route: norms (Corollary 4.5) and bits (Occam).

*corollary_4_5*: the class of all networks with these norms; any rule that returns one of them with
this margin on the sample generalises. Scalar read-out: pieces W_QK and v = W_V W_C w; MLP: W_QK,
U = [W_V W_1; b_1], w_2. The norms are read off the weights, with the vectors of the encoding
absorbed: kappa~ = (P kappa, E kappa, v_CLS . kappa) and v~ likewise, on features of norm sqrt 2
(a bag: 1). For orthonormal vectors that changes nothing; trainable ones depend on the support, so a
class that took them as given would depend on the answer. Random codes are drawn in advance and stay
outside. The route does not cover gradient descent. For MLPs the product of norms makes it vacuous
in practice: the number is given, and marked as vacuous.

*occam*: a network compiled here is described by its function, since the compiler is fixed in
advance: Elias gamma of s+1, the positions in ceil(log2 C(T, s)) bits, one bit for the kind, then s
signs and s+1 levels (symmetric in literals; with more than two symbols: after M bits that mark the
active symbols) or the M^s bits of the table (ours).

*occam_integer_model*: conjunctions as a one-layer table model with integer logits and values.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from capax.attention import (
    BagOfVectors,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.boolean import SparseFunction
from capax.boolean.symbol_classes import on_classes, symbol_classes
from capax.capacity.bound import Bound
from capax.capacity.certificates.occam import conjunction_model, elias_gamma_bits, occam_bound
from capax.capacity.linear.norms import matrix_norms
from capax.capacity.margins.margin_bounds import realizable_bound
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import mlp_head
from capax.capacity.network.sample_points import Sample
from capax.compiler.parts.literals import literal_form
from capax.compiler.proof.tables import HeadTables, Model
from capax.rounding import digits_up

TARGET_ERROR, DELTA = 0.1, 0.05
VACUOUS = 10**9
"""Above a thousand million samples a bound is called `vacuous in practice`."""
REFERENCE_SAMPLES = 10**6
"""The bound is also evaluated at this sample size, where its cover is reported."""


def description_bits(f: SparseFunction) -> int:
    """Length of the prefix-free description of a Boolean function on T bits."""
    assert f.T is not None
    positions = (math.comb(f.T, f.s) - 1).bit_length()
    classes = symbol_classes(f)
    g, told = on_classes(f, classes), 0 if f.alphabet == 2 else f.alphabet
    symmetric = g.alphabet == 2 and literal_form(g) is not None
    content = told + 2 * f.s + 1 if symmetric else f.table.size
    return elias_gamma_bits(f.s + 1) + positions + 1 + content


def capacity_routes(
    model: Model, tables: HeadTables, f: SparseFunction, margin: float | None
) -> dict[str, Bound]:
    """The bounds at `REFERENCE_SAMPLES`, by route, each with m needed for error 0.1 at 95 %.

    `margin`: the smallest margin of a decision; the norm route is left out unless it is positive.
    """
    if not f.is_boolean:
        return {}
    routes: dict[str, Bound] = {}
    if f.s and margin is not None and margin > 0:
        routes["corollary_4_5"] = _norm_route(model, tables, margin)
    routes["occam"] = occam_route(description_bits(f))
    if f.s and _is_conjunction(f):
        assert f.T is not None
        described = conjunction_model(f.T, f.support, minimal=True)
        routes["occam_integer_model"] = occam_route(described.bits)
    return routes


def sample_sizes(routes: dict[str, Bound]) -> dict[str, int | None]:
    """m needed by route; None when no number of samples is enough."""
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


def occam_route(bits: int) -> Bound:
    """The Occam bound for a description of this many bits."""
    return occam_bound(bits, REFERENCE_SAMPLES, DELTA, target=TARGET_ERROR)


class Absorbed(NamedTuple):
    """The head on fixed features: kappa~ [n], W_V~ [n, k], and how long the features are."""

    kappa: Float[np.ndarray, " n"]
    W_V: Float[np.ndarray, "n k"]
    inputs: Inputs


def absorbed(model: Model) -> Absorbed:
    """Trainable vectors become part of the weights; orthonormal and random ones stay features."""
    code, W_V = model.encoding, _double(model.W_V)
    if isinstance(code, TrainablePositions):
        vectors = np.concatenate([_double(code.P), _double(code.E), _double(code.v_CLS)[None]])
        inputs = _two_hot_inputs(len(code.E))
    elif isinstance(code, BagOfVectors):
        vectors = np.concatenate([_double(code.V), _double(code.v_CLS)[None]])
        inputs = Inputs(B_X=1.0, B_z=1.0)
    else:
        kappa = _double(model.W_K) @ (_cls_vector(model) @ _double(model.W_Q))
        return Absorbed(kappa, W_V, _fixed_inputs(model))
    kappa = _double(model.W_K) @ (_double(code.v_CLS) @ _double(model.W_Q))
    return Absorbed(vectors @ kappa, vectors @ W_V, inputs)


def _cls_vector(model: Model) -> Float[np.ndarray, " d"]:
    code = model.encoding
    if isinstance(code, IncoherentCodes):
        return _double(code.codes)[-1]
    last = np.zeros(code.d)
    last[-1] = 1.0
    return last


def _fixed_inputs(model: Model) -> Inputs:
    """B_X, B_z and r_X of the tokens: sqrt 2 around (E_0 + E_1)/2, 1 in the bag, measured codes."""
    code = model.encoding
    if isinstance(code, OrthonormalBag):
        return Inputs(B_X=1.0, B_z=1.0)
    if isinstance(code, DeterministicPositions):
        return _two_hot_inputs(code.alphabet)
    assert isinstance(code, IncoherentCodes), "trainable vectors are absorbed"
    codes = _double(code.codes)
    square = (codes**2).sum(axis=1)
    P, E = codes[: code.T], codes[code.T : code.T + 2]
    pairs = square[: code.T, None] + square[code.T : code.T + 2] + 2 * P @ E.T
    longest = math.sqrt(max(float(pairs.max()), float(square[-1])))
    return Inputs(B_X=longest, B_z=math.sqrt(float(square[-1])))


def _two_hot_inputs(M: int) -> Inputs:
    """Tokens E_b + P_t: sqrt 2 long, within sqrt(2 - 1/M) of the mean of the M symbols."""
    return Inputs(B_X=math.sqrt(2.0), B_z=1.0, r_X=math.sqrt(2 - 1 / M))


def _norm_route(model: Model, tables: HeadTables, margin: float) -> Bound:
    scalar = isinstance(model, ClsScalar)
    cls = _scalar_class(model, tables) if scalar else _mlp_class(model, tables)
    sample = Sample(REFERENCE_SAMPLES, tables.T, alphabet=tables.alphabet)
    return realizable_bound(cls, sample, margin, DELTA, separated=True, target=TARGET_ERROR)


def _scalar_class(model: ClsScalar, tables: HeadTables) -> FunctionClass:
    """Corollary 4.5 for a linear read-out: v = W_V W_C w, B_phi = half the spread of v . x."""
    head, c = absorbed(model), _double(model.W_C) @ _double(model.w)
    values = np.append(tables.values.mid @ c, tables.cls_value.mid @ c)
    reach = float(values.max() - values.min()) / 2
    return linear_head(
        _key_norm(head),
        digits_up(float(np.linalg.norm(head.W_V @ c))),
        B_phi=None if isinstance(model.encoding, IncoherentCodes) else digits_up(reach),
        inputs=head.inputs,
    )


def _mlp_class(model: ClsMLP, tables: HeadTables) -> FunctionClass:
    """Corollary 4.5 for head and MLP: U = [W_V W_1; b_1^T], w_2; b_2 is fixed."""
    head, W_1, w_2 = absorbed(model), _double(model.W_1), _double(model.w_2)
    used = head.W_V[(head.W_V != 0).any(axis=1)]  # rows of zeros count in no norm
    U = matrix_norms(np.concatenate([used @ W_1, _double(model.b_1)[None]]), "U")
    reach = digits_up(_longest_image(tables, W_1))
    return mlp_head(
        _key_norm(head),
        U,
        digits_up(float(np.linalg.norm(w_2))),
        hidden=w_2.size,
        reach=None if isinstance(model.encoding, IncoherentCodes) else reach,
        inputs=head.inputs,
    )


def _longest_image(tables: HeadTables, W_1: Float[np.ndarray, "k n"]) -> float:
    """max over tokens of ||W_1^T value||; tokens like the last one, mostly zero, count once."""
    values = tables.values.mid.reshape(-1, W_1.shape[0])
    other = values[(values != values[-1]).any(axis=1)]
    tokens = np.concatenate([other, values[-1:], tables.cls_value.mid[None]])
    size = max(1, (1 << 22) // max(W_1.shape[1], 1))
    parts = (tokens[i : i + size] @ W_1 for i in range(0, len(tokens), size))
    return max(float(np.linalg.norm(part, axis=1).max()) for part in parts)


def _key_norm(head: Absorbed) -> float:
    """||kappa~||, at least a tiny number: a head without attention has norm zero."""
    return max(digits_up(float(np.linalg.norm(head.kappa))), 1e-9)


def _double(M: Any) -> Float[np.ndarray, "..."]:
    return np.asarray(M, np.float64)


def _is_conjunction(f: SparseFunction) -> bool:
    return f.alphabet == 2 and bool(f.table[-1] == 1 and f.table.sum() == 1)
