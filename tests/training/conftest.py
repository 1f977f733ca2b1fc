"""Small shapes (distinct primes) that all engine tests share, so that programs compile once."""

import jax
import pytest

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.training import Hardware, OptimiserSpec, TrialSpec
from capax.training.programs.seeds import seed_for, training_for, unpacked

T, VALIDATION = 11, 601


@pytest.fixture
def trial_of():
    """A factory of small trials: trial_of(seed, m=..., and fields of task, model, trial)."""

    def make(seed=0, *, m=31, function="and3", task=None, model=None, optimiser=None, **fields):
        data = {"function": function, "T": T, "m": m, "seed": seed, "reject_ambiguous": False}
        data |= {"validation_size": VALIDATION, **(task or {})}
        shape = {"T": T, "d": 6, "heads": 3, "mlp_width": 7, **(model or {})}
        rates = {"lr": 1e-2, **(optimiser or {})}
        common = {"steps": 40, "eval_every": 10, "restarts": 1, **fields}
        return TrialSpec(
            task=TaskSpec(**data),
            model=TransformerSpec(**shape),
            optimiser=OptimiserSpec(**rates),
            **common,
        )

    return make


SIMPLE = {"layer_norm": False, "activation": "relu"}  # half as long to compile


@pytest.fixture
def online_trial(trial_of):
    """Fresh parities by a simple network that answers differently: one program for all files."""

    def make(seed=5, *, model=None, **fields):
        shape = {"mode": "online", "batch_size": 23, "function": "parity3", "steps": 30, **fields}
        shape |= {"optimiser": {"name": "sgd", "lr": 0.1}}
        return trial_of(seed, model={"init_scale": 0.4, **SIMPLE, **(model or {})}, **shape)

    return make


@pytest.fixture
def one_by_one():
    return Hardware(workers=1, use_cache=False)


@pytest.fixture
def four_slots():
    return Hardware(workers=1, slots=4, use_cache=False)


@pytest.fixture
def lanes_of():
    """Fresh lanes on the host, one per trial; `single`: the executables of one lane."""

    def make(trials, program, single):
        lanes = []
        for trial in trials:
            lane, key = seed_for(trial.run(0), training_for(trial.run(0)), program)
            lane = unpacked(lane, program.path.spec.T)
            params, state = single.draw(key)
            lanes.append(jax.device_get(lane._replace(params=params, state=state)))
        return lanes

    return make
