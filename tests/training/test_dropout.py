"""Dropout: masks, the network against PyTorch with the same masks, and whole runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.stats import binom

from capax.attention.collapsed.design import one_hot
from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.training import OptimiserSpec, TrialSpec, train
from capax.training.dropout.dropout_masks import EMBEDDING, OUTPUT, Masks, thresholds
from capax.training.dropout.dropped_network import dropped_logits
from capax.training.dropout.philox import philox
from capax.training.programs.seeds import seed_for, training_for
from capax.training.programs.shape import program_of
from capax.training.slots.record import Record
from capax.training.slots.worker import may_succeed_from
from capax.training.specs.trial_specs import DropoutSpec, SuccessRule
from capax.training.steps.objective import cross_entropy
from capax.training.steps.optimiser import transformation
from capax.training.steps.parametrisation import Parametrisation
from capax.training.steps.paths import CollapsedPath
from plain_programs import plain_jit
from torch_transformer import TorchTransformer

VALIDATION = 601  # as `trial_of` has it
T, D, HEADS, ROWS = 11, 6, 3, 5
ALL = DropoutSpec(attention=0.2, embedding=0.1, output=0.3)


def masks_of(step=4, key=(123, 456)):
    return Masks(jnp.array(key, jnp.uint32), jnp.int32(step))


def test_philox_gives_the_published_words():
    """Known answers of Random123, ten rounds."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    cases = [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (*pi, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ]
    for counter, key, wanted in cases:
        words = philox(
            tuple(jnp.uint32(x) for x in counter), tuple(jnp.uint32(x) for x in key), rounds=10
        )
        assert tuple(int(word) for word in words) == wanted


@pytest.mark.parametrize("rate", [0.1, 0.003, 0.47])
def test_rates_of_masks(rate):
    masks, m, n = masks_of(), 40, 333
    places = jnp.arange(n, dtype=jnp.int32)

    @plain_jit
    @jax.vmap
    def both(i):
        return masks.columns(EMBEDDING, rate, i, places, 80), masks.heads(rate, i, n, 35)

    for kept in map(np.asarray, both(jnp.arange(m))):
        assert kept.shape[0] == m
        deviation = np.sqrt(rate * (1 - rate) / kept.size)
        assert abs((~kept).mean() - rate) < 5 * deviation
        for axis in range(3):  # no column, head or position is dropped more than others
            others = tuple(i for i in range(3) if i != axis)
            number = kept.size // kept.shape[axis]
            worst = np.abs((~kept).mean(axis=others) - rate).max()
            assert worst < 6 * np.sqrt(rate * (1 - rate) / number)


def test_the_rate_is_exact_not_a_multiple_of_1_in_256():
    for rate in (0.0, 0.1, 0.5, 0.999):
        whole, part = thresholds(rate)
        assert abs((whole + part / 2**32) / 256 - rate) < 2**-39


def test_masks_differ_by_run_step_example_and_use_and_by_nothing_else():
    @plain_jit
    def made(masks, example, places):
        both = [masks.columns(kind, 0.5, example, places, 64) for kind in (EMBEDDING, OUTPUT)]
        return *both, masks.heads(0.5, example, 40, 19), masks.heads_at(0.5, 39, 4, 19)

    def numbers(masks=masks_of(), example=3, first=0):
        places = jnp.arange(first, first + 9, dtype=jnp.int32)
        return [np.asarray(x) for x in made(masks, jnp.int32(example), places)]

    one, output, whole, last = numbers()
    np.testing.assert_array_equal(one[2:], numbers(first=2)[0][:7])
    np.testing.assert_array_equal(whole[:, 39], last[3])
    others = [
        numbers(masks_of(step=5))[0],
        numbers(masks_of(key=(123, 457)))[0],
        numbers(example=4)[0],
        output,
    ]
    for other in others:
        assert 0.4 < (one == other).mean() < 0.6


# ---------------------------------------------------------------- against PyTorch


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (ROWS, T)).astype(np.uint8)
    return bits, rng.integers(0, 2, ROWS).astype(np.float64)


@functools.cache
def network(layer_norm=True):
    """Parameters away from their special initial values, in float64."""
    sizes = {"T": T, "d": D, "heads": HEADS, "mlp_width": 7}
    spec = TransformerSpec(**sizes, layer_norm=layer_norm, activation="relu")
    path = CollapsedPath(spec, trained=Parametrisation(True, False, True))
    rng = np.random.default_rng(1)
    params = plain_jit(path.init)(jax.random.key(1))
    moved = jax.tree.map(lambda x: np.asarray(x) + 0.4 * rng.normal(size=x.shape), params)
    return path, jax.tree.map(jnp.asarray, moved)


def torch_masks(dropout, masks):
    """The same masks as minGPT would hold them: token by token, head by head."""
    places = jnp.arange(T + 1, dtype=jnp.int32)

    @plain_jit
    @jax.vmap
    def made(i):
        return (
            masks.columns(EMBEDDING, dropout.embedding, i, places, D),
            masks.heads(dropout.attention, i, T + 1, HEADS),
            masks.columns(OUTPUT, dropout.output, i, places[:2], D),
        )

    return [np.array(x) for x in made(jnp.arange(ROWS))]


def in_pytorch(path, params):
    """minGPT's GPT with one block; two logits, no bias of the head, [CLS] with a position."""
    net = params.network
    more = {"cls": net.cls, "w": net.w, "w_0": params.w_0, "cls_position": params.cls_position}
    theirs = TorchTransformer(path.model(params), **more)
    del theirs.p["b"]
    return theirs


def two_logits(theirs, bits, dropout, masks):
    embedding, attention, output = (torch.tensor(x) for x in masks)
    output = output[:, :, None, :] / (1 - dropout.output)
    row, _ = theirs.last_row(
        bits,
        embedding=embedding / (1 - dropout.embedding),
        attention=attention[:, :, None, :] / (1 - dropout.attention),
        output=(output[:, 0], output[:, 1]),
    )
    return torch.stack([row @ theirs.p["w_0"], row @ theirs.p["w"]], 1)


def change_of(rule, weight_decay, gradient, params):
    """What one step of an optimiser at lr = 0.1 adds to the parameters."""
    update = transformation(rule, 0.1, weight_decay, 1.0)

    @plain_jit
    def change(gradient, params):
        return update.update(gradient, update.init(params), params)[0]

    with jax.numpy_dtype_promotion("standard"):
        return change(gradient, params)


def leaf_of(params, name):
    """The array of ours that PyTorch's parameter is, in PyTorch's order of axes."""
    if name in ("w_0", "cls_position"):
        return np.asarray(getattr(params, name))
    net = params.network
    if name == "position":
        return np.asarray(net.position).T
    short = name.removeprefix("blocks.0.")
    if "ln" in short:
        ln, part = short.split(".")
        return np.asarray(getattr(getattr(net, ln), part))
    x = np.asarray(getattr(net, short))
    if short in ("W_Q", "W_K", "W_V"):
        return np.moveaxis(x, 0, 2)
    if short in ("b_Q", "b_K", "b_V", "W_out"):
        return x.T
    return np.swapaxes(x, 0, 1) if short == "W_O" else x


@pytest.mark.parametrize(
    ("dropout", "layer_norm"),
    [
        (ALL, True),
        (DropoutSpec(attention=0.2, output=0.3), True),
        (DropoutSpec(attention=0.2), False),
    ],
)
def test_logits_and_gradients_are_those_of_pytorch(dropout, layer_norm):
    bits, y = arrays()
    path, params = network(layer_norm=layer_norm)
    masks = masks_of()
    theirs = in_pytorch(path, params)
    both = two_logits(theirs, bits, dropout, torch_masks(dropout, masks))

    @plain_jit
    def loss_and_gradient(params):
        def loss(params):
            values = dropped_logits(path.network(params), jnp.asarray(bits), masks, dropout)
            return cross_entropy(values, jnp.asarray(y), jnp.ones(ROWS)), values

        return jax.grad(loss, has_aux=True)(params)

    gradient, ours = loss_and_gradient(params)
    np.testing.assert_allclose(ours, (both[:, 1] - both[:, 0]).detach().numpy(), atol=1e-7)
    loss = torch.nn.functional.cross_entropy(both, torch.tensor(y.astype(np.int64)))
    for name, slope in theirs.gradient(loss).items():
        np.testing.assert_allclose(leaf_of(gradient, name), slope, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("rule", "optimiser"),
    [
        ({"name": "adam", "decay": "coupled"}, torch.optim.Adam),
        ({"name": "adamw"}, torch.optim.AdamW),
    ],
)
def test_steps_are_those_of_pytorch(rule, optimiser):
    rng = np.random.default_rng(4)
    params, gradient = ([rng.normal(size=shape) for shape in ((3, 2), (5,), ())] for _ in range(2))
    theirs = [torch.tensor(x, requires_grad=True) for x in params]
    for tensor, slope in zip(theirs, gradient, strict=True):
        tensor.grad = torch.tensor(slope)
    assert torch.nn.utils.clip_grad_norm_(theirs, 0.05) > 0.05
    optimiser(theirs, lr=0.1, weight_decay=0.3).step()
    ours = OptimiserSpec(**rule, lr=0.1, weight_decay=0.3, clip=0.05)
    change = change_of(ours, 0.3, gradient, params)
    for new, tensor, old in zip(change, theirs, params, strict=True):
        np.testing.assert_allclose(new, tensor.detach().numpy() - old, atol=1e-5)


# ---------------------------------------------------------------- specs and whole runs


def test_default_specs_keep_the_identities_they_had_before_there_was_a_choice():
    trial = TrialSpec(task=TaskSpec(T=300, m=70), model=TransformerSpec(T=300))
    assert trial.trial_id == "9b756009b2d83b046cd473c9899a7329ffadbb6d261143ac7dc0ba814323e777"
    assert trial.run(2).run_id == "45da10dccfbc12f13225c7a587c8762829d8b687877e2fff902a0e07cabd1534"
    assert not set(trial.later) & set(trial.model_dump())
    other = trial.model_copy(update={"dropout": DropoutSpec(output=0.1)})
    assert other.trial_id != trial.trial_id
    assert TrialSpec(**other.model_dump()) == other


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dropout": {"embedding": 1.0}}, "dropout.embedding: wanted a chance in .0, 1., got 1.0"),
        ({"dropout": {"output": -0.1}}, "dropout.output: wanted a chance"),
        ({"optimiser": {"decay": "coupled"}}, "decay: wanted decoupled, or coupled with name"),
        ({"optimiser": {"name": "sgd", "decay": "coupled"}}, "got .*sgd"),
        ({"optimiser": {"clip": 0.0}}, "clip: .*greater than 0"),
        ({"success": {"accuracy": 1.01}}, "success.accuracy: wanted a share .* got 1.01"),
        ({"success": {"accuracy": 0.2}}, "success.accuracy: wanted"),
        ({"model": {"layers": 2}, "dropout": {"output": 0.1}}, "dropout: wanted a one-layer"),
        ({"model": {"normalizer": "sparsemax"}, "two_logits": True}, "two_logits: wanted a one-l"),
    ],
)
def test_a_protocol_that_makes_no_sense_is_refused_in_one_line(trial_of, changes, words):
    with pytest.raises(InputError, match=words) as caught:
        trial_of(0, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "shares", "solved"),
    [
        (SuccessRule(), [0.5, 1.0, 0.9], 20),
        (SuccessRule(accuracy=0.9), [0.5, 0.9, 0.91], 30),
        (SuccessRule(accuracy=0.9, when="end"), [0.95, 0.5, 0.95], None),
        (SuccessRule(accuracy=0.9, when="end"), [0.5, 0.5, 0.95, 0.95], 40),
    ],
)
def test_a_run_is_solved_by_its_rule(trial_of, rule, shares, solved):
    record = Record(trial_of(0, success=rule).run(0))
    for share in shares:
        record.add(0.1, 1.0, share, VALIDATION, 0.0)
    assert record.solved_step == solved


def test_no_run_that_may_succeed_is_spared_the_whole_validation_set(trial_of):
    """Among 512 rows of a set with 99 % right, more wrong ones are never seen."""
    run = trial_of(0, success={"accuracy": 0.99}).run(0)
    allowed = round((1 - may_succeed_from(run)) * 512)
    assert 5.12 < allowed < 40
    assert binom.sf(allowed, 512, 0.01) < 1e-12
    assert may_succeed_from(trial_of(0).run(0)) == 1.0


PROTOCOL = {
    "dropout": DropoutSpec(attention=0.2, output=0.3),
    "two_logits": True,
    "head_bias": False,
    "cls_position": True,
    "success": SuccessRule(accuracy=0.7),
    "optimiser": {"name": "adam", "decay": "coupled", "decayed": "weights", "clip": 1.0},
}


def test_runs_with_dropout_do_not_depend_on_their_neighbours(trial_of, four_slots):
    simple = {"layer_norm": False, "activation": "relu"}  # half as long to compile
    trials = [trial_of(seed, m=20 + seed, steps=20, model=simple, **PROTOCOL) for seed in range(4)]
    how = {"hardware": four_slots, "max_m": 24, "keep": "final"}
    alone = {r.trial_id: r.runs for trial in trials for r in train([trial], **how)}
    together = train(trials[::-1], **how)
    for result in together:
        for a, b in zip(result.runs, alone[result.trial_id], strict=True):
            assert a.outcome == b.outcome
            for name, values in a.evals.items():
                np.testing.assert_array_equal(values, b.evals[name])
            for x, y in zip(*(jax.tree.leaves(r.parameters) for r in (a, b)), strict=True):
                np.testing.assert_array_equal(x, y)
            assert float(a.parameters.b) == 0.0


def test_restarts_have_other_masks_and_evaluation_has_none(trial_of, one_by_one):
    trial = trial_of(0, restarts=2, **PROTOCOL)
    program = program_of(trial, one_by_one)
    keys = [seed_for(trial.run(i), training_for(trial.run(0)), program)[0].key for i in (0, 1)]
    assert not np.array_equal(*keys)
    path, params = network()
    bits = jnp.asarray(arrays()[0])
    X = one_hot(bits, 2, jnp.float64)

    @plain_jit
    def both(params):
        still = dropped_logits(path.network(params), bits, masks_of(), DropoutSpec())
        return still, path.logits(params, X)

    np.testing.assert_allclose(*both(params), atol=1e-9)


def test_which_parameters_decay():
    _, params = network()
    for which, moves in (("all", True), ("weights", False)):
        rule = OptimiserSpec(name="adamw", decayed=which)
        change = change_of(rule, 0.5, jax.tree.map(np.zeros_like, params), params)
        for name in ("W_Q", "W_out", "w"):
            new, old = getattr(change.network, name), getattr(params.network, name)
            np.testing.assert_allclose(new, -0.05 * old, rtol=1e-6)
        np.testing.assert_allclose(change.w_0, -0.05 * params.w_0, rtol=1e-6)
        for x in (change.network.embed, change.network.b_in, change.network.ln1.gain):
            assert bool(jnp.any(x != 0)) == moves
