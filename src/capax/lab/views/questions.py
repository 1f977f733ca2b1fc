"""The questions of the views: a name, a specification and a function that answers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from capax.data.spec_base import Spec
from capax.errors import require
from capax.lab.views.bounds_view import BoundsQuestion, bounds_answer
from capax.lab.views.compile_view import HeadQuestion, break_answer, head_answer, ladder_answer
from capax.lab.views.create_view import CreateQuestion
from capax.lab.views.laws_view import LawsQuestion, ReferenceQuestion, laws_answer, reference_answer


class Asked(NamedTuple):
    """One question that a page can ask."""

    question: type[Spec]
    answer: Callable[[Any], dict[str, Any]]


ANSWERS: dict[str, Asked] = {
    "compile": Asked(HeadQuestion, head_answer),
    "ladder": Asked(HeadQuestion, ladder_answer),
    "break": Asked(HeadQuestion, break_answer),
    "laws": Asked(LawsQuestion, laws_answer),
    "reference": Asked(ReferenceQuestion, reference_answer),
    "bounds": Asked(BoundsQuestion, bounds_answer),
}
QUESTIONS: dict[str, type[Spec]] = {
    "compile": HeadQuestion,
    "create": CreateQuestion,
    "laws": LawsQuestion,
    "bounds": BoundsQuestion,
}


def answer(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to the question `name`. Raises `InputError` for an invalid question."""
    require(name in ANSWERS, "question", f"one of {', '.join(ANSWERS)}", name)
    asked = ANSWERS[name]
    return asked.answer(asked.question(**fields))


def question_of(view: str, state: Mapping[str, str]) -> Spec:
    """The question in the state of a view, without the parts that only change the drawing."""
    kind = QUESTIONS[view]
    return kind(**{name: text for name, text in state.items() if name in kind.model_fields})
