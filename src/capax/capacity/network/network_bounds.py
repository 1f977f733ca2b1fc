"""Depth with residual streams: Theorem 4.7 as a recursion over blocks.

(R) projected rows:   Y = Pi_r(X + sum_h Att_h(X) W_O^h),  X' = Pi_r(Y + sigma(Y W_1) W_2);
(U) no projections:   the same, radii grow from block to block;
(LN) pre-LayerNorm:   X + Att(LN(X)): LayerNorm is 1/sqrt(eps_0)-Lipschitz, its rows have length
                      sqrt(d); the residual stream does not go through it;
(post-LN) BERT:       LN(X + Att(X)), LN(Y + MLP(Y)): every block is stretched by 1/sqrt(eps_0).

In (post-LN) the state is the row before gain and offset, x^ = LN without them, of length at most
sqrt(d). The stream itself is G^T [x^; 1] with G = [diag(gain); offset], one more piece with 2d
parameters; gain and offset are also folded into the matrices that read x^.
Biases use a constant 1 appended to every row: a matrix on rows of width d has d + 1 rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.magnitude import log_sum, safe_log
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.layer_pieces import Shape, matrix_piece, score_piece
from capax.capacity.network.paper_network import PaperLayer as PaperLayer
from capax.capacity.network.paper_network import paper_network as paper_network
from capax.capacity.network.paper_network import theorem_4_7
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import Stage, compose, log_attention_lipschitz
from capax.capacity.network.weighting import SOFTMAX, Weighting
from capax.errors import require

Form = Literal["projected", "unbounded", "layer_norm", "post_layer_norm"]
LETTERS = {"projected": "R", "unbounded": "U", "layer_norm": "LN", "post_layer_norm": "post-LN"}


@dataclass(frozen=True)
class ResidualBlock:
    """Norms of one residual block, biases folded in as extra rows.

    heads: (W_QK, W_VO) norms per head. W_1, W_2: the MLP, None without one. hidden: its width.
    b_O: the output bias if it cannot be added to the values (weights do not sum to one). skip_1,
    skip_2: G = [diag(gain); offset] of the streams into attention and MLP (post-LayerNorm only).
    """

    heads: tuple[tuple[MatrixNorms, MatrixNorms], ...]
    W_1: MatrixNorms | None
    W_2: MatrixNorms | None
    d: int
    hidden: int
    L_sigma: float = 1.0
    weighting: Weighting = SOFTMAX
    b_O: MatrixNorms | None = None
    skip_1: MatrixNorms | None = None
    skip_2: MatrixNorms | None = None


@dataclass(frozen=True)
class LayerNorms:
    """ln of the LayerNorm constant before every part, or after every sum; None without."""

    before: float | None = None
    after: float | None = None

    @property
    def log_before(self) -> float:
        """ln of the stretch of the input of a part."""
        return self.before or 0.0

    @property
    def log_after(self) -> float:
        """ln of the stretch of a whole stage."""
        return self.after or 0.0

    def log_seen(self, d: int, log_B: float) -> float:
        """ln of the length of a row with its constant 1: sqrt(d + 1) after LayerNorm."""
        normed = self.before is not None or self.after is not None
        return 0.5 * math.log(d + 1) if normed else _with_bias(log_B)


def _with_bias(log_B: float) -> float:
    """ln sqrt(B^2 + 1): a constant 1 is appended to every row, to carry the biases."""
    return 0.5 * log_sum([2 * log_B, 0.0])


def _stage(slopes: list[float], pieces: list[Piece], ln: LayerNorms) -> Stage:
    """A sum of parts, and the LayerNorm after it, if any."""
    after = ln.log_after
    return Stage(log_sum(slopes) + after, tuple(piece.amplified(after) for piece in pieces))


def _skip(
    G: MatrixNorms | None, d: int, log_seen: float, N_v: int, name: str
) -> tuple[float, list[Piece]]:
    """ln of the stretch of the residual stream, and its piece if gain and offset act on it."""
    if G is None:
        return 0.0, []
    return safe_log(G.norm_2), [matrix_piece(name, G, log_seen, 0.0, N_v, d, Shape(2, d))]


def residual_stages(
    block: ResidualBlock, log_B: float, sample: Sample, index: int, last: bool, ln: LayerNorms
) -> tuple[list[Stage], float]:
    """The two stages of a block (attention, MLP) on rows of length e^{log_B}, and the new length.

    With LayerNorm the rows that enter W_QK, W_VO and W_1 have length sqrt(d) and carry a 1.
    """
    (N_s, N_v), label = sample.layer_points(last, first=index == 0), f"L{index} "
    d, log_seen, C_N = block.d, ln.log_seen(block.d, log_B), block.weighting.C_N(sample.T + 1)
    keys = d if block.weighting.shift_invariant else d + 1
    log_skip, pieces = _skip(block.skip_1, d, log_seen, N_v, f"{label}skip_1")
    slopes = [log_skip]
    for h, (qk, vo) in enumerate(block.heads):
        log_VO = safe_log(vo.norm_2)
        inside = log_attention_lipschitz(qk.norm_2, log_seen, C_N)
        slopes.append(ln.log_before + log_VO + inside)
        shape = Shape(d + 1, keys, qk.rank)
        name = f"{label}h{h} "
        pieces += [
            score_piece(
                qk, log_VO + log_seen, block.weighting, sample, N_s, 2 * log_seen, shape,
                f"{name}W_QK",
            ),
            matrix_piece(f"{name}W_VO", vo, log_seen, 0.0, N_v, d, Shape(d + 1, d, vo.rank)),
        ]  # fmt: skip
    if block.b_O is not None:
        pieces.append(matrix_piece(f"{label}b_O", block.b_O, 0.0, 0.0, 1, d, Shape(1, d)))
    sizes = [safe_log(vo.norm_2) + log_seen for _, vo in block.heads]
    sizes += [] if block.b_O is None else [safe_log(block.b_O.norm_2)]
    log_B = log_sum([log_B, *sizes])
    stages = [_stage(slopes, pieces, ln)]
    if block.W_1 is not None and block.W_2 is not None:
        mlp, log_B = mlp_stage(block, log_B, N_v, label, ln)
        stages.append(mlp)
    return stages, log_B


def mlp_stage(
    block: ResidualBlock, log_B: float, N_v: int, label: str, ln: LayerNorms
) -> tuple[Stage, float]:
    """Y -> Y + sigma(Y W_1) W_2 on N_v rows of length e^{log_B}, and the new length."""
    W_1, W_2, d, n = block.W_1, block.W_2, block.d, block.hidden
    assert W_1 is not None
    assert W_2 is not None
    log_seen, log_sigma = ln.log_seen(d, log_B), math.log(block.L_sigma)
    log_up, log_down = safe_log(W_1.norm_2) + log_sigma, safe_log(W_2.norm_2)
    log_hidden = _with_bias(log_up + log_seen)
    log_skip, pieces = _skip(block.skip_2, d, log_seen, N_v, f"{label}skip_2")
    up, down = Shape(d + 1, n), Shape(n + 1, d)
    pieces += [
        matrix_piece(f"{label}W_1", W_1, log_seen, log_down + log_sigma, N_v, n, up),
        matrix_piece(f"{label}W_2", W_2, log_hidden, 0.0, N_v, d, down),
    ]
    slopes = [log_skip, ln.log_before + log_up + log_down]
    return _stage(slopes, pieces, ln), log_sum([log_B, log_down + log_hidden])


def read_out_stage(w_2: float, d: int, log_B: float, sequences: int, ln: LayerNorms) -> Stage:
    """w . [x_CLS; 1], after a LayerNorm, if any."""
    scale = math.log(w_2) + ln.log_seen(d, log_B)
    read = Piece("w", scale, sequences, num_parameters=d + 1, text="||w|| B", latex=r"\|w\| B")
    return Stage(math.log(w_2) + ln.log_before, (read,))


def layer_norms(form: Form, eps_0: float) -> LayerNorms:
    """The place of LayerNorm and its global Lipschitz constant, 1/sqrt(eps_0)."""
    constant = -0.5 * math.log(eps_0)
    if form == "layer_norm":
        return LayerNorms(before=constant)
    return LayerNorms(after=constant) if form == "post_layer_norm" else LayerNorms()


def residual_network(
    blocks: Sequence[ResidualBlock],
    w_2: float,
    *,
    B_X: float = 1.0,
    shape: Form = "projected",
    layer_norm_eps: float = 1e-5,
    embedding: Piece | None = None,
) -> FunctionClass:
    """Theorem 4.7 for residual networks: (R) onto radius B_X, (U), (LN), (post-LN).

    e_Y = [1 + sum_h ||W_VO||_2 (1 + 2 C_N ||W_QK||_2 B^2)] e_X + ..., e_X' = (1 + ||W_2||_2 L_sigma
    ||W_1||_2) e_Y + ...; with LayerNorm in front each bracket's second part is divided by
    sqrt(eps_0), behind the sum all of it. embedding: a piece for trainable embeddings, covered
    before the first block.
    """
    require(len(blocks) > 0, "blocks", "at least one block", len(blocks))
    check_norms(w_2=w_2, B_X=B_X, layer_norm_eps=layer_norm_eps)
    has_skip = [block.skip_1 is not None and block.skip_2 is not None for block in blocks]
    post = shape == "post_layer_norm"
    require(all(has_skip) if post else not any(has_skip), "shape", _SKIP_RULE, shape)
    ln = layer_norms(shape, layer_norm_eps)

    def build(sample: Sample) -> tuple[Piece, ...]:
        stages = [] if embedding is None else [Stage(0.0, (embedding,))]
        log_B = math.log(B_X)
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            new, grown = residual_stages(block, log_B, sample, i, last, ln)
            stages += new
            log_B = log_B if shape == "projected" else grown
        return compose([*stages, read_out_stage(w_2, blocks[-1].d, log_B, sample.sequences, ln)])

    norms = {"blocks": float(len(blocks)), "w_2": w_2, "B_X": B_X, **_block_norms(blocks)}
    form, vacuous = f"{LETTERS[shape]}, {len(blocks)} blocks", len(blocks) > 2 or ln != LayerNorms()
    return theorem_4_7(form, build, norms, blocks[0].weighting, vacuous=vacuous)


_SKIP_RULE = "post_layer_norm exactly for blocks with skip_1 and skip_2"


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
