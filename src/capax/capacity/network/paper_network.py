"""Depth in the paper's form (P): Theorem 4.7 as a recursion over layers.

X' = Pi(sigma(Pi(Att(X))) W_C), rows projected onto unit balls; (U) the same without projections:
radii grow from layer to layer. ln N is exponential in depth, through the product of the Lipschitz
constants, and logarithmic in T (if C_N is free of T). All numbers are kept as logarithms.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.magnitude import safe_log
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.layer_pieces import Shape, matrix_piece, score_piece
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import Stage, compose, log_attention_lipschitz
from capax.capacity.network.weighting import SOFTMAX, Weighting
from capax.errors import require

VACUOUS = "the product of norms over the layers makes this bound vacuous"


@dataclass(frozen=True)
class PaperLayer:
    """Norms of one layer of form (P): W_QK [d, d], W_V [d, k], W_C [k, d_out], and its sizes.

    d_out: d by default.
    """

    W_QK: MatrixNorms
    W_V: MatrixNorms
    W_C: MatrixNorms
    d: int
    k: int
    L_sigma: float = 1.0
    weighting: Weighting = SOFTMAX
    d_out: int | None = None

    @property
    def width(self) -> int:
        """Width of the rows this layer gives."""
        return self.d if self.d_out is None else self.d_out


def paper_stage(
    layer: PaperLayer, log_B: float, sample: Sample, index: int, last: bool, project: bool
) -> Stage:
    """One layer of (P) or (U) on rows of length e^{log_B}; the last one is read at [CLS] only."""
    (N_s, N_v), label = sample.layer_points(last, first=index == 0), f"L{index} "
    log_V, log_C = safe_log(layer.W_V.norm_2), safe_log(layer.W_C.norm_2)
    log_sigma = math.log(layer.L_sigma)
    log_hidden = log_sigma + (0.0 if project else log_V + log_B)
    after = log_C + log_sigma
    C_N = layer.weighting.C_N(sample.T + 1)
    scores = score_piece(
        layer.W_QK, after + log_V + log_B, layer.weighting, sample, N_s, 2 * log_B,
        Shape(layer.d, layer.d, layer.W_QK.rank), f"{label}W_QK",
    )  # fmt: skip
    values, out = Shape(layer.d, layer.k), Shape(layer.k, layer.width)
    return Stage(
        after + log_V + log_attention_lipschitz(layer.W_QK.norm_2, log_B, C_N),
        (
            scores,
            matrix_piece(f"{label}W_V", layer.W_V, log_B, after, N_v, layer.k, values),
            matrix_piece(f"{label}W_C", layer.W_C, log_hidden, 0.0, N_v, layer.width, out),
        ),
    )


def paper_network(
    layers: Sequence[PaperLayer], w_2: float, *, B_X: float = 1.0, project: bool = True
) -> FunctionClass:
    """Theorem 4.7 for the paper's stack with read-out w . x_CLS (project=False: variant (U)).

    lambda = ||W_C||_2 L_sigma ||W_V||_2 (1 + 2 C_N ||W_QK||_2 B^2); pieces W_QK, W_V, W_C per layer
    and w; ln N <= (sum (alpha^2 C)^{1/3})^3 / eps^2 or the exact counts at that split.
    """
    require(len(layers) > 0, "layers", "at least one layer", len(layers))
    check_norms(w_2=w_2, B_X=B_X)

    def build(sample: Sample) -> tuple[Piece, ...]:
        stages, log_B = [], math.log(B_X)
        for i, layer in enumerate(layers):
            last = i == len(layers) - 1
            stages.append(paper_stage(layer, log_B, sample, i, last, project))
            sizes = (layer.W_C.norm_2, layer.L_sigma, layer.W_V.norm_2)
            log_B = 0.0 if project else log_B + sum(safe_log(size) for size in sizes)
        read = Piece("w", math.log(w_2) + log_B, sample.sequences, num_parameters=layers[-1].width)
        return compose([*stages, Stage(math.log(w_2), (read,))])

    norms = {"layers": float(len(layers)), "w_2": w_2, "B_X": B_X, **_paper_norms(layers)}
    form = f"{'P' if project else 'U'}, {len(layers)} layers"
    return theorem_4_7(form, build, norms, layers[0].weighting, vacuous=len(layers) > 2)


def theorem_4_7(
    form: str,
    build: Callable[[Sample], tuple[Piece, ...]],
    norms: dict[str, float],
    weighting: Weighting,
    *,
    vacuous: bool,
) -> FunctionClass:
    """The class of Theorem 4.7 in one of its forms, from its pieces and norms."""
    return FunctionClass(
        statement=f"Theorem 4.7 ({form})",
        build=build,
        norms=norms,
        assumptions=(INDEPENDENT,),
        latex=THEOREM_4_7_LATEX,
        formula=THEOREM_4_7_TEXT,
        notes=(VACUOUS,) if vacuous else (),
        weighting=weighting,
        read_outs=1,
    )


THEOREM_4_7_LATEX = (
    r"\frac1{\epsilon^2}\Big[\sum_{\ell,p}(\alpha_{\ell,p}^2C_{\ell,p})^{1/3}\Big]^3,\quad"
    r"\alpha_{\ell,p}=\|w\|_2c_{\ell,p}\prod_{j>\ell}\lambda_j"
)
THEOREM_4_7_TEXT = "(1/eps^2) [sum over pieces of (alpha^2 C)^(1/3)]^3, alpha = c prod later lambda"


def _paper_norms(layers: Sequence[PaperLayer]) -> dict[str, float]:
    rows = {}
    for i, layer in enumerate(layers):
        rows[f"L{i} W_QK_F"] = layer.W_QK.norm_F
        rows[f"L{i} W_V_21"] = layer.W_V.norm_2_1
        rows[f"L{i} W_C_21"] = layer.W_C.norm_2_1
    return rows
