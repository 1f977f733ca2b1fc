"""The five exercises, one for each lesson: the question, the input length, the file formats."""

from dataclasses import dataclass

from capax.errors import require

COVER_RADIUS = 1
COVER_SIZE = 16


@dataclass(frozen=True)
class Exercise:
    """One question about T bits.

    formula: the function that the answer must compute (empty: the answer is a cover). forms: the
    accepted file endings. margin, norm, value: for a head, the smallest margin, the largest
    Frobenius norm of W_QK, and the largest value of a token after the read-out. units: the most
    units of an MLP. by_formula: a .toml file holds a formula, not a head. trained: the answer is a
    trained network.
    """

    number: int
    lesson: str
    question: str
    T: int
    formula: str = ""
    forms: tuple[str, ...] = (".toml", ".py", ".safetensors")
    margin: float = 0.0
    norm: float | None = None
    value: float | None = None
    units: int | None = None
    by_formula: bool = False
    trained: bool = False


EXERCISES = (
    Exercise(
        1,
        "Covers",
        f"Choose {COVER_SIZE} words of 7 bits such that every word of 7 bits differs from one of "
        f"them in at most {COVER_RADIUS} place. Hand in a .toml file: "
        'centres = ["0000000", ...].',
        T=7,
        forms=(".toml",),
    ),
    Exercise(
        2,
        "A head",
        "Write one attention head for maj(x1, x3, x5) on 8 bits: the decision is 1 if its "
        "output is above 0. Hand in its scores and values (.toml), a function answer(x) that "
        "computes softmax attention (.py), or a file of weights (.safetensors).",
        T=8,
        formula="maj(x1, x3, x5)",
    ),
    Exercise(
        3,
        "Log T",
        "One head for maj(x1, x5, x9) on 1000 bits with margin at least 0.1 and Frobenius norm of "
        "W_QK at most 12. After the read-out no token's value may be larger than 2. Hand in "
        "scores and values (.toml), or a file of weights (.safetensors) such as the view Compile "
        "of capax lab saves.",
        T=1000,
        formula="maj(x1, x5, x9)",
        forms=(".toml", ".safetensors"),
        margin=0.1,
        norm=12.0,
        value=2.0,
    ),
    Exercise(
        4,
        "Constructions",
        "Two or four of x2, x5, x8 and x11 are 1, on 12 bits. Hand in a formula "
        '(.toml: formula = "..."), a function answer(x) (.py), or a head whose MLP has at most 8 '
        "units (.safetensors).",
        T=12,
        formula="sym(00101; x2, x5, x8, x11)",
        units=8,
        by_formula=True,
    ),
    Exercise(
        5,
        "Capacity of a trained model",
        "Train a network of one layer that computes x2 & x7 on all inputs of 10 bits, not only on "
        "its examples. Hand in the file of capax train --out (.safetensors).",
        T=10,
        formula="x2 & x7",
        forms=(".safetensors",),
        trained=True,
    ),
)


def exercise(number: int) -> Exercise:
    """The exercise with this number. Raises `InputError` if there is no such exercise."""
    known = f"a number from 1 to {len(EXERCISES)}"
    require(1 <= number <= len(EXERCISES), "exercise", known, number)
    return EXERCISES[number - 1]
