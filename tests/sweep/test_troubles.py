"""Which runs count as trouble: those of fitted learners, and trials without a verdict."""

from experiments_for_tests import fields

from capax.sweep.experiments.spec import build_experiment
from capax.sweep.storage.store import Store
from capax.sweep.storage.troubles import Trouble, trouble_lines, troubles
from capax.sweep.trial import Outcome, Run, Trial


def run(name, path, outcome, reason):
    return Run(name, 0, outcome, None, 1, 0.1, {}, {}, path=path, reason=reason)


def test_what_the_engine_says_of_its_path_is_no_trouble(tmp_path):
    plan = build_experiment(fields(), "quick")
    panel = plan.panels[0].name
    ends = [
        ("a", False, (run("a", "naive", "failed", "two layers"),), ""),
        ("b", True, (run("b", "plain", "solved", "a warning"),), ""),
        ("c", False, (run("c", "plain", "failed", ""),), ""),
        ("d", False, (run("d", "plain", "failed", "raised\n" + "x" * 500),), ""),
        ("e", False, (), "no sample"),
    ]
    with Store.create_or_resume(tmp_path / "s", plan) as store:
        for number, (name, solved, runs, reason) in enumerate(ends):
            trial = Trial(panel, 11, 20, number, name, None)
            store.add(Outcome(trial, solved, runs, reason))
        found = troubles(store)
    assert {(t.T, t.runs, t.of, t.reason[:6]) for t in found} == {
        (11, 1, 5, "raised"),
        (11, 1, 5, "no sam"),
    }
    lines = trouble_lines([*found, Trouble(panel, 13, 2, 4, "no sample")])
    assert f"{panel}, T = 11, 13: 3 of 9 runs failed: no sample" in lines
    assert max(map(len, lines)) < 300
    assert not any("\n" in line for line in lines)
