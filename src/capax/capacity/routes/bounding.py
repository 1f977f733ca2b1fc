"""A bound in one call: from norms written by hand, from a model, or from the weights in a file."""

from pathlib import Path
from typing import Any

from capax.capacity.bound import Bound
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.portfolio import bound_from_norms
from capax.capacity.magnitude import LN_10
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.plain_norms import (
    class_from_norms,
    paper_cover_from_norms,
    parse_norms,
)
from capax.errors import require


def bound(
    source: str | Path | Any,
    *,
    T: int | None = None,
    m: int = 5000,
    d: int = 64,
    k: int | None = None,
    layers: int = 1,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = 0.1,
    evidence: Evidence = Evidence(),
) -> ErrorCertificate | Bound:
    """The largest error, with probability 1 - delta, of a head with these norms.

    source: norms ("W_QK=2,v=1"), a module of `capax.attention`, or the path of a Capax checkpoint
    (.safetensors). A module with a vector output gets its covering number instead. T: context
    length without [CLS] (1000 for norms); m: training sequences; d, k: widths of a token and of a
    head; layers: in the paper's form; margin: on the training sequences; target: the error for
    which m is solved. evidence: the training data of a model, hold-out rows and more; then the
    margins are measured and m is the number of examples.
    Raises `InputError` for impossible norms or a file that cannot be used.

    Examples:
        >>> import capax
        >>> found = capax.bound("W_QK=2,v=1", T=1000, m=100_000, margin=0.5)
        >>> found.best.vacuous, found.best.status
        (False, 'rigorous')
        >>> capax.bound(capax.compile("x1 & x4", T=6).model, m=10_000, margin=0.5).predictor
        'the model'
    """
    if isinstance(source, str) and "=" in source:
        require(evidence == Evidence(), "evidence", "a model as source", "norms")
        length = 1000 if T is None else T
        require(length >= 1, "T", "a context length >= 1", T)
        cls = class_from_norms(parse_norms(source), d=d, k=k, layers=layers)
        return bound_from_norms(cls, Sample(m, length), margin=margin, delta=delta, target=target)
    from capax.capacity.routes.model_files import module_certificate, read_module

    module = read_module(source)[0] if isinstance(source, str | Path) else source
    goal: dict[str, Any] = {"margin": margin, "delta": delta, "target": target}
    return module_certificate(module, m=m, T=T, evidence=evidence, **goal)[0]


def bound_from_text(
    text: str,
    *,
    T: int,
    m: int,
    d: int = 64,
    k: int | None = None,
    layers: int = 1,
    margin: float,
    delta: float,
    target: float,
) -> tuple[ErrorCertificate | Bound, dict[str, Any]]:
    """The bound from norms as text; for one head also its cover beside the paper's constants."""
    norms, sample, eps = parse_norms(text), Sample(m, T), margin / 2
    cls = class_from_norms(norms, d=d, k=k, layers=layers)
    goal: dict[str, Any] = {"margin": margin, "delta": delta, "target": target}
    answer = bound_from_norms(cls, sample, **goal) if cls.scalar else cls.cover(sample, eps)
    if layers > 1:
        return answer, {}
    paper = paper_cover_from_norms(norms, sample, eps, d=d, k=k).log_value
    compared = {
        "eps": eps,
        "log10_ours": cls.cover(sample, eps).log_value / LN_10,
        "log10_paper": paper / LN_10,
        "W_QK_T_21_given": "W_QK_T_21" in norms,
    }
    return answer, {"log_cover_compared": compared}
