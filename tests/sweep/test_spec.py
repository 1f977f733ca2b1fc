"""Experiment files: what is merged, what is refused, and in which words."""

import pytest
from experiments_for_tests import fields

from capax.errors import InputError
from capax.sweep.experiments.axes import OPTIMISER_FIELDS, TRAINING_FIELDS, place
from capax.sweep.experiments.spec import Panel, build_experiment, laid_over, load_experiment
from capax.sweep.families.known_families import check_experiment, family_of, register_family
from capax.sweep.families.simulated import SimulatedLearner, SimulatedSpec
from capax.sweep.searching.search import AdaptiveSearch, GridSearch
from capax.sweep.storage.store_identity import difference
from capax.sweep.trial import Trial


def test_scales_are_laid_over_the_file():
    quick, paper = build_experiment(fields()), build_experiment(fields(), "paper")
    assert quick.scale == "quick" and quick.panels[0].T == (7, 31)
    assert paper.panels[0].T == (7, 31, 101)
    assert paper.panels[0].search == quick.panels[0].search
    assert quick.digest == paper.digest  # the same trials, searched in another way
    other = build_experiment(fields(training={"restarts": 4}))
    assert other.digest != quick.digest


def test_another_seed_is_another_experiment_with_the_same_settings():
    first, same = build_experiment(fields()), build_experiment(fields(seed=0))
    again = build_experiment(fields(seed=3))
    assert first.digest == same.digest != again.digest
    assert difference(first, again) == "panels.threshold.seed: None became 3"
    trials = [family_of(x.panels[0]).trial(x.panels[0], 7, 11, 5) for x in (first, same, again)]
    assert [t.trial_id for t in trials][:2] == [trials[0].trial_id] * 2
    assert trials[2].trial_id != trials[0].trial_id and trials[2].index == trials[0].index


def test_the_smallest_file_has_a_default_for_everything(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('function = "and3"\nfamily = "transformer"\nT = [300]\n')
    experiment = load_experiment(path)
    check_experiment(experiment)
    (panel,) = experiment.panels
    assert (experiment.name, experiment.scale, panel.name) == ("mine", "default", "threshold")
    assert panel.T == (300,) and panel.search == AdaptiveSearch() and panel.restarts == 5
    assert family_of(panel).trial(panel, 300, 70, 0).spec.task.function == "and3"


def test_axes_are_every_combination_under_its_own_name():
    axes = {"lapse": [0.0, 0.1], "shape": ["logistic", "normal"], "T0": {"low": {}, "high": {}}}
    axes["T0"]["high"] = {"model": {"threshold": 99.0}}
    experiment = build_experiment(fields(axes=axes, panels={"a": {"T": 5}}, scales={}))
    names = [panel.name for panel in experiment.panels]
    assert len(names) == 8 and names[0] == "lapse=0/shape=logistic/low"
    last = experiment.panels[-1]
    assert last.name == "lapse=0.1/shape=normal/high"
    wanted = {"lapse": 0.1, "shape": "normal", "threshold": 99.0}
    assert wanted.items() <= last.model.items()
    both = {"a": {"T": 5}, "b": {"T": 7, "model": {"lapse": 0.05}}}
    two = build_experiment(fields(axes={"lapse": [0.0, 0.1]}, panels=both, scales={}))
    assert [p.name for p in two.panels] == ["a/lapse=0", "a/lapse=0.1", "b/lapse=0", "b/lapse=0.1"]
    assert two.panels[3].model["lapse"] == 0.1  # an axis goes over a panel's own value
    check_experiment(two)


def test_axes_know_the_fields_of_the_engine():
    """What a bare name stands for is written down; the specs are the oracle."""
    from capax.attention.transformer import TransformerSpec
    from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec

    assert set(OPTIMISER_FIELDS) == set(OptimiserSpec.model_fields) - {"name"}
    assert set(TRAINING_FIELDS) == set(TrialSpec.model_fields) - {"task", "model", "optimiser"}
    for name in set(TransformerSpec.model_fields) - {"T", "alphabet"}:  # set by the task
        assert place(name) == ("model", name)
    assert place("p") == ("task", "p") and place("lr") == ("optimiser", "lr")


def test_a_panel_is_laid_over_the_file():
    panels = {"a": {"T": [5], "search": {}, "model": {"threshold": 3.0}}}
    panel = build_experiment(fields(panels=panels, scales={"quick": {}})).panels[0]
    assert panel.model == {"family": "simulated", "threshold": 3.0, "growth": 2.0, "spread": 0.3}
    assert panel.restarts == 3 and panel.search == AdaptiveSearch()


def test_a_scale_may_change_the_method():
    over = {"panels": {"threshold": {"search": {"method": "grid", "m": [5, 9], "trials": 2}}}}
    paper = build_experiment(fields(scales={"paper": over}))
    assert paper.panels[0].search == GridSearch(m=(5, 9), trials=2)


def test_merging_is_deep_and_leaves_its_arguments_alone():
    below = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert laid_over(below, {"a": {"c": [9]}, "e": 4}) == {"a": {"b": 1, "c": [9]}, "d": 3, "e": 4}
    assert below == {"a": {"b": 1, "c": [1, 2]}, "d": 3}


def panel(**changes):
    return fields(panels={"p": {"T": [5], "search": {}, **changes}}, scales={"quick": {}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            fields(pannels={}),
            "pannels: unknown field of the experiment file; did you mean 'panels'",
        ),
        (fields(layers=2), r"layers: belongs below a line \[model\], not above the tables"),
        (fields(noise=0.1), r"noise: belongs below a line \[task\]"),
        (fields(axes={"heads": []}), "axes.heads: wanted a list of values"),
        (fields(axes={"modle.heads": [1]}), "wanted one of task, model, optimiser, training"),
        (fields(axes={"name": ["adam"]}), '"optimiser.name" in quotes'),
        (fields(axes={"lapse": [0.1, 0.1]}), "axes: wanted values that differ, got 'lapse=0.1 tw"),
        (fields(axes={"kind": {"a": {"modle": {}}}}), "axes.kind.a: wanted tables among task"),
        (fields(T=[5]), "T: wanted either at the top or in"),
        (fields(model={"family": "simulated"}, family="simulated"), "family: wanted once"),
        (fields(scales={"quick": {"nmae": 1}}), "nmae: unknown field of scales.quick"),
        (fields(panels={}, scales={"quick": {}}), r"panels: wanted T = .*or at least one table"),
        (fields(seed=-1), "seed: "),
        (fields(seed="x"), "seed: "),
        (fields(task=3), "task: wanted a table, got 3"),
        (panel(serach={}), "serach: unknown field of panels.p; did you mean 'search'"),
        (panel(T=[0]), "panels.p.T.0: "),
        (panel(T=[]), "T: "),
        (panel(search={"method": "gird"}), "search.method: unknown 'gird'; did you mean 'grid'"),
        (
            panel(search={"batsh": 1}),
            "batsh: unknown field of AdaptiveSearch; did you mean 'batch'",
        ),
        (panel(search={"method": "grid", "m": [0]}), "panels.p.search.m.0: "),
        (panel(search={"method": "grid", "m": [5], "batch": 3}), "batch: unknown field of Grid"),
        (
            panel(model={"family": "transfomer"}),
            "family: unknown 'transfomer'; did you mean 'trans",
        ),
        (panel(model={"treshold": 3}), "treshold: unknown field.*did you mean 'threshold'"),
        (panel(model={"lapse": 2.0}), "lapse: "),
        (panel(training={"restarts": 0}), "restarts: "),
        (panel(training={"steps": 5}), "steps: unknown field of training"),
        (panel(task={"p": 2}), "p: unknown field of task"),
    ],
)
def test_mistakes_are_told_in_one_line(given, message):
    with pytest.raises(InputError, match=message) as caught:
        check_experiment(build_experiment(given))
    assert "\n" not in str(caught.value)


def test_an_unknown_scale():
    with pytest.raises(InputError, match="unknown scale 'papr'; did you mean 'paper'"):
        build_experiment(fields(), "papr")


def test_two_panels_must_differ():
    same = {"T": [5], "search": {}}
    given = fields(panels={"a": same, "b": same}, scales={"quick": {}})
    with pytest.raises(InputError, match=r"panels.b: has the settings and T of a"):
        check_experiment(build_experiment(given))


@pytest.mark.parametrize("text", ["name = ", "name = 'x'\nname = 'y'"])
def test_broken_files(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x.toml: not a readable TOML file"):
        load_experiment(path)
    with pytest.raises(InputError, match="file not found"):
        load_experiment(tmp_path / "y.toml")


def test_a_new_family_joins_without_touching_the_sweep():
    class Other:
        def trial(self, panel, T, m, index):
            return Trial(panel.name, T, m, index, f"{T}-{m}-{index}", None)

        def prepare(self, panel, T):
            del panel, T

        def learner(self, panel, T):
            del panel, T
            return SimulatedLearner()

    register_family("state_space", Other())
    experiment = build_experiment(panel(model={"family": "state_space", "anything": 1}))
    check_experiment(experiment)
    assert family_of(experiment.panels[0]).trial(experiment.panels[0], 5, 7, 0).trial_id == "5-7-0"


@pytest.mark.parametrize("shape", ["logistic", "weibull", "normal"])
@pytest.mark.parametrize("lapse", [0.0, 0.1])
def test_simulated_learners_reach_the_target_at_their_threshold(shape, lapse):
    learner = SimulatedSpec(shape=shape, threshold=40.0, growth=3.0, lapse=lapse)
    m = learner.true_threshold(T=17)
    assert m == 49  # 40 + 3 ln 17 = 48.5
    assert learner.success(m - 1, 17) < 0.8 <= learner.success(m, 17)
    assert learner.success(10**6, 17) == pytest.approx(1 - lapse)


def test_stores_made_before_runs_could_stop_are_still_continued():
    """What is not chosen is not said, so nothing that has an identity gets another one."""
    plain = Panel(name="a", T=(5,))
    assert "stop_memorised" not in plain.identity
    assert Panel(name="a", T=(5,), stop_memorised=True).identity == {
        **plain.identity,
        "stop_memorised": True,
    }
