"""Errata of the paper: printed form, corrected form, and an instance where the print fails.

`capax theorems --check` runs every counterexample; docs/errata.md is `markdown_list()`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from capax.statements.instances import capacity_counterexamples as capacity
from capax.statements.instances import representation_counterexamples as representation
from capax.statements.instances.small_instance import SmallInstance


@dataclass(frozen=True)
class Erratum:
    """One error of the printed paper: its statements, and a counterexample to the printed form."""

    name: str
    numbers: tuple[str, ...]
    printed: str
    corrected: str
    counterexample: Callable[[], SmallInstance]


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "P1",
        ("B.2", "B.1"),
        "One head with W_K = v_I approximates the mean of the bits at every coherence Delta < 1/s.",
        "Scores inside I differ by up to 2 R (s-1) Delta, so the weights on I are not uniform. Take"
        " W_K = u e_1^T with u . v_i = 1 on I (dual basis), R = log(8T/gamma) (1 - (s-1) Delta)/"
        "(1 - (2s-1) Delta), Delta < 1/(2s-1), ||W_K|| <= sqrt(s/(1 - (s-1) Delta)).",
        representation.b_2_uneven_scores,
    ),
    Erratum(
        "P2",
        ("B.2",),
        "Delta < 1/s is enough.",
        "Delta < 1/(2s-1): below 1/s another token can score above the selected ones at every R.",
        representation.b_2_wrong_tokens,
    ),
    Erratum(
        "P3",
        ("B.2",),
        "Head h of s has W_V = (E_0 - E_1) e_2^T and W_C = e_1 e_h^T.",
        "e_1 in both places; as printed the product is 0 and so is the output.",
        representation.b_2_heads_give_zero,
    ),
    Erratum(
        "P4",
        ("B.2", "B.3"),
        "chi_i = +1 if b_i = 0 and -1 if b_i = 1, and g = mean of chi_i is monotone.",
        "The sign must be the other way round (W_V = E_1 - E_0); as printed g falls.",
        representation.b_2_decreasing,
    ),
    Erratum(
        "P5",
        ("B.4", "B.1"),
        "One head with W_K = v_I + v_CLS, R = log(8Ts(1+Delta)/(gamma - s Delta))/(1 - s Delta).",
        "The dual basis again, for scores and values; then R = log(8Ts(1+Delta)/gamma) (1-(s-1)"
        " Delta)/(1-(2s-1) Delta). With the printed values gamma - s Delta must be gamma - 4 s"
        " Delta as well: the error s Delta has to fit into gamma/4.",
        representation.b_4_uneven_scores,
    ),
    Erratum(
        "P6",
        ("B.8", "B.5", "B.6"),
        "The bump psi = nu(x) - nu(2 delta - x), four ReLUs of slopes +, +, -, -.",
        "It is odd and vanishes at its own point. (u+2)_+ - (u+1)_+ - (u-1)_+ + (u-2)_+ is the"
        " bump that is described; widths stay.",
        representation.b_8_zero_at_its_points,
    ),
    Erratum(
        "P7",
        ("B.8",),
        "||W_1||_inf <= max(1, B)/delta.",
        "Biases reach (B + 2 delta)/delta: the limit is max(1, B + 2 delta)/delta.",
        representation.b_8_first_layer,
    ),
    Erratum(
        "P8",
        ("B.8",),
        "Any delta > 0.",
        "delta <= 1: otherwise nu_delta(S - d_f) does not vanish at S = d_f - 1.",
        representation.b_8_wide_bumps,
    ),
    Erratum(
        "P9",
        ("B.5", "B.6"),
        "Lemma B.8 with delta = gamma/8 for a function known to within gamma/4.",
        "delta = gamma/4; the printed norms 8 max(1, B)/gamma and 8 s/gamma survive.",
        representation.b_5_narrow_bumps,
    ),
    Erratum(
        "P10",
        ("A.17", "4.7"),
        "(B_w^(2/3) + sum_i alpha_i^(2/3) [...])^3: the sum does not contain B_w.",
        "(B_w^(2/3) + sum_i (B_w alpha_i)^(2/3) [...])^3.",
        capacity.a_17_without_B_w,
    ),
    Erratum(
        "P11",
        ("A.17",),
        "alpha_i is the product of the gains of the layers j < i.",
        "Layers j > i: the error of layer i passes the later ones. Once B_w is restored, the"
        " printed order still gives a true bound for k <= d, up to a factor of order L^3: its"
        " factors d and k are larger than they need be (`capax.statements.forms.depth_order`).",
        capacity.a_17_recursion,
    ),
    Erratum(
        "P12",
        ("4.7", "A.17"),
        "The class bounds ||W_K^T W_Q||_{2,1} (a k x k matrix).",
        "||W_K W_Q^T||_{2,1}: the printed norm is 0 for heads with arbitrarily large scores.",
        capacity.a_17_wrong_product,
    ),
    Erratum(
        "P13",
        ("4.5",),
        "The second term is B_QK21 B_V (Section 4.2) or B_QK21 B_V B_X (its proof).",
        "2 B_QK21 B_V B_X^2, and log(dmT): both printed forms fail for long tokens, by B_X^4 and"
        " B_X^2 times any constant.",
        capacity.corollary_4_5_long_tokens,
    ),
    Erratum(
        "P14",
        ("A.11",),
        "(2 B_QK21 B_V (B_X + B_P))^(2/3).",
        "(2 B_QK21 B_V (B_X + B_P)^2)^(2/3).",
        capacity.a_11_long_tokens,
    ),
    Erratum(
        "P15",
        ("A.12", "Section A.6"),
        "(2 B_QK21[h] B_V[h])^(2/3).",
        "(2 B_QK21[h] B_V[h] B_X^2)^(2/3).",
        capacity.a_12_long_tokens,
    ),
    Erratum(
        "P16",
        ("4.7",),
        "B_X^2 B_w^2 C_21^2 log(dmT)/eps^2 for tokens of length B_X; the block class on the left.",
        "For B_X <= 1 only (the first layer's scores grow as B_X^2), and for the scalar class.",
        capacity.theorem_4_7_long_tokens,
    ),
    Erratum(
        "P17",
        ("4.7",),
        "With spectral norms of 1 and 1-Lipschitz sigma no exponential dependence on L is left.",
        "The gain of a layer is then 1 + 4 = 5 (3 with the sharp softmax constant): 5^L remains.",
        capacity.norms_of_one,
    ),
    Erratum(
        "P18",
        ("3.2", "4.7"),
        "Sigmoids are among the activations of the remark after Theorem 4.7.",
        "Definition 3.2 asks for sigma(0) = 0; sigmoid(0) = 1/2. tanh is meant.",
        capacity.sigmoid_at_zero,
    ),
    Erratum(
        "P19",
        ("A.3", "A.5"),
        "c sqrt(C/m) (1 + log(A sqrt(m/C))) for all A.",
        "c min(A, sqrt(C/m) (1 + max(0, log(A sqrt(m/C))))): the printed form turns negative.",
        capacity.a_3_negative,
    ),
    Erratum(
        "P20",
        ("A.4", "A.5", "2.2"),
        "|risk - empirical risk| <= 4 L R + 2 b sqrt(log(1/delta)/(2m)), R the empirical one.",
        "2 L R + 3 b sqrt(log(4/delta)/(2m)) for losses in [0, b]. The cited theorem is another.",
        capacity.a_4_one_sample,
    ),
    Erratum(
        "P21",
        ("A.9",),
        "Proof: ... <= (1 - alpha^2) ||u||^2 + ... = ||u - v||^2, since 1/||u|| < alpha < 1.",
        "(1 - alpha)^2 ||u||^2, which holds for alpha <= 1/||u|| too. The lemma is true.",
        capacity.a_9_printed_step,
    ),
    Erratum(
        "P22",
        ("4.6",),
        "W in R^{d_1 x d_2} and x in R^{d_1}.",
        "x in R^{d_2}; d_1 counts outputs.",
        capacity.lemma_4_6_shapes,
    ),
    Erratum(
        "P23",
        ("4.4",),
        "w_QK^(s) = T^2 (cos 2 pi t/T, sin 2 pi t/T, 0).",
        "s in place of t. And T^2 is not needed: every norm > 0 gives all sign patterns, and what"
        " a larger norm buys is the margin (about 0.09 T^2 for a margin of 1/4).",
        capacity.proposition_4_4_index,
    ),
    Erratum(
        "P24",
        ("Section 2",),
        "N(F; eps; x) <= O((B_X B_W/eps)^2 log(B_X B_W m/eps)) for linear functions.",
        "log N on the left.",
        capacity.section_2_logarithm,
    ),
    Erratum(
        "P25",
        ("B.4",),
        "X(b) = V + diag(b) in Lemma B.4, V diag(b) in Section B.1.",
        "diag(b) V.",
        representation.b_4_input_shapes,
    ),
    Erratum(
        "P26",
        ("B.1",),
        "f_tf+mlp: y = softmax(...) X W_V W_C w, then (y^T W_1)_+ ...",
        "Without the w: as printed y is one number.",
        representation.mlp_shapes,
    ),
)
"""P1 to P26, the most important first within each part."""

SLIPS = (
    "Theorem A.17 reads the output from g^(L) where g^(L+1) is meant, and cuts its sentence at"
    ' "for all X^(i)".',
    "Lemma A.6 takes f on R^d and vectors in R^p; Lemma A.10 says for any delta and uses eps.",
    "Lemma B.7 defines z'_t twice and writes \"z_t = -infinity\" for z'_t.",
    "Lemma B.8 ends with f(x) = x_i where f(x) = f(x_i) is meant.",
    "The caption of Figure 2 asks for 100 % accuracy, Appendix C for more than 0.99; C.1 is"
    ' headed "Figure 6" and describes Figure 2.',
    "Whether A.17 with B_w restored and the product over j < i holds without a factor of order L^3"
    " is open here.",
)


def errata_of(number: str) -> tuple[Erratum, ...]:
    """The errata of a statement."""
    return tuple(erratum for erratum in ERRATA if number in erratum.numbers)


def markdown_list() -> str:
    """The list of docs/errata.md."""
    rows = []
    for e in ERRATA:
        where = ", ".join(e.numbers)
        rows.append(f"- **{e.name}** ({where}). Printed: {e.printed} Right: {e.corrected}")
    slips = [f"- {slip}" for slip in SLIPS]
    return "\n".join([*rows, "", "Smaller slips, and one open question:", "", *slips])
