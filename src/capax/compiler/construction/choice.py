"""From a function to a construction: the cheapest family that fits, or the requested one."""

import math
from dataclasses import replace
from typing import cast

import numpy as np

from capax.boolean import SparseFunction
from capax.boolean.symbol_classes import on_classes, symbol_classes
from capax.compiler.construction import families
from capax.compiler.construction.families import FAMILIES, Construction, Family, Offer, Refusal
from capax.compiler.parts.incoherent import (
    DualBasis,
    at_length,
    check_code_size,
    code_lengths,
    coded,
)
from capax.compiler.parts.literals import literal_form
from capax.compiler.parts.selection import ENCODINGS, EncodingName, Selection
from capax.errors import InputError, require

COMFORT = 1.5
"""Codes are long enough when ||W_QK|| is within this factor of orthonormal vectors."""


def choose(
    f: SparseFunction,
    encoding: EncodingName | str = "deterministic",
    family: Family | str = "auto",
    eps: float | None = None,
    dim: int | None = None,
) -> Construction:
    """The construction with the fewest hidden units, ties to the simpler family.

    `f` has T set and no irrelevant variable; `eps` None = exact mode; `dim` = length of incoherent
    codes, None = the smallest power of two that works. Raises `InputError` with each reason.
    """
    _check(f, encoding, family, eps, dim)
    classes = symbol_classes(f)
    g = on_classes(f, classes)
    names = tuple(name for name in FAMILIES if family in ("auto", name))
    bare = {name: _bare_head(g, cast(EncodingName, encoding), name) for name in names}
    heads = {name: replace(head, classes=classes) for name, head in bare.items()}
    ordered = sorted(names, key=lambda n: families.planned_units(n, g, heads[n], eps))
    refusals: list[str] = []
    for name in ordered:
        offer = _offer(name, g, heads[name], eps, dim)
        if isinstance(offer, Construction):
            return replace(offer, function=f)
        refusals.append(f"{name}: {offer.reason}")
    raise InputError("family: " + "; ".join(refusals))


def _bare_head(f: SparseFunction, encoding: EncodingName, family: str) -> Selection:
    """A head with the right sizes and no temperature yet."""
    assert f.T is not None
    slots = f.s
    if encoding == "trainable" and family != "general" and f.s:
        slots = len(np.unique(_position_weights(f, family)))
    return Selection(encoding, f.T, f.s, slots)


def _position_weights(f: SparseFunction, family: str) -> np.ndarray:
    """The value with which each relevant position is read, up to the choice of the active
    symbol."""
    if f.alphabet > 2:
        return np.arange(f.s)
    form = literal_form(f)
    if form is not None:
        return np.array(form.signs)
    problem = families.scalar_problem("linear-threshold", f) if family != "symmetric" else None
    known = problem is not None and not isinstance(problem, Refusal)
    return np.array(problem.weights) if known else np.arange(f.s)


def _offer(
    family: Family, f: SparseFunction, head: Selection, eps: float | None, dim: int | None
) -> Offer:
    if head.encoding != "incoherent":
        return _build(family, f, head, eps, None)
    ideal = _build(family, f, replace(head, encoding="deterministic"), eps, None)
    if isinstance(ideal, Refusal):
        return ideal
    limit = math.inf if dim is not None else COMFORT * ideal.selection.key_norm
    offer: Offer = Refusal("no code length was tried")
    for d in code_lengths(head.T, f.s) if dim is None else [dim]:
        offer = _coded_offer(family, f, head, eps, d)
        if isinstance(offer, Construction) and offer.selection.key_norm <= limit:
            return offer
    return offer


def _coded_offer(
    family: Family, f: SparseFunction, head: Selection, eps: float | None, d: int
) -> Offer:
    """The construction on codes of length d, or why these are too short."""
    basis = at_length(head, f.support, d)
    if basis is None:
        return Refusal(f"codes of length {d} are linearly dependent")
    return _build(family, f, coded(head, basis), eps, basis)


def _build(
    family: Family, f: SparseFunction, head: Selection, eps: float | None, basis: DualBasis | None
) -> Offer:
    if f.s == 0:
        return families.constant_offer(family, f, replace(head, a=0.0, D=0.0), basis)
    if family == "symmetric":
        return families.symmetric_offer(f, head, basis)
    if family == "general":
        return families.general_offer(f, head, eps, basis)
    return families.scalar_offer(family, f, head, eps, basis)


def _check(
    f: SparseFunction, encoding: str, family: str, eps: float | None, dim: int | None
) -> None:
    require(f.T is not None and f.T >= 1, "T", "a context length >= 1", f.T)
    require(encoding in ENCODINGS, "encoding", f"one of {', '.join(ENCODINGS)}", encoding)
    allowed = ("auto", *FAMILIES)
    require(family in allowed, "family", f"one of {', '.join(allowed)}", family)
    two = f.alphabet == 2 or encoding in ("deterministic", "trainable")
    wanted = f"deterministic or trainable for an alphabet of {f.alphabet} symbols"
    require(two, "encoding", wanted, encoding)
    if eps is not None:
        require(math.isfinite(eps) and eps >= 0, "eps", "a finite error >= 0", eps)
        wanted = "0 <= eps < 1/2 for a Boolean function (decisions must stay right)"
        require(not f.is_boolean or eps < 0.5, "eps", wanted, eps)
    if dim is not None:
        require(encoding == "incoherent", "dim", "the encoding incoherent", encoding)
        require(dim >= 1, "dim", "a code length >= 1", dim)
        check_code_size(f.T or 1, dim)
