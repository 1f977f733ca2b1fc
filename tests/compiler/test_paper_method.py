"""The paper's networks, proved like ours: all functions of three bits, every encoding, faults."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from capax.attention.numpy_block import BlockMatrices
from capax.boolean import SparseFunction
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.sample_points import Sample
from capax.cli.networks import compile as compile_command
from capax.compiler.certificate.certificate import error_from_range
from capax.compiler.paper.bump_network import BumpNetwork
from capax.compiler.paper.paper_method import compile_paper, construct, network_for
from capax.compiler.paper.paper_range import (
    head_box,
    network_range,
    output_of_sums,
    second_layer_sums,
)
from capax.compiler.paper.paper_sample_size import paper_class
from capax.errors import InputError

ENCODINGS = ("deterministic", "trainable", "bag", "incoherent")
T, SUPPORT = 9, (8, 0, 4)
BITS = np.arange(1 << T)[:, None] >> np.arange(T) & 1
ROWS = sum(BITS[:, t] << i for i, t in enumerate(SUPPORT))
ALL = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(np.float64)
SYMMETRIC = (ALL[:, 1] == ALL[:, 2]) & (ALL[:, 1] == ALL[:, 4])
SYMMETRIC &= (ALL[:, 3] == ALL[:, 5]) & (ALL[:, 3] == ALL[:, 6])

app = typer.Typer()
compile_command.register(app)


@app.callback()
def _commands() -> None:
    """So that the one command keeps its name."""


def function(number: int, support=SUPPORT) -> SparseFunction:
    return SparseFunction(support, ALL[number], T)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_all_functions_of_three_bits_are_certified(encoding):
    """The first two layers are the same for all 256; their ranges are proved once."""
    for family, tables in (("general", ALL), ("symmetric", ALL[SYMMETRIC])):
        made = construct(function(0b10010110), "xor", encoding, family, None)
        assert made.certificate.within_limits and made.certificate.wrong_decisions == 0
        sums = second_layer_sums(made.network, head_box(made.heads))
        # the output is a sum over the points, each with its own value: prove every summand once
        points = np.eye(len(made.network.w) // 2)
        summands = [output_of_sums(with_values(made.network, one), sums) for one in points]
        low, high = (np.stack([part[end] for part in summands]) for end in (0, 1))
        levels = tables if family == "general" else tables[:, [0, 1, 3, 7]]
        assert (levels @ low > tables - 1e-9).all() and (levels @ high < tables + 1e-9).all()
        for number in range(3, len(tables), 50):  # and these are the networks of the functions
            built = network_for(made.heads, SparseFunction(SUPPORT, tables[number], T))
            assert built.within_limits() and np.array_equal(built.W_1, made.network.W_1)
            assert np.array_equal(built.W_2, made.network.W_2)
            ends = output_of_sums(built, sums)
            assert np.allclose(ends, (levels[number] @ low, levels[number] @ high), atol=1e-12)
            outputs = built(made.heads.outputs(BITS))
            assert np.abs(outputs - tables[number][ROWS]).max() < 1e-9


def with_values(network: BumpNetwork, values: np.ndarray) -> BumpNetwork:
    return dataclasses.replace(network, w=np.concatenate([values, -values]))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_box_holds_the_heads_on_every_input(encoding):
    for family in ("symmetric", "general"):
        made = construct(function(0b11101000), "maj", encoding, family, None)
        low, high = head_box(made.heads)
        outputs = made.heads.outputs(BITS)
        assert (outputs >= low[ROWS] - 1e-12).all() and (outputs <= high[ROWS] + 1e-12).all()
        reached = np.full_like(high, -np.inf)
        np.maximum.at(reached, ROWS, outputs)
        assert np.abs(high - reached).max() < 1e-9  # attained by some input
        assert made.certificate.head_error <= made.heads.gamma / 4


def test_a_real_valued_function_and_a_long_context():
    f = SparseFunction((3, 700), np.array([0.5, -2.0, 7.0, 0.25]), 1000)
    found = compile_paper(f).certificate
    assert found.margin is None and found.wrong_decisions is None
    assert found.worst_case_error < 1e-9 and found.within_limits


def test_planted_faults_are_not_proved():
    made = construct(function(0b10010110), "xor", "deterministic", "symmetric", None)
    f, box = function(0b10010110), head_box(made.heads)

    def error(network, at=box):
        return error_from_range(f, *network_range(network, at), signed=False)[0]

    assert error(made.network) < 1e-9
    W_1 = made.network.W_1.copy()
    W_1[-1, 1] += 1.0  # one kink of the bump at one bit on, where f = 1
    assert error(dataclasses.replace(made.network, W_1=W_1)) > 0.1
    w = made.network.w.copy()
    w[0] += 0.5
    assert error(dataclasses.replace(made.network, w=w)) >= 0.5 - 1e-9
    W = made.heads.heads[0]
    cold = BlockMatrices(0.4 * W.W_Q, W.W_K, W.W_V, W.W_C)  # too little temperature
    weak = dataclasses.replace(made.heads, heads=(cold,))
    assert error(made.network, head_box(weak)) > 0.1


def test_the_range_is_sound_for_any_network():
    """Random weights, no structure: every output on sampled points lies within the range."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        network = BumpNetwork(
            rng.normal(size=(3, 6)), rng.normal(size=(7, 4)), rng.normal(size=4), {}
        )
        middle, width = rng.normal(size=(5, 2)), rng.uniform(0, 1, (5, 2))
        low, high = network_range(network, (middle - width, middle + width))
        for _ in range(50):
            out = network(middle + width * rng.uniform(-1, 1, (5, 2)))
            assert (out >= low - 1e-12).all() and (out <= high + 1e-12).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_changes_grow_no_more_than_the_count_of_samples_says(encoding):
    """Every piece of the class moved: the output moves by at most scale times amplification.

    The network is a narrow one without plateaus, and attention is soft: on the paper's own
    network a small change of the scores changes nothing.
    """
    made = construct(function(0b11101000), "maj", encoding, "symmetric", None)
    rng, W = np.random.default_rng(0), made.heads.heads[0]
    soft = dataclasses.replace(W, W_Q=0.1 * W.W_Q)
    plain = BumpNetwork(np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]]), np.ones(1), {})
    made = dataclasses.replace(
        made, heads=dataclasses.replace(made.heads, heads=(soft,)), network=plain
    )
    pieces = paper_class(made.heads, made.network).build(Sample(10, T))
    outputs = made(BITS)
    assert np.abs(outputs).max() <= np.exp(pieces[-1].log_scale)
    for share in (1e-3, 0.3):
        for piece, moved in zip(pieces, moved_networks(made, share, rng), strict=True):
            allowed = share * np.exp(piece.log_scale + piece.log_amplification)
            change = np.abs(moved - outputs).max()
            assert allowed / 20 < change <= allowed * (1 + 1e-9), piece.name


def test_the_size_of_a_head_is_above_the_exact_one_on_every_machine():
    """||V W_C||_2 in fractions: what is counted is larger by more than a sum can be rounded."""
    made = construct(function(0b11101000), "maj", "bag", "symmetric", None)
    W = made.heads.heads[0]
    third = dataclasses.replace(W, W_V=W.W_V / 3)
    plain = BumpNetwork(np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]]), np.ones(1), {})
    heads = dataclasses.replace(made.heads, heads=(third,))
    cls = paper_class(heads, plain)
    assert cls.assumptions == (INDEPENDENT,)
    scores = cls.build(Sample(10, T))[0]
    column = [sum(Fraction(v) * Fraction(c) for v, c in zip(row, third.W_C[:, 0], strict=True))
              for row in third.W_V]  # fmt: skip
    above = scores.log_amplification - math.log(float(sum(x * x for x in column))) / 2
    assert 5e-15 < above < 1e-10
    key = [sum(Fraction(v) * Fraction(q) for v, q in zip(row, third.W_Q[-1], strict=True))
           for row in third.W_K]  # fmt: skip
    above = scores.log_scale - math.log(float(sum(x * x for x in key))) / 2
    assert 5e-15 < above < 1e-10


def test_every_head_counts_in_the_length_of_a_pooled_point():
    """The first layer sees the outputs of all heads, each of length B_X, and a 1."""
    made = construct(function(0b10010110), "xor", "deterministic", "general", None)
    cls = paper_class(made.heads, made.network)
    norms, last = cls.norms, cls.build(Sample(10, T))[-1]
    assert len(made.heads.heads) == 3
    pooled = math.sqrt(3 * norms["B_X"] ** 2 + 1)
    hidden = math.exp(last.log_scale) / (norms["w_2"] * norms["A_2"])
    assert hidden == pytest.approx(math.hypot(norms["U_2"] * pooled, 1.0), rel=1e-12)


def moved_networks(made, share, rng):
    """Outputs with scores of a head, W_1, W_2 or w moved by a share of their Frobenius norm."""
    heads, network = made.heads, made.network
    for h, W in enumerate(heads.heads):
        scaled = BlockMatrices((1 + share) * W.W_Q, W.W_K, W.W_V, W.W_C)
        others = (*heads.heads[:h], scaled, *heads.heads[h + 1 :])
        yield network(dataclasses.replace(heads, heads=others).outputs(BITS))
    for name in ("W_1", "W_2", "w"):
        M = getattr(network, name)
        step = rng.normal(size=M.shape) * (M != 0)
        step *= share * np.linalg.norm(M) / np.linalg.norm(step)
        yield dataclasses.replace(network, **{name: M + step})(heads.outputs(BITS))


def test_the_command_shows_both_networks():
    words = ["compile", "x1 ^ x5", "-T", "40", "--method", "paper"]
    content = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert content["lemmas"] == ["B.2", "B.5"] and content["within_limits"] is True
    assert content["comparison"]["paper"]["units"] == 18
    assert content["comparison"]["ours"]["units"] == 4
    m, ours = (content["comparison"][who]["m"] for who in ("paper", "ours"))
    assert m["corollary_4_5"] > ours["corollary_4_5"] and m["occam"] == ours["occam"]
    assert "beside ours" in CliRunner().invoke(app, words).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("x1", "-T", "9", "--method", "theirs"), "method: wanted ours or paper"),
        (("x1", "-T", "9", "--method", "paper", "-o", "no/w.safetensors"), "does not exist"),
        (("x1", "-T", "9", "--method", "paper", "--eps", "0.1"), "--eps: wanted no such option"),
        (("x1 | ~x1", "-T", "9", "--method", "paper"), "function: wanted 1 to 8"),
        (("x1 & ~x2", "-T", "9", "--method", "paper", "--family", "symmetric"), "not symmetric"),
        (("x1", "-T", "9", "--method", "paper", "--family", "linear-threshold"), "family: wanted"),
        (("x1", "-T", "9999", "--method", "paper"), "T: wanted at most 4096"),
        (("x1", "-T", "9", "--method", "paper", "--dim", "8"), "dim: wanted incoherent"),
        (
            ("x1 & x2", "-T", "90", "--method", "paper", "--encoding", "incoherent", "--dim", "3"),
            "too coherent",
        ),
    ],
)
def test_mistakes(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["compile", *words])
    assert isinstance(result.exception, InputError) and message in str(result.exception)
    assert not list(tmp_path.iterdir())
