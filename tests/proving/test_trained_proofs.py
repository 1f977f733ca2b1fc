"""Proof files of trained networks: accepted where they hold, never where they are false.

What the checker's `Leaf` computes is a bound whatever the hints are: random hints on random cells
are held against all inputs of the cell.
"""

import functools
import hashlib
import json
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from arb_trained import accepted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_head import all_inputs
from small_transformers import T, made, margins, saved

from capax.attention import load, save
from capax.attention.checkpoint import to_bytes
from capax.attention.transformer import assemble, parameters
from capax.boolean import SparseFunction
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward, _normed, activated
from capax.errors import InputError
from capax.proving import capax_check
from capax.proving.capax_check import InputCell, TrainedNetwork, gelu, normed
from capax.proving.proof_files import prove

NETWORKS = (("gelu", 6), ("gelu", 7), ("relu", 2), ("identity", 8))


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """(path, function, text) of every network."""
    folder, found = tmp_path_factory.mktemp("trained"), {}
    for activation, seed in NETWORKS:
        path, f = saved(folder, seed, activation, 2)
        found[activation, seed] = path, f, prove(path, f).text
    return found


def answer(text: str, data: bytes) -> dict:
    try:
        return {"status": "proved", "statement": capax_check.check(text, data)}
    except capax_check.Refused as refusal:
        return {"status": "refused", "line": refusal.line, "reason": refusal.reason}


def is_true(text: str, path) -> bool:
    """The statement of the first line, on all 2^T inputs."""
    header = json.loads(text.splitlines()[0])
    s = len(header["support"])
    table = np.array([int(header["table"], 16) >> r & 1 for r in range(1 << s)], float)
    f = SparseFunction(tuple(header["support"]), table, T)
    return bool(margins(load(path)[0], f).min() >= float(header["margin"]) - 1e-9)


@pytest.mark.parametrize("which", NETWORKS, ids=str)
def test_trained_networks_have_proofs_that_are_true(proofs, which):
    path, f, text = proofs[which]
    told = capax_check.check(text, path.read_bytes())
    assert told.startswith(
        f"On all 2^{T} inputs 'logit > 0' decides as f with a margin of at least"
    )
    assert str(list(f.support)) in told and told.endswith("on the stored weights.")
    assert is_true(text, path) and accepted(text, path)
    assert float(json.loads(text.splitlines()[0])["margin"]) > 0


@pytest.mark.parametrize("which", NETWORKS, ids=str)
def test_a_margin_above_the_true_one_is_refused(proofs, which):
    path, f, text = proofs[which]
    true = margins(load(path)[0], f).min()
    header, *lines = text.splitlines()
    stated = json.loads(header) | {"margin": f"{true * (1 + 1e-6):.12f}"}
    found = answer("\n".join([json.dumps(stated), *lines]), path.read_bytes())
    assert found["status"] == "refused" and found["line"] > 1 and "margin" in found["reason"]


def changed(text: str, how: str, rng: np.random.Generator) -> str:
    lines = text.splitlines()
    at = int(rng.integers(1, len(lines)))
    other = int(rng.integers(1, len(lines)))
    if how == "digit":
        places = [i for i, c in enumerate(text) if c.isdigit()]
        place = places[int(rng.integers(len(places)))]
        return text[:place] + str(rng.integers(10)) + text[place + 1 :]
    if how == "drop":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "cut":
        return text[: int(rng.integers(len(text)))]
    else:  # hints of another leaf, or two hints exchanged
        line = json.loads(lines[at])
        name = list(line)[int(rng.integers(len(line)))]
        if how == "other hints":
            line[name] = json.loads(lines[other]).get(name, line[name])
        elif isinstance(line[name], list):
            i, j = rng.integers(len(line[name]), size=2)
            line[name][i], line[name][j] = line[name][j], line[name][i]
        lines[at] = json.dumps(line)
    return "\n".join(lines) + "\n"


HOW = ("digit", "drop", "twice", "swap", "cut", "other hints", "two hints")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.sampled_from(NETWORKS), how=st.sampled_from(HOW), seed=st.integers(0, 10**6))
def test_changed_proofs_are_refused_with_a_line_unless_they_are_true(proofs, which, how, seed):
    path, _, text = proofs[which]
    new = changed(text, how, np.random.default_rng(seed))
    found = answer(new, path.read_bytes())
    if found["status"] == "proved":
        assert is_true(new, path)
    else:
        assert 1 <= found["line"] <= text.count("\n") + 2 and found["reason"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    which=st.sampled_from(NETWORKS), seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-6, 1e-2, 0.3, 3.0]),
)  # fmt: skip
def test_changed_weights_with_a_forged_hash_are_proved_only_if_true(proofs, which, seed, size):
    path, _, text = proofs[which]
    path, text = forged(path, text, np.random.default_rng(seed), size)
    found = answer(text, path.read_bytes())
    assert found["status"] == "refused" or is_true(text, path)


def forged(path: Path, text: str, rng: np.random.Generator, size: float) -> tuple[Path, str]:
    """One weight moved, and the hash in the proof made to fit."""
    model = load(path)[0]
    arrays = {name: np.array(array) for name, array in parameters(model).items()}
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    where = tuple(int(rng.integers(n)) for n in arrays[name].shape)
    arrays[name][where] += np.float32(size * rng.standard_normal())
    target = save(path.with_suffix(".forged"), assemble(model.spec, _jax(arrays)))
    old = json.loads(text.splitlines()[0])["weights"]
    return target, text.replace(old, hashlib.sha256(target.read_bytes()).hexdigest())


def _jax(arrays):
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def test_another_networks_proof_and_other_kinds_are_refused(proofs):
    (path, f, text), (_, _, other) = proofs[NETWORKS[0]], proofs[NETWORKS[1]]
    assert "not the weights" in answer(other, path.read_bytes())["reason"]
    old = json.loads(other.splitlines()[0])["weights"]
    forged = other.replace(old, hashlib.sha256(path.read_bytes()).hexdigest())
    assert answer(forged, path.read_bytes())["status"] == "refused"
    with pytest.raises(InputError, match="cells did not decide"):
        prove(path, SparseFunction(f.support, 1 - np.asarray(f.table), T), cells=64)
    for field, value in (("error", "1"), ("bits", 40), ("T", 6), ("margin", "0")):
        header, *lines = text.splitlines()
        header = json.dumps(json.loads(header) | {field: value})
        found = answer("\n".join([header, *lines]), path.read_bytes())
        assert found["status"] == "refused" and found["line"] == 1 and field in found["reason"]


def inputs_of(cell: InputCell) -> np.ndarray:
    X = all_inputs(T)
    for t, b in cell.fixed.items():
        X = X[X[:, t] == b]
    ones = X[:, cell.free].sum(1)
    return X[(ones >= cell.first) & (ones <= cell.last)]


@functools.cache
def network(which):
    activation, seed = which
    model, _ = made(seed, activation, 2)
    return model


KNOWN: dict[tuple[int, int], tuple] = {}


def trained(model, checker=capax_check) -> TrainedNetwork:
    """The checker's tables of a model, made once (models have no hash)."""
    key = id(model), id(checker)
    if key not in KNOWN:
        described, arrays = checker.read_weights(to_bytes(model))
        made_of = checker.TrainedNetwork(described["spec"], arrays, T, 64)
        KNOWN[key] = model, checker, made_of
    return KNOWN[key][2]


@settings(max_examples=150)
@given(n=st.integers(-40_000, 40_000), bits=st.integers(56, 120))
def test_gelu_is_enclosed(n, bits):
    low, high = gelu(n, bits)
    with mpmath.workdps(120):
        x = mpmath.mpf(n) / 1024
        assert low <= x * mpmath.ncdf(x) * mpmath.mpf(2) ** bits <= high <= low + 3


@settings(max_examples=60)
@given(
    low=st.integers(-6 << 28, 6 << 28), width=st.integers(0, 5 << 28), slope=st.integers(-99, 1199)
)
def test_lines_hold_every_point_and_are_near(low, width, slope):
    net = trained(network(NETWORKS[0]))
    least, most = net.lines(low, low + width, slope)
    h = np.linspace(low, low + width, 200) / 2.0**28
    values = np.array([float(x * mpmath.ncdf(x)) for x in h]) - slope / 1024 * h
    step = max(2.0**-10, 2.0 ** np.ceil(np.log2(max(width, 1) / 2.0**28 / 16)))
    assert least / 2.0**64 <= values.min() + 1e-12 and most / 2.0**64 >= values.max() - 1e-12
    assert least / 2.0**64 >= values.min() - 3 * step and most / 2.0**64 <= values.max() + 3 * step


def test_layer_norm_is_within_its_error():
    rng = np.random.default_rng(0)
    for bits in (8, 20, 60):
        x, gain, bias = (rng.integers(-999, 999, n) for n in ((3, 5), 5, 5))
        rows = [[int(n) for n in row] for row in x]
        made_of = partial(capax_check.Matrix, e=7)
        found = normed(
            capax_check.Matrix(rows, 7), made_of([gain.tolist()]), made_of([bias.tolist()]), bits
        )
        with mpmath.workdps(60):
            for row, ours in zip(rows, found.rows, strict=True):
                xs = [mpmath.mpf(n) / 128 for n in row]
                c = [a - sum(xs) / 5 for a in xs]
                s = mpmath.sqrt(sum(a * a for a in c) / 5 + mpmath.mpf(1) / 100000)
                for a, g, b, n in zip(c, gain, bias, ours, strict=True):
                    true = (a / s * int(g) + int(b)) / 128 * mpmath.mpf(2) ** bits
                    assert abs(true - n) <= found.off


FAULTS = {
    "leaks left out": ("far[i] * wide // D[i] + tables", "0 * wide // D[i] + tables"),
    "far not checked": ('need(near, number, f"head', 'need(True, number, f"head'),
    "no second-order term": (
        "self.E = Fraction(sum(n * n for n in self.reach)",
        "self.E = Fraction(0",
    ),
    "the rest of 1/s left out": ("total -= change *", "total -= 0 * change *"),
    "the root never slows": ("* self.E\n        lost +=", "* 0\n        lost +="),
    "the other side of the lines": ("unit[0 if n > 0 else 1]", "unit[1 if n > 0 else 0]"),
    "the other root": ("low = floor(min(low / s for", "low = floor(max(low / s for"),
    "the last root is linear": ("if t < 0:", "if False:"),
    "the larger sum only": ("return start - self.most([-n for n in gains])", "return start"),
    "ones are not counted": ("self.first), self.last)])", "0), self.first)])"),
}


def faulty(name: str):
    """The checker as a module, with one fault."""
    source = Path(capax_check.__file__).read_text()
    old, new = FAULTS[name]
    assert source.count(old) == 1, name
    module = ModuleType("faulty")
    exec(compile(source.replace(old, new), "faulty", "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_checker_makes_a_claim_false(name):
    module = faulty(name)
    for seed in range(300):
        claims = claims_and_truth(seed, module, far=0.5 if "far" in name else 1.0)
        if any(below > above + 1e-6 for below, above in claims):
            return
    pytest.fail("no false claim was found")


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_any_hints_give_bounds_over_all_inputs_of_the_cell(seed):
    assert all(below <= above + 1e-8 for below, above in claims_and_truth(seed, capax_check))


def claims_and_truth(seed: int, checker, far: float = 1.0) -> list[tuple[float, float]]:
    """Pairs (smaller, larger) that hold if the checker is right, for a random cell and hints."""
    rng = np.random.default_rng(seed)
    model = network(NETWORKS[seed % len(NETWORKS)])
    net, sign = trained(model, checker), int(rng.choice([1, -1]))
    fixed = {int(t): int(rng.integers(2)) for t in rng.permutation(T)[: rng.integers(1, T)]}
    first = int(rng.integers(0, T - len(fixed) + 1))
    cell = checker.InputCell(T, fixed, first, int(rng.integers(first, T - len(fixed) + 1)))
    X, margin = inputs_of(cell), float(rng.choice([0.0, 0.3, 5.0]))
    sums = TableForward(one_query_layer(model)).sums(X)
    u = (sums[..., :-1] / sums[..., -1:]).reshape(len(X), -1)
    u0 = u.mean(0) + rng.choice([0, 0.1]) * rng.standard_normal(u.shape[1])
    spread = np.exp(rng.choice([0, 0.3]) * rng.standard_normal(2))
    line = {
        "u": u0.tolist(),
        "far": (far * np.abs(u - u0).max(0) * (1 + 1e-9) + 1e-9).tolist(),
        "D": (sums[..., -1].mean(0) * spread).tolist(),
        "slopes": [1024] * 7 if rng.integers(2) else rng.integers(-100, 1200, 7).tolist(),
        "z": rng.standard_normal(6).tolist(),
    }
    try:
        leaf = checker.Leaf(net, cell, line, 2)
    except checker.Refused:
        assert checker is not capax_check
        return []
    least = float(leaf.least(sign, Fraction(margin)))
    truth = Truth(model, u)
    S = rng.integers(-9, 10, 7)
    by_units = float(leaf.through([0] * 6, S.tolist(), 0))
    found = [(least, truth.claim(sign, margin).min()), (by_units, (truth.hidden @ S).min())]
    return found + truth.pairs(leaf, line["slopes"], line["z"])


class Truth:
    """The network behind given head outputs, in float64."""

    def __init__(self, model, u):
        self.layer = layer = one_query_layer(model)
        x = layer.tables.base.mid + u @ layer.tables.W_O.mid
        self.c = x - x.mean(1, keepdims=True)
        self.s = np.sqrt((self.c**2).mean(1) + 1e-5)
        self.h = _normed(layer.norm, x) @ layer.W_in + layer.b_in
        self.hidden = activated(layer.activation, self.h)
        z = x + self.hidden @ layer.W_out + layer.b_out
        self.z = z - z.mean(1, keepdims=True)

    def claim(self, sign: int, margin: float) -> np.ndarray:
        """s_z (sign logit - margin)."""
        root = np.sqrt((self.z**2).mean(1) + 1e-5)
        logit = _normed(self.layer.final, self.z) @ self.layer.w.mid + float(self.layer.b.mid)
        return root * (sign * logit - margin)

    def pairs(self, leaf, slopes, z0) -> list[tuple[float, float]]:
        """What `Leaf` says of the residual, the root, the units and the last residual."""
        one = float(leaf.one)
        c0, axes = np.array(leaf.c0) / one, np.array(leaf.axes) / one
        delta, A = self.c - c0, float(leaf.A) / one
        rest = self.s - A - delta @ c0 / (6 * np.sqrt((c0 * c0).mean() + 1e-5))
        units = np.array([[float(n) for n in unit] for unit in leaf.units]) / one
        lines = self.hidden - np.array(slopes) / 1024 * self.h
        spread = float(leaf.spread([int(n * one) for n in z0])) / one**2
        ends = [float(n) / one for n in leaf.s]
        found = [(0, rest.min()), (rest.max(), float(leaf.E) / one), (ends[0], self.s.min())]
        found += [(self.s.max(), ends[1]), (((self.z - z0) ** 2).sum(1).max(), spread)]
        for values, low, high in (
            (delta, *axes.T),
            (lines, *units.T[:2]),
            (self.hidden, *units.T[2:]),
        ):
            found += [*zip(low, values.min(0), strict=True), *zip(values.max(0), high, strict=True)]
        return found
