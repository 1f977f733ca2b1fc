"""The experiment file that `capax new` writes: it runs as it is, and shows every field."""

from capax.sweep.experiments.file_fields import (
    ADAPTIVE,
    MODEL,
    OPTIMISER,
    PANEL,
    TASK,
    TOP,
    TRAINING,
    FileField,
    file_fields,
)

SET = {"claim": '"the number of examples grows like log T"', "function": '"and3"',
       "family": '"transformer"', "d": "32", "heads": "4", "mlp_width": "64", "lr": "0.003",
       "steps": "400", "restarts": "2", "T": "[10, 20]", "method": '"adaptive"',
       "batch": "16", "min_trials": "32", "max_trials": "48"}  # fmt: skip
"""Fields that the template sets; every other field is a comment with its default."""
HEADINGS = {TOP: "", TASK: "[task]", MODEL: "[model]", OPTIMISER: "[optimiser]",
            TRAINING: "[training]", PANEL: "[panels.threshold]",
            ADAPTIVE: "[panels.threshold.search]"}  # fmt: skip
UNSHOWN = {(TOP, "name"), (TASK, "data"), (MODEL, "positions"), (OPTIMISER, "clip"),
           (PANEL, "progress"),
           (ADAPTIVE, "at")}  # fmt: skip
"""Fields without a default that could be written, or with one choice only."""


def template(name: str) -> str:
    """The text of an experiment file called `name`: set fields, and all other defaults."""
    lines = [
        "# An experiment: which rule, which learner, at which context lengths. Run it with",
        f"#     capax sweep {name}",
        f"#     capax thresholds out/{name.removesuffix('.toml')}-default.sqlite",
        '# A line such as "# noise = 0.0" is a default. To change it, remove the "# ".',
    ]
    for place, heading in HEADINGS.items():
        lines += ["", heading] if heading else [""]
        lines += [
            _line(field)
            for field in file_fields()
            if field.place == place and (place, field.name) not in UNSHOWN
        ]
    return "\n".join(lines) + "\n"


def _line(field: FileField) -> str:
    """`d = 32  # width of a token`, or the same as a comment for a default."""
    chosen = SET.get(field.name)
    written = f"# {field.name} = {field.default}" if chosen is None else f"{field.name} = {chosen}"
    return f"{written:<32}  # {field.meaning}"
