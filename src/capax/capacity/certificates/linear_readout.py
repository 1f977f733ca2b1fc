"""A linear read-out on features that were fixed before the data: the direct Rademacher bound.

F = {z -> <w, z> : |w| <= a}. By Cauchy-Schwarz and Jensen its empirical Rademacher complexity is

    E sup (1/m) sum_i s_i <w, z_i> = (a/m) E |sum_i s_i z_i|
                                  <= (a/m) sqrt(sum_i |z_i|^2) = a b/sqrt(m)

with b the root mean square of |z_i| on the sample itself. The ramp is 1/gamma-Lipschitz
(contraction), so with probability 1 - delta

    P(y f <= 0) <= mean ramp_gamma(y_i f_i) + 2 a b/(gamma sqrt(m)) + 3 sqrt(ln(2/delta)/2m).

Only a/gamma matters: it is the one quantity measured after training, rounded up on its grid. The
bound through covers is about 20 times larger at m = 1000.
"""

import math

import numpy as np
from jaxtyping import Float

from capax.capacity.arguments import check_finite, check_nonnegative, check_probability
from capax.capacity.bound import MODEL, Assumption, Bound, Term
from capax.capacity.certificates.tails import INDEPENDENT
from capax.capacity.magnitude import number
from capax.capacity.margins.margin_bounds import ramp_loss
from capax.capacity.weights.a_posteriori import GRID, round_up
from capax.errors import require
from capax.rounding import ROUND_UP

LATEX = (
    r"\tfrac1m\sum_i\mathrm{ramp}_\gamma(y_if_i)+\tfrac{2ab}{\gamma\sqrt m}"
    r"+3\sqrt{\ln(2/\delta)/2m}"
)
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


def linear_complexity(a: float, features: Float[np.ndarray, "m p"]) -> float:
    """a b / sqrt(m), at least the empirical Rademacher complexity of {<w, z> : |w| <= a}."""
    check_finite("features", features)
    require(features.ndim == 2, "features", "a table [m, p]", features.shape)
    check_nonnegative("a", a)
    total = math.sqrt(float((features.astype(np.float64) ** 2).sum()))
    slack = 1 + 2.0**-52 * (features.size + 8)
    return a * total / len(features) * slack


def linear_readout_bound(
    features: Float[np.ndarray, "m p"],
    w: Float[np.ndarray, "p"],
    signs: Float[np.ndarray, "m"],
    delta: float,
    *,
    g: float = GRID,
    cost: float = 0.0,
    predictor: str = MODEL,
) -> Bound:
    """The bound for w trained on fixed features; signs are the labels as -1 and 1.

    A constant feature makes an intercept part of w. The margin is the best of a few quantiles;
    every grid margin is paid for. Raises `InputError` for w = 0 or labels other than -1 and 1.
    """
    check_probability("delta", delta)
    check_finite("w", np.asarray(w))
    require(bool(np.isin(signs, (-1, 1)).all()), "signs", "labels -1 and 1", "other values")
    same = features.ndim == 2 and features.shape == (len(signs), len(w))
    require(same, "features", f"shape ({len(signs)}, {len(w)})", features.shape)
    norm = float(np.linalg.norm(np.asarray(w, np.float64))) * (1 + 2.0**-50 * len(w))
    require(norm > 0, "w", "a read-out that is not zero", norm)
    margins = signs * (features.astype(np.float64) @ np.asarray(w, np.float64))
    doubt = 2.0**-52 * (len(w) + 2) * (np.abs(features) @ np.abs(np.asarray(w, np.float64)))
    margins = margins - doubt
    positive = np.sort(margins[margins > 0])
    guesses = {float(positive[int(q * (len(positive) - 1))]) for q in QUANTILES if len(positive)}
    bounds = [
        _at_margin(features, norm, margins, guess, delta, g, cost, predictor)
        for guess in sorted(guesses or {norm})
    ]
    return min(bounds, key=lambda bound: bound.value)


def _at_margin(
    features: Float[np.ndarray, "m p"],
    norm: float,
    margins: Float[np.ndarray, "m"],
    guess: float,
    delta: float,
    g: float,
    cost: float,
    predictor: str,
) -> Bound:
    m = len(margins)
    grid = round_up({"a/gamma": norm / guess * ROUND_UP}, g=g)
    ratio = grid.values["a/gamma"]
    gamma = norm / ratio
    loss = ramp_loss(margins, gamma)
    R = linear_complexity(ratio, features)
    log_term = math.log(2.0) - math.log(delta) + grid.cost + cost
    confidence = 3 * math.sqrt(log_term / (2 * m))
    return Bound(
        statement="Linear read-out (direct Rademacher)",
        status="rigorous",
        value=(loss + 2 * R + confidence) * ROUND_UP,
        terms=(
            Term.of("training ramp loss", loss),
            Term.of("complexity", 2 * R, f"2 * {number(R)}", rf"2\cdot{number(R)}"),
            Term.of("confidence", confidence, f"3 sqrt({number(log_term)} / (2 * {m}))"),
        ),
        norms={"a": norm, "margin": gamma, "delta": delta},
        assumptions=(INDEPENDENT, Assumption("the features were fixed before the data")),
        latex=LATEX,
        formula="mean ramp loss + 2 a b/(gamma sqrt(m)) + 3 sqrt(ln(2/delta) / 2m)",
        predictor=predictor,
        delta=delta,
    )
