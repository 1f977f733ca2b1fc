"""Proof files of trained networks: accepted where they hold, never where they are false.

What the checker's `Leaf` computes is a bound whatever the hints are: random hints on random cells
are held against all inputs of the cell.
"""

import functools
import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace

import mpmath
import numpy as np
import pytest
from arb_trained import accepted
from changed_proofs import answer
from changed_transformers import HOW, NETWORKS, changed, forged, is_true
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_head import all_inputs
from small_transformers import T, made, margins, saved

from capax.attention import load
from capax.attention.checkpoint import to_bytes
from capax.boolean import SparseFunction
from capax.decompile.proof.cell_forms import CellBound, ReadOut
from capax.decompile.proof.counterexample import Found
from capax.decompile.proof.float_cell import FloatCell
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward, _normed, activated
from capax.errors import InputError
from capax.proving import capax_check, trained_proof
from capax.proving.capax_check import GRID, TrainedNetwork, gelu, normed
from capax.proving.cell_search import candidates, cut_cells, hints
from capax.proving.proof_files import prove


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """(path, function, text) of every network."""
    folder, found = tmp_path_factory.mktemp("trained"), {}
    for activation, seed in NETWORKS:
        path, f = saved(folder, seed, activation, 2)
        found[activation, seed] = path, f, prove(path, f).text
    return found


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


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.sampled_from(NETWORKS), how=st.sampled_from(HOW), seed=st.integers(0, 10**6))
def test_changed_proofs_are_refused_with_a_line_unless_they_are_true(proofs, which, how, seed):
    path, _, text = proofs[which]
    new = changed(text, how, np.random.default_rng(seed))
    found = answer(new, path.read_bytes())
    if found["status"] == "proved":
        assert is_true(new, path)
    else:
        assert 1 <= found["line"] <= text.count("\n") + 2 and found["reason"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    which=st.sampled_from(NETWORKS), seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-6, 1e-2, 0.3, 3.0]),
)  # fmt: skip
def test_changed_weights_with_a_forged_hash_are_proved_only_if_true(proofs, which, seed, size):
    path, _, text = proofs[which]
    path, text = forged(path, text, np.random.default_rng(seed), size)
    found = answer(text, path.read_bytes())
    assert found["status"] == "refused" or is_true(text, path)


def test_another_networks_proof_and_other_kinds_are_refused(proofs):
    (path, f, text), (_, _, other) = proofs[NETWORKS[0]], proofs[NETWORKS[1]]
    assert "not the weights" in answer(other, path.read_bytes())["reason"]
    old = json.loads(other.splitlines()[0])["weights"]
    forged = other.replace(old, hashlib.sha256(path.read_bytes()).hexdigest())
    assert answer(forged, path.read_bytes())["status"] == "refused"
    with pytest.raises(InputError, match="another decision where the ones are"):
        prove(path, SparseFunction(f.support, 1 - np.asarray(f.table), T), cells=64)
    for field, value in (("error", "1"), ("bits", 12), ("T", 6), ("margin", "0")):
        header, *lines = text.splitlines()
        header = json.dumps(json.loads(header) | {field: value})
        found = answer("\n".join([header, *lines]), path.read_bytes())
        assert found["status"] == "refused" and found["line"] == 1 and field in found["reason"]


@pytest.mark.parametrize("only", [0.1, 0.5, 0.9])
def test_a_wrong_input_is_searched_at_few_half_and_many_ones(proofs, only, monkeypatch):
    """A false run at T = 300 went through 4000 cells: its wrong inputs have few or many ones."""
    path, f, _ = proofs[NETWORKS[0]]

    def search(*_, p):
        return Found(-1.0 if p == only else 1.0, np.ones(T, np.uint8), 1)

    monkeypatch.setattr(trained_proof, "search", search)
    with pytest.raises(InputError, match="another decision where the ones are"):
        prove(path, f)


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
        told = SimpleNamespace(T=T, bits=80, line={"error": None}, boolean=True)
        made_of = checker.TrainedNetwork(described, arrays, told)
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
    low=st.floats(-6, 6), width=st.floats(0, 5), which=st.sampled_from([NETWORKS[0], NETWORKS[2]])
)
def test_lines_hold_every_point_and_are_near(low, width, which):
    one = 1 << 80
    ends = [math.floor(x * one) for x in (low, low + width)]
    slope, least, most = trained(network(which)).lines(*ends)
    h = np.linspace(low, low + width, 200)
    values = activated(which[0], h) - slope / 1024 * h
    step = max(2.0**-GRID, 2.0 ** np.ceil(np.log2(max(width, 1e-3) / 16)))
    assert least / one <= values.min() + 1e-12 and most / one >= values.max() - 1e-12
    assert least / one >= values.min() - 3 * step and most / one <= values.max() + 3 * step


def test_layer_norm_is_within_its_error():
    rng = np.random.default_rng(0)
    for bits in (8, 20, 60):
        x, gain, bias = (rng.integers(-999, 999, n) for n in ((3, 5), 5, 5))
        rows = [[int(n) for n in row] for row in x]
        parts = [[Fraction(int(n), 128) for n in part] for part in (gain, bias)]
        found = normed(capax_check.Matrix(rows, 7), *parts, bits)
        with mpmath.workdps(60):
            for row, ours in zip(rows, found.rows, strict=True):
                xs = [mpmath.mpf(n) / 128 for n in row]
                c = [a - sum(xs) / 5 for a in xs]
                s = mpmath.sqrt(sum(a * a for a in c) / 5 + mpmath.mpf(1) / 100000)
                for a, g, b, n in zip(c, gain, bias, ours, strict=True):
                    true = (a / s * int(g) + int(b)) / 128 * mpmath.mpf(2) ** bits
                    assert abs(true - n) <= found.off


FAULTS = {
    "leaks left out": ("noise = far[i] * max(", "noise = 0 * max("),
    "far not checked": ('need(near, f"head', 'need(True, f"head'),
    "noise does not count": ("sum(map(abs, form[self.F :])) + err", "err"),
    "squares are linear": ("err = rest + (V.off", "err = (V.off"),
    "products are linear": ("+ far * wide >> bits", ">> bits"),
    "the root's form is exact": ("abs(m) * err + far", "far"),
    "sigma is a line": ("(most - least >> 1) + len(h)", "len(h)"),
    "no tangent of 1/s": ("[3 / (2 * m), *(1 / s", "[*(1 / s"),
    "no tangent of the last root": ("[m / 2, *(n - n", "[*(n - n"),
    "the larger sum only": ("return -self.most([-n for n in form])", "return form[0]"),
    "any sign of a multiplier": ("over > 0 and a * b > 0", "over > 0 and b"),
    "a limit is added": ("[a - n * b // d for", "[a + n * b // d for"),
    "ones are lost between parts": ("+ [at + 1]", "+ [at + 2]"),
    "one bit that differs is lost": ("+ [1 - len(at)]", "+ [2 - len(at)]"),
    "another bit that differs": ("in at and i % 2 == level", "in at and i % 2 != level"),
    "a head's level has a gap": ("1, -end, False", "1, -end - (1 << tables.e - 4), False"),
    "a bit shows twice": ("for b in (1, 0)]", "for b in (1, 1)]"),
}


def faulty(name: str):
    """The checker as a module, with one fault."""
    source = Path(capax_check.__file__).read_text()
    old, new = FAULTS[name]
    assert source.count(old) == 1, name
    module = ModuleType("faulty")
    exec(compile(source.replace(old, new), "faulty", "exec"), module.__dict__)  # noqa: S102
    return module


# Seeds at which a fault shows that does not show at once: they are tried first.
SHOWN_AT = {
    "products are linear": 115, "sigma is a line": 134, "any sign of a multiplier": 91,
    "a limit is added": 34, "ones are lost between parts": 14, "another bit that differs": 13,
    "a head's level has a gap": 10, "a bit shows twice": 99,
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_checker_makes_a_claim_false(name):
    module = faulty(name)
    for seed in (SHOWN_AT.get(name, 0), *range(300)):
        claims = claims_and_truth(seed, module, far=0.5 if "far" in name else 1.0)
        if any(below > above + 1e-6 for below, above in claims):
            return
    pytest.fail("no false claim was found")


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_any_hints_give_bounds_over_all_inputs_of_the_cell(seed):
    assert all(below <= above + 1e-8 for below, above in claims_and_truth(seed, capax_check))


def claims_and_truth(seed: int, checker, far: float = 1.0) -> list[tuple[float, float]]:
    """Pairs (smaller, larger) that hold if the checker is right, for a random cell and hints."""
    rng = np.random.default_rng(seed)
    model = network(NETWORKS[seed % len(NETWORKS)])
    net, sign, X = trained(model, checker), int(rng.choice([1, -1])), all_inputs(T)
    plain = sums_and_truth(rng, checker) + roots_and_truth(rng, checker, net)
    sums = TableForward(one_query_layer(model)).sums(X)
    u = (sums[..., :-1] / sums[..., -1:]).reshape(len(X), -1)
    cell, inside = random_cell(rng, checker, net, X, u)
    X, u, D = X[inside], u[inside], sums[inside][..., -1]
    u0 = u.mean(0) + rng.choice([0, 0.1]) * rng.standard_normal(u.shape[1])
    line = {
        "u": u0.tolist(),
        "far": (far * np.abs(u - u0).max(0) * (1 + 1e-9) + rng.choice([1e-9, 0.3]) * far).tolist(),
        "D": (D.mean(0) * np.exp(rng.choice([0, 0.3]) * rng.standard_normal(2))).tolist(),
    }
    try:
        leaf = checker.Leaf(net, cell, line)
    except ValueError as error:  # multipliers bound no better than they can
        assert "may be farther" in str(error) and (cell.given or checker is not capax_check)
        return plain
    margin = float(rng.choice([0.0, 0.3, 5.0]))
    least = leaf.least(sign, Fraction(margin)) / leaf.one
    truth = Truth(model, u)
    found = [(least, truth.claim(sign, margin).min()), *truth.pairs(leaf, X[:, cell.free])]
    for limit in cell.limits:
        size = max(1, *map(abs, limit))  # all 0 where its bits are fixed
        bits = [(1, *x) for x in X[:, cell.free]]
        values = [sum(n for n, b in zip(limit, x, strict=True) if b) for x in bits]
        found.append((max(values) / size, 0.0))
    return found + plain


def sums_and_truth(rng, checker) -> list[tuple[float, float]]:
    """The largest sum over the bits that keep two limits is at most what the cell says."""
    cell, bits = checker.InputCell(T, {}), all_inputs(T)
    cell.limits = rng.integers(-20, 21, (2, T + 1)).tolist()
    form = rng.integers(-50, 51, T + 1)
    kept = (np.array(cell.limits)[:, 1:] @ bits.T + np.array(cell.limits)[:, :1] <= 0).all(0)
    sums = form[0] + bits[kept] @ form[1:]
    low, high = cell.ends(form.tolist())
    return [(low, sums.min()), (sums.max(), high)] if kept.any() else []


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_nested_limits_bound_as_well_as_the_tightest_of_them(seed):
    """Where every cut is by the number of ones, the ends are attained: all 2^T inputs are asked."""
    rng, bits = np.random.default_rng(seed), all_inputs(T)
    cell, floating, least, most = capax_check.InputCell(T, {}), FloatCell(T, {}), 0, T
    for _ in range(3):
        n, side = int(rng.integers(least, most)) if least < most else T, int(rng.integers(2))
        if n == T:
            break
        cell = cell.parts(None, "ones", n)[1 - side]
        bound = object.__new__(CellBound)
        bound.cell = floating
        floating = cut_cells(bound, ["ones", n])[side]
        least, most = (n + 1, most) if side else (least, n)
    form = rng.integers(-50, 51, T + 1)
    kept = (least <= bits.sum(1)) & (bits.sum(1) <= most)
    sums = form[0] + bits[kept] @ form[1:]
    assert cell.ends(form.tolist()) == (sums.min(), sums.max())
    assert np.allclose(floating.ends(form[:, None].astype(float)), [[sums.min()], [sums.max()]])


def test_a_set_of_bits_is_cut_into_all_and_not_all_of_them():
    cell = capax_check.InputCell(T, {0: 1})
    second, first = cell.parts(None, "all", [1, 3], 1)
    assert first.fixed == {0: 1, 1: 1, 3: 1} and second.fixed == {0: 1}
    ones = [0] + [1] * (T - 1)  # ones among the free bits: at least 2, at most T - 2
    assert first.ends([2] + [1] * (T - 3)) == (2, T - 1) and second.ends(ones) == (0, T - 2)
    for at, level in (([0], 1), ([T], 1), ([1, 2], 2), ([1], None)):
        with pytest.raises(ValueError, match="free positions"):
            cell.parts(None, "all", at, level)


def roots_and_truth(rng, checker, net) -> list[tuple[float, float]]:
    """Two coordinates, one of them constant: h = 1/s, and the claim is a multiple of s."""
    leaf, bits = checker.Leaf.__new__(checker.Leaf), all_inputs(T)
    one = leaf.one = 1 << net.bits
    gains = rng.uniform(0, 1, T)
    leaf.cell, leaf.F, leaf.bits = checker.InputCell(T, {}), T + 1, net.bits
    rows = [[1.0, 0.2], *([0.0, float(gain)] for gain in gains)]
    leaf.x = checker.Matrix([[int(n * one) for n in row] for row in rows], net.bits)
    leaf.net = SimpleNamespace(
        bits=net.bits, G=checker.Matrix([[one], [0]], net.bits), shift=[Fraction(0)],
        C_out=checker.Matrix([[0, 0]], net.bits), last=checker.Matrix([[0], [0]], net.bits),
        b_out=[Fraction(0)] * 2, rho=Fraction(int(rng.choice([-1, 1]))), lines=net.lines,
    )  # fmt: skip
    calls = []
    leaf.bent = lambda V, err, a, ends: (
        calls.append((float(a), [float(n) for n in ends]))
        or checker.Leaf.bent(leaf, V, err, a, ends)
    )
    leaf.hidden()
    least, s = leaf.least(1, Fraction(0)) / one, np.sqrt((1 + (0.2 + bits @ gains) ** 2) / 2 + 1e-5)
    found = [(least, (float(leaf.net.rho) * s).min())]
    for (form, off), true in ((leaf.h[0], 1 / s), (leaf.r, 1 / s), (leaf.s, s)):
        start, *slopes = (float(n) / one for n in form[: T + 1])
        found.append((np.abs(true - start - bits @ np.array(slopes)).max(), off / one))
    s = np.linspace(*(float(n) for n in leaf.root(leaf.x)[2:]), 100)
    for (a, ends), f in zip(calls, (1 / s, s), strict=True):
        values = f - a * s * s
        found += [(min(ends), values.min()), (values.max(), max(ends))]
    return found


def random_cell(rng, checker, net, X, u):
    """A cell after a few cuts, and which inputs lie in it: by their outputs, not by its limits."""
    fixed = {int(t): int(rng.integers(2)) for t in rng.permutation(T)[: rng.integers(1, 3)]}
    cell, inside = checker.InputCell(T, fixed), np.ones(len(X), bool)
    for t, b in fixed.items():
        inside &= X[:, t] == b
    for _ in range(int(rng.integers(4))):
        kind, i = str(rng.choice(["bit", "all", "ones", "head"])), int(rng.integers(u.shape[1]))
        if kind in ("bit", "all") and not cell.free:
            continue
        t, few = cell.free[0] if cell.free else 0, cell.free[:2]
        other = (X[:, few] != i % 2).any(1)
        values = {"bit": X[:, t], "all": other, "ones": X.sum(1), "head": u[:, i]}[kind]
        level = float(np.median(values[inside]))
        cut = {"bit": [t], "all": [few, i % 2], "ones": [int(level)], "head": [i, level]}[kind]
        second, first = cell.parts(net.tables, kind, *cut)
        part = values <= (0 if kind in ("bit", "all") else cut[-1])
        lower = bool(rng.integers(2)) if (inside & ~part).any() else True
        lower = lower and bool((inside & part).any())
        cell, inside = (first, inside & part) if lower else (second, inside & ~part)
    return cell, inside


class Truth:
    """The network behind given head outputs, in float64."""

    def __init__(self, model, u):
        self.layer = layer = one_query_layer(model)
        x = layer.tables.base.mid + u @ layer.tables.W_O.mid
        self.c = x - x.mean(1, keepdims=True)
        self.V = (self.c**2).mean(1) + 1e-5
        self.h = _normed(layer.norm, x) @ layer.W_in + layer.b_in
        z = x + activated(layer.activation, self.h) @ layer.W_out + layer.b_out
        self.z = z - z.mean(1, keepdims=True)

    def claim(self, sign: int, margin: float) -> np.ndarray:
        """s_z (sign logit - margin)."""
        root = np.sqrt((self.z**2).mean(1) + 1e-5)
        logit = _normed(self.layer.final, self.z) @ self.layer.w.mid + float(self.layer.b.mid)
        return root * (sign * logit - margin)

    def pairs(self, leaf, bits) -> list[tuple[float, float]]:
        """Every form holds on every input, and so do its ends: residual, squares, units, z."""
        V, err, low, high = leaf.root(leaf.x)
        forms = [
            (list(column), leaf.x.off * len(column)) for column in zip(*leaf.x.rows, strict=True)
        ]
        last = [
            (list(column), leaf.z.off * len(column)) for column in zip(*leaf.z.rows, strict=True)
        ]
        found = [(float(low), np.sqrt(self.V.min())), (np.sqrt(self.V.max()), float(high))]
        for columns, true in (
            (forms, self.c),
            ([(V, err)], self.V[:, None]),
            (leaf.h, self.h),
            (last, self.z),
        ):
            for (form, off), values in zip(columns, true.T, strict=True):
                start, *rest = (float(n) / leaf.one for n in form)
                gains, noise = rest[: leaf.F - 1], np.abs(rest[leaf.F - 1 :]).sum() + off / leaf.one
                found.append((np.abs(values - start - bits @ np.array(gains)).max(), noise))
                middle, radius = (float(n) / leaf.one for n in leaf.middle(form, off))
                found.append((np.abs(values - middle).max(), radius))
        return found


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_hints_of_cells_that_were_cut_in_every_way_are_proved(seed):
    rng = np.random.default_rng(seed)
    model = network(NETWORKS[seed % 2])
    net, read = trained(model), ReadOut(one_query_layer(model))
    cell = capax_check.InputCell(T, {0: seed % 2})
    bound = CellBound(read, FloatCell(T, {0: seed % 2}), 1.0)
    for _ in range(3):
        cuts = candidates(bound)
        cut, side = cuts[int(rng.integers(len(cuts)))], int(rng.integers(2))
        part = CellBound(read, cut_cells(bound, cut)[side], 1.0, around=bound)
        cell, bound = cell.parts(net.tables, *cut)[1 - side], part
        if not cell.free:
            break
    least = capax_check.Leaf(net, cell, hints(bound)).least(1, Fraction(0)) / (1 << net.bits)
    assert (least > 0) == (bound.least > 0) or abs(bound.least) < 1e-3
