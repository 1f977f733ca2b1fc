"""Evaluate statements on small instances, and the printed forms that are known to fail."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from capax.statements.errata import Erratum, errata_of
from capax.statements.instances.appendix_a_checks import APPENDIX_A_CHECKS
from capax.statements.instances.capacity_checks import CAPACITY_CHECKS
from capax.statements.instances.representation_checks import REPRESENTATION_CHECKS
from capax.statements.instances.small_instance import SmallInstance

CHECKS = {**CAPACITY_CHECKS, **APPENDIX_A_CHECKS, **REPRESENTATION_CHECKS}


@dataclass(frozen=True)
class CheckedStatement:
    """One statement: whether it holds on its instance, and the results of its printed forms."""

    number: str
    instance: SmallInstance
    errata: tuple[tuple[Erratum, SmallInstance], ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """The statement holds (in its corrected form), and every printed form fails."""
        return self.instance.holds and not any(printed.holds for _, printed in self.errata)

    def to_json(self) -> dict[str, Any]:
        """number, holds, seconds, the instance, and the errata with their counterexamples."""
        return {
            "number": self.number,
            "holds": self.holds,
            "seconds": self.seconds,
            "instance": self.instance.text,
            "errata": [
                {"name": e.name, "printed_form_holds": c.holds, "counterexample": c.text}
                for e, c in self.errata
            ],
        }


def check_statement(number: str) -> CheckedStatement:
    """The check of one statement of the paper, and the counterexamples of its errata."""
    start = time.perf_counter()
    instance = CHECKS[number]()
    errata = tuple((e, e.counterexample()) for e in errata_of(number) if e.numbers[0] == number)
    return CheckedStatement(number, instance, errata, time.perf_counter() - start)


def check_statements(numbers: Iterable[str]) -> list[CheckedStatement]:
    """The checks of several statements, in the order given."""
    return [check_statement(number) for number in numbers]
