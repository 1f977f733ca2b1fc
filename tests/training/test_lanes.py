"""A batch of lanes under `vmap`, as a GPU runs it, against one lane at a time."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np

from capax.data.task import validation_inputs
from capax.training.programs.advancing import advance, start
from capax.training.programs.compiled import executables
from capax.training.programs.program import SUBSET
from capax.training.programs.shape import program_of


def test_lanes_of_a_batch_agree_with_single_lanes(trial_of, one_by_one, lanes_of):
    trials = [trial_of(seed, m=29 + seed) for seed in range(3)]
    program = program_of(trials[0], one_by_one, max_m=31)
    options = one_by_one.compiler_options()
    single = executables(program, one_by_one.all_devices[0], 1, options)
    lanes = lanes_of(trials, program, single)
    task = trials[0].task
    pool = validation_inputs(task.T, task.probability, task.validation_size)[:SUBSET]

    stacked = jax.tree.map(lambda *x: np.stack(x), *lanes)
    on_gpu = replace(program, path=replace(program.path, tensor_cores=True))
    together = jax.jit(jax.vmap(partial(advance, on_gpu), in_axes=(0, None)))(stacked, pool)
    alone = [single.advance(jax.device_put(lane), jax.device_put(pool)) for lane in lanes]
    for i, (lane, measured) in enumerate(alone):
        np.testing.assert_allclose(together[1].loss[i], measured.loss, rtol=1e-4)
        np.testing.assert_allclose(together[1].mass[i], measured.mass, rtol=1e-4)
        for a, b in zip(*map(jax.tree.leaves, (together[0].params, lane.params)), strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-4)
    assert together[0].step.tolist() == [program.chunk] * 3


def test_parameters_are_drawn_the_same_however_the_draw_is_compiled(trial_of, one_by_one):
    """On a CPU the draw is compiled with other emitters: a quick compilation, the same bits."""
    program = program_of(trial_of(0), one_by_one)
    options, device = one_by_one.compiler_options(), one_by_one.all_devices[0]
    ours = executables(program, device, 1, options).draw
    plain = jax.jit(partial(start, program.path, program.rule))
    usual = plain.lower(jax.ShapeDtypeStruct((2,), np.uint32)).compile(compiler_options=options)
    for words in ([0, 0], [1, 7], [2**32 - 1, 12345]):
        key = np.array(words, np.uint32)
        for a, b in zip(*map(jax.tree.leaves, (ours(key), usual(key))), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
