"""One row of the list of statements. It has only strings, so that the list imports nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, or one of ours.

    `number`: the paper's number ("4.5", "A.17", "Section B.4"), or a name for one of our
    statements; `kind`: Definition, Lemma, ...; `meaning`: one line; `functions` and `tests`: where
    it is computed and tested; `paper`, `ours`: the constants compared; `in_paper`: False for our
    own statements.
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
