"""The engine against a plain loop, and against itself in other slots, orders and company."""

import dataclasses
import threading
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from capax.attention.transformer import Transformer
from capax.data.task import draw_task
from capax.errors import InfeasibleError, InputError
from capax.identity import key_from
from capax.learners.names import entry_of
from capax.training import Hardware, train
from capax.training.programs.advancing import _fresh_bits
from capax.training.programs.program import SUBSET
from capax.training.programs.seeds import seed_for
from capax.training.programs.shape import program_of
from capax.training.slots.record import has_memorised
from capax.training.slots.slots import Slots
from capax.training.slots.worker import Desk
from plain_programs import plain_jit
from torch_transformer import TorchTransformer, cross_entropy


def by_seed(results):
    return {result.spec.task.seed: result for result in results}


def same_bits(a, b):
    """All evaluations of all runs equal to the last bit."""
    assert len(a.runs) == len(b.runs)
    for x, y in zip(a.runs, b.runs, strict=True):
        assert (x.run_id, x.outcome, x.solved_step) == (y.run_id, y.outcome, y.solved_step)
        for name, column in x.evals.items():
            np.testing.assert_array_equal(column, y.evals[name], err_msg=name)
    return True


SIMPLE = {"layer_norm": False, "activation": "relu"}  # half as long to compile


def plain_loop(run, batches):
    """The losses of a loop as a user would write it in PyTorch, in float64."""
    start = Transformer.init(run.model, key=key_from(run.model_dump(mode="json"), "init"))
    model, rule, losses = TorchTransformer(start), run.optimiser, []
    if rule.name == "adamw":
        descent = torch.optim.AdamW(model.p.values(), lr=rule.lr, weight_decay=rule.weight_decay)
    else:
        descent = torch.optim.SGD(model.p.values(), lr=rule.lr, momentum=rule.momentum)
    for number in range(run.steps + 1):
        X, y = batches(number)
        descent.zero_grad()
        loss = cross_entropy(model.logits(X), y)
        loss.backward()
        descent.step()
        if number and number % run.eval_every == 0:
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("hardware", "m"), [("one_by_one", 31), ("four_slots", 13)])
def test_a_run_equals_the_plain_loop(trial_of, hardware, m, request):
    """In a program for 32 rows, those without an example do not count."""
    trial = trial_of(3, m=m, optimiser={"lr": 1e-3})
    hardware = request.getfixturevalue(hardware)
    (result,) = train([trial], hardware=hardware, early_exit=False, max_m=31)
    task = draw_task(trial.task)
    wanted = plain_loop(trial.run(0), lambda _: (task.X_train, task.y_train))
    np.testing.assert_allclose(result.runs[0].evals["loss"], wanted, rtol=2e-4)
    assert result.runs[0].path == "collapsed"
    assert result.runs[0].reason is None


def test_four_symbols_equal_the_plain_loop(trial_of, four_slots):
    trial = trial_of(
        2, function="sum(x0, x1) >= 3", task={"alphabet": 4, "p": "uniform"},
        model={"alphabet": 4, **SIMPLE}, optimiser={"name": "sgd", "lr": 0.1},
    )  # fmt: skip
    options = {"early_exit": False, "keep": "final", "full_validation": True}
    (result,) = train([trial], hardware=four_slots, **options)
    task, f = draw_task(trial.task), trial.task.target
    assert f.alphabet == 4 and set(np.unique(task.X_train)) == {0, 1, 2, 3}
    seen = result.runs[0]
    wanted = plain_loop(trial.run(0), lambda _: (task.X_train, task.y_train))
    np.testing.assert_allclose(seen.evals["loss"], wanted, rtol=2e-4)
    z = TorchTransformer(seen.parameters).logits(task.X_validation).detach().numpy()
    right = float(((z > 0) == (f(task.X_validation) > 0.5)).mean())
    assert seen.evals["validation_accuracy"][-1] == pytest.approx(right, abs=2e-3)


def fresh_samples(run, number):
    """The examples of one step of online training, by NumPy from the words of the generator."""
    task, key = run.task, key_from(run.model_dump(mode="json"), "samples")
    shape = (run.batch_size, task.T)
    words = np.asarray(jax.random.bits(jax.random.fold_in(key, number), shape, jnp.uint32))
    bits = words < round(task.probability * 2**32) if task.alphabet == 2 else words % task.alphabet
    X = bits.astype(np.uint8)
    return X, np.asarray(task.target(X), np.float32)


def test_online_training_equals_a_plain_loop_on_the_same_fresh_samples(online_trial, four_slots):
    trial = online_trial(1, steps=40)
    (result,) = train([trial], hardware=four_slots, early_exit=False)
    run = trial.run(0)
    wanted = plain_loop(run, lambda number: fresh_samples(run, number))
    np.testing.assert_allclose(result.runs[0].evals["loss"], wanted, rtol=2e-4)


def test_fresh_samples_of_four_symbols(trial_of, one_by_one):
    trial = trial_of(
        2, function="sum(x0, x1) >= 3", task={"alphabet": 4, "p": "uniform"},
        model={"alphabet": 4}, mode="online", batch_size=23,
    )  # fmt: skip
    program, run = program_of(trial, one_by_one), trial.run(0)
    lane, _ = seed_for(run, None, program)
    X, y, mask = plain_jit(partial(_fresh_bits, program))(lane, jnp.int32(7))
    for ours, wanted in zip((X, y), fresh_samples(run, 7), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    assert set(np.unique(X)) == {0, 1, 2, 3} and 0 < np.mean(y) < 1 and np.all(mask == 1)


def test_slot_neighbours_and_order_change_no_bit(trial_of, four_slots):
    trials = [trial_of(seed, m=13 + seed, restarts=2) for seed in range(7)]
    forward = by_seed(train(trials, hardware=four_slots, max_m=32))
    backward = by_seed(train(reversed(trials), hardware=four_slots, max_m=32))
    alone = by_seed(train([trials[5]], hardware=four_slots, max_m=32))
    assert all(same_bits(forward[seed], backward[seed]) for seed in range(7))
    assert same_bits(forward[5], alone[5])


def test_workers_change_no_bit(trial_of):
    trials = [trial_of(seed) for seed in range(4)]
    one = by_seed(train(trials, hardware=Hardware(workers=1, use_cache=False)))
    three = by_seed(train(trials, hardware=Hardware(workers=3, use_cache=False)))
    assert all(same_bits(one[seed], three[seed]) for seed in range(4))


def test_wide_and_narrow_agree_up_to_rounding(trial_of, one_by_one, four_slots):
    trials = [trial_of(seed, steps=10) for seed in range(4)]
    one, four = (by_seed(train(trials, hardware=h)) for h in (one_by_one, four_slots))
    for seed in range(4):
        a, b = one[seed].runs[0].evals["loss"], four[seed].runs[0].evals["loss"]
        np.testing.assert_allclose(a, b, rtol=1e-4)


@pytest.mark.parametrize("block", [0, 4])
def test_rows_grow(trial_of, four_slots, block):
    """A small m beside a larger one that comes later: padding and growth change rounding only.
    With gradients in pieces the three have validation sets of their own, and keep them."""
    network = entry_of("mlp").spec(T=11, width=3)  # it compiles fast
    rules = ("and3", "or2", "xor2") if block else ("and3",) * 3
    short, small, large = (
        trial_of(
            seed, m=m, steps=steps, function=rules[seed], optimiser={"name": "sgd"},
            task={"validation_size": SUBSET + 89},
        ).model_copy(update={"model": network})
        for seed, (m, steps) in enumerate([(13, 10), (13, 40), (31, 40)])
    )  # fmt: skip
    settings = {
        "hardware": four_slots,
        "block": block,
        "full_validation": True,
        "examine_from": 1.0,
    }
    second, waiting = threading.Event(), threading.Event()
    advance, take, chunks = Slots.advance, Desk.take, []

    def source():
        yield short
        yield small
        yield None  # nothing before a run has ended
        assert second.wait(20)  # the small one is alone for a chunk,
        yield large
        waiting.set()

    def held(slots, active):
        chunks.append(slots.program.rows)
        if len(chunks) == 2:
            second.set()
            assert waiting.wait(20)  # and is not done before the large one waits
        return advance(slots, active)

    def ready(desk, most, wait):
        for job in tuple(desk._jobs):
            job.seed.result()  # drawn by another thread: now, not some chunks later
        return take(desk, most, wait)

    alone = [next(train([trial], max_m=31, **settings)) for trial in (short, small, large)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slots, "advance", held)
        patch.setattr(Desk, "take", ready)
        grown = by_seed(train(source(), **settings))
    assert chunks[:2] == [16, 16] and chunks[2:] == [32] * 4
    at_once = by_seed(train([short, small, large], **settings))  # padded again before they begin
    names = ("loss", "train_accuracy", "validation_accuracy", "validation_rows")
    for seed, result in by_seed(alone).items():
        wanted = result.runs[0].evals
        for got, name in product((grown[seed], at_once[seed]), names):
            np.testing.assert_allclose(got.runs[0].evals[name], wanted[name], rtol=1e-3)


def test_early_exit_changes_the_time_not_the_solved_set(trial_of, four_slots):
    trials = [trial_of(seed, m=31, function="or1", steps=200) for seed in range(4)]
    early = by_seed(train(trials, hardware=four_slots))
    late = by_seed(train(trials, hardware=four_slots, early_exit=False))
    assert any(early[seed].solved for seed in range(4))
    for seed in range(4):
        assert early[seed].solved == late[seed].solved
        assert early[seed].runs[0].solved_step == late[seed].runs[0].solved_step
        assert late[seed].runs[0].steps == 200


def test_a_run_that_memorised_its_sample_leaves_as_failed(trial_of, four_slots):
    """Its evaluations are the first ones of the run that stays; who is solved is solved."""
    common = {"steps": 400, "task": {"p": 0.5}}
    few = [trial_of(seed, m=7, function="parity3", **common) for seed in range(1, 4)]
    easy = trial_of(0, m=31, function="or1", restarts=3, **common)
    stay, leave = (
        by_seed(train([*few, easy], hardware=four_slots, stop_memorised=stop, max_m=31))
        for stop in (False, True)
    )
    assert stay[0].solved and leave[0].solved
    for seed in range(1, 4):
        (whole,), (cut,) = stay[seed].runs, leave[seed].runs
        n = len(cut.evals["loss"])
        memorised = [
            has_memorised(loss, right)
            for loss, right in zip(
                whole.evals["loss"], whole.evals["validation_accuracy"], strict=True
            )
        ]
        assert memorised.index(True) == n - 1 < len(memorised) - 1
        assert (cut.outcome, cut.steps) == ("failed", 10 * n)
        for name, column in cut.evals.items():
            np.testing.assert_array_equal(column, whole.evals[name][:n])


def test_solved_means_the_whole_validation_set(trial_of, one_by_one):
    trials = [trial_of(seed, m=31, function="or1", steps=200) for seed in range(6)]
    solved = [result for result in train(trials, hardware=one_by_one) if result.solved]
    assert solved
    for result in solved:
        evals = result.runs[0].evals
        assert evals["validation_rows"][-1] == result.spec.task.validation_size
        assert evals["validation_accuracy"][-1] == 1.0
        assert evals["validation_rows"][0] == 512
        assert len({len(column) for column in evals.values()}) == 1


def test_restarts_are_lazy_and_use_the_same_data(trial_of, four_slots):
    solvable = trial_of(0, m=31, function="or1", steps=200, restarts=3, task={"p": 0.5})
    hopeless = trial_of(1, m=3, steps=60, restarts=3, task={"p": 0.5})
    results = by_seed(train([solvable, hopeless], hardware=four_slots, max_m=31))
    assert results[0].solved
    assert [run.outcome for run in results[0].runs].count("solved") == 1
    assert results[0].runs[-1].outcome == "solved"
    assert [run.spec.restart for run in results[1].runs] == [0, 1, 2]
    assert not results[1].solved
    assert len({run.evals["loss"][0] for run in results[1].runs}) == 3


def test_restarts_ahead_of_time_change_no_result(trial_of, four_slots):
    trials = [trial_of(seed, m=13, function="or1", steps=60, restarts=4, task={"p": 0.5})
              for seed in range(3)]  # fmt: skip
    trials.append(trial_of(3, m=3, steps=60, restarts=4, task={"p": 0.5}))
    plain, ahead = (
        by_seed(train(trials, hardware=dataclasses.replace(four_slots, ahead=ahead), max_m=31))
        for ahead in (False, True)
    )
    for seed, result in plain.items():
        assert same_bits(result, ahead[seed])
        assert result.solved == ahead[seed].solved
    counts = sorted(len(result.runs) for result in plain.values())
    assert counts[0] < 4 and counts[-1] == 4  # some restarts were not needed, some were


@pytest.mark.parametrize("ahead", [False, True])
def test_idle_slots_train_later_restarts(trial_of, four_slots, monkeypatch, ahead):
    busy, advance = [], Slots.advance

    def counted(slots, active):
        busy.append(len(active))
        return advance(slots, active)

    monkeypatch.setattr(Slots, "advance", counted)
    hopeless = trial_of(1, m=3, steps=20, restarts=4, task={"p": 0.5})
    hardware = dataclasses.replace(four_slots, ahead=ahead)
    (result,) = train([hopeless], hardware=hardware, max_m=31)
    assert [run.spec.restart for run in result.runs] == [0, 1, 2, 3]
    assert busy == ([4] * 2 if ahead else [1] * 8)


@pytest.mark.parametrize("hardware", ["one_by_one", "four_slots"])
def test_divergence_is_an_outcome(trial_of, hardware, request):
    trials = [trial_of(0, optimiser={"lr": 1e30}), trial_of(1)]
    results = by_seed(train(trials, hardware=request.getfixturevalue(hardware)))
    assert results[0].runs[0].outcome == "diverged"
    assert results[0].runs[0].steps < 40
    assert results[1].runs[0].outcome != "diverged"
    assert np.isfinite(results[1].runs[0].evals["loss"]).all()


def test_the_source_is_pulled_only_when_a_slot_is_free(trial_of, four_slots):
    pulled, finished = [], []

    def source():
        for seed in range(6):
            pulled.append(seed)
            yield trial_of(seed)
            if seed == 4:
                yield None  # nothing right now

    for result in train(source(), hardware=four_slots):
        finished.append(result.spec.task.seed)
        assert len(pulled) - len(finished) <= 4
    assert sorted(finished) == list(range(6))


def test_the_naive_path_serves_the_rest_and_says_why(trial_of, one_by_one):
    trial = trial_of(
        0, model={"normalizer": "sigmoid", **SIMPLE}, optimiser={"name": "sgd"}, steps=10
    )
    (result,) = train([trial], hardware=one_by_one)
    assert result.runs[0].path == "naive"
    assert "normalizer sigmoid" in result.runs[0].reason
    assert np.isfinite(result.runs[0].evals["attention_mass"]).all()


@pytest.mark.parametrize("keep", ["final", "best"])
def test_kept_parameters_give_the_recorded_accuracy(trial_of, four_slots, keep):
    trial = trial_of(2, steps=20)
    (result,) = train([trial], hardware=four_slots, keep=keep, full_validation=True)
    task, run = draw_task(trial.task), result.runs[0]
    z = TorchTransformer(run.parameters).logits(task.X_validation).detach().numpy()
    accuracy = np.mean((z > 0) == (task.y_validation > 0.5))
    recorded = run.evals["validation_accuracy"]
    wanted = recorded[-1] if keep == "final" else recorded.max()
    assert accuracy == pytest.approx(wanted, abs=2.5 / len(task.y_validation))


def test_attention_mass_is_that_of_the_model_as_written(trial_of, one_by_one):
    trial = trial_of(2, steps=10)
    (result,) = train([trial], hardware=one_by_one, keep="final", early_exit=False)
    task, run = draw_task(trial.task), result.runs[0]
    _, weights = TorchTransformer(run.parameters).last_row(task.X_validation[:512])
    mass = weights[:, :, list(task.support)].sum(2).mean().item()
    assert run.evals["attention_mass"][-1] == pytest.approx(mass, rel=1e-4)


def test_too_little_memory_is_told_with_numbers(trial_of):
    small = Hardware(workers=1, memory_bytes=1000)
    with pytest.raises(InfeasibleError, match=r"needs .* GiB .* may be used"):
        list(train([trial_of(0)], hardware=small))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"eval_every": 20}, "eval_every"),
        ({"model": {"d": 9}}, "model"),
        ({"task": {"p": 0.3}}, "p"),
    ],
)
def test_trials_of_one_call_must_share_a_program(trial_of, four_slots, other, words):
    with pytest.raises(InputError, match=f"same {words} "):
        list(train([trial_of(0), trial_of(1, **other)], hardware=four_slots))


def test_arguments_are_checked(trial_of):
    with pytest.raises(InputError, match="keep"):
        list(train([trial_of(0)], keep="all"))
    with pytest.raises(InputError, match="max_m"):
        list(train([trial_of(0)], max_m=0))
    with pytest.raises(InputError, match="slots"):
        Hardware(slots=0)


def test_an_error_of_the_source_reaches_the_caller(trial_of, one_by_one):
    def source():
        yield trial_of(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(train(source(), hardware=one_by_one))
