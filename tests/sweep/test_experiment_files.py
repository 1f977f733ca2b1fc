"""The experiments that ship: every scale is valid, and says what the protocol says."""

import tomllib

import pytest

from capax.errors import InputError
from capax.sweep.experiments.shipped import experiment_path, shipped_experiments
from capax.sweep.experiments.spec import Panel, build_experiment, load_experiment
from capax.sweep.families.known_families import check_experiment, family_of

FILES = list(shipped_experiments().values())
SCALES = [(p, scale) for p in FILES for scale in tomllib.loads(p.read_text())["scales"]]


def test_all_figures_have_a_file():
    assert {path.stem for path in FILES} >= {"figure2", "figure3", "figure4", "smoke"}


@pytest.mark.parametrize(("path", "scale"), SCALES, ids=lambda x: getattr(x, "stem", x))
def test_every_scale_is_valid(path, scale):
    experiment = load_experiment(path, scale)
    check_experiment(experiment)
    assert experiment.name == path.stem and experiment.claim


def test_the_published_scale_is_appendix_c():
    panel = load_experiment(experiment_path("figure2"), "published").panels[0]
    assert sorted(panel.T) == [*range(100, 801, 50), 900, 1000, 1100]
    assert sorted(panel.search.m) == list(range(50, 201, 10))
    assert panel.search.trials == 40 and panel.restarts == 5
    spec = family_of(panel).trial(panel, 300, 70, 3).spec
    assert (spec.steps, spec.eval_every, spec.success.accuracy) == (1000, 10, 0.99)
    assert set(spec.dropout.model_dump().values()) == {0.1}
    rule = spec.optimiser
    assert (rule.name, rule.lr, rule.weight_decay, rule.decay) == ("adam", 1e-3, 1e-4, "coupled")
    curves, attention, _ = load_experiment(experiment_path("figure3"), "published").panels
    assert (curves.search.trials, curves.restarts) == (40, 5)
    head = family_of(attention).trial(attention, 50, 300, 0).spec
    assert (head.model.heads, head.model.head_width, head.steps) == (1, 64, 500)
    parity = load_experiment(experiment_path("figure4"), "published").panels[0]
    assert family_of(parity).trial(parity, 10, 2048, 0).spec.batch_size == 2048


def test_the_grid_of_our_own_protocol_is_also_read_by_its_former_name():
    grid, former = (load_experiment(experiment_path("figure2"), n) for n in ("grid", "paper"))
    assert grid == former and former.scale == "grid"
    panel = grid.panels[0]
    assert sorted(panel.T) == [50, 100, 200, 300, 400, 600, 800]
    assert panel.search.trials == 40 and panel.restarts == 5
    spec = family_of(panel).trial(panel, 300, 70, 3).spec
    assert (spec.steps, spec.eval_every, spec.optimiser.lr) == (1000, 100, 1e-3)
    assert (spec.model.d, spec.model.heads, spec.model.mlp_width) == (64, 16, 256)
    assert spec.task.probability == pytest.approx(2 ** (-1 / 3))
    assert (spec.task.T, spec.task.m, spec.task.seed) == (300, 70, 3)


def test_beyond_reaches_a_hundred_thousand():
    assert max(load_experiment(experiment_path("figure2"), "beyond").panels[0].T) == 100_000


def test_a_file_of_the_user_goes_before_a_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert experiment_path("figure2").is_absolute()
    (tmp_path / "figure2").write_text("")
    assert not experiment_path("figure2").is_absolute()
    with pytest.raises(InputError, match="did you mean 'figure3'"):
        experiment_path("figur3.toml")


def edited(**tables):
    fields = tomllib.loads(experiment_path("smoke").read_text())
    for name, changes in tables.items():
        fields[name] = {**fields[name], **changes}
    return fields


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"task": {"p": 1.5}}, "p: wanted 0 < p < 1"),
        ({"task": {"function": "and9"}}, "T: wanted T >= s = 9"),
        ({"task": {"function": "nand3?"}}, "panels.curves at T = 8: "),
        (
            {"task": {"function": "parity3", "p": "balanced", "seed": 1}},
            "task.seed: set by the sweep",
        ),
        ({"task": {"functoin": "and3"}}, "did you mean 'function'"),
        ({"model": {"haeds": 3}}, "did you mean heads"),
        ({"model": {"heads": 3}}, "heads"),
        ({"model": {"family": "rnn"}}, "model.family: unknown 'rnn'"),
        ({"optimiser": {"name": "adamx"}}, "name: "),
        ({"training": {"step": 3}}, "did you mean 'steps'"),
        ({"training": {"steps": 130}}, "steps: wanted a multiple of eval_every = 50"),
    ],
)
def test_impossible_settings_fail_before_anything_runs(tables, message):
    with pytest.raises(InputError, match=message) as caught:
        check_experiment(build_experiment(edited(**tables)))
    assert "\n" not in str(caught.value)


def test_runs_with_dropout_do_not_end_because_they_have_memorised():
    panel = {"T": [7], "stop_memorised": True, "training": {"dropout": {"output": 0.1}}}
    with pytest.raises(InputError, match="stop_memorised: wanted false with dropout"):
        check_experiment(build_experiment({"name": "ends", "panels": {"one": panel}}))


BOTH = {"whole_curves": True, "stop_memorised": True}


@pytest.mark.parametrize(
    ("family", "ends", "message"),
    [
        (
            "transformer",
            BOTH,
            "stop_memorised: wanted false beside whole_curves = true, .*got True",
        ),
        ("mlp", BOTH, "stop_memorised: wanted false beside whole_curves = true, .*got True"),
        ("simulated", {"whole_curves": True}, "whole_curves: wanted false for 'simulated', .*True"),
        ("simulated", {"stop_memorised": True}, "stop_memorised: wanted false for 'simulated'"),
        ("tree", {"whole_curves": True}, "whole_curves: wanted false for 'tree'"),
        ("lasso", {"stop_memorised": True}, "stop_memorised: wanted false for 'lasso'"),
    ],
)
def test_ends_that_contradict_or_go_unheard_are_refused(family, ends, message):
    fields = {"name": "ends", "model": {"family": family}, "panels": {"one": {"T": [7], **ends}}}
    with pytest.raises(InputError, match=f"^panels.one at T = 7: {message}") as caught:
        check_experiment(build_experiment(fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["transformer", "mlp"])
@pytest.mark.parametrize("name", BOTH)
def test_the_engine_heeds_each_of_them(family, name):
    fields = {
        "name": "ends",
        "model": {"family": family},
        "panels": {"one": {"T": [7], name: True}},
    }
    check_experiment(build_experiment(fields))


def test_stores_made_before_this_was_refused_can_still_be_read():
    assert Panel(name="a", T=(5,), **BOTH).identity["whole_curves"]


@pytest.mark.parametrize("T", ["12", ["12"], 12.5, [True], [[12]]])
def test_lengths_are_whole_numbers(T):
    short = {"name": "a", "function": "and2", "T": T}
    with pytest.raises(InputError, match=r"^T: wanted whole numbers, such as 100 or \[10, 100, 10"):
        build_experiment(short)
    with pytest.raises(InputError, match=r"^panels\.one\.T: wanted whole numbers"):
        build_experiment({"name": "a", "panels": {"one": {"T": T}}})


def test_a_name_that_is_not_near_is_answered_with_all_of_them():
    panel = build_experiment({"name": "a", "family": "resnet", "T": 12}).panels[0]
    with pytest.raises(InputError, match=r"unknown 'resnet'; known: transformer, simulated, .*mlp"):
        family_of(panel)
