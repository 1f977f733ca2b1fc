"""The trained models that `decompile.py` reads: kept in a folder, trained once."""

from itertools import islice

from capax.attention import load, save, transformer_spec
from capax.data import TaskSpec

# name -> T, m, how many runs, whether they stop when they are solved
RUNS = {
    "t50": (50, 300, 104, False),
    "t50exit": (50, 300, 100, True),
    "t300": (300, 300, 24, False),
    "t50fail": (50, 30, 125, False),
    "t1000": (1000, 600, 4, False),
}


def train_models(folder, number, names=("t50", "t50exit", "t300", "t50fail")):
    """The runs of Figure 3's settings that are not there yet."""
    from capax.training import TrialSpec, train

    for name in names:
        T, m, runs, early = RUNS[name]
        (folder / name).mkdir(parents=True, exist_ok=True)
        missing = [i for i in range(number or runs) if not _path(folder, name, i).is_file()]
        trials = (
            TrialSpec(
                task=TaskSpec(function="and3", T=T, m=m, seed=i), model=transformer_spec(T=T),
                steps=1000, eval_every=50, restarts=1,
            )
            for i in missing
        )  # fmt: skip
        if missing:
            for result in train(trials, keep="final", max_m=m, early_exit=early):
                run = result.runs[0]
                about = {"spec": run.spec.model_dump(mode="json"), "outcome": run.outcome}
                save(_path(folder, name, result.spec.task.seed), run.parameters, about)


def _path(folder, name, seed):
    return folder / name / f"{seed:03d}.safetensors"


def paths(folder, name, number):
    """The files of a set of runs, in order."""
    return list(islice(sorted((folder / name).glob("*.safetensors")), number or None))


def read(path):
    """(model, task, outcome) of a file."""
    model, about = load(path)
    return model, TaskSpec(**about["spec"]["task"]), about["outcome"]
