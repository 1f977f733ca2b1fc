"""Depth: Theorem 4.7 as a recursion over layers, with the optimal split of the error.

(P) the paper's block, rows projected onto balls:  X' = Pi(sigma(Pi(Att(X))) W_C);
(R) residual blocks with an MLP and projections:   Y = Pi_r(X + sum_h Att_h(X) W_O^h),
                                                   X' = Pi_r(Y + sigma(Y W_1) W_2);
(U) either of them without projections: radii grow from layer to layer;
(LN) pre-LayerNorm blocks: LayerNorm is 1/sqrt(eps_0)-Lipschitz and its rows have length sqrt(d).

ln N is exponential in depth, through the product of the Lipschitz constants, and logarithmic in T.
Everything is kept in logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.linear.pieces import Piece
from capax.capacity.magnitude import log_sum, safe_log
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import Stage, compose, log_attention_lipschitz
from capax.errors import require

VACUOUS = "norm products over layers make this number astronomical: read it as vacuous"


@dataclass(frozen=True)
class PaperLayer:
    """Norms of one layer of form (P): W_QK, W_V [d, k], W_C [k, d_out], and its sizes."""

    W_QK: MatrixNorms
    W_V: MatrixNorms
    W_C: MatrixNorms
    d: int
    k: int
    L_sigma: float = 1.0
    C_N: float = 1.0
    ratio: bool = True


def matrix(
    name: str, norms: MatrixNorms, log_b: float, log_c: float, N: int, outputs: int, inputs: int
) -> Piece:
    """x -> W^T x at N points of length e^{log_b}, local factor e^{log_c} (Lemma 4.6)."""
    return Piece(
        name,
        safe_log(norms.norm_2_1) + log_b,
        N,
        outputs,
        safe_log(norms.norm_F) + log_b,
        inputs * outputs,
        log_c,
        f"||{name}||_2,1 B",
        rf"\|{name}\|_{{2,1}} B",
    )


def scores(
    name: str,
    norms: MatrixNorms,
    log_b: float,
    log_c: float,
    N: int,
    layer: "PaperLayer | ResidualBlock",
) -> Piece:
    """z^T W_QK x at N pairs with ||z|| ||x|| <= e^{log_b}, local factor C_N e^{log_c}."""
    return Piece(
        name,
        safe_log(norms.norm_F) + log_b,
        N,
        num_parameters=layer.d * layer.d,
        log_amplification=log_c + math.log(layer.C_N),
        text="||W_QK||_F B^2",
        latex=r"\|W_{QK}\|_F B^2",
        softmax_slope=layer.C_N if layer.ratio else None,
    )


def paper_stage(
    layer: PaperLayer, log_B: float, sample: Sample, last: bool, label: str, project: bool
) -> Stage:
    """One layer of (P) or (U) on rows of length e^{log_B}; the last one is read at [CLS] only."""
    N_s, N_v = _counts(sample, last)
    log_V, log_C = safe_log(layer.W_V.norm_2), safe_log(layer.W_C.norm_2)
    log_sigma = math.log(layer.L_sigma)
    log_hidden = log_sigma + (0.0 if project else log_V + log_B)
    after = log_C + log_sigma
    return Stage(
        after + log_V + log_attention_lipschitz(layer.W_QK.norm_2, log_B, layer.C_N),
        (
            scores(f"{label}W_QK", layer.W_QK, 2 * log_B, after + log_V + log_B, N_s, layer),
            matrix(f"{label}W_V", layer.W_V, log_B, after, N_v, layer.k, layer.d),
            matrix(f"{label}W_C", layer.W_C, log_hidden, 0.0, N_v, layer.d, layer.k),
        ),
    )  # fmt: skip


def paper_network(
    layers: Sequence[PaperLayer], w_2: float, *, B_X: float = 1.0, project: bool = True
) -> FunctionClass:
    """Theorem 4.7 for the paper's stack with read-out w . x_CLS (project=False: variant (U)).

    lambda = ||W_C||_2 L_sigma ||W_V||_2 (1 + 2 ||W_QK||_2 B^2); pieces W_QK, W_V, W_C per layer
    and w; ln N <= (sum (alpha^2 C)^{1/3})^3 / eps^2 or the exact counts at that split.
    """
    require(len(layers) > 0, "layers", "at least one layer", len(layers))
    check_norms(w_2=w_2, B_X=B_X)

    def build(sample: Sample) -> tuple[Piece, ...]:
        stages, log_B = [], math.log(B_X)
        for i, layer in enumerate(layers):
            last = i == len(layers) - 1
            stages.append(paper_stage(layer, log_B, sample, last, f"L{i} ", project))
            grown = safe_log(layer.W_C.norm_2 * layer.L_sigma * layer.W_V.norm_2) + log_B
            log_B = 0.0 if project else grown
        read = Piece("w", math.log(w_2) + log_B, sample.sequences, num_parameters=layers[-1].d)
        return compose([*stages, Stage(math.log(w_2), (read,))])

    return FunctionClass(
        statement=f"Theorem 4.7 ({'P' if project else 'U'}, {len(layers)} layers)",
        build=build,
        norms={"layers": float(len(layers)), "w_2": w_2, "B_X": B_X, **_paper_norms(layers)},
        assumptions=(INDEPENDENT,),
        latex=THEOREM_4_7_LATEX,
        formula=THEOREM_4_7_TEXT,
        notes=(VACUOUS,) if len(layers) > 2 else (),
    )


THEOREM_4_7_LATEX = (
    r"\frac1{\epsilon^2}\Big[\sum_{\ell,p}(\alpha_{\ell,p}^2C_{\ell,p})^{1/3}\Big]^3,\quad"
    r"\alpha_{\ell,p}=\|w\|_2c_{\ell,p}\prod_{j>\ell}\lambda_j"
)
THEOREM_4_7_TEXT = "(1/eps^2) [sum over pieces of (alpha^2 C)^(1/3)]^3, alpha = c prod later lambda"


def _counts(sample: Sample, last: bool) -> tuple[int, int]:
    """N_s and N_v of a layer: all rows, or [CLS] only in the last one."""
    if last:
        return sample.tokens, sample.sequences
    return sample.all_pairs, sample.tokens


def _paper_norms(layers: Sequence[PaperLayer]) -> dict[str, float]:
    rows = {}
    for i, layer in enumerate(layers):
        rows[f"L{i} W_QK_F"] = layer.W_QK.norm_F
        rows[f"L{i} W_V_21"] = layer.W_V.norm_2_1
        rows[f"L{i} W_C_21"] = layer.W_C.norm_2_1
    return rows


@dataclass(frozen=True)
class ResidualBlock:
    """Norms of one block of form (R), biases folded in as extra rows.

    heads: (W_QK, W_VO) norms per head. W_1, W_2: the MLP, None without one. hidden: its width.
    """

    heads: tuple[tuple[MatrixNorms, MatrixNorms], ...]
    W_1: MatrixNorms | None
    W_2: MatrixNorms | None
    d: int
    hidden: int
    L_sigma: float = 1.0
    C_N: float = 1.0
    ratio: bool = True


Shape = Literal["projected", "unbounded", "layer_norm"]


def residual_stages(
    block: ResidualBlock,
    log_B: float,
    sample: Sample,
    last: bool,
    label: str,
    log_ln: float | None,
) -> tuple[list[Stage], float]:
    """The two stages of a block (attention, MLP) on rows of length e^{log_B}, and the new length.

    log_ln = ln of the LayerNorm constant when LayerNorm precedes each part, None otherwise; the
    rows that enter W_QK, W_VO and W_1 then have length sqrt(d) and carry a constant 1.
    """
    N_s, N_v = _counts(sample, last)
    log_seen = _log_seen(block.d, log_B, log_ln)
    pieces: list[Piece] = []
    slopes = [0.0]
    for h, (qk, vo) in enumerate(block.heads):
        log_VO = safe_log(vo.norm_2)
        inside = log_attention_lipschitz(qk.norm_2, log_seen, block.C_N)
        slopes.append((log_ln or 0.0) + log_VO + inside)
        pieces += [
            scores(f"{label}h{h} W_QK", qk, 2 * log_seen, log_VO + log_seen, N_s, block),
            matrix(f"{label}h{h} W_VO", vo, log_seen, 0.0, N_v, block.d, block.d),
        ]
    attention = Stage(log_sum(slopes), tuple(pieces))
    log_B = log_sum([log_B, *(safe_log(vo.norm_2) + log_seen for _, vo in block.heads)])
    if block.W_1 is None or block.W_2 is None:
        return [attention], log_B
    mlp, log_B = mlp_stage(block, log_B, N_v, label, log_ln)
    return [attention, mlp], log_B


def mlp_stage(
    block: ResidualBlock, log_B: float, N_v: int, label: str, log_ln: float | None
) -> tuple[Stage, float]:
    """Y -> Y + sigma(Y W_1) W_2 on N_v rows of length e^{log_B}, and the new length."""
    require(block.W_1 and block.W_2, "block", "a block with an MLP", None)
    W_1, W_2 = block.W_1 or NO_MATRIX, block.W_2 or NO_MATRIX
    log_seen, log_sigma = _log_seen(block.d, log_B, log_ln), math.log(block.L_sigma)
    log_up, log_down = safe_log(W_1.norm_2) + log_sigma, safe_log(W_2.norm_2)
    log_hidden = _with_bias(log_up + log_seen)
    first = matrix(f"{label}W_1", W_1, log_seen, log_down + log_sigma, N_v, block.hidden, block.d)
    second = matrix(f"{label}W_2", W_2, log_hidden, 0.0, N_v, block.d, block.hidden)
    slope = log_sum([0.0, (log_ln or 0.0) + log_up + log_down])
    return Stage(slope, (first, second)), log_sum([log_B, log_down + log_hidden])


NO_MATRIX = MatrixNorms(0.0, 0.0, 0.0, 0.0)


def read_out_stage(w_2: float, d: int, log_B: float, sequences: int, log_ln: float | None) -> Stage:
    """w . [x_CLS; 1], after a LayerNorm if there is one."""
    scale = math.log(w_2) + _log_seen(d, log_B, log_ln)
    read = Piece("w", scale, sequences, num_parameters=d + 1, text="||w|| B", latex=r"\|w\| B")
    return Stage(math.log(w_2) + (log_ln or 0.0), (read,))


def _log_seen(d: int, log_B: float, log_ln: float | None) -> float:
    """ln of the length of a row with its constant 1: sqrt(d + 1) after LayerNorm."""
    return _with_bias(log_B) if log_ln is None else 0.5 * math.log(d + 1)


def _with_bias(log_B: float) -> float:
    """ln sqrt(B^2 + 1): a constant 1 is appended to every row, to carry the biases."""
    return 0.5 * log_sum([2 * log_B, 0.0])


def residual_network(
    blocks: Sequence[ResidualBlock],
    w_2: float,
    *,
    B_X: float = 1.0,
    shape: Shape = "projected",
    layer_norm_eps: float = 1e-5,
    embedding: Piece | None = None,
) -> FunctionClass:
    """Theorem 4.7 for residual networks: (R) projected onto radius B_X, (U) unbounded, (LN).

    e_Y = [1 + sum_h ||W_VO||_2 (1 + 2 ||W_QK||_2 B^2)] e_X + ..., e_X' = (1 + ||W_2||_2 L_sigma
    ||W_1||_2) e_Y + ...; with LayerNorm each bracket's second part is divided by sqrt(eps_0).
    embedding: a piece for trainable embeddings, covered before the first block.
    """
    require(len(blocks) > 0, "blocks", "at least one block", len(blocks))
    check_norms(w_2=w_2, B_X=B_X, layer_norm_eps=layer_norm_eps)
    log_ln = -0.5 * math.log(layer_norm_eps) if shape == "layer_norm" else None

    def build(sample: Sample) -> tuple[Piece, ...]:
        stages = [] if embedding is None else [Stage(0.0, (embedding,))]
        log_B = math.log(B_X)
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            new, grown = residual_stages(block, log_B, sample, last, f"L{i} ", log_ln)
            stages += new
            log_B = log_B if shape == "projected" else grown
        read = read_out_stage(w_2, blocks[-1].d, log_B, sample.sequences, log_ln)
        return compose([*stages, read])

    letter = {"projected": "R", "unbounded": "U", "layer_norm": "LN"}[shape]
    return FunctionClass(
        statement=f"Theorem 4.7 ({letter}, {len(blocks)} blocks)",
        build=build,
        norms={"blocks": float(len(blocks)), "w_2": w_2, "B_X": B_X, **_block_norms(blocks)},
        assumptions=(INDEPENDENT,),
        latex=THEOREM_4_7_LATEX,
        formula=THEOREM_4_7_TEXT,
        notes=(VACUOUS,) if len(blocks) > 2 or shape == "layer_norm" else (),
    )


def _block_norms(blocks: Sequence[ResidualBlock]) -> dict[str, float]:
    rows = {}
    for i, block in enumerate(blocks):
        for h, (qk, vo) in enumerate(block.heads):
            rows[f"L{i} h{h} W_QK_F"] = qk.norm_F
            rows[f"L{i} h{h} W_VO_21"] = vo.norm_2_1
        if block.W_1 is not None and block.W_2 is not None:
            rows[f"L{i} W_1_21"] = block.W_1.norm_2_1
            rows[f"L{i} W_2_21"] = block.W_2.norm_2_1
    return rows
