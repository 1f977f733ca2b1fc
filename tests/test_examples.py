"""The programs in `examples/` run as they are, answer their question, and stay short."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
ANSWERS = {
    "what_does_it_prefer": "m* = ",
    "how_much_data": "The threshold grows like log T",
    "how_much_can_a_head_hold": "T = 1,000,000: error <= 0.0",
    "compile_a_rule": "verified from the weights alone: True",
    "what_did_it_learn": "formula: and(x5, x17, ~x800)",
    "audit_a_checkpoint": "head 3: ||W_QK||_F = 0.0",
    "how_many_balls": "eps = 0.25: 7 balls",
    "what_is_best_possible": "m = 40: placements that explain the sample: 1;",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_an_example_answers_its_question(name, tmp_path, warm_commands):
    program = (FOLDER / f"{name}.py").read_text()
    assert len(program.splitlines()) <= 40
    ran = warm_commands.python(program, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ANSWERS[name] in ran.stdout, ran.stdout


def test_every_example_is_on_its_page():
    page = (FOLDER.parent / "docs" / "examples.md").read_text()
    assert all(f'--8<-- "{name}.py"' in page for name in ANSWERS)
