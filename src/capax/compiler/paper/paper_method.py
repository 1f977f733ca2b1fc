"""Formula in, the paper's own network and its certificate out: `capax compile --method paper`.

Symmetric functions take one head and the network of Lemma B.5, all others s heads (one in the bag
of vectors) and that of Lemma B.6. With codes shorter than T the repaired heads are built. The
output is proved on all 2^T inputs by the same ranges as ours; norms and widths are compared with
the limits of the lemmas.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import error_from_range, function_from, table_text
from capax.compiler.certificate.sample_size import sample_sizes
from capax.compiler.compiling import Compiled, formula_of, understood
from capax.compiler.compiling import compile as compile_ours
from capax.compiler.paper.bump_network import BumpNetwork, injective_network, symmetric_network
from capax.compiler.paper.paper_heads import PaperHeads, paper_heads
from capax.compiler.paper.paper_range import Box, head_box, network_range
from capax.compiler.paper.paper_sample_size import paper_routes
from capax.compiler.parts.incoherent import draw_codes
from capax.compiler.parts.selection import ENCODINGS, EncodingName
from capax.errors import InfeasibleError, InputError, require
from capax.plain_json import PlainRecord
from capax.rounding import digits_down, digits_up

Ends = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends of the output, one number for each pattern."""
ROOM = 1 + 1e-12
"""Norms are compared up to the rounding of float64."""
PaperFamily = Literal["auto", "symmetric", "general"]
MAX_T = 4096
"""The paper's matrices are dense: T x T numbers of 8 bytes, 128 MiB here."""
MAX_S = 8
"""4 s 2^s units in the first layer, 8192 here."""


@dataclass(frozen=True)
class PaperCertificate(PlainRecord):
    """The proved numbers of the paper's network. Norms: built, and the limit of the lemma.

    `head_error` >= |head - g| on all inputs, where the lemma allows gamma/4.
    """

    function: str
    T: int
    s: int
    support: tuple[int, ...]
    table: str | tuple[float, ...]
    encoding: str
    lemmas: tuple[str, str]
    heads: int
    widths: tuple[int, int]
    gamma: float
    Delta: float
    R: float
    head_error: float
    worst_case_error: float
    margin: float | None
    wrong_decisions: int | None
    norms: dict[str, dict[str, float]]
    within_limits: bool


@dataclass(frozen=True)
class PaperCompiled:
    """The heads, the network behind them, and the certificate of both."""

    heads: PaperHeads
    network: BumpNetwork
    certificate: PaperCertificate

    def __call__(self, bits: np.ndarray) -> np.ndarray:
        """The output on rows of bits, in float64."""
        return self.network(self.heads.outputs(bits))


def compile_paper(
    function: str | SparseFunction,
    T: int | None = None,
    *,
    encoding: EncodingName | str = "deterministic",
    family: PaperFamily | str = "auto",
    dim: int | None = None,
) -> PaperCompiled:
    """The network that the paper constructs for `function` on T bits, proved on all inputs.

    `family`: symmetric (B.5), general (B.6), or auto; `dim`: length of incoherent codes. Raises
    `InputError` with the reason when an argument does not fit.
    """
    f = understood(function, T)
    return construct(f, formula_of(function, f), encoding, family, dim)


def construct(
    f: SparseFunction, name: str, encoding: str, family: str, dim: int | None
) -> PaperCompiled:
    """The same for a function on its support; bits of it may be irrelevant."""
    length = f.T
    assert length is not None
    require(encoding in ENCODINGS, "encoding", f"one of {', '.join(ENCODINGS)}", encoding)
    require(length <= MAX_T, "T", f"at most {MAX_T} for the paper's dense matrices", length)
    require(1 <= f.s <= MAX_S, "function", f"1 to {MAX_S} relevant variables", f.s)
    fits = dim is None or encoding == "incoherent"
    require(fits, "dim", "incoherent codes (others have no length)", encoding)
    levels = level_values(f)
    vector = family == "general" or (family == "auto" and levels is None)
    if not vector and levels is None:
        raise InputError("family: f is not symmetric in its bits; use general")
    heads = _heads(f, encoding, vector, dim)
    network = network_for(heads, f)
    box = head_box(heads)
    limits = {**heads.limits, **network.limits}
    ranges = (box, network_range(network, box))
    made = certify_paper(f, name, heads, network, ranges, limits)
    if made.margin is not None and made.margin <= 0:
        reached = f"the paper's network decides within {made.margin:.3g} of 1/2"
        raise InfeasibleError(f"function: {reached}")
    return PaperCompiled(heads, network, made)


def level_values(f: SparseFunction) -> np.ndarray | None:
    """f at 0, 1, ..., s ones; None when f is not symmetric in its bits."""
    ones = np.array([bin(row).count("1") for row in range(1 << f.s)])
    found = [np.unique(f.table[ones == r]) for r in range(f.s + 1)]
    return np.concatenate(found) if all(len(values) == 1 for values in found) else None


def network_for(heads: PaperHeads, f: SparseFunction) -> BumpNetwork:
    """B.6 behind the vector of the heads, B.5 behind their mean."""
    if heads.vector:
        return injective_network(heads.wanted, f.table, heads.gamma)
    levels = level_values(f)
    assert levels is not None
    at = [(1 << r) - 1 for r in range(f.s + 1)]  # one pattern with r ones
    return symmetric_network(heads.wanted[at, 0], levels, heads.gamma)


def _heads(f: SparseFunction, encoding: str, vector: bool, dim: int | None) -> PaperHeads:
    T, s = f.T or 0, f.s
    if encoding != "incoherent":
        name: Any = encoding
        return paper_heads(T, f.support, name, vector=vector)
    lengths = [dim] if dim is not None else [2**n for n in range(4, 14)]
    for length in lengths:
        codes = draw_codes(T, length)[:T]
        try:
            return paper_heads(T, f.support, "incoherent", vector=vector, codes=codes)
        except InputError:
            continue
    raise InputError(f"dim: codes of length {lengths[-1]} are too coherent for s = {s} (B.2)")


def certify_paper(
    f: SparseFunction,
    name: str,
    heads: PaperHeads,
    network: BumpNetwork,
    ranges: tuple[Box, Ends],
    limits: dict[str, float],
) -> PaperCertificate:
    """The certificate from the proven ranges of heads and network; `limits`: of the lemmas."""
    box, ends = ranges
    error, margin = error_from_range(f, *ends, signed=False)
    away = np.maximum(heads.wanted - box[0], box[1] - heads.wanted).max()
    built = {**heads.norms(), **network.norms()}
    norms = {name: {"built": size, "allowed": limits[name]} for name, size in built.items()}
    right = margin is not None and margin > 0
    return PaperCertificate(
        function=name,
        T=heads.T,
        s=heads.s,
        support=f.support,
        table=table_text(f),
        encoding=heads.encoding,
        lemmas=(heads.lemma, "B.6" if heads.vector else "B.5"),
        heads=len(heads.heads),
        widths=network.widths,
        gamma=heads.gamma,
        Delta=heads.Delta,
        R=heads.R,
        head_error=digits_up(float(np.nextafter(away, np.inf))),
        worst_case_error=digits_up(error),
        margin=None if margin is None else digits_down(margin),
        wrong_decisions=0 if right else None,
        norms=norms,
        within_limits=all(row["built"] <= row["allowed"] * ROOM for row in norms.values()),
    )


def side_by_side(made: PaperCompiled, ours: Compiled | None = None) -> dict[str, dict[str, Any]]:
    """Units, norms, margin and m of the paper's network and of ours for the same function."""
    c = made.certificate
    other = compile_ours(c.function, c.T, encoding=c.encoding) if ours is None else ours
    mine = other.certificate
    head = ("W_Q", "W_K", "W_V")
    f = function_from(c.support, c.table, c.T)
    routes = paper_routes(made.heads, made.network, f, c.margin)
    return {
        "paper": {
            "heads": c.heads,
            "units": sum(c.widths),
            "layers": 3,
            "error": c.worst_case_error,
            "margin": c.margin,
            **{f"{n}_F": c.norms[n]["built"] for n in head},
            "m": sample_sizes(routes),
        },
        "ours": {
            "heads": 1,
            "units": mine.mlp_units,
            "layers": 2 if mine.mlp_units else 1,
            "error": mine.worst_case_error,
            "margin": mine.margin,
            **{f"{n}_F": mine.norms[n]["frobenius"] for n in head},
            "m": dict(mine.sample_size),
        },
    }
