"""The options of `capax card`."""

from pathlib import Path
from typing import Annotated

import typer

Learners = Annotated[
    list[str] | None,
    typer.Argument(help="Names of the zoo, or file.py:name; five of them by default."),
]
Lengths = Annotated[str, typer.Option("--T", help="Input lengths, separated by commas.")]
Targets = Annotated[
    str,
    typer.Option(
        help="Targets, separated by commas: and3, or3, maj5, xor2, parity3, "
        "staircase, shuffled, mixed, times (steps to solve parities), or any formula."
    ),
]
Mine = Annotated[
    str | None, typer.Option(help="Your learner, file.py:name, among the reference ones.")
]
CardStores = Annotated[
    list[Path] | None,
    typer.Option(
        help="SQLite file, resumed if it exists; in the cache if not. --distil takes several."
    ),
]
PageFile = Annotated[Path | None, typer.Option(help="Write one HTML page.")]
PlotFile = Annotated[
    Path | None, typer.Option(help="Draw m* against T: .png, .svg or .pdf; yours stand out.")
]
TableFile = Annotated[Path | None, typer.Option(help="Write the rows as CSV.")]
Support = Annotated[str, typer.Option(help="random or contiguous.")]
MostExamples = Annotated[int, typer.Option(help="Largest number of examples.")]
MostTrials = Annotated[
    int, typer.Option(help="Most trials per learner and T; 12 more per further accuracy.")
]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds per fit of your learner; waiting for a core does not count.")
]
ParitySteps = Annotated[
    int, typer.Option(help="Most steps of a run for the target times; a multiple of 50.")
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Learners and T that are measured at once; by default one for each core, up to eight, "
        "or one on a GPU.",
    ),
]
Minutes = Annotated[
    float | None, typer.Option(help="Stop after this time; the same command continues.")
]
ReferenceFlag = Annotated[
    bool, typer.Option("--reference", help="Train the reference set (hours on a CPU).")
]
DistilFlag = Annotated[
    bool,
    typer.Option("--distil", help="With --reference: train nothing, write the package's file."),
]
