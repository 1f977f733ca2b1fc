"""Change of a head's output when its parameters change: Lemma 4.3 and Theorem 4.2.

Proof of Lemma 4.3 (with our constant). With values Phi, weights a and any centre c,

    Phi^T a - Phi'^T a' = (Phi - 1 c^T)^T (a - a') + (Phi - Phi')^T a'

because both weight vectors sum to one; the first part is at most B_phi ||a - a'||_1 and the second
is an average of value errors. The paper's C_Norm bounds ||J||_{1,1} (2 for softmax); the norm that
is needed is ||J||_{inf -> 1}, which is 1.
"""

import math

from capax.capacity.arguments import check_nonnegative, check_positive
from capax.capacity.bound import Bound, Term
from capax.capacity.linear.allocation import allocate
from capax.capacity.magnitude import number, number_latex, safe_exp
from capax.capacity.network.function_class import check_norms


def head_distance(
    score_error: float, value_error: float, *, B_phi: float, L_out: float = 1.0, C_N: float = 1.0
) -> Bound:
    """Lemma 4.3: ||f(X, z; th) - f(X, z; th')|| <= L_out (C_N B_phi |dScore|_inf + |dphi|_{2,inf}).

    score_error = ||Score - Score'||_inf, value_error = max_t ||phi_in(x_t) - phi_in'(x_t)||;
    B_phi: every true value lies within B_phi of one centre. Raises InputError for negative errors.
    """
    check_nonnegative("score_error", score_error)
    check_nonnegative("value_error", value_error)
    check_norms(B_phi=B_phi, L_out=L_out, C_N=C_N)
    terms = (
        Term.of(
            "scores",
            L_out * C_N * B_phi * score_error,
            f"L_out C_N B_phi |dScore| = {L_out:g} * {C_N:g} * {B_phi:g} * {score_error:g}",
            rf"L_{{out}} C_N B_\phi\|\Delta Score\|_\infty = "
            rf"{L_out:g}\cdot{C_N:g}\cdot{B_phi:g}\cdot{score_error:g}",
        ),
        Term.of(
            "values",
            L_out * value_error,
            f"L_out |dphi| = {L_out:g} * {value_error:g}",
            rf"L_{{out}}\|\Delta\phi^\top\|_{{2,\infty}} = {L_out:g}\cdot{value_error:g}",
        ),
    )
    return Bound(
        statement="Lemma 4.3",
        status="rigorous",
        value=sum(term.value for term in terms),
        terms=terms,
        norms={"B_phi": B_phi, "L_out": L_out, "C_N": C_N},
        latex=r"L_{out}(C_N B_\phi\|\Delta Score\|_\infty+\|\Delta\phi_{in}^\top\|_{2,\infty})",
        formula="L_out (C_N B_phi |dScore|_inf + |dphi_in|_2,inf)",
        kind="radius",
    )


def theorem_4_2(
    C_score: float, C_in: float, eps: float, *, B_phi: float, L_out: float = 1.0, C_N: float = 1.0
) -> Bound:
    """Theorem 4.2 for any score and input class with ln N <= C/e^2, at the optimal split.

    ln N(head, eps) <= ln N(Score, a eps/(L_out C_N B_phi)) + ln N(in, (1-a) eps/L_out); with
    A = (L_out C_N B_phi)^2 C_score and B = L_out^2 C_in the best a is A^{1/3}/(A^{1/3} + B^{1/3})
    and the value (A^{1/3} + B^{1/3})^3 / eps^2.
    """
    check_norms(C_score=C_score, C_in=C_in, B_phi=B_phi, L_out=L_out, C_N=C_N)
    check_positive("eps", eps)
    alphas = (L_out * C_N * B_phi, L_out)
    split = allocate(
        [math.log(C_score), math.log(C_in)], [math.log(a) for a in alphas], math.log(eps)
    )
    share = safe_exp(split.log_eps[0]) * alphas[0] / eps
    names = (("score class", C_score, "score"), ("input class", C_in, "in"))
    terms = tuple(
        Term(
            name,
            math.log(C) - 2 * log_e,
            f"{number(C)} / {number(safe_exp(log_e))}^2",
            rf"C_{{\mathrm{{{short}}}}}/\epsilon_{{\mathrm{{{short}}}}}^2 = "
            rf"{number_latex(C)} / {number_latex(safe_exp(log_e))}^2",
        )
        for (name, C, short), log_e in zip(names, split.log_eps, strict=True)
    )
    return Bound(
        statement="Theorem 4.2",
        status="rigorous",
        value=safe_exp(split.log_value),
        log_cover=safe_exp(split.log_value),
        terms=terms,
        norms={
            "C_score": C_score,
            "C_in": C_in,
            "B_phi": B_phi,
            "L_out": L_out,
            "C_N": C_N,
            "eps": eps,
            "alpha": share,
        },
        latex=r"\frac1{\epsilon^2}\big(A^{1/3}+B^{1/3}\big)^3",
        formula="(A^(1/3) + B^(1/3))^3 / eps^2, A = (L_out C_N B_phi)^2 C_score, B = L_out^2 C_in",
        kind="log_cover",
        log_value=split.log_value,
    )
