"""Counting parameters: a ball in R^n is covered by (1 + 2a/eps)^n balls, by volume."""

import math

from capax.capacity.arguments import check_count, check_nonnegative, check_positive


def log_cover_parametric(
    num_parameters: int, a: float | int, b: float | int, eps: float | int
) -> float:
    """ln N^int <= n ln(1 + 2ab/eps) for n parameters in a ball of radius a, by volume.

    Holds when |f_w(x) - f_v(x)| <= b ||w - v||. No sample size in it, but a dimension.
    """
    check_count("num_parameters", num_parameters)
    check_nonnegative("a", a)
    check_nonnegative("b", b)
    check_positive("eps", eps)
    ratio = 0.0 if a == 0 or b == 0 else float(a) * float(b) / float(eps)
    return 0.0 if ratio <= 1.0 else num_parameters * math.log1p(2 * ratio)
