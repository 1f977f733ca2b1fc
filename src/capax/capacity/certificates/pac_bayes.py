"""PAC-Bayes-kl: the error of a randomised predictor, from its distance to a prior.

For a prior P that does not depend on the n examples, with probability 1 - delta for all Q at once

    kl(R_n(Q) || R(Q)) <= (KL(Q || P) + ln(2 sqrt(n)/delta)) / n       (n >= 8; Maurer 2004),

R_n and R the training and the true error of the Gibbs predictor, which draws its weights from Q
anew for every input. It is a bound on that predictor, not on the network in the middle of Q.

Gaussian: Q = N(theta, sigma^2 I), P = N(theta_0, sigma^2 I), KL = |theta - theta_0|^2 / 2 sigma^2;
theta_0 may be trained on the other m - n examples. sigma comes from a grid of J values fixed in
advance, each with delta/J. R_n(Q) is an expectation over Q: N draws give its mean R_N, and because
a mean of N independent numbers in [0, 1] obeys Chernoff's bound (Hoeffding 1963, Theorem 1),
R_n(Q) <= kl^{-1}(R_N, ln(1/delta')/N) with probability 1 - delta'.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from capax.capacity.arguments import (
    check_count,
    check_nonnegative,
    check_positive,
    check_probability,
)
from capax.capacity.bound import Assumption, Bound, Term, share_of
from capax.capacity.certificates.tails import INDEPENDENT
from capax.capacity.complexity.tail_inversion import kl_inverse
from capax.errors import require
from capax.rounding import ROUND_UP

GIBBS = "the Gibbs predictor around the model"
# Fixed before any data: standard deviations of the weights, a factor 2 apart.
SIGMAS = tuple(2.0**-j for j in range(2, 7))
SAMPLING_SHARE = Fraction(1, 10)
LEAST_EXAMPLES = 8
LATEX = r"kl^{-1}\Big(\hat R(Q),\tfrac{KL(Q\|P)+\ln(2\sqrt n/\delta)}n\Big)"


@dataclass(frozen=True)
class GibbsErrors:
    """A Gaussian posterior, tried on its n examples at every sigma of the grid.

    distance_squared: |theta - theta_0|^2. errors[j]: mean share of wrong examples over `draws`
    networks drawn at sigmas[j].
    """

    distance_squared: float
    sigmas: tuple[float, ...]
    errors: tuple[float, ...]
    draws: int
    n: int

    def __post_init__(self) -> None:
        check_nonnegative("distance_squared", self.distance_squared)
        check_count("draws", self.draws)
        same = len(self.sigmas) == len(self.errors) > 0
        require(same, "errors", f"one for each of {len(self.sigmas)} sigmas", len(self.errors))
        for sigma in self.sigmas:
            check_positive("sigma", sigma)


def gaussian_kl(distance_squared: float, sigma: float) -> float:
    """KL(N(theta, sigma^2 I) || N(theta_0, sigma^2 I)) = |theta - theta_0|^2 / 2 sigma^2."""
    check_nonnegative("distance_squared", distance_squared)
    check_positive("sigma", sigma)
    return distance_squared / (2 * sigma * sigma) * ROUND_UP


def pac_bayes_bound(
    error: float, kl: float, n: int, delta: float, *, cost: float = 0.0, predictor: str = GIBBS
) -> Bound:
    """R(Q) <= kl^{-1}(error, (KL + ln(2 sqrt(n)/delta)) / n) for a known training error of Q.

    kl: KL(Q || P) in nats, the prior fixed before the n examples. cost: nats for conditioning.
    Raises `InputError` for n < 8, where the constant 2 sqrt(n) is not proved.
    """
    require(0 <= error <= 1, "error", "a number in [0, 1]", error)
    check_nonnegative("kl", kl)
    check_nonnegative("cost", cost)
    check_count("n", n, at_least=LEAST_EXAMPLES)
    check_probability("delta", delta)
    confidence = (math.log(2 * math.sqrt(n)) - math.log(delta) + cost) * ROUND_UP
    rate = (kl + confidence) / n * ROUND_UP
    value = kl_inverse(error, rate)
    return Bound(
        statement="PAC-Bayes-kl",
        status="rigorous",
        value=value,
        terms=(
            Term.of("Gibbs training error", error),
            Term.of("gap", max(0.0, value - error), f"kl^-1({error:.4g}, {rate:.4g}) - error"),
        ),
        norms={"KL": kl, "n": float(n), "delta": delta},
        assumptions=(INDEPENDENT, Assumption("the prior does not depend on these n examples")),
        latex=LATEX,
        formula="kl^-1(R_n, (KL + ln(2 sqrt(n)/delta)) / n)",
        predictor=predictor,
        delta=delta,
    )


def gaussian_pac_bayes_bound(
    tried: GibbsErrors, delta: float, *, cost: float = 0.0, predictor: str = GIBBS
) -> Bound:
    """The best sigma of the grid; each has delta/J, a tenth of it for the sampled error."""
    check_probability("delta", delta)
    sampling, rest = (
        share_of(delta, part / len(tried.sigmas)) for part in (SAMPLING_SHARE, 1 - SAMPLING_SHARE)
    )
    bounds = [
        _at_sigma(tried, sigma, error, sampling, rest, cost, predictor)
        for sigma, error in zip(tried.sigmas, tried.errors, strict=True)
    ]
    best = min(bounds, key=lambda bound: bound.value)
    grid = f"sigma = {best.norms['sigma']:g}, one of {len(bounds)} of a grid (delta/{len(bounds)})"
    drawn = f"the Gibbs error was sampled with {tried.draws} draws"
    shares = {f"{what} at sigma = {sigma:g}": part for sigma in tried.sigmas
              for what, part in (("sampling", sampling), ("PAC-Bayes", rest))}  # fmt: skip
    return replace(best, delta=delta, shares=shares, notes=(grid, drawn))


def _at_sigma(
    tried: GibbsErrors,
    sigma: float,
    error: float,
    sampling: float,
    rest: float,
    cost: float,
    predictor: str,
) -> Bound:
    luck = -math.log(sampling) / tried.draws * ROUND_UP
    gibbs = kl_inverse(min(1.0, error * ROUND_UP), luck)
    kl = gaussian_kl(tried.distance_squared, sigma)
    bound = pac_bayes_bound(gibbs, kl, tried.n, rest, cost=cost, predictor=predictor)
    return replace(bound, norms={**bound.norms, "sigma": sigma, "sampled error": error})


def version_space_bound(
    log_placements: float,
    survivors: int,
    m: int,
    delta: float,
    *,
    errors: int = 0,
    cost: float = 0.0,
    predictor: str = "a random surviving placement",
) -> Bound:
    """Gibbs on the version space: a placement drawn uniformly from the survivors.

    Uniform prior over N = e^{log_placements}, Q uniform on those with `errors` errors on the m
    examples: KL = ln(N/survivors). Without errors 1 - exp(-(ln(N/V) + ln(2 sqrt(m)/delta))/m).
    """
    check_nonnegative("log_placements", log_placements)
    check_count("survivors", survivors)
    require(0 <= errors <= m, "errors", f"between 0 and m = {m}", errors)
    kl = max(0.0, (log_placements * ROUND_UP - math.log(survivors)) + 1e-12)
    bound = pac_bayes_bound(errors / m, kl, m, delta, cost=cost, predictor=predictor)
    return replace(
        bound,
        statement="Gibbs on the version space",
        norms={**bound.norms, "survivors": float(survivors)},
        assumptions=(INDEPENDENT, Assumption("the family was fixed before the data")),
        notes=(f"{survivors} placements with {errors} errors are left",),
    )
