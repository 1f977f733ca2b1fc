"""The delta test: what a certificate was chosen from is paid for, in exact fractions.

For every certificate that a command prints, the shares of all statements (bounds, routes without a
bound, the price of rejected training sets) add up to at most delta, the shares inside a bound to at
most the bound's own, and the headline is the smallest row about its predictor. Shares are what a
bound *says*; so each value is also computed again from its shares by other means. Faults that
overspend are planted, and each must fail.
"""

import functools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import beta

from capax.boolean import parse
from capax.capacity.bound import Bound, share_of
from capax.capacity.certificates import pac_bayes, portfolio
from capax.capacity.certificates.error_certificate import ErrorCertificate, NoBound
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.pac_bayes import GibbsErrors, gaussian_pac_bayes_bound
from capax.capacity.certificates.portfolio import Draws, Route, assemble, holdout_route
from capax.capacity.certificates.tails import holdout_bound
from capax.capacity.margins.margins import check_examples
from capax.capacity.routes.model_routes import SAME_LAW, same_law
from capax.capacity.weights.a_posteriori import round_up
from capax.capacity.weights.model_bounds import measure
from capax.compiler import compile, save_compiled
from capax.data import TaskSpec, draw_task
from capax.data.examples import Examples
from capax.data.task_files import write_task
from capax.decompile.bounds import formula_routes
from capax.decompile.bounds.network_certificate import network_certificate
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError
from typed_command import typed

T, M = 6, 40
TASK = TaskSpec(function="x1 & x4", T=T, m=M, support="formula", noise=0.1)


def exactly(shares):
    return sum(map(Fraction, shares), Fraction(0))


def check_paid(payload):
    """The ledger of a certificate as a command prints it."""
    rows = payload["portfolio"]
    shares = [row["delta"] for row in rows] + [row["delta"] for row in payload["skipped"]]
    if payload["conditioning"] is not None:
        shares.append(payload["conditioning"]["delta"])
    assert min(shares) > 0
    assert exactly(shares) <= Fraction(payload["delta"])
    assert float(exactly(shares)) == pytest.approx(payload["delta"], rel=1e-12)  # and none is lost
    for row in rows:
        assert exactly(row["shares"].values()) <= Fraction(row["delta"])
    same = [row["log10_value"] for row in rows if row["predictor"] == payload["predictor"]]
    assert payload["log10_value"] == min(same)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delta")
    write_task(folder / "task.npz", TASK, draw_task(TASK))
    save_compiled(folder / "and.safetensors", compile("x1 & x4", T))
    return folder


COMMANDS = [
    ("bound", "--norms", "W_QK=2,v=1"),
    ("bound", "and.safetensors"),
    ("bound", "and.safetensors", "--holdout", "task.npz", "--looks", 7),
    ("bound", "and.safetensors", "--data", "task.npz", "--family", "and2", "--frozen"),
    ("bound", "and.safetensors", "--data", "task.npz", "--prior", "and.safetensors",
     "--prior-size", 20),
    ("decompile", "and.safetensors", "--data", "task.npz", "--cells", 8),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(map(str, c[:2] + c[3:4])))
def test_every_printed_certificate_spends_at_most_its_delta(files, command):
    placed = [files / a if str(a).endswith(("npz", "safetensors")) else a for a in command]
    done = typed(*placed, "--delta", 0.03, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_paid(found["certificate"] if command[0] == "decompile" else found)


def kl_inverse(q, c):
    def gap(p):
        parts = [a * math.log(a / b) for a, b in ((q, p), (1 - q, 1 - p)) if a > 0]
        return sum(parts) - c

    return brentq(gap, max(q, 1e-300), 1 - 1e-15) if gap(1 - 1e-15) > 0 else 1.0


def tail(k, n, log_delta):
    """max{p : P[Bin(n, p) <= k] >= delta} by scipy."""
    return 1.0 if k == n else float(beta.isf(math.exp(log_delta), k + 1, n - k))


def from_shares(bound, nats):
    """The value of a bound computed again from the shares it states; None: not of this kind."""
    norms, share = bound.norms, math.log(bound.delta or math.nan)
    if bound.statement.startswith("Hold-out"):
        return tail(norms["errors"], norms["n"], share - math.log(norms["looks"]))
    if bound.statement.startswith("Formula"):
        first, second = (math.log(bound.shares[name]) for name in ("formula", "disagreement"))
        formula = tail(norms["errors"], M, first - nats - norms["bits"] * math.log(2))
        return min(1.0, formula + tail(2, 300, second))
    if bound.statement.startswith(("PAC-Bayes", "Gibbs")):
        error, n = bound.terms[0].value, norms["n"]
        if bound.shares:
            share = math.log(bound.shares[f"PAC-Bayes at sigma = {norms['sigma']:g}"])
            sampling = bound.shares[f"sampling at sigma = {norms['sigma']:g}"]
            draws = 1 if norms["sampled error"] == 1 else 1000
            error = kl_inverse(norms["sampled error"], -math.log(sampling) / draws)
        paid = nats if bound.shares else nats + SHAPE
        return kl_inverse(error, (norms["KL"] + math.log(2 * math.sqrt(n)) - share + paid) / n)
    return None


FORMULA = parse("x1 & x4", T)
# one bit for "family", 2 floor(log2 2) + 1 for s, a name, a sign: the placement is counted apart
SHAPE = (1 + 3 + 3 + 1) * math.log(2)


@functools.cache
def judged():
    """A compiled head, noisy training data, 99 hold-out rows of which 9 are flipped."""
    drawn = draw_task(TASK)
    data = Examples(drawn.X_train, drawn.y_train)
    flipped = (np.arange(99) < 9).astype(np.uint8)
    holdout = Examples(drawn.X_validation[:99], drawn.y_validation[:99] ^ flipped)
    model = compile(FORMULA, T).model
    return oracle(model), Evidence(data, holdout, looks=4, prior=model, prior_size=10)


def all_routes(delta):
    """Every route of a decompiled network, with 2 disagreements on 300 fresh inputs."""
    asked, evidence = judged()
    counts = {"fresh": (2, 300), "p": 0.7, "draws": Draws(3)}
    return network_certificate(asked, FORMULA, evidence, delta=delta, **counts)


@functools.cache
def portfolio_at(delta):
    return all_routes(delta)


def check_values(certificate):
    nats, kinds = certificate.conditioning.cost, []
    for bound in certificate.entries:
        again = from_shares(bound, nats)
        if again is not None:
            assert bound.value == pytest.approx(again, rel=1e-6), bound.statement
            kinds.append(bound.statement)
        if bound.statement.startswith("Lemma 2.2"):
            grid = measure(judged()[0].model).rounded()[1].cost
            grid += round_up({"1/margin": 1 / bound.norms["margin"] / (1 + 1e-9)}).cost
            least = 3 * math.sqrt((math.log(2 / bound.delta) + nats + grid) / (2 * M))
            assert bound.terms[-1].name == "confidence"
            assert bound.terms[-1].value == pytest.approx(least, rel=1e-9)
            kinds.append(bound.statement)
    assert len(kinds) == 5
    check_paid(certificate.to_json())


def test_every_value_follows_from_its_shares():
    check_values(portfolio_at(0.05))


def whole(delta, _):
    return delta


def a_little_more(delta, part):
    return math.nextafter(share_of(delta, part), 1.0) * (1 + 1e-15)


@pytest.mark.parametrize("place", [portfolio, formula_routes, pac_bayes])
@pytest.mark.parametrize("plant", [whole, a_little_more])
def test_planted_overspending_fails(monkeypatch, place, plant):
    monkeypatch.setattr(place, "share_of", plant)
    with pytest.raises(InputError, match="add up to delta"):
        if place is pac_bayes:
            tried = GibbsErrors(0.5, (0.1, 0.2, 0.4), (0.2, 0.9, 0.9), 1000, 500)
            gaussian_pac_bayes_bound(tried, 0.05)
        else:
            all_routes(0.05)


@pytest.mark.parametrize("kind", ["Hold-out", "Formula", "PAC-Bayes", "Gibbs", "Lemma 2.2"])
def test_a_bound_that_hides_what_it_spends_fails(kind):
    """The value of three times the share, reported at the share."""
    found, cheaper = portfolio_at(0.05), portfolio_at(0.15)
    hidden = tuple(
        replace(b, value=c.value, log_value=c.log_value, terms=c.terms)
        if b.statement.startswith(kind)
        else b
        for b, c in zip(found.entries, cheaper.entries, strict=True)
    )
    assert hidden != found.entries
    with pytest.raises(AssertionError):
        check_values(replace(found, entries=hidden))


def test_a_route_without_a_bound_keeps_its_share():
    routes = [holdout_route(1, 50), Route("other", lambda *_: "no reason", weight=3)]
    found = assemble(routes, 0.04)
    assert [entry.delta for entry in found.entries] == [0.01]
    assert found.skipped == (NoBound("other", "no reason", 0.03),)
    with pytest.raises(InputError, match="shares that add up to delta"):
        ErrorCertificate((holdout_bound(1, 50, 0.02),), 0.04, skipped=found.skipped)


def test_the_price_of_rejected_sets_has_its_own_share():
    found = assemble([holdout_route(1, 50)], 0.04, draws=Draws(2))
    assert found.conditioning.delta == found.entries[0].delta == 0.02
    with pytest.raises(InputError, match="shares that add up to delta"):
        replace(found, entries=(holdout_bound(1, 50, 0.021),))


def test_shares_are_rounded_down():
    for number in range(1, 60):
        for delta in (0.05, 0.1, 1e-9, 0.3):
            shares = [share_of(delta, Fraction(1, number))] * number
            assert exactly(shares) <= Fraction(delta)
            assert share_of(delta, Fraction(1)) == delta


def test_a_number_made_by_hand_proves_nothing():
    assert Bound("mine", 0.3).status == "comparison"
    assert "[rigorous]" not in Bound("mine", 0.3).explain()
    with pytest.raises(InputError, match="shares: wanted parts that add up to delta"):
        Bound("mine", 0.3, delta=0.05, shares={"a": 0.04, "b": 0.02})
    paid, unpaid = Bound("paid", 0.3, delta=0.05), Bound("mine", 0.2)
    for entries in ((unpaid, paid), (paid, unpaid)):
        with pytest.raises(InputError, match="with their part of delta"):
            ErrorCertificate(entries, 0.05)


def test_one_law_is_assumed_where_hold_out_rows_are_not_of_the_same_task():
    noisier, y = TASK.model_copy(update={"noise": 0.2}), np.zeros(2, np.uint8)
    tasks = (TASK, noisier, None)
    data = {task: Examples(np.zeros((2, T), np.uint8), y, task) for task in tasks}
    fresh = {task: Examples(np.ones((2, T), np.uint8), y, task) for task in tasks}
    assert same_law(Evidence(data=data[TASK], holdout=fresh[TASK])) == ()
    assert same_law(Evidence(data=data[TASK])) == same_law(Evidence(holdout=fresh[TASK])) == ()
    for pair in ((TASK, noisier), (TASK, None), (None, TASK), (None, None)):
        assumed = same_law(Evidence(data=data[pair[0]], holdout=fresh[pair[1]]))
        assert assumed == (SAME_LAW,)


def test_symbols_are_whole_numbers_of_any_type():
    y = np.array([0, 1])
    for kind in (np.uint8, np.int64, np.float32):
        check_examples(np.array([[0, 1], [1, 1]], kind), y)
    for bad in ([[0.0, 0.5]], [[-1, 0]], [[-1.0, 0.0]], [[math.nan, 0.0]]):
        with pytest.raises(InputError, match="X: wanted symbols 0, 1"):
            check_examples(np.array(bad), y[:1])
