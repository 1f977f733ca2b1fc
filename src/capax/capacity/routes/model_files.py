"""A bound for a file: Capax checkpoints by their type, GPT-2 and BERT files by their names."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from capax.array_files import safetensors_metadata
from capax.attention.checkpoint import FORMAT, load
from capax.attention.head import Head
from capax.attention.layer import AttentionLayer
from capax.capacity.bound import Bound
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.portfolio import assemble, bound_from_norms, draws_of
from capax.capacity.margins.margins import margins_of
from capax.capacity.network.sample_points import Sample
from capax.capacity.routes.certifying import norm_routes
from capax.capacity.routes.model_routes import evidence_routes
from capax.capacity.weights.checkpoint_norms import (
    checkpoint_blocks,
    head_table,
    read_tensors,
    whole_network,
)
from capax.capacity.weights.measured import MeasuredModel
from capax.capacity.weights.model_bounds import measure
from capax.errors import InputError, require


def is_capax_checkpoint(path: Path | str) -> bool:
    """Whether the header of a safetensors file carries our format mark."""
    return safetensors_metadata(path).get("format") == FORMAT


def read_module(path: Path | str) -> tuple[eqx.Module, dict[str, Any]]:
    """The module of a Capax checkpoint in the precision it was saved in, and its metadata."""
    with jax.enable_x64(True):
        return load(path)


def module_certificate(
    module: Any,
    *,
    m: int,
    T: int | None = None,
    B_X: float | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
    evidence: Evidence = Evidence(),
) -> tuple[ErrorCertificate | Bound, MeasuredModel, Sample]:
    """The certificate of a module: with data from its true margins, else for an assumed margin.

    T, B_X: context length and token length, if the module has no encoding that fixes them. A
    module whose output is a vector has no margin: the answer is then its cover at margin / 2.
    """
    with jax.enable_x64(True):
        measured = measured_module(module, B_X)
    data, scalar = evidence.data, measured.exact().scalar
    sample = measured.sample(m if data is None else len(data.y), T)
    if not scalar:
        asked = "data" if data is not None else "holdout"
        alone = data is None and evidence.holdout is None
        require(alone, f"--{asked}", _ONE_NUMBER, measured.kind)
        return measured.exact().cover(sample, margin / 2), measured, sample
    more = evidence_routes(module, evidence)
    if data is not None:
        margins = margins_of(module, data.X, data.y)
        routes = [*norm_routes(module, margins, data.X.shape[1], target), *more]
        seen = int((margins <= 0).sum()), len(margins)
        certificate = assemble(routes, delta, draws=draws_of(evidence), seen=seen)
        return certificate, measured, sample
    cls, grid = measured.rounded()
    certificate = bound_from_norms(
        cls, sample, margin=margin, delta=delta, target=target, cost=grid.cost, more=more
    )
    return certificate, measured, sample


_ONE_NUMBER = "a model with one number per sequence"


def measured_module(module: Any, B_X: float | None) -> MeasuredModel:
    """`measure`, which needs the token length exactly if the module does not fix it."""
    open_ended = isinstance(module, AttentionLayer | Head)
    if not open_ended:
        name = type(module).__name__
        require(B_X is None, "--B_X", f"none ({name} has its own encoding)", B_X)
        return measure(module)
    wanted = "the length of the longest token or query (this module has no encoding)"
    if B_X is None:
        raise InputError(f"--B_X: wanted {wanted}, got none")
    return measure(module, B_X=B_X)


MOST_HEADS = 200


def foreign_certificate(
    path: Path | str,
    *,
    m: int,
    T: int,
    heads: int | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
) -> tuple[ErrorCertificate, list[dict[str, Any]]]:
    """A GPT-2 or BERT file: Theorem 4.7 (LN) for a unit read-out, and one row per head.

    The m at which so deep a network reaches `target` is very large, and finding it takes dozens of
    counts over all heads: it is computed only up to MOST_HEADS heads.
    """
    blocks = checkpoint_blocks(read_tensors(path), heads)
    sample = Sample(m, T)
    rows = [asdict(row) for row in head_table(blocks, sample)]
    target = target if len(rows) <= MOST_HEADS else None
    certificate = bound_from_norms(
        whole_network(blocks), sample, margin=margin, delta=delta, target=target
    )
    return certificate, rows
