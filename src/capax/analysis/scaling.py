"""How does the threshold grow with T? Four laws, weighed and tested on all trials at once.

The power law m* = a + b (T^c - 1)/c contains log growth (c = 0), linear growth (c = 1) and a
constant (b = 0). One level, 5 %, is used for all conclusions: a law is ruled out when the power law
fits better than chance allows, which for log and linear growth means that the 95% interval of c
does not contain them. Of constant, log and linear,

    one is left         settled; by name if the interval of c ends within 0.4 of its own
    none is left        a power of T
    several are left    not settled

If even the best of all laws does not fit (level 1 %), none of these laws fits.

A constant is a case of every other law, so it can never be the only one left. It is settled when it
is not ruled out and the log law changes by less than a quarter over the range of T (95%).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capax.analysis.laws import LAWS, Fit, Parameter, fit_law, p_value
from capax.analysis.positions import Position
from capax.errors import require
from capax.html import html_table

NAMED = ("constant", "log", "linear")
LEVEL = 0.05
"""A law is ruled out when the power law that contains it fits better at this level."""
REFUTED = 0.01
"""None of these laws fits when the goodness of fit of every one of them is below this."""
LEAST_LENGTHS = 3
_NEAR = 0.4


@dataclass(frozen=True)
class Scaling:
    """All laws in the order of their weight, and the conclusion.

    `status` is "settled", "not settled" or "none fits". `left` is the one law of constant, log and
    linear (or else the power) that a settled comparison leaves; `law` is the same, but `None` if
    the free exponent is not close enough to name the growth.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "known.toml").write_text('family = "simulated"\\nT = [10, 100, 1000]')
        >>> said = capax.thresholds(capax.sweep(folder / "known.toml", folder / "known.sqlite"))
        >>> "log" in [fit.law for fit in said.scaling.fits]
        True
    """

    fits: tuple[Fit, ...]
    status: str
    law: str | None
    left: str | None
    ruled_out: tuple[str, ...]
    verdict: str

    def _repr_html_(self) -> str:
        """The laws in a notebook, with the verdict below."""
        rows = [
            (fit.law, f"{fit.weight:.3f}", f"{(fit.p_fit or 0.0):.2g}", fit.formula)
            for fit in self.fits
        ]
        head = ("law", "weight", "fit p", "formula")
        return html_table(rows, head=head, title=f"Scaling: {self.status}", notes=[self.verdict])

    def _repr_latex_(self) -> str:
        """The law that is left, or the best one, as a formula."""
        shown = {"constant": "a", "log": r"a + b \ln T", "linear": "a + b T"}
        law = shown.get(self.best.law, r"a + b\,(T^c - 1)/c")
        values = r",\; ".join(f"{p.name} = {p.value:.4g}" for p in self.best.parameters)
        return rf"$m^*(T) = {law},\quad {values}$"

    @property
    def best(self) -> Fit:
        """The law to draw first: the remaining one, or the one with the largest weight."""
        return self.fit(self.left) if self.left else self.fits[0]

    def fit(self, law: str) -> Fit:
        return next(fit for fit in self.fits if fit.law == law)


def fit_scaling(positions: tuple[Position, ...]) -> Scaling:
    """Fit, weigh and test all laws. Raises `InputError` with fewer than three different T."""
    lengths = {p.T for p in positions}
    require(len(lengths) >= LEAST_LENGTHS, "points", "at least three different T", len(lengths))
    fits = [fit_law(law, positions) for law in LAWS]
    power = fits[LAWS.index("power")]
    fits = [replace(fit, p_power=_against(power, fit)) for fit in fits]
    best = min(fit.aic for fit in fits)
    raw = [math.exp((best - fit.aic) / 2) for fit in fits]
    weighed = [replace(fit, weight=r / sum(raw)) for fit, r in zip(fits, raw, strict=True)]
    ordered = tuple(sorted(weighed, key=lambda fit: fit.aic))
    by_law = {fit.law: fit for fit in ordered}
    status, left, by_name = judge(by_law, (min(lengths), max(lengths)))
    stand = [] if status == "none fits" else [*standing(by_law), "power"]
    out = tuple(name for name in LAWS if name not in stand)
    words = verdict(by_law, status, left, by_name=by_name)
    return Scaling(ordered, status, left if by_name else None, left, out, words)


def _against(power: Fit, fit: Fit) -> float | None:
    """p-value of a law inside the power law."""
    more = len(power.parameters) - len(fit.parameters)
    gain = max(0.0, 2 * (power.log_likelihood - fit.log_likelihood))
    return p_value(gain, more) if more else None


def ruled_out(fit: Fit) -> bool:
    """Whether the power law fits significantly better. The power law itself is never ruled out."""
    return fit.p_power is not None and fit.p_power < LEVEL


def standing(fits: dict[str, Fit]) -> list[str]:
    """The laws among constant, log and linear that are not ruled out.

    A constant is a case of log and linear growth: if both are ruled out, so is the constant.
    """
    left = [law for law in NAMED if not ruled_out(fits[law])]
    return [] if left == ["constant"] else left


def none_fits(fits: dict[str, Fit]) -> bool:
    """Is even the best fit of all laws refuted?"""
    return all(fit.p_fit is not None and fit.p_fit < REFUTED for fit in fits.values())


def judge(fits: dict[str, Fit], range_of_T: tuple[int, int]) -> tuple[str, str | None, bool]:
    """Status, the remaining law, and whether the growth may be named after it."""
    if none_fits(fits):
        return "none fits", None, False
    left = standing(fits)
    if not left:
        return "settled", "power", True
    if "constant" in left and _steady(fits["log"], range_of_T):
        return "settled", "constant", True
    if len(left) > 1:
        return "not settled", None, False
    own, c = {"log": 0.0, "linear": 1.0}[left[0]], fits["power"].parameters[2]
    if c.low is None or c.high is None:
        return "settled", left[0], False
    near = own - _NEAR < c.low <= own <= c.high < own + _NEAR
    return "settled", left[0], near


def _steady(log: Fit, range_of_T: tuple[int, int]) -> bool:
    """Does every accepted log law change by less than a quarter over the range of T?"""
    if log.accepted is None or any(p.low is None for p in log.parameters):
        return False
    a, b, _ = log.accepted
    first, last = (a + b * math.log(T) for T in range_of_T)
    change = np.abs(np.log(last / first))
    return bool(change.max() < np.log(1.25))


def verdict(fits: dict[str, Fit], status: str, left: str | None, *, by_name: bool) -> str:
    """The comparison in plain words: one conclusion, and its interval of c."""
    if status == "none fits":
        best = max(fit.p_fit or 0.0 for fit in fits.values())
        return f"None of these laws fits the trials ({_p(best)} for the best of them)."
    out = [name for name in NAMED if name not in standing(fits)]
    if left == "power":
        return f"{_NAMES[left]}: {_written(fits[left])}; {_ruled(out)}."
    exponent = f"A free exponent c (0 is log, 1 is linear) lies in {_interval(_c(fits))}."
    ruled = f"; {_ruled(out)}" if out else ""
    if left is None:
        both = _listed([_GROWTH[name] for name in NAMED if name not in out])
        return f"Not settled: {both} agree with the trials{ruled}. {exponent}"
    if left == "constant":
        return f"{_NAMES[left]} by more than a quarter: {_written(fits[left])}{ruled}."
    if by_name:
        return f"{_NAMES[left]}: {_written(fits[left])}{ruled}. {exponent}"
    return (
        f"Of constant, log and linear growth only {left} agrees with the trials: "
        f"{_written(fits[left])}. Powers of T agree as well, with an exponent c in "
        f"{_interval(_c(fits))} (0 is log, 1 is linear)."
    )


_NAMES = {
    "constant": "The threshold does not change with T",
    "log": "The threshold grows like log T",
    "linear": "The threshold grows linearly in T",
    "power": "The threshold grows like a power of T",
}
_GROWTH = {"constant": "no growth", "log": "growth like log T", "linear": "linear growth"}


def _c(fits: dict[str, Fit]) -> Parameter:
    return fits["power"].parameters[2]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _ruled(laws: Sequence[str]) -> str:
    """Which laws are ruled out, in words."""
    verb = "is" if len(laws) == 1 else "are"
    return f"{_listed([_GROWTH[law] for law in laws])} {verb} ruled out"


def _p(value: float) -> str:
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def _written(fit: Fit) -> str:
    values = (f"{p.name} = {p.value:.3g} {_interval(p)}" for p in fit.parameters)
    return f"{fit.formula} with {', '.join(values)}"


def _interval(parameter: Parameter) -> str:
    sides = ("open" if v is None else f"{v:.2g}" for v in (parameter.low, parameter.high))
    return f"[{', '.join(sides)}]"
