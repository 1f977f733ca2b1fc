"""Networks on tokens of M symbols: exhausted where inputs are few, proved where they are not."""

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
from forward_pass import outputs
from hypothesis import given
from hypothesis import strategies as st

import capax
from capax.boolean.functions import SparseFunction, all_patterns, most_positions
from capax.boolean.symbol_classes import on_classes, symbol_classes
from capax.compiler import choose, save_compiled
from capax.compiler.construction import symbol_patterns
from capax.compiler.construction.assemble import assemble
from capax.compiler.proof.evaluation import output_bounds
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import head_tables
from capax.decompile.decompiling import Effort
from capax.errors import InputError

QUICK = Effort(pairs=300, fillers=4, fresh=200)


def random_function(seed, M, s, T):
    """A random function of s symbols; every third one knows few classes of them."""
    rng = np.random.default_rng(seed)
    support = tuple(int(t) for t in rng.choice(T, s, replace=False))
    table = rng.integers(0, 2, M**s).astype(np.float64)
    if seed % 3 == 0:
        kind = rng.integers(0, 2, M)
        rows = all_patterns(s, M)
        table = table[kind[rows] @ M ** np.arange(s)]
    return SparseFunction(support, table, T, alphabet=M).relevant()


@pytest.mark.parametrize("encoding", ["deterministic", "trainable"])
@pytest.mark.parametrize(("M", "T"), [(3, 6), (5, 4)])
def test_random_functions_on_every_input(M, T, encoding):
    X = all_patterns(T, M)
    models = []
    for seed in range(6):
        f = random_function(seed, M, 1 + seed % 3, T)
        model = capax.compile(f, encoding=encoding, dtype=np.float64).model
        tables = head_tables(model)
        low, high = output_bounds(model, tables, X)
        assert ((np.minimum(low, high) > model.threshold) == (f(X) > 0.5)).all()
        models.append((model, low, high))
    model, low, high = models[1]  # the enclosed outputs hold those of the forward pass
    seen = outputs(model, X)
    assert (seen >= low - 1e-12).all() and (seen <= high + 1e-12).all()


@pytest.mark.parametrize("M", [3, 5])
def test_random_functions_are_proved_at_a_thousand_tokens_and_read_back(M):
    for seed in (101, 102):  # any function, and one that knows few classes
        f = random_function(seed, M, 2, 1000)
        compiled = capax.compile(f)
        certificate = compiled.certificate
        assert certificate.wrong_decisions == 0 and certificate.margin > 0
        found = capax.decompile(compiled.model, effort=QUICK)
        assert found.function == f.in_order()
        assert found.all_inputs.status == "proved"
        again = capax.parse(found.formula.text, 1000, alphabet=M)
        assert again == f.in_order()


def test_planted_faults_are_seen():
    """The quadratic term, the middle of a plane and the temperature are all needed."""
    f = capax.parse("x1 == x4 & x2 != 0", 40, alphabet=4)
    made = choose(f)

    def margin(construction):
        model = assemble(construction)
        low, high = output_range(model, head_tables(model), f.support)
        return np.where(f.table > 0.5, low - 0.5, 0.5 - high).min()

    assert margin(made) > 0.49
    r = made.readout
    flat = dataclasses.replace(r, symbol_values=np.zeros_like(r.symbol_values))
    tilted = dataclasses.replace(r, W_1=r.W_1 * np.array([1, 1, 1, 1.05, 1.0])[:, None])
    warm = dataclasses.replace(made.selection, a=made.selection.a - 1.5)
    for broken in (
        dataclasses.replace(made, readout=flat),
        dataclasses.replace(made, readout=tilted),
        dataclasses.replace(made, selection=warm),
    ):
        assert margin(broken) < 0.4


def test_margins_are_attained():
    """gamma_S is what the plane of S is worth on its worst input, to rounding."""
    f = capax.parse("x0 == 2 & x3 == 1", 30, alphabet=4)
    made = choose(f)
    g = on_classes(f, symbol_classes(f))
    gamma = symbol_patterns.symbol_margins(made.selection, g)
    model = assemble(made)
    plane = np.asarray(model.W_1)[:, :1] * gamma
    heaviest = int(np.argmax(made.selection.class_weights[list(made.selection.classes)]))
    X = np.full((1, 30), heaviest)
    X[0, [0, 3]] = 2, 1
    u = head_tables(model).head(X)
    assert u @ plane == pytest.approx(gamma[0], rel=1e-6)


def test_two_symbols_are_the_boolean_case():
    f = capax.parse("maj(x1, x5, x9)", 50)
    assert symbol_classes(f) == (0, 1) and on_classes(f, (0, 1)) == f
    counted = capax.compile("count(3; x1, x5, x9) >= 2", 50, alphabet=4)
    bits = capax.compile("maj(x1, x5, x9)", 50)
    assert counted.certificate.family == bits.certificate.family == "monotone-symmetric"
    assert counted.certificate.mlp_units == 0
    assert counted.certificate.margin == pytest.approx(bits.certificate.margin, rel=1e-6)


def test_real_values_and_constants():
    rng = np.random.default_rng(3)
    f = SparseFunction((1, 4), rng.normal(size=9), 200, alphabet=3)
    compiled = capax.compile(f)
    assert compiled.certificate.worst_case_error < 1e-9 and compiled.certificate.margin is None
    assert capax.compile("x1 <= 2", 20, alphabet=3).certificate.s == 0


@pytest.mark.parametrize("encoding", ["deterministic", "trainable"])
def test_a_file_is_verified_and_a_changed_one_is_not(tmp_path, encoding):
    path = tmp_path / "w.safetensors"
    save_compiled(path, capax.compile("x3 == x7", 300, alphabet=3, encoding=encoding))
    verdict = capax.verify(path)
    assert verdict.ok and verdict.alphabet == 3 and verdict.float32.decided
    other = capax.compile("x3 != x7", 300, alphabet=3, encoding=encoding)
    wrong = dataclasses.replace(other.certificate, table="0x111", function="x3 == x7")
    save_compiled(path, other._replace(certificate=wrong))
    assert not capax.verify(path).ok


@given(
    M=st.integers(2, 5),
    op=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    c=st.integers(0, 4),
    k=st.integers(0, 6),
)
def test_formulas_mean_what_python_means(M, op, c, k):
    import operator as python

    holds = {"==": python.eq, "!=": python.ne, "<": python.lt}
    holds |= {"<=": python.le, ">": python.gt, ">=": python.ge}
    c = c % M
    rows = all_patterns(3, M)
    x, y, z = rows.T
    texts = {
        f"x0 {op} x2": holds[op](x, z),
        f"~x0 {op} {c} & x1 == x1": ~holds[op](x, c),
        f"count({c}; x0, x1, x2) {op} {k}": holds[op]((rows == c).sum(1), k),
        f"sum(x0, x1, x2) {op} {k}": holds[op](rows.sum(1), k),
        f"maj(x0 == {c}, x1 == x2, x2 {op} x1)": (
            (x == c).astype(int) + (y == z) + holds[op](z, y) >= 2
        ),
    }
    for text, wanted in texts.items():
        f = capax.parse(text, 3, alphabet=M)
        assert (f(rows) == wanted).all(), text
    number = sum(1 << i for i in range(M**2) if (i * 7 + c) % 3 == 0)
    f = capax.parse(f"table({number:#x}; x2, x0)", 3, alphabet=M)
    assert (f(rows) == [number >> int(i) & 1 for i in z + M * x]).all()


@pytest.mark.parametrize(
    ("text", "M", "message"),
    [
        ("x3 & x4 == 1", 3, "wanted a condition such as x3 == 1 at column 1"),
        ("and3", 3, "conditions such as x0 == 1"),
        ("count(3; x1) >= 1", 3, "a symbol in 0..2"),
        ("table(0x1; x1, count(x2 == 1, x3 == 1, x4 == 1))", 3, "symbols in 0..2"),
        ("x1 = 2", 3, "cannot read"),
        ("x1 ==", 3, "the end"),
        ("count(", 3, "the end"),
        ("2", 3, "got '2'"),
        ("x1 == 2", 1, "a number of symbols in 2..256"),
        ("x1 == 2", 300, "a number of symbols in 2..256"),
        (" | ".join(f"x{i} == 1" for i in range(13)), 3, "at most 12 distinct variables"),
    ],
)
def test_mistakes_are_named(text, M, message):
    with pytest.raises(InputError, match=message.replace("..", r"\.\.")):
        capax.parse(text, alphabet=M)


def test_only_bits_where_only_bits_are_known():
    f = capax.parse("x1 == 2", 10, alphabet=3)
    with pytest.raises(InputError, match="a function of bits"):
        capax.boolean.properties(f)
    for encoding in ("bag", "incoherent"):
        with pytest.raises(InputError, match="deterministic or trainable"):
            capax.compile(f, encoding=encoding)
    with pytest.raises(InputError, match="classes of symbols; this family allows two"):
        capax.compile("x1 == x2", 10, alphabet=3, family="symmetric")
    with pytest.raises(InputError, match="hidden units"):
        capax.compile("sum(x0, x1, x2, x3, x4, x5, x6, x7) >= 9", 10, alphabet=3)
    assert most_positions(2) == 20 and most_positions(3) == 12 and most_positions(256) == 2


def test_the_commands(tmp_path, warm_commands):
    run = partial(warm_commands.capax, folder=tmp_path)
    made = run("compile", "x3 == x7", "-T", "100", "--alphabet", "3", "--json")
    content = json.loads(made.stdout)
    assert content["alphabet"] == 3 and content["wrong_decisions"] == 0
    checked = run("verify", "weights.safetensors")
    assert checked.returncode == 0 and "3^100 inputs" in checked.stdout
    read = json.loads(run("decompile", "weights.safetensors", "--json").stdout)
    assert read["formula"] == "x3 == x7" and read["alphabet"] == 3
    assert read["all_inputs"]["status"] == "proved"
    refused = run("prove", "weights.safetensors")
    assert refused.returncode == 2 and "alphabet 3" in refused.stderr
    paper = run("compile", "x3 == x7", "-T", "9", "--alphabet", "3", "--method", "paper")
    assert paper.returncode == 2 and "--alphabet" in paper.stderr
