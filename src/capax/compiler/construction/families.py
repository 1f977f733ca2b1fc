"""The families of constructions: the size of each, and the functions f that it fits.

| family | needs | hidden units | error |
|---|---|---|---|
| `monotone-symmetric` | Boolean, a threshold of literals | 0 | decisions exact; output within eps |
| `linear-threshold` | Boolean, a weighted threshold | 0 | the same (ours) |
| `symmetric` | symmetric in literals | 2 for each step of phi | 0 |
| `general` | s <= 12 | 2 (eps, bag: 1) for each pattern off the commonest value | 0, or <= eps |

Families are offered f as a function of the classes of its symbols (`capax.boolean.symbol_classes`).
With two classes that is a Boolean function; with more only `general` fits (`symbol_patterns`).

An offer is a `Construction`, or a `Refusal` with the reason why the family does not fit.
"""

from dataclasses import dataclass
from typing import Literal

from capax.boolean import SparseFunction
from capax.boolean.traits.fourier import sensitivities
from capax.capacity.complexity.average_sensitivity import majority_sensitivity
from capax.compiler.construction import (
    general,
    heads,
    symbol_patterns,
    symmetric,
    threshold_head,
)
from capax.compiler.parts.incoherent import DualBasis
from capax.compiler.parts.literals import literal_form
from capax.compiler.parts.readouts import INSIDE, Readout, constant_readout
from capax.compiler.parts.selection import Selection

Family = Literal["monotone-symmetric", "linear-threshold", "symmetric", "general"]
FAMILIES: tuple[Family, ...] = ("monotone-symmetric", "linear-threshold", "symmetric", "general")


@dataclass(frozen=True)
class Construction:
    """A head and its read-out, before any matrix is filled in.

    `worst_case_error` = max over all 2^T inputs of |output - target|, where the target is the label
    -1/+1 (scalar read-out) or the value of f (MLP); `margin` = smallest distance of the output from
    the decision threshold (0, or 1/2), None when f is real-valued; `basis` for incoherent codes.
    """

    function: SparseFunction
    family: Family
    selection: Selection
    readout: Readout
    worst_case_error: float
    margin: float | None
    basis: DualBasis | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a family does not fit."""

    reason: str


Offer = Construction | Refusal


def scalar_offer(
    family: Family, f: SparseFunction, head: Selection, eps: float | None, basis: DualBasis | None
) -> Offer:
    """One head and a scalar read-out; exact mode keeps half of the margin of temperature zero."""
    problem = scalar_problem(family, f)
    if isinstance(problem, Refusal):
        return problem
    head = threshold_head.best_symbol(head, problem)
    limit = threshold_head.limit_error(head, problem)
    if eps is not None and eps <= limit:
        return _too_small(eps, limit)
    found = heads.scalar_head(head, problem, (1 + limit) / 2 if eps is None else INSIDE * eps)
    if found is None:
        return Refusal("no temperature reaches the wanted error with these codes")
    margin, peak = threshold_head.scalar_extremes(found, problem)
    readout = threshold_head.scalar_readout(found, problem)
    return Construction(f, family, found, readout, max(1 - margin, peak - 1), margin, basis)


def scalar_problem(family: str, f: SparseFunction) -> threshold_head.ThresholdProblem | Refusal:
    """f as a threshold of literals (or of weighted bits), or why it is not one."""
    if not f.is_boolean:
        return Refusal("a scalar read-out decides by its sign, but f has values other than 0 and 1")
    if f.alphabet > 2:
        return _too_many_classes(f)
    form = literal_form(f)
    problem = None if form is None else threshold_head.literal_problem(form)
    if problem is not None:
        return problem
    if family == "monotone-symmetric":
        why = "not symmetric in its literals" if form is None else "symmetric but not monotone"
        return Refusal(f"f is {why}")
    average, most = float(sensitivities(f).mean()), majority_sensitivity(f.s)
    if average > most * (1 + 1e-9):
        return Refusal(
            f"f has the average sensitivity {average:.4g}, one head with a scalar read-out at most "
            f"{most:.4g} (that of majority) on {f.s} bits"
        )
    found = threshold_head.linear_problem(f)
    if found is None:
        return Refusal("f is not a threshold of weighted bits (searched up to s = 10)")
    return found


def symmetric_offer(f: SparseFunction, head: Selection, basis: DualBasis | None) -> Offer:
    """Head and 2 ReLU units for each step of phi; error zero at any temperature."""
    if f.alphabet > 2:
        return _too_many_classes(f)
    form = literal_form(f)
    if form is None:
        return Refusal("f is not symmetric in its literals")
    found = heads.symmetric_head(head, form)
    if found is None:
        return Refusal("no temperature separates the levels with these codes")
    return _exact(f, "symmetric", found, symmetric.symmetric_readout(found, form), basis)


def general_offer(
    f: SparseFunction, head: Selection, eps: float | None, basis: DualBasis | None
) -> Offer:
    """Head and one or two ReLU units for each pattern that is off the commonest value."""
    M, limit = f.alphabet, 2 << general.MAX_GENERAL_SPARSITY
    if 2 * f.table.size > limit:
        most = f", s <= {general.MAX_GENERAL_SPARSITY}" if M == 2 else ""
        needed = f"2 * {M}^{f.s} = {2 * f.table.size} hidden units"
        return Refusal(f"the MLP would need up to {needed} (limit {limit}{most})")
    if M > 2:
        cool = symbol_patterns.symbol_head(head, f)
        assert cool is not None, "every head separates the patterns at some temperature"
        return _exact(f, "general", cool, symbol_patterns.symbol_readout(cool, f), None)
    one_each, levels = interpolates(head, eps), general.level_heights(f)
    found = heads.general_head(head, f, INSIDE * eps if one_each and eps else None)
    if found is None:
        return Refusal("no temperature separates the patterns with these codes")
    if not one_each:
        return _exact(f, "general", found, general.exact_readout(found, f), basis)
    error = general.interpolation_error(found, levels)
    readout = general.interpolating_readout(found, f)
    margin = 0.5 - error if f.is_boolean else None
    return Construction(f, "general", found, readout, error, margin, basis)


def constant_offer(
    family: Family, f: SparseFunction, head: Selection, basis: DualBasis | None
) -> Construction:
    """No variable, no hidden unit: the output bias."""
    return _exact(f, family, head, constant_readout(float(f.table[0])), basis)


def interpolates(head: Selection, eps: float | None) -> bool:
    """One unit a pattern: when an error is allowed, and in the bag, which only rounds."""
    if head.is_bag:
        return eps != 0
    return eps is not None and eps > 0 and head.encoding != "incoherent"


def planned_units(family: Family, f: SparseFunction, head: Selection, eps: float | None) -> int:
    """Hidden units of a family, before it is built; it may still refuse."""
    if family == "symmetric":
        form = None if f.alphabet > 2 else literal_form(f)
        return 0 if form is None else 2 * len(symmetric.steps(form))
    if family == "general":
        return (1 if interpolates(head, eps) else 2) * len(general.isolated_patterns(f))
    return 0


def _too_many_classes(f: SparseFunction) -> Refusal:
    return Refusal(f"f distinguishes {f.alphabet} classes of symbols; this family allows two")


def _exact(
    f: SparseFunction,
    family: Family,
    head: Selection,
    readout: Readout,
    basis: DualBasis | None,
) -> Construction:
    margin = 0.5 if f.is_boolean else None
    return Construction(f, family, head, readout, 0.0, margin, basis)


def _too_small(eps: float, limit: float) -> Refusal:
    if eps == 0:
        return Refusal(
            "eps = 0 with an approximate family: a scalar read-out only approaches the labels "
            "(its decisions are exact without eps)"
        )
    return Refusal(f"a scalar read-out stays {limit:.3g} away from the labels, eps = {eps:g}")
