"""How does the threshold grow with T? Four laws, weighed and tested on all trials at once.

A law is ruled out when its fit is refuted (level 0.001), or when a power law with a free exponent
fits clearly better (level 0.005). The levels are low because trials that stop once an interval is
narrow are a little less certain than they look (simulated). Of constant, log and linear,

    one is left         settled; by name if the free exponent comes within 0.4 of its own (95%)
    none is left        a power of T, or "none of these laws fits" if that is refuted too
    several are left    not settled

A constant lies inside every other law, so it can never be the only one left. It is settled when it
is not ruled out and the log law changes by less than a quarter over the range of T (95%).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

from capax.analysis.laws import LAWS, Fit, Parameter, fit_law
from capax.analysis.positions import Position
from capax.errors import require
from capax.html import html_table

NAMED = ("constant", "log", "linear")
REFUTED = 0.001
BEATEN = 0.005
LEAST_LENGTHS = 3
_NEAR = 0.4


@dataclass(frozen=True)
class Scaling:
    """All laws in the order of their weight, and what to say about them.

    `status` is "settled", "not settled" or "none fits". `left` is the one law of constant, log and
    linear (or else the power) that a settled comparison leaves; `law` is the same, but `None` where
    the free exponent is not close enough to call the growth by its name.

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
        """The law to draw first: the one that is left, or that of the largest weight."""
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
    out = tuple(name for name in LAWS if ruled_out(by_law[name]))
    words = verdict(by_law, status, left, by_name=by_name)
    return Scaling(ordered, status, left if by_name else None, left, out, words)


def _against(power: Fit, fit: Fit) -> float | None:
    """p-value of a law inside the power law."""
    more = len(power.parameters) - len(fit.parameters)
    gain = max(0.0, 2 * (power.log_likelihood - fit.log_likelihood))
    return float(chi2.sf(gain, more)) if more else None


def ruled_out(fit: Fit) -> bool:
    """Refuted by its own fit, or by the power law that holds it."""
    refuted = fit.p_fit is not None and fit.p_fit < REFUTED
    return refuted or (fit.p_power is not None and fit.p_power < BEATEN)


def smallest_p(fit: Fit) -> float:
    """The stronger of the two objections to a law; 1 where there is none."""
    return min(1.0 if p is None else p for p in (fit.p_fit, fit.p_power))


def judge(fits: dict[str, Fit], range_of_T: tuple[int, int]) -> tuple[str, str | None, bool]:
    """Status, the law that is left, and whether the growth may be called by its name."""
    left = [law for law in NAMED if not ruled_out(fits[law])]
    if not left:
        return (
            ("none fits", None, False) if ruled_out(fits["power"]) else ("settled", "power", True)
        )
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
    return bool(change.max() < math.log(1.25))


def verdict(fits: dict[str, Fit], status: str, left: str | None, *, by_name: bool) -> str:
    """The comparison in plain words."""
    if status == "none fits":
        return f"None of these laws fits the trials: {_objections(fits, LAWS)}."
    out = [name for name in LAWS if ruled_out(fits[name])]
    ruled = f" Ruled out: {_objections(fits, out)}." if out else ""
    exponent = "" if left == "power" else f" {_about_exponent(fits['power'])}"
    if left is None:
        both = " and ".join(f"{n} (weight {fits[n].weight:.2f})" for n in NAMED if n not in out)
        return f"Not settled: {both} fit these trials alike.{ruled}{exponent}"
    fit = fits[left]
    how = _NAMES[left] if by_name else f"Of constant, log and linear only {left} is left"
    return f"{how}: {_written(fit)}; the fit is not refuted ({_p_fit(fit)}).{ruled}{exponent}"


_NAMES = {
    "constant": "The threshold does not change with T",
    "log": "The threshold grows like log T",
    "linear": "The threshold grows linearly in T",
    "power": "The threshold grows like a power of T",
}


def _objections(fits: dict[str, Fit], laws: Sequence[str]) -> str:
    return ", ".join(f"{law} ({_p(smallest_p(fits[law]))})" for law in laws)


def _p_fit(fit: Fit) -> str:
    return "no test is left with so few T" if fit.p_fit is None else _p(fit.p_fit)


def _p(value: float) -> str:
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def _written(fit: Fit) -> str:
    values = (f"{p.name} = {p.value:.3g} {_interval(p)}" for p in fit.parameters)
    return f"{fit.formula} with {', '.join(values)}"


def _interval(parameter: Parameter) -> str:
    sides = ("open" if v is None else f"{v:.3g}" for v in (parameter.low, parameter.high))
    return f"[{', '.join(sides)}]"


def _about_exponent(power: Fit) -> str:
    """What the free exponent says: does its interval hold 0 (log) and 1 (linear)?"""
    c = power.parameters[2]
    low, high = (-math.inf if c.low is None else c.low), (math.inf if c.high is None else c.high)
    special = ((0.0, "0 (log)"), (1.0, "1 (linear)"))
    holds = [name for value, name in special if low <= value <= high]
    said = f"includes {' and '.join(holds)}" if holds else "excludes 0 (log) and 1 (linear)"
    return f"A power law with a free exponent has c = {c.value:.2g} {_interval(c)}, which {said}."
