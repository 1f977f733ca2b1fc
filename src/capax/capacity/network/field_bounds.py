"""Published bounds beside ours, on one class: a head with a linear read-out, f = v . X^T a.

X has tokens of length at most B_X, a = softmax(X W_QK^T z), ||z|| <= B_X. Each entry bounds the
Rademacher complexity of ramp_gamma(y f), hence the error of every f of the class with margin gamma
on all m sequences:

    error <= 2 R(m) + 3 sqrt(ln(2/delta) / (2m)).

* **Corollary 4.5, ours** and **paper-style (36)**: ln N <= C/eps^2, by norms ||W_QK||_F, ||v||_2
  and ||W_QK^T||_{2,1}.
* **Trauger and Tewari** (AISTATS 2024, PMLR v238): free of T. v is peeled off,
  R(F) <= ||v||_1 R(G), G = {+- (X^T a)_j}. A Frobenius cover of {||W||_{1,1} <= B} at radius e
  (Maurey) moves scores by B_X^2 e, weights by C_N B_X^2 e in 1-norm, a coordinate of X^T a by
  C_N B_X^3 e. So
      ln N(G, eps) <= ln(2d) + C_N^2 B_X^6 B^2 ln(2 d^2 + 1)/eps^2,
  C_N = 2 in their proof, 1 by ours (4 becomes 1). At B_X = 1 this is their form; they print B_X^4,
  which scaling refutes in general: X -> t X, z -> t z moves scores by t^2 and outputs by t.
* **parameter counting**: W_QK and v in balls of their Frobenius norms, d^2 + d numbers.
* **Bartlett, Foster, Telgarsky** (2017) for an MLP on the same T bits, the contrast:
      ln N(eps) <= (||x|| prod s_i rho_i)^2 (sum (b_i/s_i)^{2/3})^3 ln(2 W^2)/eps^2,
  s_i spectral norms, b_i = ||A_i^T||_{2,1}, W the largest width; bits have ||x|| = sqrt(T).

With one-hot positions d = T + 3: bounds in ln d instead of ln T bring ln T back.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capax.capacity.arguments import check_count, check_positive
from capax.capacity.bound import Assumption, Bound, Status
from capax.capacity.complexity.chaining import rademacher_from_cover, rademacher_from_log_cover
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.linear.cover_pieces import Piece, parameter_count_cover
from capax.capacity.magnitude import log_sum
from capax.capacity.network.function_class import check_norms
from capax.capacity.network.head_bounds import INDEPENDENT, linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample

SOURCES = {
    "Corollary 4.5, ours": "Edelman, Goel, Kakade, Zhang 2022; constants of this library",
    "paper-style (36)": "Edelman, Goel, Kakade, Zhang 2022, Corollary 4.5; Zhang 2002",
    "Trauger-Tewari": "Trauger, Tewari, AISTATS 2024 (PMLR v238)",
    "Trauger-Tewari, C_N = 1": "Trauger, Tewari, AISTATS 2024, with our softmax constant",
    "parameter counting": "volume of a ball, textbook",
    "MLP (Bartlett-Foster-Telgarsky)": "Bartlett, Foster, Telgarsky, NeurIPS 2017",
    "Theorem 4.7, ours": "Edelman, Goel, Kakade, Zhang 2022; recursion of this library",
    "Trauger-Tewari, depth": "Trauger, Tewari, AISTATS 2024, with the recursion of this library",
}


@dataclass(frozen=True)
class HeadNorms:
    """The norms that bound the class: of W_QK (d x d) and v, the longest token, the margin."""

    W_QK_F: float
    W_QK_T_21: float
    W_QK_11: float
    v_2: float
    v_1: float
    d: int
    B_X: float = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        names = ("W_QK_F", "W_QK_T_21", "W_QK_11", "v_2", "v_1", "B_X", "margin")
        check_norms(**{name: getattr(self, name) for name in names})
        check_count("d", self.d)

    def scaled(self, factor: float) -> "HeadNorms":
        """The same with W_QK times a number."""
        names = ("W_QK_F", "W_QK_T_21", "W_QK_11")
        return replace(self, **{name: factor * getattr(self, name) for name in names})


Complexity = Callable[[int], float]


@dataclass(frozen=True)
class FieldBound:
    """One bound: its name, the Rademacher complexity R(m), its assumptions, whether it is proved.

    `length_free`: T does not occur in it (d may).
    """

    name: str
    complexity: Complexity
    assumptions: tuple[Assumption, ...]
    norms: dict[str, float]
    status: Status = "rigorous"
    length_free: bool = False

    @property
    def source(self) -> str:
        """Where it was published."""
        return SOURCES[self.name]

    def error(self, m: int, delta: float) -> float:
        """2 R(m) + 3 sqrt(ln(2/delta)/(2m))."""
        return 2 * self.complexity(m) + 3 * math.sqrt(math.log(2 / delta) / (2 * m))

    def needed(self, target: float, delta: float) -> int | None:
        """The smallest m at which the error bound is at most `target`."""
        return samples_needed(lambda m: self.error(m, delta), target)

    def at(self, m: int, *, delta: float, target: float | None = None) -> Bound:
        """The bound on the error for m sequences."""
        return Bound(
            statement=self.name,
            value=self.error(m, delta),
            norms=self.norms,
            assumptions=self.assumptions,
            m_needed=None if target is None else self.needed(target, delta),
            formula="2 R(m) + 3 sqrt(ln(2/delta)/(2m))",
            notes=(f"source: {self.source}",),
            status=self.status,
            target=target,
            delta=delta,
        )


def field_bounds(norms: HeadNorms, T: int) -> tuple[FieldBound, ...]:
    """The bounds for one head with these norms on sequences of T tokens and [CLS]."""
    check_count("T", T)
    return (
        _ours(norms, T),
        _paper(norms, T),
        _trauger_tewari(norms, 2.0),
        _trauger_tewari(norms, 1.0),
        _counted(norms),
    )


MARGIN = Assumption("every training sequence has margin at least gamma")


def _field(name: str, norms: HeadNorms, complexity: Complexity, **more: Any) -> FieldBound:
    shown = {key: float(value) for key, value in vars(norms).items()}
    return FieldBound(name, complexity, (INDEPENDENT, MARGIN), shown, **more)


def _ours(norms: HeadNorms, T: int) -> FieldBound:
    cls = linear_head(norms.W_QK_F, norms.v_2, inputs=Inputs(B_X=norms.B_X, B_z=norms.B_X))

    def complexity(m: int) -> float:
        return _from_log_C(cls.log_C(Sample(m, T)), norms.margin, m)

    return _field("Corollary 4.5, ours", norms, complexity)


def _paper(norms: HeadNorms, T: int) -> FieldBound:
    def complexity(m: int) -> float:
        eps = norms.margin / 4  # the constant depends on eps inside a logarithm
        cover = paper_style_cover(
            norms.W_QK_T_21, norms.v_2, norms.v_2, Sample(m, T), eps, B_X=norms.B_X, B_z=norms.B_X
        )
        return _from_log_C(cover.log_value + 2 * math.log(eps), norms.margin, m)

    return _field("paper-style (36)", norms, complexity, status="comparison")


def _trauger_tewari(norms: HeadNorms, C_N: float) -> FieldBound:
    scale = C_N * norms.B_X**3 * norms.W_QK_11
    entries = math.log(2 * norms.d**2 + 1)

    def log_cover(eps: float) -> float:
        terms = (scale / eps) ** 2 + 1  # Maurey takes a whole number: ceil(x) <= x + 1
        return math.log(2 * norms.d) + terms * entries

    def complexity(m: int) -> float:
        inner = rademacher_from_log_cover(log_cover, norms.B_X, m, external=True)
        return min(0.5, norms.v_1 * inner / norms.margin)

    name = "Trauger-Tewari" if C_N == 2 else "Trauger-Tewari, C_N = 1"
    return _field(name, norms, complexity, length_free=True)


def _counted(norms: HeadNorms) -> FieldBound:
    cls = linear_head(norms.W_QK_F, norms.v_2, inputs=Inputs(B_X=norms.B_X, B_z=norms.B_X))
    sizes = (norms.d**2, norms.d)
    pieces = cls.build(Sample(1, 1))
    pieces = tuple(replace(p, num_parameters=n) for p, n in zip(pieces, sizes, strict=True))

    def log_cover(eps: float) -> float:
        return parameter_count_cover(pieces, math.log(eps * norms.margin)).log_cover

    def complexity(m: int) -> float:
        return rademacher_from_log_cover(log_cover, 0.5, m, external=True)

    return _field("parameter counting", norms, complexity, length_free=True)


def mlp_bound(
    layers: Sequence[tuple[float, float]],
    *,
    width: int,
    B_X: float,
    margin: float,
    L_sigma: float = 1.0,
) -> FieldBound:
    """Bartlett, Foster, Telgarsky for an MLP: (spectral norm, ||A^T||_{2,1}) of every layer.

    Activations are L_sigma-Lipschitz with value 0 at 0, none behind the last layer; reference
    matrices are 0. `width` = the largest number of units or inputs; `B_X` = the longest input.
    """
    for s, b in layers:
        check_norms(spectral=s, norm_21=b)
    for name, value in (("B_X", B_X), ("margin", margin), ("L_sigma", L_sigma)):
        check_positive(name, value)
    log_product = math.fsum(math.log(s) for s, _ in layers)
    log_product += (len(layers) - 1) * math.log(L_sigma)
    ratios = math.fsum((b / s) ** (2 / 3) for s, b in layers)
    log_C = 2 * (math.log(B_X) + log_product) + 3 * math.log(ratios)
    log_C += math.log(math.log(2 * width**2))
    shown = {"B_X": B_X, "margin": margin, "width": float(width)}
    shown |= {f"A_{i + 1}_2": s for i, (s, _) in enumerate(layers)}
    return FieldBound(
        "MLP (Bartlett-Foster-Telgarsky)",
        lambda m: _from_log_C(log_C, margin, m),
        (INDEPENDENT, MARGIN, Assumption(f"activations are {L_sigma:.4g}-Lipschitz and 0 at 0")),
        shown,
    )


def memorised(heads: int, context: int, head_width: int) -> int:
    """H (min(n, d_h) - 1) + 1: examples that one attention layer can memorise, at least.

    Mahdavi, Liao, Thrampoulidis 2023 (arXiv 2306.02010). Heads with fixed scores give features
    P_h X^T a_h, linear in the values; on n tokens they span min(n, d_h) dimensions each, and all
    share the constants where n <= d_h, because weights add up to 1.
    """
    for name, value in (("heads", heads), ("context", context), ("head_width", head_width)):
        check_count(name, value)
    return heads * (min(context, head_width) - 1) + 1


def deep_bounds(
    layer: PaperLayer, layers: int, w_2: float, T: int, *, margin: float
) -> tuple[FieldBound, ...]:
    """Theorem 4.7, ours, and the length-free form of Trauger and Tewari, for equal layers.

    The same recursion (amplifications are products over the later layers, j > i) with two ways to
    count a matrix: by its (2,1) norm on the sample, or by its entries ||W||_{1,1}, free of m and T.
    """
    cls = paper_network([layer] * layers, w_2)

    def ours(m: int) -> float:
        return _from_log_C(cls.log_C(Sample(m, T)), margin, m)

    def by_entries(m: int) -> float:
        thirds = [_entries_third(piece) for piece in cls.build(Sample(1, 1))]
        return _from_log_C(3 * log_sum(thirds), margin, m)

    shown = {**cls.norms, "margin": margin}
    common = (INDEPENDENT, MARGIN)
    return (
        FieldBound("Theorem 4.7, ours", ours, common, shown),
        FieldBound("Trauger-Tewari, depth", by_entries, common, shown, length_free=True),
    )


def _entries_third(piece: Piece) -> float:
    """ln (alpha^2 C)^(1/3), C = (||W||_{1,1} b)^2 ln(2n + 1) for n entries, twice that for ceil."""
    n = piece.num_parameters or 1
    scale = piece.log_scale_entries
    if scale == math.inf:  # a vector: ||w||_1 <= sqrt(n) ||w||_2
        scale = piece.log_scale + 0.5 * math.log(n)
    log_C = math.log(2.0) + 2 * scale + math.log(math.log(2 * n + 1))
    return (2 * piece.log_amplification + log_C) / 3


def _from_log_C(log_C: float, margin: float, m: int) -> float:
    log_C -= 2 * math.log(margin)
    return 0.5 if log_C > 600 else rademacher_from_cover(math.exp(log_C), 0.5, m, external=True)
