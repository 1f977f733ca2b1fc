"""Gradients in pieces where many lanes go together, as on a GPU: the same runs as one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.data.task import TaskSpec
from capax.learners.names import entry_of
from capax.training import Hardware, OptimiserSpec, TrialSpec, compiled, train
from capax.training.pieces import shared_out

T = 7


@pytest.fixture
def trials():
    spec = entry_of("mlp").spec(T=T, width=5)
    return [
        TrialSpec(
            task=TaskSpec(T=T, m=m, seed=m, validation_size=11, reject_ambiguous=False),
            model=spec,
            optimiser=OptimiserSpec(name="sgd", lr=0.3),  # Adam enlarges the last bit of a zero
            steps=6,
            eval_every=3,
            restarts=1,
        )
        for m in (5, 19, 2, 13, 9, 11)
    ]


def test_lanes_together_give_what_they_give_alone(trials, monkeypatch):
    """Six runs through four slots that go together: some idle at the end, m from 2 to 19."""
    hardware = Hardware(workers=1, use_cache=False)
    alone = {r.trial_id: r for r in train(trials, hardware=hardware, max_m=19, block=4)}
    monkeypatch.setattr(compiled._Compiler, "_each", lambda _, function: jax.vmap(function))
    monkeypatch.setattr(compiled, "_kept", {})
    four = Hardware(workers=1, slots=4, use_cache=False)
    together = list(train(trials, hardware=four, max_m=19, block=4, keep="final"))
    assert len(together) == len(alone) == 6
    for result in together:
        for name, values in result.runs[0].evals.items():
            wanted = alone[result.trial_id].runs[0].evals[name]
            np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("places", [1, 2, 3, 5])
def test_pieces_are_shared_out_in_the_least_number_of_rounds(places):
    """Every piece once, no lane twice in a round, each lane's pieces in their order."""

    @jax.jit
    def plan(needed):
        rounds, whose = shared_out(needed, places)
        return rounds, jax.vmap(whose)(jnp.arange(60, dtype=jnp.int32))

    for seed in range(12):
        needed = np.random.default_rng(seed).integers(0, 2 + seed % 8, 6)
        rounds, (lanes, pieces) = jax.device_get(plan(jnp.asarray(needed, jnp.int32)))
        assert rounds == max(max(needed), -(-sum(needed) // places))
        seen = {lane: [] for lane in range(6)}
        for number in range(int(rounds)):
            assert len(set(lanes[number].tolist())) == places
            for lane, piece in zip(lanes[number].tolist(), pieces[number].tolist(), strict=True):
                if lane < 6:
                    seen[lane].append(piece)
        assert seen == {lane: list(range(needed[lane])) for lane in range(6)}
