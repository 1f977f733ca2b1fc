"""`capax cite`: how to cite Capax, and the paper it makes into software."""

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
TITLE = (
    "Capax: what self-attention prefers to learn, how much data it needs, "
    "and how much a head can hold"
)
DEVELOPERS = "The Capax developers"


def cite(json: JsonFlag = False) -> None:
    """Print BibTeX for the paper and for this version of Capax.

    Example: `capax cite >> references.bib`
    """
    from importlib.metadata import metadata

    package = metadata("capax")
    authors, addresses = (package.get_all(name) or [] for name in ("Author", "Project-URL"))
    entries = {"paper": PAPER, "capax": software(package["Version"], authors, addresses)}
    emit(entries, json, lambda _: typer.echo("\n\n".join(entries.values())))


def software(version: str, authors: list[str], addresses: list[str]) -> str:
    """The entry of this version: authors and address as the installed package states them."""
    names = [name.strip() for line in authors for name in line.split(",")] or [DEVELOPERS]
    one = f"{{{DEVELOPERS}}}"  # in braces: one name, not a family name and given ones
    fields = {
        "title": TITLE,
        "author": " and ".join(one if name == DEVELOPERS else name for name in names),
        "version": version,
        "year": "2026",
        "url": next((line.partition(",")[2].strip() for line in addresses), ""),
        "note": "Apache License 2.0",
    }
    lines = [f"  {name:7} = {{{value}}}" for name, value in fields.items() if value]
    return "@software{capax,\n" + ",\n".join(lines) + "\n}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cite)
