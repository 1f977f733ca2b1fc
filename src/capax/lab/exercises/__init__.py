"""The exercises of the course: the questions (`exercise_table`), the forms of answers
(`heads_by_hand`, `python_answers`), and the mark (`marking`). The solutions are in `course/`, not
in the package."""
