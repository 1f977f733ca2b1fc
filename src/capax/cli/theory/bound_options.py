"""The options of `capax bound`."""

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[
    Path | None, typer.Argument(help="A .safetensors file: Capax, GPT-2 or BERT.")
]
Norms = Annotated[
    str | None,
    typer.Option(help="Norms instead of a model: W_QK=3.2,W_V=1.5,W_V_21=4,w=1 (v: linear)."),
]
ContextLength = Annotated[
    int | None,
    typer.Option("-T", help="Context length, without [CLS] (default 1000, or the model's)."),
]
NumSequences = Annotated[int, typer.Option("-m", help="Number of training sequences.")]
HeadWidth = Annotated[int | None, typer.Option("-k", help="Width of a head (default d).")]
NumLayers = Annotated[int, typer.Option(help="Equal layers in the paper's form.")]
ForeignHeads = Annotated[
    int | None, typer.Option(help="Heads of a GPT-2 or BERT file, which are not in the file.")
]
LongestToken = Annotated[
    float | None,
    typer.Option("--B_X", help="Longest token, for a file without an encoding."),
]
Margin = Annotated[float, typer.Option(help="Margin gamma on the training sequences.")]
FailureProbability = Annotated[float, typer.Option(help="Probability that the bound fails.")]
TargetError = Annotated[float, typer.Option(help="Error for which m is solved.")]
TrainingFile = Annotated[
    Path | None,
    typer.Option(help="Training data (from `capax data --out`, or .npz with X and y)."),
]
Family = Annotated[
    str | None,
    typer.Option(help="Also bound placements of this formula (and3, maj5, ..) on the data."),
]
FrozenFlag = Annotated[
    bool, typer.Option("--frozen", help="Only the linear read-out was trained on the data.")
]
ExplainFlag = Annotated[
    bool, typer.Option("--explain", help="The formula with its numbers, term by term.")
]
LatexFlag = Annotated[bool, typer.Option("--latex", help="The same in LaTeX.")]
CompareFlag = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Published bounds side by side, from --norms W_QK=..,v=.. or for AND of 3 bits.",
    ),
]
PlotFile = Annotated[Path | None, typer.Option(help="Draw samples needed against T to this file.")]
OwnCurves = Annotated[
    list[Path] | None,
    typer.Option("--curve", help="Your own curve for --plot: a table of T and m; may be repeated."),
]
WaterfallFile = Annotated[
    Path | None, typer.Option(help="Draw the slack of the bound by term (AND of 3 bits).")
]
