"""Floors: the smallest m at which the best learner reaches the target, for the asked protocol."""

import itertools
import math

import numpy as np
import pytest

from capax.analysis.floor import (
    Protocol,
    _around_crossing,
    _crossing,
    _read,
    fewest_examples,
    floor,
    must_identify,
)
from capax.analysis.threshold import panel_floor, panel_protocol, panel_task
from capax.boolean.best_possible.best_learner import best_learner, chances, version_space_sizes
from capax.boolean.best_possible.disagreement import rivals, union_sample_size
from capax.boolean.best_possible.limits import counting_sample_size, fano
from capax.boolean.best_possible.listed_placements import all_placements, num_placements, refuted_at
from capax.boolean.parser import parse
from capax.errors import InfeasibleError, InputError
from capax.sweep.experiments.spec import build_experiment

B = 2 ** (-1 / 3)
KEY = (5, 1)


def all_inputs(T):
    return (np.arange(1 << T)[:, None] >> np.arange(T)) & 1


def brute_force(function, T, p, m, draws=500, guesses=1, noise=0.0, supports="random"):
    """Every placement evaluated on every example of whole samples: chance and its error."""
    f, random = parse(function), np.random.default_rng([m, T])
    sets = list(itertools.combinations(range(T), f.s))
    if supports == "contiguous":
        sets = [tuple(range(i, i + f.s)) for i in range(T - f.s + 1)]
    assert f.is_symmetric
    places, found = np.array(sets), np.empty(draws)
    for d in range(draws):
        X = random.random((m, T)) < p
        values = f.table[sum(X[:, places[:, i]].astype(int) << i for i in range(f.s))]
        y = values[:, random.integers(len(places))]
        seen = np.where(random.random(m) < noise, 1 - y, y)
        wrong = (values != seen[:, None]).sum(axis=0)
        weight = noise ** wrong.astype(float) * (1 - noise) ** (m - wrong)
        found[d] = np.sort(weight)[-guesses:].sum() / weight.sum()
    return float(found.mean()), float(found.std()) / math.sqrt(draws)


BEATEN = [  # today's floors were one too high: a line through a curve that bends
    ("xor2", 20, 0.5, {}),
    ("parity3", 16, 0.5, {"guesses": 5}),
    ("and3", 20, B, {"guesses": 5}),
]
OTHERS = [  # today's ignored the supports, and had Fano's bound for flipped labels
    ("and3", 20, B, {"supports": "contiguous"}),
    ("xor2", 11, 0.5, {"noise": 0.2, "guesses": 2}),
]


@pytest.mark.parametrize(("function", "T", "p", "fields"), [*BEATEN, *OTHERS])
def test_below_the_floor_no_learner_reaches_the_target(function, T, p, fields):
    """Brute force at the floor and at one example less; 4 standard errors: once in 10^4."""
    found = floor(function, T, p, draws=400, protocol=Protocol(**fields))
    below, at = (brute_force(function, T, p, m, **fields) for m in (found.m - 1, found.m))
    assert below[0] < 0.8 + 4 * math.hypot(below[1], found.below_error)
    assert at[0] >= 0.8 - 4 * math.hypot(at[1], found.chance_error)
    assert found.below == pytest.approx(below[0], abs=5 * math.hypot(below[1], found.below_error))
    assert found.chance == pytest.approx(at[0], abs=5 * math.hypot(at[1], found.chance_error))
    assert found.low <= found.m <= found.high and found.is_floor


def test_a_learner_of_neighbours_is_not_below_the_floor_of_neighbours():
    """The attack: m* <= 13 under a floor of 27, which was that of all supports."""
    together, apart = (
        floor("and3", 100, B, draws=100, protocol=Protocol(supports=supports))
        for supports in ("contiguous", "random")
    )
    assert together.m <= 13 < apart.m and "contiguous" in together.label
    plain = {"function": "and3", "support": "contiguous", "reject_ambiguous": False}
    search = {"method": "grid", "m": [5, 9, 14, 20], "trials": 2}
    experiment = {"name": "n", "T": [100], "task": plain, "training": {"restarts": 1}}
    (panel,) = build_experiment({**experiment, "search": search}).panels
    assert panel_floor(panel, 100).m <= 13
    fixed = build_experiment(
        {**experiment, "search": search, "task": {**plain, "support": [1, 2, 3]}}
    )
    assert panel_floor(fixed.panels[0], 100) is None  # a learner may know the positions


def test_an_accuracy_that_needs_no_rule_has_no_floor():
    """AND of 8: placements differ on 8 % of the inputs, so one answer may be good for two."""
    p = 0.5 ** (1 / 8)
    assert floor("and8", 100, p, protocol=Protocol(accuracy=0.95)) is None
    assert must_identify(parse("and8"), 100, p, Protocol(accuracy=0.99))
    assert not must_identify(parse("and8"), 100, p, Protocol(accuracy=0.99, validation_size=100))
    many, few = (Protocol(accuracy=0.95, validation_size=n) for n in (4096, 1500))
    assert must_identify(parse("and3"), 1000, B, many)
    assert not must_identify(parse("and3"), 1000, B, few)  # one pair, not all pairs, would pass
    plain, close = (Protocol(accuracy=a, validation_size=4096) for a in (1.0, 0.95))
    assert floor("and3", 20, B, draws=100, protocol=close) == floor(
        "and3", 20, B, draws=100, protocol=plain
    )


@pytest.mark.parametrize(("function", "T", "p"), [("and3", 9, B), ("x0 & ~x1", 7, 0.4)])
def test_two_placements_that_one_answer_serves_lie_within_twice_its_error(function, T, p):
    """The reason for the rule above, by enumeration: the nearest two placements on all inputs."""
    f, X = parse(function), all_inputs(T)
    weights = np.prod(np.where(X == 1, p, 1 - p), axis=1)
    values = np.array([f.on(J.tolist(), T)(X) for J in all_placements(f, T)])
    differ = min(float(weights @ (a != b)) for a, b in itertools.combinations(values, 2))
    near = Protocol(accuracy=1 - 0.5 * differ + 1e-3, validation_size=10**7)
    far = Protocol(accuracy=1 - 0.5 * differ - 1e-3, validation_size=10**7)
    assert must_identify(f, T, p, near) and not must_identify(f, T, p, far)


def test_a_floor_that_cannot_be_simulated_is_none_and_not_fanos():
    assert floor("maj5", 10**6, 0.5) is None
    assert floor("and3", 300, B, protocol=Protocol(noise=0.1)) is None
    start = fewest_examples("and3", 300, B, protocol=Protocol(noise=0.1))
    assert start == math.ceil(fano(parse("and3"), 300, 0.2, B, noise=0.1))
    near = Protocol(supports="contiguous")
    assert fewest_examples("and3", 300, B, protocol=near) == math.ceil(math.log2(0.8 * 298))


def test_the_floor_lies_between_counting_and_the_union_bound():
    for K in (1, 4):
        found = floor("maj3", 12, 0.5, draws=100, protocol=Protocol(guesses=K))
        f = parse("maj3")
        assert counting_sample_size(f, 12, 0.8, guesses=K) <= found.m
        assert found.m <= union_sample_size(f, 12, 0.2, 0.5)
    assert floor("and3", 4, B, protocol=Protocol(guesses=4)).m == 0  # all four placements offered


def test_reading_a_floor_from_samples_of_the_chance():
    found = np.repeat([[0.5, 0.79, 0.81, 0.9]], 100, axis=0)
    read = _read(found, 7, 0.8, Protocol(rejection=True))
    assert (read.m, read.low, read.high, read.is_floor) == (9, 8, 10, False)
    assert (read.chance, read.below) == pytest.approx((0.81, 0.79))
    assert read.chance_error == pytest.approx(0.01)  # never 0: one unlike sample in a hundred
    assert _crossing(np.full((5, 3), 0.1), 0.8) == 2
    found[::2, 1], found[1::2, 1] = 0.49, 1.09
    spread = _read(found, 7, 0.8, Protocol())
    assert (spread.below_error, spread.chance_error) == pytest.approx((0.03, 0.01))
    never_sure = _read(np.repeat([[0.5, 0.8, 0.81]], 4, axis=0), 7, 0.8, Protocol())
    assert (never_sure.m, never_sure.high) == (8, 9)  # the last m that was simulated


@pytest.mark.parametrize("supports", ["random", "contiguous"])
@pytest.mark.parametrize("formula", ["and3", "parity3", "x0 & ~x1", "x0 ^ (x1 & ~x2)"])
def test_placements_are_all_functions_once(formula, supports):
    f, T = parse(formula), 7
    X = all_inputs(T)
    seen = {f.on(J.tolist(), T)(X).tobytes() for J in all_placements(f, T, supports)}
    assert len(seen) == len(all_placements(f, T, supports)) == num_placements(f, T, supports)
    sets = list(itertools.permutations(range(T), f.s))
    if supports == "contiguous":
        sets = [J for J in sets if max(J) - min(J) == f.s - 1]
    assert seen == {f.on(J, T)(X).tobytes() for J in sets}


@pytest.mark.parametrize("formula", ["and2", "parity3", "x0 & ~x1", "maj3"])
def test_the_example_that_refutes_a_placement(formula):
    """70 examples: more than one machine word."""
    f, random = parse(formula), np.random.default_rng(3)
    X = random.random((70, 6)) < 0.5
    X[:66] = X[0]  # nothing new for a while
    y = f.on(tuple(range(f.s)), 6)(X)
    places = all_placements(f, 6)
    for J, first in zip(places, refuted_at(f, X, y, places), strict=True):
        wrong = np.flatnonzero(f.on(J.tolist(), 6)(X) != y)
        assert first == wrong[0] if len(wrong) else first > 10**9


@pytest.mark.parametrize("formula", ["and3", "or3", "parity3"])
def test_sizes_along_a_sample_are_those_of_single_sizes(formula):
    """The whole range at once against one m at a time: the same law; 4.5 errors."""
    f, p = parse(formula), 0.6
    along = version_space_sizes(f, 12, p, first=6, last=14, draws=100, limit=10**6, key=KEY)
    assert np.all(np.diff(along, axis=1) <= 0)
    for m in (6, 10, 14):
        alone = version_space_sizes(f, 12, p, first=m, last=m, draws=100, limit=10**6, key=(m, 2))
        a, b = 1 / along[:, m - 6], 1 / alone[:, 0]
        assert abs(a.mean() - b.mean()) < 4.5 * math.hypot(a.std(), b.std()) / math.sqrt(100)


def test_the_search_and_the_list_count_the_same(monkeypatch):
    """Beyond a few thousand placements a search takes over; a limit counts as the limit."""
    f = parse("parity3")
    fields = {"first": 3, "last": 12, "draws": 20, "limit": 40, "key": KEY}
    listed = version_space_sizes(f, 13, 0.5, **fields)
    monkeypatch.setattr("capax.boolean.best_possible.best_learner._FEW", 0)
    assert np.array_equal(version_space_sizes(f, 13, 0.5, **fields), listed)
    assert listed[:, 0].max() == 40 and listed.min() == 1


def test_noise_that_hardly_flips_is_no_noise():
    f, fields = parse("and3"), {"first": 8, "last": 20, "draws": 400, "key": KEY}
    quiet = chances(f, 9, B, **fields).mean(axis=0)
    hardly = chances(f, 9, B, noise=1e-9, **fields).mean(axis=0)
    assert np.max(np.abs(quiet - hardly)) < 4.5 * 0.5 * math.sqrt(2 / 400)
    loud = chances(f, 9, B, noise=0.3, **fields).mean(axis=0)
    assert np.all(loud[3:] < quiet[3:] - 0.1)


def checked_supports(supports):
    """Tests check types before the class does; users do not."""
    made = Protocol()
    object.__setattr__(made, "supports", supports)
    made.__post_init__()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Protocol(guesses=0), InputError, "guesses"),
        (lambda: Protocol(noise=0.5), InputError, "noise"),
        (lambda: Protocol(accuracy=0.0), InputError, "accuracy"),
        (lambda: Protocol(accuracy=1.01), InputError, "accuracy"),
        (lambda: checked_supports("neighbours"), InputError, "supports: wanted random, contig"),
        (
            lambda: chances(
                parse("and3"), 10**7, B, first=1, last=9, draws=2, supports="contiguous", key=KEY
            ),
            InfeasibleError,
            "too many to list",
        ),
        (
            lambda: chances(parse("and3"), 9, B, first=1, last=9, draws=2, noise=0.5, key=KEY),
            InputError,
            "noise",
        ),
        (
            lambda: chances(parse("and3"), 9, B, first=1, last=9, draws=2, guesses=0, key=KEY),
            InputError,
            "guesses",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_estimates_of_the_best_learner_from_their_definition():
    """Mean and standard errors of min(1, K/|V|) and of |V| = 1, from the same sizes."""
    f, draws, K = parse("maj3"), 60, 3
    said = best_learner(f, 9, 7, 0.5, draws=draws, limit=6, guesses=K, key=KEY)
    sizes = version_space_sizes(f, 9, 0.5, first=7, last=7, draws=draws, limit=6, key=KEY)[:, 0]
    chance, alone = np.minimum(1, K / sizes), sizes == 1
    assert (sizes == 6).any() and alone.any()
    assert said.identification == pytest.approx(chance.mean())
    assert said.identification_error == pytest.approx(chance.std() / math.sqrt(draws))
    assert said.one_left == alone.mean()
    assert said.one_left_error == pytest.approx(alone.std() / math.sqrt(draws))
    assert said.truncation == pytest.approx((sizes == 6).mean() * K / 6)
    for wrong in ({"guesses": 7}, {"guesses": 0}, {"draws": 1}, {"limit": 1, "guesses": 1}):
        with pytest.raises(InputError):
            best_learner(f, 9, 7, 0.5, key=KEY, **{"limit": 6, "draws": 5, **wrong})
    assert best_learner(f, 9, 7, 0.5, draws=2, limit=2, guesses=2, key=KEY).identification == 1
    assert len(version_space_sizes(f, 9, 0.5, first=0, last=0, draws=2, limit=2, key=KEY)) == 2


def test_the_mass_of_the_likeliest_rules_by_enumeration():
    """xor2 on 4 positions, 3 examples: Bayes' chance summed over all samples and flips."""
    f, T, p, e, m, K = parse("xor2"), 4, 0.4, 0.2, 3, 2
    X = all_inputs(T)
    weight = np.prod(np.where(X == 1, p, 1 - p), axis=1)
    values = np.array([f.on(J.tolist(), T)(X) for J in all_placements(f, T)])  # [6, 16]
    exact = 0.0
    for rows in itertools.product(range(len(X)), repeat=m):
        inputs = float(np.prod(weight[list(rows)]))
        for labels in itertools.product((0, 1), repeat=m):
            wrong = (values[:, list(rows)] != np.array(labels)).sum(axis=1)
            likely = e**wrong * (1 - e) ** (m - wrong) / len(values)
            exact += inputs * np.sort(likely)[-K:].sum()
    found = chances(f, T, p, first=m, last=m, draws=1500, guesses=K, noise=e, key=KEY)[:, 0]
    assert found.mean() == pytest.approx(exact, abs=4.5 * found.std() / math.sqrt(1500))


def test_the_chance_without_noise_by_enumeration():
    """and2 on 4 positions, 3 examples, two guesses: E[min(1, K/|V|)] over all samples."""
    f, T, p, m, K = parse("and2"), 4, 0.6, 3, 2
    X = all_inputs(T)
    weight = np.prod(np.where(X == 1, p, 1 - p), axis=1)
    values = np.array([f.on(J.tolist(), T)(X) for J in all_placements(f, T)])
    exact = 0.0
    for rows in itertools.product(range(len(X)), repeat=m):
        seen = values[:, list(rows)]
        sizes = (seen[:, None, :] == seen[None, :, :]).all(axis=2).sum(axis=1)
        exact += float(np.prod(weight[list(rows)])) * np.minimum(1, K / sizes).mean()
    found = chances(f, T, p, first=m, last=m, draws=1500, guesses=K, key=KEY)[:, 0]
    assert found.mean() == pytest.approx(exact, abs=4.5 * found.std() / math.sqrt(1500))


def test_a_pilot_that_misses_the_crossing_is_corrected():
    """The pilot says 2, the truth is 12: the window moves until the crossing lies inside it."""

    def simulate(first, last, draws, batch):
        at = 2 if batch == 0 else 12
        return np.tile((np.arange(first, last + 1) >= at) * 1.0, (draws, 1))

    found, first = _around_crossing(simulate, 0, 30, 0.8, 200)
    assert first + _crossing(found, 0.8) == 12 and first < 12


def test_the_floor_of_a_panel_is_for_its_own_success_rule():
    """AND of 8 at 95 %: no floor; at 99 % the rule itself is needed."""
    search = {"method": "grid", "m": [5, 9, 14, 20], "trials": 2}
    fields = {"name": "n", "T": [20], "task": {"function": "and8"}, "search": search}
    for accuracy, wanted in ((0.95, 0.95), (None, 1.0)):
        success = {} if accuracy is None else {"success": {"accuracy": accuracy, "when": "best"}}
        (panel,) = build_experiment({**fields, "training": success}).panels
        assert panel_protocol(panel, panel_task(panel, 20)).accuracy == wanted


def test_floors_are_for_bits_and_for_noise_below_one_half():
    search = {"method": "grid", "m": [5, 9, 14, 20], "trials": 2}
    task = {"function": "x0 == 1", "alphabet": 3, "p": "uniform", "reject_ambiguous": False}
    (panel,) = build_experiment({"name": "n", "T": [6], "task": task, "search": search}).panels
    assert panel_floor(panel, 6) is None
    assert Protocol(noise=0.49).noise == 0.49


def test_the_protocol_of_a_panel_is_that_of_its_trials():
    """Every setting that changes what a learner can know or how it is judged."""
    search = {"method": "grid", "m": [5, 9], "trials": 2}
    task = {"function": "and3", "noise": 0.1, "support": "contiguous", "validation_size": 300}
    for rejected in (True, False):
        fields = {"name": "n", "T": [20], "training": {"restarts": 3}, "search": search}
        fields["task"] = {**task, "noise": 0.0 if rejected else 0.1, "reject_ambiguous": rejected}
        (panel,) = build_experiment(fields).panels
        assert panel_protocol(panel, panel_task(panel, 20)) == Protocol(
            guesses=3, rejection=rejected, noise=0.0 if rejected else 0.1, supports="contiguous",
            accuracy=1.0, validation_size=300,
        )  # fmt: skip


def test_a_rule_whose_rivals_cannot_be_listed_is_not_said_to_be_needed():
    f = parse("x0 & (x1 | x2 | x3 | x4 | x5 | x6)")
    with pytest.raises(InfeasibleError):
        list(rivals(f, 9, 0.5))
    assert not must_identify(f, 9, 0.5, Protocol(accuracy=0.99))
    assert must_identify(f, 9, 0.5, Protocol(accuracy=1.0))
