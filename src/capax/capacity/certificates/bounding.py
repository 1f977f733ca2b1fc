"""A bound in one call: from norms written by hand, or from the weights in a file."""

from pathlib import Path

from capax.capacity.bound import Bound
from capax.capacity.certificates.portfolio import Certificate, bound_from_norms
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.plain_norms import class_from_norms, parse_norms
from capax.errors import require


def bound(
    source: str | Path,
    *,
    T: int | None = None,
    m: int = 5000,
    d: int = 64,
    k: int | None = None,
    layers: int = 1,
    margin: float = 1.0,
    delta: float = 0.05,
    target: float | None = 0.1,
) -> Certificate | Bound:
    """With probability 1 - delta: what error can a head of these norms have?

    source: norms ("W_QK=2,v=1"), or the path of a Capax checkpoint (.safetensors; a module with a
    vector output gets its covering number instead). T: context length without [CLS] (1000 for
    norms); m: training sequences; d, k: widths of a token and of a head; layers: in the paper's
    form; margin: on the training sequences; target: the error for which m is solved.
    Raises `InputError` for norms that cannot be or a file that cannot be used.

    Examples:
        >>> import capax
        >>> found = capax.bound("W_QK=2,v=1", T=1000, m=100_000, margin=0.5)
        >>> found.best.vacuous, found.best.status
        (False, 'rigorous')
    """
    if "=" in str(source):
        length = 1000 if T is None else T
        require(length >= 1, "T", "a context length >= 1", T)
        cls = class_from_norms(parse_norms(str(source)), d=d, k=k, layers=layers)
        return bound_from_norms(cls, Sample(m, length), margin=margin, delta=delta, target=target)
    from capax.capacity.certificates.model_files import model_certificate

    goal = {"margin": margin, "delta": delta, "target": target}
    return model_certificate(source, m=m, T=T, **goal)[0]
