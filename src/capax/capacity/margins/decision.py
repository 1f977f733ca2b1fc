"""When does a model decide 1? One rule, a property of the model, printed with its numbers.

Labels are 0 and 1, outputs are real numbers. A model decides 1 where its output is above its
`threshold`: 0 for a model whose outputs stand for the labels -1 and +1 (`ClsScalar`, `PaperStack`,
`Transformer`), 1/2 for one whose outputs stand for the values 0 and 1 (`ClsMLP`).
"""

from typing import Any


def threshold_of(model: Any) -> float:
    """Outputs of this model above this number mean the decision 1."""
    return float(getattr(model, "threshold", 0.0))


def decision_rule(threshold: float) -> str:
    """The rule in words, as every command prints it."""
    return f"1 where the output is above {threshold:g}, else 0"
