"""The results of decompilation as data, as text and as a page."""

from dataclasses import asdict, dataclass
from typing import Any

from capax.boolean.functions import SparseFunction
from capax.capacity.bound import MODEL, Bound
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.margins.decision import decision_rule
from capax.compiler.certificate.certificate import table_text
from capax.decompile.proof.verdict import AllInputs
from capax.decompile.reading.formula import Formula
from capax.decompile.reading.influence import Influence, Missed
from capax.decompile.reading.truth_table import TruthTable
from capax.foreign import html_text

ROUTES = {
    "Formula": "formula",
    "Hold-out": "hold-out",
    "Gibbs on the version space": "PAC-Bayes over formulas",
    "PAC-Bayes": "PAC-Bayes around the weights",
    "Lemma 2.2": "norms (uniform)",
    "realizable margin bound": "norms (realizable)",
}
"""Beginnings of the statements behind a certificate, and the routes in a few words."""


@dataclass(frozen=True)
class ExactShare:
    """Share of `n` inputs with `equal` answers, and its exact interval."""

    value: float
    low: float
    high: float
    n: int
    equal: int


@dataclass(frozen=True)
class Decompiled:
    """The formula of a network and its proof or agreement; see `decompile` for the method.

    missed: largest influence of bits outside the formula. training: how often the formula gives the
    training label. certificate: bounds on the network's error that hold together. threshold: an
    output above it is the decision 1.

    Examples:
        >>> import capax
        >>> capax.decompile(capax.compile("x1 & x4", T=6).model).formula.text
        'and(x1, x4)'
    """

    formula: Formula
    function: SparseFunction
    table: TruthTable
    missed: Missed
    influences: tuple[Influence, ...]
    agreement: ExactShare
    training: ExactShare | None
    all_inputs: AllInputs
    certificate: ErrorCertificate | None
    queries: int
    kind: str
    p: float
    threshold: float

    @property
    def support(self) -> tuple[int, ...]:
        """The bits the formula uses."""
        return self.function.support

    def to_json(self) -> dict[str, Any]:
        """Plain data; the keys are part of the interface."""
        left = self.missed
        return {
            "formula": self.formula.text,
            "kind": self.formula.kind,
            "support": list(self.support),
            "table": table_text(self.function),
            "consistency": [float(c) for c in self.table.consistency],
            "influences": [asdict(i) for i in self.influences],
            "missed": {
                "influence_below": left.influence,
                "delta": left.delta,
                "complete": left.complete,
                "dropped": [asdict(one) for one in left.dropped],
                "table_doubt": self.table.doubt,
            },
            "agreement": asdict(self.agreement),
            "training": None if self.training is None else asdict(self.training),
            "all_inputs": self.all_inputs.to_json(),
            "certificate": self._certificate_json(),
            "queries": self.queries,
            "model": self.kind,
            "T": self.function.T,
            "alphabet": self.function.alphabet,
            "p": self.p,
            "threshold": self.threshold,
        }

    def _certificate_json(self) -> dict[str, Any] | None:
        """The certificate, with the length of the formula's code and the number of examples."""
        if self.certificate is None or self.training is None:
            return None
        by_formula = next(b for b in self.certificate.entries if "bits" in b.norms)
        about = {"bits": by_formula.norms["bits"], "m": self.training.n}
        return {**self.certificate.to_json(), **about}

    def lines(self) -> list[tuple[str, str]]:
        """The findings as (what, finding) pairs for people."""
        bits = ", ".join(f"x{i.bit} ({i.changed / i.n:.0%})" for i in self.influences)
        rows = [
            ("formula", self.formula.text),
            ("decision", decision_rule(self.threshold)),
            ("bits that matter", f"{bits or 'none'}; share of inputs that a flip changes"),
            ("may be missed", self._missed()),
            ("table", f"lowest consistency {self.table.consistency.min():.1%} over random fillers"),
            ("agreement", _share(self.agreement, f"fresh inputs, {self._law()}")),
        ]
        if self.training is not None:
            rows.append(("training labels", f"{self.training.equal} of {self.training.n}"))
        rows.append(("all inputs", self._verdict()))
        if self.certificate is not None:
            rows += _certificate_rows(self.certificate)
        asked = f"{self.queries:,}".replace(",", " ")
        return [*rows, ("questions asked", f"{asked}; the same question must get the same answer")]

    def _law(self) -> str:
        if self.function.alphabet == 2:
            return f"P[bit = 1] = {self.p:.4g}"
        return f"{self.function.alphabet} symbols, equally likely"

    def _missed(self) -> str:
        left = self.missed
        if not left.complete:
            return "the search for bits was cut off; the model depends on more of them"
        text = (
            f"bits whose flip changes fewer than {left.influence:.2%} of inputs "
            f"(probability of error {left.delta:g})"
        )
        if not left.dropped:
            return text
        names = ", ".join(f"x{one.bit}" for one in left.dropped)
        return f"{text}; found to matter, but not in the formula: {names}"

    def _verdict(self) -> str:
        found = self.all_inputs
        if found.status == "proved" and found.asked_all:
            all_of_them = (
                f"proved: all {self.function.alphabet}^{self.function.T} inputs were asked"
            )
            return f"{all_of_them}, smallest margin as run {found.margin:.4g}"
        if found.status == "proved":
            inputs = f"{self.function.alphabet}^{self.function.T}"
            told = f"proved on all {inputs} inputs, margin at least {found.margin:.4g}"
            told = f"{told} ({' and '.join(found.holds)}"
            if found.as_run is not None:
                told = f"{told}; as run, off by up to {found.as_run:.2g} on a sample"
            shown = found.method.startswith(("read", "all"))
            return f"{told}); {found.method}" if shown else f"{told})"
        if found.status == "refuted" and found.counterexample is not None:
            more = "..." if len(found.counterexample) > 8 else ""
            if self.function.alphabet == 2:
                ones = ", ".join(f"x{t}" for t in found.counterexample[:8])
                text = f"refuted: wrong where only {ones}{more} are 1"
            else:
                shown = ", ".join(map(str, found.counterexample[:8]))
                text = f"refuted: wrong on the input {shown}{more}"
        elif found.margin is None:
            return f"open ({found.method})"
        else:
            text = f"open: certified margin {found.margin:.4g}"
            if found.found_margin is not None:
                text += f", smallest found {found.found_margin:.4g}"
        if found.ones is None:
            return text
        return (
            f"{text}; proved for {found.ones[0]} to {found.ones[1]} ones among the other bits "
            f"(probability {found.ones_share:.4g})"
        )

    def __str__(self) -> str:
        return "\n".join(f"{what}: {finding}" for what, finding in self.lines())

    def _repr_html_(self) -> str:
        """A table for notebooks; everything in it is escaped."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html_text(what)}</th>"
            f"<td style='text-align:left'>{html_text(finding)}</td></tr>"
            for what, finding in self.lines()
        )
        return f"<table>{rows}</table>"


def _share(agreement: ExactShare, of: str) -> str:
    return (
        f"{agreement.equal} of {agreement.n} {of}: {agreement.value:.4%} "
        f"(at least {agreement.low:.3%})"
    )


def _certificate_rows(certificate: ErrorCertificate) -> list[tuple[str, str]]:
    """The smallest bound on the network, then every route at its share of delta."""
    rows = [("certificate", certificate.headline())]
    rows += [
        (_name(b.statement), f"error <= {b.verdict}{_about(b)} (delta {b.delta:.2g})")
        for b in certificate.entries
    ]
    return rows + [
        (f"by {route.route}", f"no bound: {route.reason}") for route in certificate.skipped
    ]


def _name(statement: str) -> str:
    """The route in a few words."""
    for beginning, name in ROUTES.items():
        if statement.startswith(beginning):
            return f"by {name}"
    return f"by {statement}"


def _about(bound: Bound) -> str:
    """The predictor, if it is not the network itself."""
    return "" if bound.predictor == MODEL else f", of {bound.predictor}"
