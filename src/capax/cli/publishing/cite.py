"""`capax cite`: how to cite Capax, and the paper it makes into software."""

from importlib.metadata import version

import typer

from capax.cli.speaking.output import JsonFlag, emit

PAPER = """@inproceedings{edelman2022inductive,
  title     = {Inductive Biases and Variable Creation in Self-Attention Mechanisms},
  author    = {Edelman, Benjamin L. and Goel, Surbhi and Kakade, Sham and Zhang, Cyril},
  booktitle = {Proceedings of the 39th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {162},
  pages     = {5793--5831},
  year      = {2022},
  url       = {https://proceedings.mlr.press/v162/edelman22a.html},
  note      = {arXiv:2110.10090}
}"""
SOFTWARE = """@software{{capax,
  title   = {{Capax: what self-attention prefers to learn, how much data it needs, and how much a
             head can hold}},
  author  = {{{{The Capax developers}}}},
  version = {{{version}}},
  year    = {{2026}},
  note    = {{Apache License 2.0}}
}}"""


def cite(json: JsonFlag = False) -> None:
    """Print BibTeX for the paper and for this version of Capax.

    Example: `capax cite >> references.bib`
    """
    entries = {"paper": PAPER, "capax": SOFTWARE.format(version=version("capax"))}
    emit(entries, json, lambda _: typer.echo("\n\n".join(entries.values())))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cite)
