"""Gradients in pieces where many lanes go together, as on a GPU: the same runs as one by one."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.learners.names import entry_of
from capax.training import Hardware, OptimiserSpec, TrialSpec, train
from capax.training.programs import compiled, evaluating
from capax.training.programs.memory import floats_per_example
from capax.training.programs.piece_sizes import (
    by_library,
    cpu_piece,
    gpu_lanes,
    gpu_piece,
    keeps_little,
    larger_piece,
    num_places,
)
from capax.training.programs.program import SUBSET
from capax.training.programs.program_compiler import ProgramCompiler
from capax.training.programs.seeds import pool_for, seed_for, training_for
from capax.training.programs.shape import program_of
from capax.training.slots import crew
from capax.training.slots.slots import Slots
from capax.training.steps.gradient_pieces import (
    _alone,
    by_lane,
    in_pieces,
    in_rounds,
    of_two_sizes,
    summed,
    whose,
)
from capax.training.steps.objective import cross_entropy
from capax.training.steps.paths import path_for

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


def lanes_go_together(monkeypatch):
    """Programs as on a GPU, in rounds of three places."""
    monkeypatch.setattr(ProgramCompiler, "_each", lambda _, function: jax.vmap(function))
    monkeypatch.setattr(compiled, "_kept", {})

    def as_on_a_gpu(*given):
        return replace(program_of(*given), alone=False, places=3, larger=0)

    monkeypatch.setattr(crew, "program_of", as_on_a_gpu)


def test_lanes_together_give_what_they_give_alone(trials, monkeypatch):
    """Six runs through four slots that go together: some idle at the end, m from 2 to 19. Gradients
    and answers are in rounds of three places; the pool of 11 rows is three blocks, the last with a
    row that does not count."""
    hardware = Hardware(workers=1, use_cache=False)
    alone = {r.trial_id: r for r in train(trials, hardware=hardware, max_m=19, block=4)}
    lanes_go_together(monkeypatch)
    four = Hardware(workers=1, slots=4, use_cache=False)
    together = list(train(trials, hardware=four, max_m=19, block=4, keep="final"))
    assert len(together) == len(alone) == 6
    for result in together:
        for name, values in result.runs[0].evals.items():
            wanted = alone[result.trial_id].runs[0].evals[name]
            np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)


def with_functions(trials, *functions):
    """The trials with these rules in turn, each at its own p, and a pool of two parts."""
    made = []
    for i, trial in enumerate(trials):
        rule = {"function": functions[i % len(functions)], "validation_size": SUBSET + 89}
        made.append(trial.model_copy(update={"task": trial.task.model_copy(update=rule)}))
    return made


@pytest.mark.parametrize(
    "way", ["one slot", "one slot of a GPU", "one after the other", "together"]
)
@pytest.mark.parametrize("whole", [False, True])
def test_lanes_with_other_p_have_validation_sets_of_their_own(trials, monkeypatch, way, whole):
    """Three values of p through one program: the same looks as where every p has its own call, at
    the first rows (their number shows it) and at all of them."""
    trials = with_functions(trials, "and3", "or2", "xor2")
    assert len({trial.task.probability for trial in trials}) == 3
    hardware = Hardware(workers=1, use_cache=False)
    settings = {"max_m": 19, "block": 4, "full_validation": whole, "examine_from": 1.0}
    apart = {t.trial_id: next(train([t], hardware=hardware, **settings)) for t in trials}
    if way in ("together", "one slot of a GPU"):
        lanes_go_together(monkeypatch)
    slots = {} if way.startswith("one slot") else {"slots": 4}
    found = list(train(trials, hardware=Hardware(workers=1, use_cache=False, **slots), **settings))
    assert len(found) == 6
    for result in found:
        for name, values in result.runs[0].evals.items():
            wanted = apart[result.trial_id].runs[0].evals[name]
            np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)
            if name == "validation_rows":
                assert set(values) == {SUBSET + 89 if whole else SUBSET}


def test_a_call_has_room_for_few_values_of_p(trials, one_by_one):
    several = with_functions(trials, "and1", "and2", "and3", "and4", "and5")
    with pytest.raises(InputError, match=r"trials: wanted at most 4 values of p \(0.5, .*got 0.87"):
        list(train(several, hardware=one_by_one, max_m=19, block=4))
    with pytest.raises(InputError, match=r"trials: wanted the same p in all \(0.5\), got 0.7"):
        list(train(several, hardware=one_by_one, max_m=19))  # not in pieces
    with pytest.raises(InputError, match="wanted the same p in all"):
        list(train(several, hardware=one_by_one, max_m=19, block=4, measure_progress=True))


@pytest.mark.parametrize("alone", [True, False])
def test_answers_in_pieces_are_those_of_the_whole(trials, monkeypatch, alone):
    """40 rows in pieces of 8, or of 4 where lanes go together: at every m, all that count."""
    monkeypatch.setattr(evaluating, "_MANY", 8)
    made = program_of(trials[0], Hardware(workers=1, use_cache=False), max_m=40, block=4)
    path, rows = made.path, made.rows
    bits = np.random.default_rng(1).integers(0, 2, (rows, T)).astype(np.uint8)

    @jax.jit
    def prepared(key, bits):
        params, inputs = path.init(key), path.prepare(bits)
        return params, inputs, path.logits(params, inputs)

    params, inputs, whole = prepared(jax.random.key(2), bits)
    answers = jax.jit(partial(evaluating._logits, replace(made, alone=alone)))
    for m in range(1, rows + 1):
        found = np.asarray(answers(params, inputs, np.float32(np.arange(rows) < m)))
        np.testing.assert_allclose(found[:m], whole[:m], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("block", "larger"), [(3, 6), (3, 0), (7, 14), (8, 14), (6, 13), (4, 3)])
def test_pieces_of_a_lane_alone_have_the_fewest_rows(block, larger):
    """At every m each example counts once, and no numbers of pieces of both sizes have fewer rows;
    of several that have as many, the one with most larger pieces."""
    rows = 42

    def counted(params, part):
        return {"rows": params["rows"] + len(part[2]), "examples": jnp.sum(part[2])}

    zeros = {"rows": jnp.float32(0), "examples": jnp.float32(0)}
    alone = jax.jit(lambda mask: _alone(counted, block, larger, zeros, (mask, mask, mask)))
    numbers = jax.jit(partial(of_two_sizes, block=block, larger=larger))
    for m in range(1, -(-rows // block) * block + 1):
        mean = alone((np.arange(-(-rows // block) * block) < m).astype(np.float32))
        assert round(m * float(mean["examples"])) == m
        every = [
            (large * larger + small * block, -large)
            for large in range(-(-m // larger) + 1 if larger else 1)
            for small in range(-(-m // block) + 1)
            if large * larger + small * block >= m
        ]
        large, small = (int(n) for n in numbers(np.int32(m)))
        assert (large * larger + small * block, -large) == min(every)
        assert round(m * float(mean["rows"])) == min(every)[0]


@pytest.mark.parametrize(("block", "larger"), [(64, 128), (64, 112), (24, 52)])
def test_two_sizes_of_pieces_leave_few_rows_empty(block, larger):
    """The sizes in use, at every m up to 1024: the fewest rows, and never more than small pieces
    have, so that all lie in the program."""
    totals = np.arange(1, 1025, dtype=np.int32)
    found = jax.vmap(partial(of_two_sizes, block=block, larger=larger))(totals)
    large, small = (np.asarray(x) for x in found)
    rows = large * larger + small * block
    numbers = np.arange(1024 // larger + 2)[:, None] * larger
    fewest = np.min(numbers + -(-np.maximum(totals - numbers, 0) // block) * block, axis=0)
    np.testing.assert_array_equal(rows, fewest)
    assert (rows >= totals).all() and (rows <= -(-totals // block) * block).all()
    assert (rows[99], rows[299]) == {128: (128, 320), 112: (112, 304), 52: (100, 300)}[larger]


@pytest.mark.parametrize("seed", range(12))
def test_every_piece_has_one_place_and_every_lane_adds_its_own_in_order(seed):
    """Numbers of unlike size: another order of adding them, or one of a neighbour's, would show."""
    random = np.random.default_rng(seed)
    needed = random.integers(0, 2 + seed % 8, 6).astype(np.int32)
    lanes, pieces = jax.device_get(jax.jit(whose)(needed, jnp.arange(60, dtype=jnp.int32)))
    row = [(lane, i) for lane in range(6) for i in range(needed[lane])]
    assert list(zip(lanes.tolist(), pieces.tolist(), strict=True))[: len(row)] == row
    assert (lanes[len(row) :] == 6).all()
    kept = (random.normal(size=(60, 3)) * 10.0 ** random.integers(-6, 6, (60, 1))).astype("float32")
    kept[len(row) :] = np.nan  # what places without work leave is never read
    wanted = np.zeros((6, 3), np.float32)
    for number, (lane, _) in enumerate(row):
        wanted[lane] += kept[number]
    given = jax.jit(summed, static_argnums=2)(kept, needed, 9)
    np.testing.assert_array_equal(np.asarray(given), wanted)


@pytest.mark.parametrize("needed", [[0, 0, 0], [1, 0, 0], [2, 0, 3], [4, 4, 4], [0, 1, 4]])
def test_rounds_compute_the_pieces_that_lanes_have_and_no_more(needed):
    """A round computes all its three places; an idle lane adds none."""

    @jax.jit
    def computed(needed):
        kept = in_rounds(lambda lanes, i: 1 + 10 * lanes + i, needed, 4, 3)
        return kept, by_lane(kept, needed, 4)

    kept, found = jax.device_get(computed(np.int32(needed)))
    assert (kept > 0).sum() == 3 * -(-sum(needed) // 3)
    wanted = [[1 + 10 * j + i if i < n else 0 for i in range(4)] for j, n in enumerate(needed)]
    np.testing.assert_array_equal(found, wanted)


def test_pieces_on_a_gpu_are_large_where_little_is_kept_and_rounds_stay_small():
    for name in ("transformer", "mlp", "cnn", "ssm", "mixer", "lstm", "transformer2"):
        sizes = []
        for length in (20, 50, 100, 200, 400):
            path = path_for(entry_of(name).spec(T=length), "gpu")
            block, kept = gpu_piece(path), floats_per_example(path)
            places = num_places(path, block)
            sizes.append((block, places))
            if name == "lstm":
                assert places >= 48  # its steps are in a row, whatever the number of pieces
            else:
                assert places == 4 or places * block * kept <= 1 << 27
            assert keeps_little(path) == (name in ("transformer", "mlp"))
            assert gpu_lanes(path) == (256 if keeps_little(path) else 128)
        assert sizes == sorted(sizes, key=lambda size: -size[0])


def test_pieces_on_a_cpu_are_small_where_the_first_of_several_layers_is_a_table():
    found = {
        name: [
            cpu_piece(path_for(entry_of(name).spec(T=length), "cpu")) for length in (20, 100, 400)
        ]
        for name in ("transformer", "transformer2", "mlp", "lstm", "mixer")
    }
    assert found.pop("transformer2") == [24, 24, 24]
    assert set(map(tuple, found.values())) == {(64, 64, 64)}
    written = entry_of("transformer2").spec(T=20, normalizer="sigmoid")
    assert (path_for(written, "cpu").name, cpu_piece(path_for(written, "cpu"))) == ("naive", 64)


def test_small_networks_and_two_layers_leave_xlas_library_for_products():
    names = ("transformer", "transformer2", "mlp", "deep_sets", "lstm", "mixer", "cnn")
    found = {n: by_library(path_for(entry_of(n).spec(T=50), "cpu")) for n in names}
    assert {n for n, library in found.items() if library} == {"lstm", "mixer", "cnn"}


def test_neighbours_change_no_bit_of_a_gradient():
    """The same lane first and last, among neighbours of other sizes: other rounds, other places.

    And every gradient is that of the lane's own examples; an idle lane has none.
    """
    path = path_for(entry_of("mlp").spec(T=T, width=5), "cpu")
    descent = jax.jit(jax.vmap(in_pieces(path, 4, places=3)))

    bits = np.random.default_rng(3).integers(0, 2, (4, 20, T)).astype(np.uint8)

    @jax.jit
    @jax.vmap
    def prepared(key, bits):
        params, inputs = path.init(key), path.prepare(bits)

        def loss(params, x, y):
            return cross_entropy(path.logits(params, x[None]), y[None], jnp.ones(1, jnp.float32))

        y = bits[:, 0].astype(jnp.float32)
        return params, inputs, jax.vmap(jax.grad(loss), (None, 0, 0))(params, inputs, y)

    *drawn, each = prepared(jax.random.split(jax.random.key(3), 4), bits)

    def gradient_of_last(sizes, order):
        params, inputs = jax.tree.map(lambda x: np.asarray(x)[order], drawn)
        mask = np.float32(np.arange(20)[None, :] < np.asarray(sizes)[order, None])
        found = descent(params, (inputs, np.float32(bits[order, :, 0]), mask))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(each), strict=True):
            for i, lane in enumerate(order):
                own = np.asarray(b)[lane, : sizes[lane]]
                wanted = own.mean(axis=0) if len(own) else 0 * np.asarray(b)[lane, 0]
                np.testing.assert_allclose(np.asarray(a)[i], wanted, atol=1e-6)
        return jax.tree.map(lambda x: np.asarray(x)[order.index(3)], found)

    wanted = jax.tree.leaves(gradient_of_last([1, 0, 2, 19], [0, 1, 2, 3]))
    assert any(np.abs(leaf).max() > 0 for leaf in wanted)
    for sizes, order in (([20, 13, 7, 19], [0, 1, 2, 3]), ([5, 20, 1, 19], [3, 1, 0, 2])):
        for a, b in zip(wanted, jax.tree.leaves(gradient_of_last(sizes, order)), strict=True):
            np.testing.assert_array_equal(a, b)


ROWS = 44


@cache
def problem_of_rows():
    """A path, its parameters, a batch, and the gradient of every example alone."""
    path = path_for(entry_of("mlp").spec(T=T, width=3), "cpu")
    bits = np.random.default_rng(1).integers(0, 2, (ROWS, T)).astype(np.uint8)
    y = np.float32(bits[:, 0])

    @jax.jit
    def made(key, bits):
        params, inputs = path.init(key), path.prepare(bits)

        def loss(params, x, y):
            return cross_entropy(path.logits(params, x[None]), y[None], jnp.ones(1, jnp.float32))

        return params, inputs, jax.vmap(jax.grad(loss), (None, 0, 0))(params, inputs, y)

    return path, y, *made(jax.random.key(2), bits)


@pytest.mark.parametrize("larger", [0, 6, 12, 20])
def test_a_lane_alone_takes_larger_pieces_and_counts_every_example_once(larger):
    """At every m: a row that is left out, or counted twice, is as large as the others."""
    path, y, params, inputs, each = problem_of_rows()
    descent = jax.jit(in_pieces(path, 4, larger))
    for m in range(1, ROWS + 1):
        found = descent(params, (inputs, y, np.float32(np.arange(ROWS) < m)))
        for a, b in zip(jax.tree.leaves(each), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(b, np.asarray(a)[:m].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_larger_pieces_fit_twice_and_into_what_they_may_hold():
    def path(name, length=50):
        return path_for(entry_of(name).spec(T=length), "cpu")

    assert larger_piece(path("mlp"), 64, 640) == larger_piece(path("mlp"), 64, 256) == 128
    assert larger_piece(path("lstm"), 64, 640) == larger_piece(path("lstm"), 64, 224) == 112
    assert larger_piece(path("transformer2"), 24, 240) == 52
    assert larger_piece(path("mlp"), 64, 255) == larger_piece(path("lstm"), 64, 223) == 0
    assert larger_piece(path("mlp"), 5, 640) == 0  # nothing is known of pieces of five
    assert [larger_piece(path("lstm", n), 64, 640) > 0 for n in (100, 4000)] == [True, False]


@pytest.mark.parametrize(
    ("name", "sizes", "size"),
    [
        ("mlp", {"width": 5}, 11),
        ("mlp", {"width": 5}, 512),
        ("transformer", {"d": 6, "heads": 2, "mlp_width": 5}, 700),
    ],
)
def test_one_program_advances_and_looks(name, sizes, size):
    """A lane alone on a CPU: the whole pool by the program that trains, also if it is smaller than
    the part that every evaluation looks at, or no multiple of it. A look changes nothing."""
    task = TaskSpec(T=T, m=19, seed=3, validation_size=size, reject_ambiguous=False)
    spec = entry_of(name).spec(T=T, **sizes)
    trial = TrialSpec(task=task, model=spec, steps=6, eval_every=3, restarts=1)
    hardware = Hardware(workers=1, use_cache=False)
    program, run = program_of(trial, hardware, 24, 4), trial.run(0)
    program = replace(program, block_rows=96)  # blocks of 64
    assert program.looks_itself(1) and not program.looks_itself(2)
    pool = pool_for(task)
    slots = Slots(program, hardware.all_devices[0], 1, [pool], hardware.compiler_options())
    slots.admit({0: seed_for(run, training_for(run), program)})
    first, lane = slots.advance([0]), jax.device_get(slots._lanes)
    found = slots.examine([0])
    jax.tree.map(np.testing.assert_array_equal, lane, jax.device_get(slots._lanes))
    params, target = jax.tree.map(jnp.asarray, (lane.params, lane.target))
    examine = jax.jit(partial(evaluating.examine, program))
    for (correct, mass), rows in ((found, pool), ((first.correct, first.mass), pool[:SUBSET])):
        wanted = examine(params, target, jnp.asarray(rows))
        assert correct == wanted[0]
        np.testing.assert_allclose(mass, wanted[1][None], rtol=1e-6)
        assert (mass > 0) == (name == "transformer")
    second = slots.advance([0])
    assert int(slots._lanes.step) == 6 and second.loss != first.loss
