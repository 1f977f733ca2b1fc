"""The options of `capax audit`."""

from pathlib import Path
from typing import Annotated

import typer

Checkpoint = Annotated[
    Path, typer.Argument(help="A folder, or a .safetensors, .bin, .pt, .gguf or .onnx file.")
]
TextFile = Annotated[
    Path | None, typer.Option(help="A text the model then reads (needs capax[audit]).")
]
Split = Annotated[
    str, typer.Option(help="`tokenizer`, or `spaces` for text already in pieces of vocab.txt.")
]
LinesFlag = Annotated[bool, typer.Option("--lines", help="Read every line of the text by itself.")]
TakeOut = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="With a text: heads to take out, one at a time, to see how the loss rises; 0: none. "
        "By default 24, or all of a model that has at most 48.",
    ),
]
Against = Annotated[
    list[str] | None,
    typer.Option(help="Compare with this checkpoint, or with `random`; may be repeated."),
]
PageFile = Annotated[Path | None, typer.Option(help="Write one self-contained page here.")]
PictureFile = Annotated[
    Path | None, typer.Option(help="Draw maps of all heads here (.png, .svg, .pdf).")
]
TableFile = Annotated[Path | None, typer.Option(help="Write the table of all heads here.")]
SortColumn = Annotated[
    str, typer.Option(help="Column to sort by, largest first (default: layer and head).")
]
TopRows = Annotated[int | None, typer.Option(help="Print this many rows (default: all).")]
Family = Annotated[
    str | None, typer.Option(help="Family, if there is no config.json: llama, bert, ...")
]
NumHeads = Annotated[int | None, typer.Option(help="Heads, if they are not in the file.")]
NumKeyValueHeads = Annotated[
    int | None, typer.Option(help="Key-value heads, if they are not in the file.")
]
HeadWidth = Annotated[int | None, typer.Option(help="Width of a head, if it is not in the file.")]
Scale = Annotated[
    float | None, typer.Option(help="Factor of the scores, if it is not in the file.")
]
NormPlace = Annotated[
    str | None, typer.Option(help="torch.nn files: norms `first`, `last`, or `none` to fold.")
]
LongestContext = Annotated[
    int | None, typer.Option(min=1, help="Longest context, if it is not in the file.")
]
InitialSize = Annotated[
    float | None, typer.Option(help="Size of normal initial weights, for the comparison.")
]
