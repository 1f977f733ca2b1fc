"""The notebooks of the course run, say what their lessons say, and give no solution away."""

import json
from pathlib import Path

import pytest

COURSE = Path(__file__).parents[2] / "course"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
# What each lesson must print, whatever the machine: a part of a line.
SAID = {
    "1_covers": (
        "five points of a circle need 5 unit balls",
        "and its centre need 1 unit balls",
        "norm   0.1: 1 balls",
        "counterexample: 1100000 (x0 first): wanted a centre at distance 1",
    ),
    "2_a_head": (
        "so the decision is 1",
        "right on 64 of 64 inputs",
        "wrong decisions 0",
        "counterexample: ",
    ),
    "3_log_t": (
        "T =  100000: norm of W_QK",
        "right on all 2^1000 inputs, but: Frobenius norm of W_QK 12.4",
    ),
    "4_constructions": (
        "maj(x1, x4, x9)          monotone-symmetric   0 units",
        "refused: ",
        "{'symmetric': 4, 'general': ",
        "as compiled: True",
        "proved on all inputs",
        "after a change: False",
        "counterexample: 000000000000 (x0 first): wanted 0, got 1",
    ),
    "5_trained": (
        "m =  12: right on 100 % of them",
        "m =  12: and(x1, x4, x5, x7), proved on all inputs",
        "m = 200: right on 100 % of them, 100.00 % of new inputs",
        "m = 200: and(x1, x4), proved on all inputs",
        "counterexample: ",
    ),
}


def cells(path, kind):
    book = json.loads(path.read_text())
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_runs_and_says_what_it_teaches(path, tmp_path, warm_commands):
    """The cells as one program; `make course` runs them in a kernel as a notebook does."""
    ran = warm_commands.python("\n".join(cells(path, "code")), tmp_path)
    assert ran.returncode == 0, ran.stderr
    for line in SAID[path.stem]:
        assert line in ran.stdout, ran.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_is_twenty_minutes_with_questions_and_its_exercise(path):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))
    book = json.loads(path.read_text())
    assert all(not cell.get("outputs") for cell in book["cells"])
    text = "\n".join(cells(path, "markdown"))
    number = path.stem[0]
    minutes = [
        int(part.split(" minutes")[0]) for part in text.split("(")[1:] if " minutes)" in part
    ]
    assert sum(minutes) == 20 and "*20 minutes." in text
    assert f"## Exercise {number}" in text and text.count("**Question.**") >= 1
    assert f"capax.lab.mark({number}, " in "\n".join(cells(path, "code"))


def test_there_are_five():
    assert [path.stem for path in NOTEBOOKS] == sorted(SAID)
