"""The network's error from its formula, hold-out rows, PAC-Bayes and norms, in one portfolio.

Each attack here got a false or an unpaid number out of an earlier version.
"""

import json
import math
import warnings
from contextlib import nullcontext
from fractions import Fraction
from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decompile_cases import random_transformer

from capax.attention import parameters, save
from capax.boolean import parse
from capax.capacity.certificates.evidence import (
    Evidence,
    acceptance,
    looks_in_training,
    task_evidence,
    twins_beyond_chance,
)
from capax.capacity.certificates.pac_bayes import pac_bayes_bound
from capax.capacity.certificates.portfolio import Draws
from capax.capacity.certificates.tails import holdout_bound
from capax.capacity.routes.model_routes import weights_route
from capax.compiler import compile
from capax.data import TaskSpec, draw_task
from capax.data.examples import Examples, fresh_examples
from capax.data.file_task import content_of
from capax.decompile.bounds.description import description_bits
from capax.decompile.bounds.formula_routes import FORMULA_WEIGHT, FormulaCounts, formula_bound
from capax.decompile.bounds.input_law import check_bits, stated_probability
from capax.decompile.bounds.network_certificate import (
    FLOATS,
    _plain_margins,
    network_certificate,
    norm_routes_on_demand,
)
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError
from typed_command import typed

QUICK = Effort(pairs=400, fillers=16, fresh=500)
SIMPLE = {"layer_norm": False, "activation": "relu"}  # half as long to compile


def examples(f, m, T, seed=0):
    X = np.random.default_rng(seed).integers(0, 2, (m, T)).astype(np.uint8)
    return Examples(X, f(X).astype(np.uint8))


def certificate_of(asked, f, data, *, draws=None, fresh=(0, 0), **more):
    evidence = Evidence(data, **more)
    return network_certificate(asked, f, evidence, fresh=fresh, p=0.5, delta=0.05, draws=draws)


def by_name(certificate, beginning):
    return next(b for b in certificate.entries if b.statement.startswith(beginning))


def test_float64_weights_are_not_narrowed_in_32_bit_jax():
    """A float32 product of these weights has norm below 1; the real one is above."""
    f = parse("x1 & x4", 9)
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda x: x.astype(jnp.float64) * (1 + 1e-9) if eqx.is_inexact_array(x) else x,
            compile(f, 9, encoding="incoherent").model,
        )
    data = examples(f, 30, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = certificate_of(oracle(model), f, data)
    with jax.enable_x64(True):
        wide = certificate_of(oracle(model), f, data)
    assert [b.value for b in narrow.entries] == [b.value for b in wide.entries]
    assert len(narrow.entries) == 5 and not narrow.skipped


def test_the_smallest_row_is_paid_for_by_one_delta():
    """Every row of `decompile --data` once had the whole delta: the best of five is covered by
    none. Weights 4, 1, 1, 1, 1, 1 and one for the acceptance probability."""
    f, T = parse("x2 & x7", 12), 12
    model = compile(f, T).model
    data = examples(f, 40, T)
    found = certificate_of(oracle(model), f, data, holdout=examples(f, 99, T, 1), draws=Draws(3))
    kinds = ("Formula", "Hold-out", "Gibbs", "PAC-Bayes", "Lemma 2.2", "realizable")
    shares = [by_name(found, kind).delta for kind in kinds]
    total = FORMULA_WEIGHT + 6
    assert shares == pytest.approx([0.05 * w / total for w in (FORMULA_WEIGHT, 1, 1, 1, 1, 1)])
    assert sum(map(Fraction, found.shares())) <= Fraction(0.05)
    assert by_name(found, "Hold-out").value == holdout_bound(0, 99, shares[1]).value
    assert found.best.value == min(b.value for b in found.entries if b.predictor == "the model")
    asked = certificate_of(oracle(lambda X: f(X) - 0.5, T), f, data, holdout=examples(f, 99, T, 1))
    for certificate, has_weights in ((found, True), (asked, False)):
        assert (FLOATS in by_name(certificate, "Hold-out").assumptions) == has_weights


def test_every_error_counts():
    """7 of 40 training labels and 9 of 99 hold-out labels are flipped."""
    f, T = parse("x2 & x7", 12), 12
    data, holdout = examples(f, 40, T), examples(f, 99, T, 1)
    data.y[:7], holdout.y[:9] = 1 - data.y[:7], 1 - holdout.y[:9]
    found = certificate_of(oracle(lambda X: f(X) - 0.5, T), f, data, holdout=holdout)
    assert by_name(found, "Formula").norms["errors"] == 7
    rows = by_name(found, "Hold-out")
    assert rows.value == holdout_bound(9, 99, rows.delta).value


def test_plain_margins_are_signed_distances_from_the_threshold():
    asked = oracle(lambda X: X[:, 0] - 0.25 * X[:, 1], 2)
    data = Examples(
        np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.uint8), np.array([1, 1, 0, 0], np.uint8)
    )
    assert _plain_margins(asked, data).tolist() == [0.0, 1.0, -0.75, 0.25]


def test_a_bound_from_norms_that_says_something_has_proved_margins():
    """Plain margins may be rounded the wrong way: they are enough only for a vacuous bound."""
    f, proved = parse("x1 & x4", 6), "the rounding error of the margins is subtracted"
    for m, vacuous in ((60, True), (12_000, False)):
        _, realizable = norm_routes_on_demand(oracle(compile(f, 6).model), examples(f, m, 6))
        bound = realizable.ask(0.01, 0.0)
        assert bound.vacuous == vacuous
        assert (proved in [a.text for a in bound.assumptions]) != vacuous


@pytest.mark.parametrize("text", ["x2 & x7", "x3 & ~x5", "maj(x1, x2, x9)"])
def test_pac_bayes_over_formulas_is_the_code_less_the_survivors(text):
    f, T, m = parse(text, 12), 12, 14
    data = examples(f, m, T, seed=3)
    found = by_name(certificate_of(oracle(lambda X: f(X) - 0.5, T), f, data), "Gibbs")
    left = set()
    for places in permutations(range(T), f.s):
        rows = sum(data.X[:, t].astype(int) << i for i, t in enumerate(places))
        if (f.table[rows] == data.y).all():
            left.add(frozenset(places) if f.is_symmetric else places)
    kl = description_bits(f, T) * math.log(2) - math.log(len(left))
    wanted = pac_bayes_bound(0.0, kl, m, 0.05 / (FORMULA_WEIGHT + 1)).value
    assert found.value == pytest.approx(wanted, rel=1e-6)


def test_pac_bayes_around_the_weights_needs_a_prior_near_by():
    model = random_transformer(1, T=5, **SIMPLE)
    bits = np.random.default_rng(0).integers(0, 2, (64, 5)).astype(np.uint8)
    data = Examples(bits, oracle(model)(bits).astype(np.uint8))
    alone = weights_route(model, Evidence(data)).ask(0.05, 0.0)
    assert alone.vacuous and "not sampled" in alone.notes[0]
    squares = sum(float((np.asarray(x, float) ** 2).sum()) for x in parameters(model).values())
    assert f"|theta - theta_0|^2 = {squares:.4g}:" in alone.notes[0]  # from weights 0
    near = weights_route(model, Evidence(data, prior=model, prior_size=14)).ask(0.05, 0.0)
    assert near.value < 1 and near.norms["KL"] == 0 and near.norms["n"] == 50
    assert near.predictor == "the Gibbs predictor around the model"
    with pytest.raises(InputError, match="prior_size: wanted between 0 and 56 of 64"):
        weights_route(model, Evidence(data, prior=model, prior_size=60)).ask(0.05, 0.0)


def test_redrawn_training_sets_are_paid_for_by_every_route_on_them():
    f, T = parse("x2 & x7", 12), 12
    asked, data = oracle(lambda X: f(X) - 0.5, T), examples(f, 40, T)
    holdout = examples(f, 50, T, 1)
    free, paid = (
        certificate_of(asked, f, data, holdout=holdout, draws=draws) for draws in (None, Draws(40))
    )
    for kind in ("Gibbs", "Formula"):
        assert by_name(paid, kind).value > by_name(free, kind).value
    # hold-out rows were never rejected: they pay with their share and nothing else
    rows = by_name(paid, "Hold-out")
    assert rows.value == holdout_bound(0, 50, rows.delta).value


def test_two_counts_that_end_by_different_rules_are_two_statements():
    """One set accepted at try 3, then 11 of 20 further ones: no count of 12 in 23."""
    task = TaskSpec(function="and3", T=20, m=12)
    accepted, drawn = acceptance(task, 50)
    assert drawn == 50 and 0 <= accepted < 50
    from scipy.stats import beta

    price = Draws(3, (11, 20)).price(0.02)
    assert price.alpha == pytest.approx(beta.ppf(0.01, 11, 10), rel=1e-9)
    assert Draws(3, (0, 20)).price(0.02).alpha == pytest.approx(-math.expm1(math.log(0.99) / 3))


def test_a_route_that_fails_is_said_and_the_others_stand():
    model = jax.tree.map(
        lambda x: 0 * x if eqx.is_inexact_array(x) else x, random_transformer(2, T=5, **SIMPLE)
    )
    f = parse("0", 5)
    found = decompile(
        model, Evidence(examples(f, 20, 5)), p=0.5, effort=Effort(pairs=50, fillers=4, fresh=50)
    )
    skipped = {route.route: route.reason for route in found.certificate.skipped}
    assert found.formula.text == "0" and 0 < by_name(found.certificate, "Formula").value < 1
    assert skipped["PAC-Bayes over formulas"].startswith("formula: wanted 1 to 4 bits")
    shown = found.to_json()["certificate"]["skipped"]
    assert {row["route"]: row["reason"] for row in shown} == skipped


def test_certificates_hold_in_simulation():
    """A learner that returns a random consistent conjunction: violations at most delta."""
    rng = np.random.default_rng(0)
    T, m, violated, bounds = 12, 12, 0, []
    from itertools import combinations

    places = list(combinations(range(T), 2))
    for _ in range(120):
        X = rng.integers(0, 2, (m, T)).astype(np.uint8)
        a, b = places[rng.integers(len(places))]
        y = X[:, a] & X[:, b]
        left = [c for c in places if ((X[:, c[0]] & X[:, c[1]]) == y).all()]
        c = left[rng.integers(len(left))]
        f = parse(f"x{c[0]} & x{c[1]}", T)
        bound = formula_bound(f, T, FormulaCounts(0, m, 0, 0), 0.05)
        shared = len({a, b} & set(c))
        error = {2: 0.0, 1: 2 * (1 / 4 - 1 / 8), 0: 2 * (1 / 4 - 1 / 16)}[shared]
        violated += error > bound.value
        bounds.append(bound.value)
    assert violated <= 0.05 * 120
    assert max(bounds) < 1


# The law of the inputs


def test_data_without_a_task_asks_for_p():
    f = parse("x1 & x2", 8)
    with pytest.raises(InputError, match="p: the data does not state its task, so give p"):
        decompile(lambda X: f(X) - 0.5, Evidence(examples(f, 30, 8)), T=8, effort=QUICK)


def skewed(m, T, p, seed=0):
    return (np.random.default_rng(seed).random((m, T)) < p).astype(np.uint8)


def test_training_bits_that_contradict_p_are_refused():
    """The network is wrong where the data lies (p = 0.95) and right where p = 1/2 looks."""
    T = 20
    X = skewed(300, T, 0.95)
    truth = parse("x0", T)
    data = Examples(X, truth(X).astype(np.uint8))

    def network(X):  # equals x0 on inputs with few ones, its negation on inputs with many
        return np.where(X.sum(axis=1) > 16, 0.5 - truth(X), truth(X) - 0.5)

    with pytest.raises(InputError, match=r"x.* is 1 in .* of 300 training inputs"):
        decompile(network, Evidence(data), T=T, p=0.5, effort=QUICK)


def test_the_networks_own_training_errors_refute_a_certificate():
    """Every bit is fair, but a row is either mostly ones or mostly zeros: no single bit tells."""
    T, rng = 20, np.random.default_rng(3)
    X = np.where(rng.random(400)[:, None] < 0.5, skewed(400, T, 0.95), skewed(400, T, 0.05, 1))
    truth = parse("x0", T)
    data = Examples(X.astype(np.uint8), truth(X).astype(np.uint8))

    def network(X):
        ones = X.sum(axis=1)
        return np.where((ones > 15) | (ones < 5), 0.5 - truth(X), truth(X) - 0.5)

    check_bits(data.X, 0.5)
    with pytest.raises(InputError, match=r"is wrong on .* of 400 training examples"):
        decompile(network, Evidence(data), T=T, p=0.5, effort=QUICK)


def test_bits_that_follow_the_law_are_rarely_refused_and_others_are():
    rng = np.random.default_rng(5)
    for _ in range(200):
        check_bits((rng.random((60, 30)) < 0.3).astype(np.uint8), 0.3)
    with pytest.raises(InputError, match="does not follow this law"):
        check_bits((rng.random((60, 30)) < 0.3).astype(np.uint8), 0.7)
    evidence = task_evidence(TaskSpec(function="and2", T=6, m=30, p=0.7))
    for p in (0.5, 0.9):
        with pytest.raises(InputError, match=r"p: wanted 0\.7"):
            stated_probability(p, evidence)
    assert stated_probability(None, evidence) == stated_probability(0.7, evidence) == 0.7


def test_the_test_of_the_bits_is_exact_and_divided_by_the_positions():
    """60 fair bits at each of 30 positions: 2 T P[Bin <= k] against 1e-4, one count apart."""
    from scipy.stats import binom

    k = next(k for k in range(60) if 60 * binom.cdf(k, 60, 0.5) >= 1e-4)
    for ones, refused in ((k, False), (60 - k, False), (k - 1, True), (61 - k, True)):
        X = np.tile(np.arange(60)[:, None] < 30, (1, 30)).astype(np.uint8)
        X[:, 7] = np.arange(60) < ones
        if refused:
            with pytest.raises(InputError, match=rf"x7 is 1 in {ones} of 60"):
                check_bits(X, 0.5)
            check_bits(X, 0.5, Draws(10**9))  # an accepted set may be as rare as acceptance
        else:
            check_bits(X, 0.5)
            check_bits(X, 0.5, Draws(1))
    check_bits(np.zeros((4, 3), np.uint8), 0.5)  # a bit that is never 1, in a few examples
    rare = Draws(10, (5, 10))
    level = 1e-4 * rare.price(1e-4).alpha
    k = next(k for k in range(60) if 60 * binom.cdf(k, 60, 0.5) >= level)
    for ones, refused in ((k, False), (k - 1, True)):
        X[:, 7] = np.arange(60) < ones
        with pytest.raises(InputError) if refused else nullcontext():
            check_bits(X, 0.5, rare)


# Hold-out rows


def test_rows_that_chose_the_model_are_not_its_holdout():
    """Of 200 coin-flipping rules the best on the validation rows: its error stays 1/2."""
    tasks = [
        TaskSpec(function="x0", T=12, m=5, seed=s, validation_size=60, reject_ambiguous=False)
        for s in range(8)
    ]
    rng, below = np.random.default_rng(0), {"validation": 0, "hold-out": 0}
    for task in tasks:
        drawn, fresh = draw_task(task), fresh_examples(task, 60)
        masks = rng.integers(0, 2, (200, task.T)).astype(np.uint8)
        rules = masks[masks[:, 1:].any(axis=1)]  # parities of other bits: error exactly 1/2

        def wrong(X, y, rules=rules):
            return (y[:, None] != (X @ rules.T) % 2).sum(axis=0)

        chosen = wrong(drawn.X_validation, drawn.y_validation).argmin()
        for name, (X, y) in {
            "validation": (drawn.X_validation, drawn.y_validation),
            "hold-out": (fresh.X, fresh.y),
        }.items():
            k = int(wrong(X, y)[chosen])
            below[name] += holdout_bound(k, 60, 0.05).value < 0.5
        rows = {tuple(row) for row in drawn.X_validation}
        assert sum(tuple(row) in rows for row in fresh.X) < 20  # 60 of 4096 meet by chance
    assert below["validation"] >= 5 and below["hold-out"] <= 2


def test_a_part_of_the_training_set_is_no_holdout():
    """In any order; equal rows by chance, where inputs are short, are no reason to refuse."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 60), dtype=np.uint8)
    y, order = X[:, 0], rng.permutation(300)
    new = rng.integers(0, 2, (40, 60), dtype=np.uint8)
    for part in (order, order[:40], order[:12]):
        with pytest.raises(InputError, match=f"{len(part)} rows of the training set"):
            Evidence(Examples(X, y), Examples(X[part], y[part]))
    with pytest.raises(InputError, match="12 rows of the training set"):
        Evidence(Examples(X, y), Examples(np.concatenate([X[:12], new]), np.zeros(52, np.uint8)))
    Evidence(Examples(X, y), Examples(new, new[:, 0]))
    for T in (4, 8, 10, 12, 14):  # all rows, many pairs, few pairs
        for _ in range(10):
            rows = rng.integers(0, 2, (700, T), dtype=np.uint8)
            assert twins_beyond_chance(rows[:400], rows[400:]) == 0


def test_fresh_rows_carry_the_noise_of_the_task():
    task = TaskSpec(function="x0 & x1", T=8, m=50, noise=0.2, support="formula")
    fresh = fresh_examples(task, 20_000)
    flipped = (fresh.y != task.target(fresh.X)).mean()
    assert flipped == pytest.approx(0.2, abs=0.015)
    assert fresh_examples(task.model_copy(update={"noise": 0.0}), 100).y.sum() > 0


def test_a_run_on_a_file_pays_for_the_looks_of_its_training(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.eye(4, dtype=np.uint8), y=np.ones(4, np.uint8))
    spec = {"task": {"content": content_of(tmp_path / "d.npz")}, "steps": 1000, "eval_every": 100}
    assert looks_in_training({**spec, "restarts": 5}, tmp_path / "d.npz") == 50
    assert [looks_in_training({**spec, "restart": r}, tmp_path / "d.npz") for r in (0, 2)] == [
        20,
        120,
    ]
    # whatever the number of restarts, the shares of all of them add up to at most 1
    checkpoints = 10
    shares = [checkpoints / looks_in_training({**spec, "restart": r}, tmp_path / "d.npz")
              for r in range(50)]  # fmt: skip
    assert sum(shares) <= 1
    np.savez(tmp_path / "other.npz", X=np.eye(3, dtype=np.uint8), y=np.ones(3, np.uint8))
    assert looks_in_training({**spec, "restarts": 5}, tmp_path / "other.npz") == 1
    assert looks_in_training(None, tmp_path / "d.npz") == 1


# One decision rule


def test_decompile_and_bound_decide_alike(tmp_path):
    """A compiled XOR gives 0 and 1 and is decided at 1/2; by its sign it would be half wrong."""
    task = TaskSpec(function="x1 ^ x4", T=6, m=60, support="formula", reject_ambiguous=False)
    drawn = draw_task(task)
    compiled = compile("x1 ^ x4", 6)
    save(tmp_path / "xor.safetensors", compiled.model)
    np.savez(tmp_path / "d.npz", X=drawn.X_train, y=drawn.y_train)
    np.savez(tmp_path / "h.npz", X=drawn.X_validation[:500], y=drawn.y_validation[:500])
    files = ("--data", tmp_path / "d.npz", "--holdout", tmp_path / "h.npz", "--json")
    told = [
        json.loads(done.stdout)
        for done in (
            typed("bound", tmp_path / "xor.safetensors", *files),
            typed("decompile", tmp_path / "xor.safetensors", "--p", 0.5, *files),
        )
    ]
    bounded, read = told[0], told[1]["certificate"]
    rows = [
        next(r for r in found["portfolio"] if r["statement"].startswith("Hold-out"))
        for found in (bounded, read)
    ]
    assert all(row["value"] < 0.02 for row in rows)
    assert bounded["decision"] == "1 where the output is above 0.5, else 0"
    assert told[1]["threshold"] == 0.5 and told[1]["formula"] == "parity(x1, x4)"
    text = typed("decompile", tmp_path / "xor.safetensors").stdout
    assert "1 where the output is above 0.5, else 0" in text


def test_outputs_on_one_side_of_the_threshold_are_errors_for_both_commands():
    """+0.1 and -0.1 are both below 1/2: the network of the attack says 0, and is half wrong."""
    from capax.capacity.margins.margins import holdout_errors

    model = compile("x1 ^ x4", 6).model
    model = eqx.tree_at(lambda m: (m.w_2, m.b_2), model, (0.2 * model.w_2, 0.2 * model.b_2 - 0.1))
    X = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.uint8)
    y = X[:, 1] ^ X[:, 4]
    assert holdout_errors(model, X, y) == (32, 64)
    assert not oracle(model)(X).any()
    assert decompile(model, effort=QUICK).formula.text == "0"
