"""A bound for a file: Capax checkpoints by their type, GPT-2 and BERT files by their names."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from capax.array_files import safetensors_metadata
from capax.attention.checkpoint import FORMAT, load
from capax.attention.head import Head
from capax.attention.layer import AttentionLayer
from capax.boolean.parser import parse
from capax.capacity.bound import MODEL, Bound
from capax.capacity.certificates.certificate import certify, holdout_errors, linear_route
from capax.capacity.certificates.gibbs import gibbs_errors
from capax.capacity.certificates.pac_bayes import LEAST_EXAMPLES, gaussian_pac_bayes_bound
from capax.capacity.certificates.portfolio import (
    Certificate,
    Route,
    bound_from_norms,
    holdout_route,
)
from capax.capacity.certificates.version_space import best_placements
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.checkpoint_norms import (
    checkpoint_blocks,
    head_table,
    read_tensors,
    whole_network,
)
from capax.capacity.weights.measured import Measured
from capax.capacity.weights.model_bounds import measure
from capax.data.examples import Examples
from capax.errors import InputError, require


def is_capax_checkpoint(path: Path | str) -> bool:
    """Whether the header of a safetensors file carries our format mark."""
    return safetensors_metadata(path).get("format") == FORMAT


@dataclass(frozen=True)
class Evidence:
    """What a model is judged on besides its norms.

    data: the examples it was trained on. holdout: examples it never saw, judged `looks` times.
    family: placements of this formula as predictors of their own. frozen: only the read-out was
    trained on the data. prior: a checkpoint trained on the first `prior_size` training examples.
    """

    data: Examples | None = None
    holdout: Examples | None = None
    looks: int = 1
    family: str | None = None
    frozen: bool = False
    prior: Path | str | None = None
    prior_size: int = 0

    def __post_init__(self) -> None:
        needs_data = self.family is not None or self.frozen or self.prior is not None
        require(self.data is not None or not needs_data, "--data",
                "training data for --family, --frozen and --prior", "none")  # fmt: skip


def model_certificate(
    path: Path | str,
    *,
    m: int,
    T: int | None = None,
    B_X: float | None = None,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = None,
    evidence: Evidence = Evidence(),
) -> tuple[Certificate | Bound, Measured, Sample]:
    """A Capax checkpoint: with data from its true margins, without it for an assumed margin.

    T, B_X: context length and token length, where the module has no encoding that fixes them. A
    module whose output is a vector has no margin: the answer is then its cover at margin / 2.
    """
    with jax.enable_x64(True):
        module, _ = load(path)
        measured = measured_module(module, B_X)
    data, scalar = evidence.data, measured.exact().scalar
    sample = measured.sample(m if data is None else len(data.y), T)
    if not scalar:
        asked = "data" if data is not None else "holdout"
        require(evidence == Evidence(), f"--{asked}", _ONE_NUMBER, measured.kind)
        return measured.exact().cover(sample, margin / 2), measured, sample
    more = _further_routes(module, evidence)
    if data is not None:
        certificate = certify(
            module, data.X, data.y, delta=delta, target=target, tries=data.tries, more=more
        )
        return certificate, measured, sample
    cls, grid = measured.rounded()
    certificate = bound_from_norms(
        cls, sample, margin=margin, delta=delta, target=target, cost=grid.cost, more=more
    )
    return certificate, measured, sample


_ONE_NUMBER = "a model with one number per sequence"


def measured_module(module: Any, B_X: float | None) -> Measured:
    """`measure`, with the token length asked for exactly where the module does not fix it."""
    open_ended = isinstance(module, AttentionLayer | Head)
    if not open_ended:
        name = type(module).__name__
        require(B_X is None, "--B_X", f"none ({name} has its own encoding)", B_X)
        return measure(module)
    wanted = "the length of the longest token or query (this module has no encoding)"
    if B_X is None:
        raise InputError(f"--B_X: wanted {wanted}, got nothing")
    return measure(module, B_X=B_X)


def _further_routes(module: Any, evidence: Evidence) -> list[Route]:
    """Every route that the evidence allows, besides the two from norms."""
    routes: list[Route] = []
    data, holdout = evidence.data, evidence.holdout
    if holdout is not None:
        counted = holdout_errors(module, holdout.X, holdout.y)
        noisy = data is not None and data.noise != holdout.noise and bool(data.noise)
        about = f"{MODEL}, judged on labels without noise" if noisy else MODEL
        routes.append(holdout_route(*counted, looks=evidence.looks, predictor=about))
    if data is None:
        return routes
    if evidence.frozen:
        routes.append(linear_route(module, data.X, data.y))
    if evidence.family is not None:
        routes.append(_family_route(evidence.family, data))
    if evidence.prior is not None:
        routes.append(_gibbs_route(module, evidence))
    return routes


def _family_route(family: str, data: Examples) -> Route:
    f = parse(family)
    require(f.s <= data.X.shape[1], "--family", f"at most {data.X.shape[1]} variables", f.s)
    best = best_placements(f, data.X, data.y)
    return lambda share, cost: best.bounds(family, share, cost=cost)


def _gibbs_route(module: Any, evidence: Evidence) -> Route:
    """PAC-Bayes around the model, on the examples that the prior has not seen."""
    data, size = evidence.data, evidence.prior_size
    assert data is not None
    rest = len(data.y) - size
    wanted = f"between 0 and {len(data.y) - LEAST_EXAMPLES} of {len(data.y)} examples"
    require(size >= 0 and rest >= LEAST_EXAMPLES, "--prior-size", wanted, size)
    with jax.enable_x64(True):
        prior, _ = load(str(evidence.prior))
        tried = gibbs_errors(module, prior, data.X[size:], data.y[size:], key=jax.random.key(0))
    return lambda share, cost: gaussian_pac_bayes_bound(tried, share, cost=cost)


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
) -> tuple[Certificate, list[dict[str, Any]]]:
    """A GPT-2 or BERT file: Theorem 4.7 (LN) for a unit read-out, and one row per head.

    The m at which so deep a network reaches `target` is astronomical, and finding it takes dozens
    of counts over all heads: it is looked for only up to MOST_HEADS heads.
    """
    blocks = checkpoint_blocks(read_tensors(path), heads)
    sample = Sample(m, T)
    rows = [asdict(row) for row in head_table(blocks, sample)]
    target = target if len(rows) <= MOST_HEADS else None
    certificate = bound_from_norms(
        whole_network(blocks), sample, margin=margin, delta=delta, target=target
    )
    return certificate, rows
