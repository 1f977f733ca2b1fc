"""Piecewise-linear functions of numbers: `max(x1, x5) - 0.5*x9` as ReLU units, in exact fractions.

Grammar: decimal numbers, x7, + and -, a number times anything, (..), max(..), min(..), abs(.),
relu(.). Every expression is an affine form of the variables and of the units made before it:

    relu(a) = r with r a new unit,   max(a, b) = b + relu(a - b),   min(a, b) = a - relu(a - b),
    abs(a) = relu(a) + relu(-a).

The text is never executed, and no number is rounded: coefficients are fractions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from capax.errors import InputError, require, shown

MAX_UNITS, MAX_LENGTH, MAX_DEPTH = 256, 2048, 40
_TOKEN = re.compile(
    r"\s*(?:([0-9]+(?:\.[0-9]{1,12})?|\.[0-9]{1,12})|([A-Za-z]+[0-9]*)|([-+*(),])|(\S))"
)
_FUNCTIONS = ("max", "min", "abs", "relu")


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficients times variables + sum of coefficients times units."""

    constant: Fraction = Fraction(0)
    variables: dict[int, Fraction] = field(default_factory=dict)
    units: dict[int, Fraction] = field(default_factory=dict)

    def __add__(self, b: "Affine") -> "Affine":
        return Affine(
            self.constant + b.constant,
            _added(self.variables, b.variables),
            _added(self.units, b.units),
        )

    def times(self, c: Fraction) -> "Affine":
        """The same times a number."""
        parts = ({k: c * v for k, v in part.items() if c} for part in (self.variables, self.units))
        return Affine(c * self.constant, *parts)

    def __sub__(self, b: "Affine") -> "Affine":
        return self + b.times(Fraction(-1))

    @property
    def is_number(self) -> bool:
        """No variable and no unit."""
        return not self.variables and not self.units


def _added(a: dict[int, Fraction], b: dict[int, Fraction]) -> dict[int, Fraction]:
    total = {k: a.get(k, Fraction(0)) + b.get(k, Fraction(0)) for k in {**a, **b}}
    return {k: v for k, v in sorted(total.items()) if v}


@dataclass(frozen=True)
class PiecewiseLinear:
    """`output` and ReLU `units`: unit j is relu of an affine form of variables and units < j."""

    text: str
    units: tuple[Affine, ...]
    output: Affine

    @property
    def support(self) -> tuple[int, ...]:
        """The variables that occur, in increasing order."""
        forms = (*self.units, self.output)
        return tuple(sorted({x for form in forms for x in form.variables}))

    def __call__(self, x: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """The function at rows of x, in float64."""
        found: list[np.ndarray] = []
        for form in self.units:
            found.append(np.maximum(_at(form, x, found), 0.0))
        return _at(self.output, x, found)


def _at(form: Affine, x: np.ndarray, units: Sequence[np.ndarray]) -> np.ndarray:
    total = np.full(len(x), float(form.constant))
    for position, c in form.variables.items():
        total = total + float(c) * x[:, position]
    for unit, c in form.units.items():
        total = total + float(c) * units[unit]
    return total


def parse_piecewise(text: str, T: int | None = None) -> PiecewiseLinear:
    """The function of a formula. Raises `InputError` with the column of the error."""
    require(len(text) <= MAX_LENGTH, "formula", f"at most {MAX_LENGTH} characters", len(text))
    reader = _Reader(text)
    output = reader.sum()
    reader.expect("", "an operator or the end")
    found = PiecewiseLinear(" ".join(text.split()), tuple(reader.units), output)
    for x in found.support:
        if T is not None and x >= T:
            raise InputError(f"x{x}: out of range for T = {T}; positions are 0-based")
    return found


class _Reader:
    """Recursive descent; units are made on the way."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        for match in _TOKEN.finditer(text):
            if match.group(4):
                raise InputError(f"formula: cannot read {shown(match.group(4))} at column "
                                 f"{match.end()}")  # fmt: skip
            self.tokens.append((match.group().strip(), match.start(match.lastindex or 0) + 1))
        self.tokens.append(("", len(text) + 1))
        self.at, self.depth = 0, 0
        self.units: list[Affine] = []

    def peek(self) -> str:
        return self.tokens[self.at][0]

    def take(self) -> tuple[str, int]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def expect(self, text: str, wanted: str) -> None:
        got, column = self.tokens[self.at]
        if got != text:
            given = shown(got) if got else "the end"
            raise InputError(f"formula: wanted {wanted} at column {column}, got {given}")
        self.take()

    def relu(self, form: Affine) -> Affine:
        if form.is_number:
            return Affine(max(form.constant, Fraction(0)))
        require(len(self.units) < MAX_UNITS, "formula", f"at most {MAX_UNITS} ReLU units", "more")
        self.units.append(form)
        return Affine(units={len(self.units) - 1: Fraction(1)})

    def sum(self) -> Affine:
        self.depth += 1
        require(self.depth <= MAX_DEPTH, "formula", f"nesting of at most {MAX_DEPTH}", "deeper")
        total = self.product()
        while self.peek() in ("+", "-"):
            sign = Fraction(1 if self.take()[0] == "+" else -1)
            total = total + self.product().times(sign)
        self.depth -= 1
        return total

    def product(self) -> Affine:
        total = self.atom()
        while self.peek() == "*":
            _, column = self.take()
            other = self.atom()
            if not (total.is_number or other.is_number):
                raise InputError(f"formula: wanted a number on one side of '*' at column {column}, "
                                 "got two variables")  # fmt: skip
            number, rest = (total, other) if total.is_number else (other, total)
            total = rest.times(number.constant)
        return total

    def atom(self) -> Affine:
        text, column = self.take()
        if text == "-":
            return self.atom().times(Fraction(-1))
        if text == "(":
            inside = self.sum()
            self.expect(")", "')'")
            return inside
        if text[:1].isdigit() or text[:1] == ".":
            return Affine(Fraction(text))
        if re.fullmatch(r"x[0-9]{1,12}", text):
            return Affine(variables={int(text[1:]): Fraction(1)})
        if text in _FUNCTIONS:
            return self.call(text)
        given = shown(text) if text else "the end"
        raise InputError(
            "formula: wanted a number, a variable such as x0, max, min, abs, relu or '(' at column "
            f"{column}, got {given}"
        )

    def call(self, name: str) -> Affine:
        self.expect("(", "'('")
        found = self.sum()
        if name == "relu":
            found = self.relu(found)
        elif name == "abs":
            found = self.relu(found) + self.relu(found.times(Fraction(-1)))
        else:
            while self.peek() == ",":
                self.take()
                other = self.sum()
                above = self.relu(found - other)
                found = other + above if name == "max" else found - above
        self.expect(")", "')'" if name in ("abs", "relu") else "',' or ')'")
        return found
