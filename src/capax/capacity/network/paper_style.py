"""The paper's own constants, for comparison plots: Zhang's 36, C_Norm = 2, (2,1) norms, all tokens.

    C(eps) = 36 L_out^2 [ (2 ||W_V||_2 B_X  B_z B_X ||W_QK^T||_{2,1})^{2/3}
                          + (B_X ||W_V||_{2,1})^{2/3} ]^3 ln(2 ceil(4 rho + 2) N + 1),
    ln N <= C(eps) / eps^2,    N = m (T + 1),

rho = the larger ratio norm / eps_i at the optimal split. Valid for a row-norm profile known in
advance; for unknown profiles it is a comparison, not a theorem. Certificates never use it.
"""

import math

from capax.capacity.arguments import check_positive
from capax.capacity.bound import Assumption, Bound, Term
from capax.capacity.linear.allocation import allocate
from capax.capacity.magnitude import safe_exp
from capax.capacity.network.function_class import check_norms
from capax.capacity.network.sample_points import Sample

ZHANG = 36.0
C_NORM = 2.0


def paper_style_cover(
    W_QK_T_21: float,
    W_V_2: float,
    W_V_21: float,
    sample: Sample,
    eps: float,
    *,
    L_out: float = 1.0,
    B_X: float = 1.0,
    B_z: float = 1.0,
) -> Bound:
    """ln N of one head in the paper's style; W_QK_T_21 = ||W_QK^T||_{2,1} (row lengths)."""
    check_norms(W_QK_T_21=W_QK_T_21, W_V_2=W_V_2, W_V_21=W_V_21, L_out=L_out, B_X=B_X, B_z=B_z)
    check_positive("eps", eps)
    scales = (_log(B_z, B_X, W_QK_T_21), _log(B_X, W_V_21))
    alphas = (_log(L_out, C_NORM, W_V_2, B_X), _log(L_out))
    split = allocate([2 * x for x in scales], alphas, math.log(eps))
    ratios = [x - log_e for x, log_e in zip(scales, split.log_eps, strict=True)]
    log_factor = math.log(ZHANG * _log_inner(max(ratios), sample.tokens))
    parts = [2 * ratio + log_factor for ratio in ratios]
    log_value = split.log_value + log_factor
    return Bound(
        statement="paper-style (36)",
        value=safe_exp(log_value),
        log_cover=safe_exp(log_value),
        terms=(Term("W_QK (scores)", parts[0]), Term("W_V (values)", parts[1])),
        norms={"W_QK_T_21": W_QK_T_21, "W_V_2": W_V_2, "W_V_21": W_V_21, "eps": eps},
        assumptions=(Assumption("the profile of row norms is known in advance"),),
        latex=(
            r"\frac{36L_{out}^2}{\epsilon^2}\Big[(2\|W_V\|_2B_X\cdot B_zB_X\|W_{QK}^\top\|_{2,1})"
            r"^{2/3}+(B_X\|W_V\|_{2,1})^{2/3}\Big]^3\ln(2\lceil4\varrho+2\rceil N+1)"
        ),
        formula=(
            "36 (L_out/eps)^2 [(2 ||W_V||_2 B_X B_z B_X ||W_QK^T||_2,1)^(2/3)"
            " + (B_X ||W_V||_2,1)^(2/3)]^3 ln(2 ceil(4 rho + 2) N + 1)"
        ),
        kind="log_cover",
        status="comparison",
        log_value=log_value,
    )


def _log(*factors: float) -> float:
    """ln of a product that may not fit a float."""
    return math.fsum(math.log(x) for x in factors)


def _log_inner(log_rho: float, N: int) -> float:
    """ln(2 ceil(4 rho + 2) N + 1), for a rho that may not fit a float."""
    if log_rho > 30:
        return math.log(8 * N + 1) + log_rho + 1e-12
    return math.log(2 * math.ceil(4 * math.exp(log_rho) + 2) * N + 1)
