"""Inputs in [0,1]^T (Section B.4): s heads select s numbers, ReLU units compute f of them.

Token t is x_t = P_t + b_t E with orthonormal P_0..P_{T-1}, E, v_CLS, d = T + 2. Head i has
W_Q = a v e_1^T, W_K = P_i e_1^T, W_V = E e_1^T: score a at position i and 0 elsewhere, [CLS]
included, for all numbers. So the weights do not depend on the input, and

    h_i = (e^a b_i + sum_{t != i} b_t) / (e^a + T),      |h_i - b_i| <= eta = T / (e^a + T),

with equality at b = e_i (the other side is smaller: T - 1 tokens have a value). The heads are
followed by f itself, exactly: ReLU units (`piecewise_linear`) with coefficients rounded to float64.

The error. Let unit j read variables with coefficients c, units with coefficients e. Its input is
off by at most D_j = sum |c| eta + sum |e| D_k + (the rounding of its coefficients), and relu
does not enlarge that; likewise for the output. All of it is computed in fractions from the stored
float64 numbers, with a lower bound of e^a. So the certificate holds in real arithmetic for every b
in [0,1]^T.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from capax.compiler.extensions.piecewise_linear import Affine, PiecewiseLinear, parse_piecewise
from capax.compiler.proof.enclosed import exp_bounds
from capax.errors import InfeasibleError, require
from capax.plain_json import PlainRecord
from capax.rounding import digits_up

MAX_T = 10**8
MAX_GAP = 690.0
"""Beyond e^690 a weight no longer fits float64."""


@dataclass(frozen=True)
class ContinuousCertificate(PlainRecord):
    """`worst_case_error` >= |output - f(b)| for every b in [0,1]^T; `eta` >= |h_i - b_i|."""

    function: str
    T: int
    s: int
    support: tuple[int, ...]
    eps: float
    a: float
    eta: float
    worst_case_error: float
    heads: int
    units: int
    lipschitz: float
    norms: dict[str, float]
    statements: tuple[str, ...] = ("Section B.4: continuous inputs", "Lemma B.2: s heads")


@dataclass(frozen=True)
class ContinuousNetwork:
    """The heads (all of one inverse temperature `a`), the units behind them, the certificate."""

    function: PiecewiseLinear
    T: int
    a: float
    certificate: ContinuousCertificate

    def heads(self, b: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n s"]:
        """h_i on rows of numbers, in float64: softmax over T tokens and [CLS]."""
        chosen = b[:, list(self.function.support)]
        small = math.exp(-self.a)
        rest = b.sum(axis=1, keepdims=True) - chosen
        return (chosen + small * rest) / (1 + self.T * small)

    def __call__(self, b: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """The output on rows of numbers in [0, 1], in float64."""
        require(b.ndim == 2 and b.shape[1] == self.T, "b", f"rows of {self.T} numbers", b.shape)
        seen = np.zeros((len(b), max(self.function.support, default=0) + 1))
        seen[:, list(self.function.support)] = self.heads(b)
        return self.function(seen)


def compile_continuous(text: str, T: int, *, eps: float) -> ContinuousNetwork:
    """The network for a piecewise-linear function of numbers in [0, 1], off by at most `eps`.

    Examples:
        >>> from capax.compiler.extensions.continuous import compile_continuous
        >>> made = compile_continuous("max(x1, x5) - 0.5*x9", T=1000, eps=0.01)
        >>> made.certificate.units, made.certificate.worst_case_error <= 0.01
        (1, True)
    """
    require(isinstance(T, int) and 1 <= T <= MAX_T, "T", f"an integer in 1..{MAX_T}", T)
    require(math.isfinite(eps) and eps > 0, "eps", "an error > 0", eps)
    f = parse_piecewise(text, T)
    require(len(f.support) >= 1, "formula", "at least one variable", text)
    slope = float(error_of(f, Fraction(1)) - error_of(f, Fraction(0)))
    a = _gap(T, eps * (1 - 1e-9) / slope)
    eta = leak(T, a)
    error = error_of(f, eta)
    if error > Fraction(eps) or a > MAX_GAP:
        raise InfeasibleError(f"eps: wanted {eps:g}, float64 reaches {float(error):.3g} here")
    return ContinuousNetwork(f, T, a, _certificate(f, T, eps, a, eta, error, slope))


def leak(T: int, a: float) -> Fraction:
    """eta = T/(e^a + T), rounded up: e^a at its lower end."""
    low = Fraction(float(exp_bounds(np.array([a]), 0.0)[0][0]))
    return T / (low + T)


def error_of(f: PiecewiseLinear, eta: Fraction) -> Fraction:
    """Largest |output - f(b)| when every selected number is off by at most eta, exactly."""
    errors: list[Fraction] = []
    sizes: list[Fraction] = []
    for form in f.units:
        errors.append(_error(form, eta, errors, sizes))
        sizes.append(max(_highest(form, sizes), Fraction(0)))
    return _error(f.output, eta, errors, sizes)


def _error(form: Affine, eta: Fraction, errors: list[Fraction], sizes: list[Fraction]) -> Fraction:
    """Of one affine form: heads and units that are off, and coefficients that were rounded.

    A head output lies in [0, 1]; unit k, as computed, is at most its largest true value plus its
    error.
    """
    total = _lost(form.constant)
    for c in form.variables.values():
        total += abs(Fraction(float(c))) * eta + _lost(c)
    for k, c in form.units.items():
        total += abs(c) * errors[k] + _lost(c) * (sizes[k] + errors[k])
    return total


def _highest(form: Affine, sizes: list[Fraction]) -> Fraction:
    """The largest value over [0,1]^s, units anywhere in their ranges."""
    above = sum((max(c, Fraction(0)) for c in form.variables.values()), form.constant)
    return above + sum(max(c, Fraction(0)) * sizes[k] for k, c in form.units.items())


def _lost(c: Fraction) -> Fraction:
    return abs(c - Fraction(float(c)))


def _gap(T: int, eta: float) -> float:
    """The smallest a with T/(e^a + T) <= eta, rounded up a little; 0 where every a is enough."""
    if eta >= 1:
        return 0.0
    return max(0.0, math.log(T) + math.log1p(-eta) - math.log(eta)) * (1 + 1e-12) + 1e-12


def _certificate(
    f: PiecewiseLinear, T: int, eps: float, a: float, eta: Fraction, error: Fraction, slope: float
) -> ContinuousCertificate:
    read = [abs(float(c)) for form in (*f.units, f.output) for c in form.variables.values()]
    later = [abs(float(c)) for form in (*f.units, f.output) for c in form.units.values()]
    norms = {
        "W_Q_F": a,
        "W_K_F": 1.0,
        "W_V_F": 1.0,
        "largest_read": max(read, default=0.0),
        "largest_between_units": max(later, default=0.0),
    }
    return ContinuousCertificate(
        f.text, T, len(f.support), f.support, eps, a, digits_up(_above(eta)),
        digits_up(_above(error)), len(f.support), len(f.units), slope, norms,
    )  # fmt: skip


def _above(x: Fraction) -> float:
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)
