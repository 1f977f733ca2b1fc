"""A bound is an object: its value, the formula behind it, its terms and its assumptions.

Every function of this folder that proves a number returns a `Bound`. It is a plain record; the
mathematics is in the file of its statement. `explain()` writes the formula with its numbers and
marks the largest term.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from capax.capacity.magnitude import LN_10, safe_exp, safe_log, shown, shown_latex
from capax.errors import require
from capax.foreign import latex_text
from capax.html import html_table

Kind = Literal["error", "log_cover", "radius"]
MODEL = "the model"
# rigorous: proved under the printed assumptions; comparison: a number to compare models or proofs
Status = Literal["rigorous", "comparison"]


@dataclass(frozen=True)
class Assumption:
    """A condition of the statement. `holds`: checked true or false; None = not checked."""

    text: str
    holds: bool | None = None
    detail: str = ""

    @property
    def mark(self) -> str:
        """`yes`, `NO` or `assumed`."""
        return {True: "yes", False: "NO", None: "assumed"}[self.holds]


@dataclass(frozen=True)
class Term:
    """One summand of a bound: `log_value` = ln of it, `text`/`latex` = formula with numbers."""

    name: str
    log_value: float
    text: str = ""
    latex: str = ""
    parts: "tuple[Term, ...]" = ()

    @classmethod
    def of(
        cls,
        name: str,
        value: float,
        text: str = "",
        latex: str = "",
        parts: "tuple[Term, ...]" = (),
    ) -> "Term":
        """A term given by its value instead of its logarithm."""
        return cls(name, safe_log(value), text, latex, parts)

    @property
    def value(self) -> float:
        """The summand itself; inf when it does not fit a float."""
        return safe_exp(self.log_value)

    def to_json(self) -> dict[str, Any]:
        """Name, value (null if it does not fit a float), log10 and the sub-terms."""
        content: dict[str, Any] = {"name": self.name, **_magnitude("value", self.log_value)}
        if self.text:
            content["formula"] = self.text
        if self.parts:
            content["terms"] = [part.to_json() for part in self.parts]
        return content


@dataclass(frozen=True)
class Bound:
    """An upper bound with its formula, terms and assumptions.

    statement: e.g. "Corollary 4.5". value: the number promised (kind "error": a probability or an
    expected loss in [0, 1]; kind "log_cover": ln N; kind "radius": a distance or a complexity).
    log_cover: ln of the covering number used, None without a cover. m_needed: samples at which the
    same route reaches the target, None if not asked. latex: the formula with symbols. status:
    "rigorous" (proved if the assumptions hold) or "comparison" (the default: proves nothing).
    log_value, log_log_cover: logarithms, for numbers beyond
    10^308. predictor: whose error it is (two bounds may be compared only when it is the same).
    delta: failure probability spent. shares: the statements that a bound uses or was chosen from,
    each with its part of delta; they add up to at most delta.

    Examples:
        >>> import capax
        >>> bound = capax.capacity.occam_bound(30, m=300, delta=0.05)
        >>> bound.vacuous, bound.kind
        (False, 'error')
    """

    statement: str
    value: float
    log_cover: float | None = None
    terms: tuple[Term, ...] = ()
    norms: dict[str, float] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    m_needed: int | None = None
    latex: str = ""
    notes: tuple[str, ...] = ()
    formula: str = ""
    kind: Kind = "error"
    status: Status = "comparison"
    log_value: float = math.nan
    log_log_cover: float | None = None
    target: float | None = None
    predictor: str = MODEL
    delta: float | None = None
    shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(not math.isnan(self.value), "value", "a number", self.value)
        require(self.value >= 0, "value", "a non-negative number", self.value)
        fits = not self.shares or spent(self.shares.values()) <= spent([self.delta or 0.0])
        require(fits, "shares", f"parts that add up to delta = {self.delta}", self.shares)
        if math.isnan(self.log_value):
            object.__setattr__(self, "log_value", safe_log(self.value))
        if self.log_log_cover is None and self.log_cover is not None:
            object.__setattr__(self, "log_log_cover", safe_log(self.log_cover))

    @property
    def vacuous(self) -> bool:
        """An error bound of 1 or more is vacuous."""
        return self.kind == "error" and self.log_value >= 0.0

    @property
    def dominant(self) -> Term | None:
        """The largest term."""
        return max(self.terms, key=lambda term: term.log_value, default=None)

    @property
    def holds(self) -> bool:
        """False when an assumption was checked and fails."""
        return all(assumption.holds is not False for assumption in self.assumptions)

    @property
    def verdict(self) -> str:
        """The value in words: `0.0731`, `1.9 (vacuous)`, `10^412.3 (vacuous)`."""
        return shown(self.log_value) + (" (vacuous)" if self.vacuous else "")

    def explain(self, style: str = "text") -> str:
        """The bound written out with its numbers; the dominant term is marked."""
        require(style in ("text", "latex"), "style", "'text' or 'latex'", style)
        return _explain_latex(self) if style == "latex" else _explain_text(self)

    def _repr_html_(self) -> str:
        """The bound in a notebook: value, terms, norms, assumptions."""
        left = _LEFT_SIDE[self.kind]
        rows: list[tuple[str, str]] = [(left, f"<= {self.verdict}")]
        rows += [(term.name, shown(term.log_value)) for term in self.terms]
        rows += [(name, shown(safe_log(value))) for name, value in self.norms.items()]
        if self.m_needed is not None:
            rows.append(("m needed", f"{self.m_needed:,}".replace(",", " ")))
        checks = [f"[{a.mark}] {a.text}" for a in self.assumptions]
        return html_table(rows, title=self.statement, notes=[*checks, *self.notes])

    def _repr_latex_(self) -> str:
        """The same as a formula with its numbers."""
        return f"$$\\begin{{aligned}}\n{_latex_body(self)}\n\\end{{aligned}}$$"

    def to_json(self) -> dict[str, Any]:
        """Plain data: statement, log_cover, value, vacuous, terms, norms, m_needed and more."""
        cover = self.log_log_cover
        return {
            "statement": self.statement,
            **_magnitude("value", self.log_value),
            "kind": self.kind,
            "status": self.status,
            "vacuous": self.vacuous,
            "predictor": self.predictor,
            "delta": self.delta,
            "shares": self.shares,
            **({"log_cover": None} if cover is None else _magnitude("log_cover", cover)),
            "terms": [term.to_json() for term in self.terms],
            "norms": {name: _finite(value) for name, value in self.norms.items()},
            "m_needed": self.m_needed,
            "target": self.target,
            "assumptions": [
                {"text": a.text, "holds": a.holds, "detail": a.detail} for a in self.assumptions
            ],
            "notes": list(self.notes),
            "formula": self.formula,
            "latex": self.latex,
        }


def best_of(bounds: Iterable[Bound]) -> Bound:
    """The smallest value, vacuous or not."""
    return min(bounds, key=lambda bound: bound.log_value)


def spent(shares: Iterable[float]) -> Fraction:
    """The exact sum of shares of delta, added as fractions."""
    return sum((Fraction(share) for share in shares), Fraction(0))


def share_of(delta: float, part: Fraction) -> float:
    """`part` of delta as a float, rounded down: parts that add up to 1 never overspend."""
    exact = Fraction(delta) * part
    near = float(exact)
    return near if Fraction(near) <= exact else math.nextafter(near, 0.0)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _magnitude(name: str, log_value: float) -> dict[str, float | None]:
    """`{name: value or null, log10_name: log10}`: JSON has no infinity, the logarithm stays."""
    value = safe_exp(log_value)
    log_10 = log_value / LN_10
    return {name: _finite(value), f"log10_{name}": _finite(log_10)}


_LEFT_SIDE = {"error": "error", "log_cover": "ln N", "radius": "radius"}
_LEFT_SIDE_LATEX = {"error": r"\mathrm{err}", "log_cover": r"\ln N_\infty", "radius": r"\hat R"}


def _share(term: Term, terms: tuple[Term, ...]) -> str:
    top = max(other.log_value for other in terms)
    if top == -math.inf:
        return "0 %"
    total = sum(math.exp(other.log_value - top) for other in terms)
    return f"{100 * math.exp(term.log_value - top) / total:.0f} %"


def _term_lines(terms: tuple[Term, ...], indent: str) -> list[str]:
    if not terms:
        return []
    dominant = max(terms, key=lambda term: term.log_value)
    width = max(len(term.name) for term in terms)
    lines: list[str] = []
    for term in terms:
        mark = "  <- dominant" if term is dominant and len(terms) > 1 else ""
        size = f"{shown(term.log_value):>10}  {_share(term, terms):>5}"
        lines.append(f"{indent}{term.name:<{width}}  {size}{mark}")
        if term.text:
            lines.append(f"{indent}    = {term.text}")
        lines += _term_lines(term.parts, indent + "    ")
    return lines


def _explain_text(bound: Bound) -> str:
    first = f"{bound.statement} [{bound.status}]"
    lines = [first, f"  {_LEFT_SIDE[bound.kind]} <= {bound.verdict}"]
    if bound.formula:
        lines.append(f"  by {bound.formula}")
    if bound.log_log_cover is not None and bound.kind != "log_cover":
        lines.append(f"  ln N = {shown(bound.log_log_cover)}")
    if bound.terms:
        lines += ["terms", *_term_lines(bound.terms, "  ")]
    if bound.norms:
        lines += ["norms", *(f"  {k} = {shown(safe_log(v))}" for k, v in bound.norms.items())]
    if bound.assumptions:
        lines.append("assumptions")
    for a in bound.assumptions:
        lines.append(f"  [{a.mark}] {a.text}" + (f" ({a.detail})" if a.detail else ""))
    lines += _closing_lines(bound)
    return "\n".join(lines)


def _closing_lines(bound: Bound) -> list[str]:
    lines: list[str] = []
    if bound.m_needed is not None:
        goal = "" if bound.target is None else f" for a value <= {bound.target:g}"
        lines.append(f"m needed{goal}: {bound.m_needed:,}".replace(",", " "))
    return lines + [f"note: {text}" for text in bound.notes]


def _latex_terms(terms: tuple[Term, ...]) -> list[str]:
    dominant = max(terms, key=lambda term: term.log_value, default=None)
    rows: list[str] = []
    for term in terms:
        number = shown_latex(term.log_value)
        number = rf"\boxed{{{number}}}" if term is dominant and len(terms) > 1 else number
        middle = f" = {term.latex}" if term.latex else ""
        rows.append(rf"&\quad {latex_text(term.name)}{middle} = {number} \\")
        rows += _latex_terms(term.parts)
    return rows


def _explain_latex(bound: Bound) -> str:
    head = rf"% {bound.statement} [{bound.status}]; the boxed term dominates"
    return "\n".join([head, r"\begin{align*}", _latex_body(bound), r"\end{align*}"])


def _latex_body(bound: Bound) -> str:
    symbols = bound.latex or r"\sum_i t_i"
    vacuous = r"\quad\text{(vacuous)}" if bound.vacuous else ""
    left = _LEFT_SIDE_LATEX[bound.kind]
    first, last = rf"{left} &\le {symbols} \\", rf"&\le {shown_latex(bound.log_value)}{vacuous}"
    return "\n".join([first, *_latex_terms(bound.terms), last])
