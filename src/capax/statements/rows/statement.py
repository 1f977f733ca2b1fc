"""One row of the list of statements. Only strings, so that the list loads nothing it names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, or one of ours.

    `number`: as the paper has it ("4.5", "A.17", "Section B.4"), or the name of one of ours;
    `kind`: Definition, Lemma, ... of a numbered one; `meaning`: one line; `functions` and `tests`:
    where it is computed and tested; `paper`, `ours`: the constants compared; `in_paper`: False for
    statements that the paper does not have.
    """

    number: str
    meaning: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    kind: str = ""
    paper: str = ""
    ours: str = ""
    in_paper: bool = True

    @property
    def label(self) -> str:
        """ "Corollary 4.5", "Section B.4" or the name."""
        return f"{self.kind} {self.number}".strip()
