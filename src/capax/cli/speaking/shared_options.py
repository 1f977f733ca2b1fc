"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Formula = Annotated[str, typer.Argument(help="Formula on 0-based positions, or and3, maj5, ..")]
InputLength = Annotated[int, typer.Option("-T", help="Input length: bits x0 .. x{T-1}.")]
NumExamples = Annotated[int, typer.Option("-m", help="Number of training examples.")]
LabelNoise = Annotated[float, typer.Option(help="Chance that a training label is flipped.")]
TokenWidth = Annotated[int, typer.Option("-d", help="Width of a token.")]
StoreFiles = Annotated[list[Path], typer.Argument(help="Stores made by `capax sweep`.")]
PriorFile = Annotated[
    Path | None,
    typer.Option(help="Checkpoint trained on the first --prior-size examples: PAC-Bayes."),
]
PriorSize = Annotated[
    int, typer.Option(help="Number of first training examples that the prior was trained on.")
]
HoldoutFile = Annotated[
    Path | None,
    typer.Option(help="Data that is new to the model (validation part, or .npz with X and y)."),
]
Looks = Annotated[
    int, typer.Option(help="Models that the hold-out data has tested, this one included.")
]
DarkFlag = Annotated[bool, typer.Option("--dark", help="Draw for a dark page.")]
