"""Capax: what self-attention prefers to learn, how much data it needs, how much a head can hold.

Each name below is loaded on first use, so `import capax` takes no time. The packages
(`capax.attention`, `capax.capacity`, ...) are there too, for programs that build on them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from capax.callable_packages import resolved

if TYPE_CHECKING:
    from capax.analysis.scaling import Scaling as Scaling
    from capax.analysis.store_answer import thresholds_of as thresholds  # noqa: F401
    from capax.analysis.threshold import Threshold as Threshold
    from capax.audit.auditing import audit as audit
    from capax.boolean.functions import SparseFunction as SparseFunction
    from capax.boolean.parser import parse as parse
    from capax.capacity.bound import Bound as Bound
    from capax.capacity.certificates.error_certificate import ErrorCertificate as ErrorCertificate
    from capax.capacity.certificates.evidence import Evidence as Evidence
    from capax.capacity.covers.cover import cover as cover
    from capax.capacity.covers.covering_sets import Cover as Cover
    from capax.capacity.routes.bounding import bound as bound
    from capax.capacity.routes.certifying import certify as certify
    from capax.cards.answers.card_rows import Card as Card
    from capax.cards.card import card as card
    from capax.compiler.compiling import Compiled as Compiled
    from capax.compiler.compiling import compile as compile
    from capax.compiler.verified.verification import Verification as Verification
    from capax.compiler.verified.verifying import verify as verify
    from capax.data.task import TaskSpec as TaskSpec
    from capax.data.task import draw_task as draw_task
    from capax.decompile.decompiled import Decompiled as Decompiled
    from capax.decompile.decompiling import decompile as decompile
    from capax.errors import CapaxError as CapaxError
    from capax.errors import InputError as InputError
    from capax.figures.paper.figure import figure as figure
    from capax.proving.compiled_proof import Proof as Proof
    from capax.proving.proof_files import prove as prove
    from capax.report.build import report as report
    from capax.sweep.running.sweeping import sweep as sweep
    from capax.training.one_model import Trained as Trained
    from capax.training.one_model import train_model as train  # noqa: F401

# public name -> "module:name" that defines it; the list above says the same to type checkers
_PUBLIC: dict[str, str] = {
    "parse": "capax.boolean.parser:parse",
    "compile": "capax.compiler.compiling:compile",
    "verify": "capax.compiler.verified.verifying:verify",
    "cover": "capax.capacity.covers.cover:cover",
    "bound": "capax.capacity.routes.bounding:bound",
    "certify": "capax.capacity.routes.certifying:certify",
    "draw_task": "capax.data.task:draw_task",
    "sweep": "capax.sweep.running.sweeping:sweep",
    "thresholds": "capax.analysis.store_answer:thresholds_of",
    "figure": "capax.figures.paper.figure:figure",
    "report": "capax.report.build:report",
    "train": "capax.training.one_model:train_model",
    "audit": "capax.audit.auditing:audit",
    "card": "capax.cards.card:card",
    "prove": "capax.proving.proof_files:prove",
    "Proof": "capax.proving.compiled_proof:Proof",
    "decompile": "capax.decompile.decompiling:decompile",
    "SparseFunction": "capax.boolean.functions:SparseFunction",
    "TaskSpec": "capax.data.task:TaskSpec",
    "Cover": "capax.capacity.covers.covering_sets:Cover",
    "Card": "capax.cards.answers.card_rows:Card",
    "Bound": "capax.capacity.bound:Bound",
    "Decompiled": "capax.decompile.decompiled:Decompiled",
    "ErrorCertificate": "capax.capacity.certificates.error_certificate:ErrorCertificate",
    "Evidence": "capax.capacity.certificates.evidence:Evidence",
    "Threshold": "capax.analysis.threshold:Threshold",
    "Scaling": "capax.analysis.scaling:Scaling",
    "Compiled": "capax.compiler.compiling:Compiled",
    "Verification": "capax.compiler.verified.verification:Verification",
    "Trained": "capax.training.one_model:Trained",
    "CapaxError": "capax.errors:CapaxError",
    "InputError": "capax.errors:InputError",
}
_PACKAGES = (
    "boolean", "data", "attention", "capacity", "compiler", "training", "learners", "decompile",
    "proving", "sweep", "analysis", "cards", "audit", "figures", "report", "lab", "cli",
)  # fmt: skip

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:  # first: a package whose name is also a verb can be called
        return importlib.import_module(f"capax.{name}")
    if name in _PUBLIC:
        return resolved(_PUBLIC[name])
    raise AttributeError(f"module 'capax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
