"""The exercises of the course: what is asked (`table`), what may be handed in (`heads_by_hand`,
`python_answers`), and the mark (`marking`). The solutions are in `course/`, not in the package."""
