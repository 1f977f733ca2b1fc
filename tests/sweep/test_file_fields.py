"""Every field of an experiment file is explained, on a page and in a template that runs."""

import re
import tomllib
from pathlib import Path

import pytest

from capax.attention.transformer import TransformerSpec
from capax.cli.experiments.new import new
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.sweep.experiments import file_fields as listed
from capax.sweep.experiments.axes import MODEL_FIELDS
from capax.sweep.experiments.file_fields import file_fields
from capax.sweep.experiments.spec import Panel, load_experiment
from capax.sweep.experiments.template import UNSHOWN, template
from capax.sweep.families.known_families import check_experiment
from capax.sweep.searching.search import AdaptiveSearch, GridSearch
from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec

ROOT = Path(__file__).parents[2]
TASK, MODEL = TaskSpec(T=20, m=9), TransformerSpec(T=20)
BUILT = {
    listed.TASK: lambda **given: TaskSpec(T=20, m=9, **given),
    listed.MODEL: lambda **given: TransformerSpec(T=20, **given),
    listed.OPTIMISER: OptimiserSpec,
    listed.TRAINING: lambda **given: TrialSpec(task=TASK, model=MODEL, **given),
    listed.PANEL: lambda **given: Panel(**{"name": "a", "T": (7,), **given}),
    listed.ADAPTIVE: AdaptiveSearch,
    listed.GRID: lambda **given: GridSearch(**{"m": (3,), **given}),
}


def test_every_field_has_a_meaning_and_an_example_that_is_accepted():
    for field in file_fields():
        assert field.meaning and field.kind, f"{field.place} {field.name} is not explained"
        value = tomllib.loads(f"x = {field.example}")["x"]
        if field.place in BUILT and field.name not in ("data", "family"):
            BUILT[field.place](**{field.name: tuple(value) if isinstance(value, list) else value})


def test_fields_of_the_model_are_known_above_the_tables():
    assert {*MODEL_FIELDS} == TransformerSpec.model_fields.keys() - {"T", "alphabet"}


def test_the_page_is_made_from_the_specs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.experiment_files import PAGE, page

    assert PAGE.read_text() == page(), "run python tools/experiment_files.py"


def test_the_template_shows_true_defaults_and_names_every_field(tmp_path):
    text = template("mine.toml")
    (tmp_path / "plain.toml").write_text(text)
    (tmp_path / "full.toml").write_text(re.sub(r"(?m)^# (\w+ = )", r"\1", text))
    plain, full = (load_experiment(tmp_path / f"{name}.toml") for name in ("plain", "full"))
    for made in (plain, full):
        check_experiment(made)
    (first,), (second,) = plain.panels, full.panels
    assert len(second.task) > len(first.task) and first.search == second.search
    assert BUILT[listed.TASK](**first.task) == BUILT[listed.TASK](**second.task)
    assert OptimiserSpec(**first.optimiser) == OptimiserSpec(**second.optimiser)
    assert BUILT[listed.TRAINING](**first.training) == BUILT[listed.TRAINING](**second.training)
    named = set(re.findall(r"(?m)^(?:# )?(\w+) = ", text))
    wanted = {(f.place, f.name) for f in file_fields() if f.place != listed.GRID} - UNSHOWN
    assert {name for _, name in wanted} == named


def test_the_command_writes_a_file_that_runs(tmp_path, warm_commands):
    """At the sizes of the smoke experiment, whose program other tests compile as well."""
    made = warm_commands.capax("new", "mine.toml", folder=tmp_path)
    assert (made.returncode, made.stderr) == (0, "") and "capax sweep mine.toml" in made.stdout
    small = {"T = [10, 20]": "T = [8]", "d = 32": "d = 16", "heads = 4": "heads = 2",
             "mlp_width = 64": "mlp_width = 32", "steps = 400": "steps = 200",
             "# eval_every = 100": "eval_every = 50", "batch = 16": "batch = 2",
             "# validation_size = 10000": "validation_size = 1000",
             "min_trials = 32": "min_trials = 2", "max_trials = 48": "max_trials = 2"}  # fmt: skip
    text = (tmp_path / "mine.toml").read_text()
    for old, new_value in small.items():
        assert old in text
        text = text.replace(old, new_value)
    (tmp_path / "mine.toml").write_text(text)
    ran = warm_commands.capax("sweep", "mine.toml", folder=tmp_path)
    assert ran.returncode == 0 and "out/mine-default.sqlite: 2 trials" in ran.stdout, ran.stderr


@pytest.mark.parametrize("name, words", [("mine.txt", ".toml"), ("there.toml", "exists already")])
def test_a_file_that_cannot_be_written_is_named(name, words, tmp_path):
    (tmp_path / "there.toml").write_text("kept")
    with pytest.raises(InputError, match=words):
        new(tmp_path / name)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("there.toml", "kept")]
