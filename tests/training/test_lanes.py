"""A batch of lanes under `vmap`, as a GPU runs it, against one lane at a time."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from capax.data.task import validation_inputs
from capax.training.program import advance, start
from capax.training.seeds import seed_for, training_for
from capax.training.shape import program_of


def test_lanes_of_a_batch_agree_with_single_lanes(trial_of, one_by_one):
    trials = [trial_of(seed, m=23 + seed) for seed in range(3)]
    program = program_of(trials[0], one_by_one, max_m=25)
    begin = jax.jit(partial(start, program.path, program.rule))
    lanes = []
    for trial in trials:
        lane, key = seed_for(trial.run(0), training_for(trial.run(0)), program)
        params, state = begin(key)
        lanes.append(jax.tree.map(jnp.asarray, lane._replace(params=params, state=state)))
    task = trials[0].task
    pool = jnp.asarray(validation_inputs(task.T, task.probability, task.validation_size))

    step = partial(advance, program)
    alone = [jax.jit(step)(lane, pool) for lane in lanes]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *lanes)
    together = jax.jit(jax.vmap(step, in_axes=(0, None)))(stacked, pool)
    for i, (lane, measured) in enumerate(alone):
        np.testing.assert_allclose(together[1].loss[i], measured.loss, rtol=1e-4)
        np.testing.assert_allclose(together[1].mass[i], measured.mass, rtol=1e-4)
        for a, b in zip(*map(jax.tree.leaves, (together[0].params, lane.params)), strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-4)
    assert together[0].step.tolist() == [program.chunk] * 3
