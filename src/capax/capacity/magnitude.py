"""Numbers too large for a float: kept as natural logarithms, printed as powers of ten.

A bound for a hundred layers multiplies a hundred Lipschitz constants. Its value can exceed 10^308,
so every quantity that may become so large is kept as its logarithm. Only this file prints it.
"""

import math
from collections.abc import Iterable

LN_10 = math.log(10.0)
LARGEST_LOG = math.log(1.7e308)


def safe_log(value: float) -> float:
    """ln of a non-negative number, with ln 0 = -inf."""
    return -math.inf if value == 0 else math.log(value)


def safe_exp(log_value: float) -> float:
    """exp of a logarithm; inf if the number does not fit a float (the logarithm keeps the
    value)."""
    return math.exp(log_value) if log_value <= LARGEST_LOG else math.inf


def log_sum(logs: Iterable[float]) -> float:
    """ln(sum_i e^{l_i}) without overflow; -inf for an empty sum."""
    values = list(logs)
    top = max(values, default=-math.inf)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def shown(log_value: float, digits: int = 4) -> str:
    """Plain text of e^{log_value}: `0.0123`, `48210`, `3.2e+07`, `10^347.4`, `0`."""
    if log_value == -math.inf:
        return "0"
    if log_value == math.inf:
        return "infinite"
    exponent = log_value / LN_10
    if abs(exponent) > 250:
        return f"10^{exponent:.1f}"
    text = f"{math.exp(log_value):.{digits}g}"
    return text if exponent >= 6 or exponent < -4 else _without_exponent(text)


def shown_latex(log_value: float, digits: int = 4) -> str:
    """LaTeX of e^{log_value}: `0.0123`, `3.2 \\cdot 10^{7}`, `10^{347.4}`."""
    text = shown(log_value, digits)
    if text == "infinite":
        return r"\infty"
    if text.startswith("10^"):
        return f"10^{{{text[3:]}}}"
    if "e" in text:
        mantissa, power = text.split("e")
        return rf"{mantissa} \cdot 10^{{{int(power)}}}"
    return text


def number(value: float, digits: int = 4) -> str:
    """Plain text of an ordinary non-negative number, in the same notation."""
    return shown(safe_log(value), digits)


def number_latex(value: float, digits: int = 4) -> str:
    """LaTeX of an ordinary non-negative number, in the same notation."""
    return shown_latex(safe_log(value), digits)


def _without_exponent(text: str) -> str:
    return text if "e" not in text else f"{float(text):.0f}"
