"""`capax exercise`: the questions of the course, and the mark of an answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.lab.exercises.marking import Mark
    from capax.terminal import Terminal


def exercise_command(
    number: Annotated[int | None, typer.Argument(help="Number of the exercise.")] = None,
    answer: Annotated[
        Path | None, typer.Argument(help="The answer: .safetensors, .py or .toml.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Mark an answer to an exercise of the course: proved on all 2^T inputs, or a counterexample.

    Without an answer the question is shown, without a number all of them. Exit code 1 unless the
    answer is proved. A Python file is run in a process of its own, with limits on time and memory.

    Example: `capax exercise 3`

    Example: `capax exercise 3 answer.safetensors`
    """
    from dataclasses import asdict

    from capax.lab.exercises.exercise_table import EXERCISES, exercise

    if number is None or answer is None:
        shown = EXERCISES if number is None else (exercise(number),)
        payload = {"exercises": [asdict(one) for one in shown]}
        emit(payload, json, lambda console: _ask(console, shown))
        return
    from capax.lab.exercises.marking import mark

    found = mark(number, answer)
    emit(found.to_json(), json, lambda console: _show(console, found))
    if not found.ok:
        raise typer.Exit(1)


def _ask(console: "Terminal", shown: Any) -> None:
    for one in shown:
        console.print(f"Exercise {one.number}, {one.lesson}", style="bold")
        console.print(one.question)


def _show(console: "Terminal", found: "Mark") -> None:
    verdict, _, about = str(found).partition("\n")
    console.print(verdict, style="green" if found.ok else "bold red")
    console.print(about, style="dim")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("exercise")(exercise_command)
