"""Heads with another temperature or weight: certified by the compiler, accepted by verify."""

import json
import shlex

import numpy as np
import pytest

import capax
from capax.compiler.proof.evaluation import output_bounds
from capax.compiler.proof.tables import head_tables
from capax.errors import InputError
from capax.lab.views.bit_ranges import ranges_of
from capax.lab.views.changed_head import at_temperature, named_weights, with_weight
from capax.lab.views.compile_view import (
    HeadQuestion,
    break_answer,
    compiled_head,
    head_answer,
    ladder_answer,
    weights_file,
)
from typed_command import typed


def bits_of(ranges, T):
    bits = np.zeros(T, np.int64)
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        bits[int(first) : int(last or first) + 1] = 1
    return bits


@pytest.mark.parametrize("encoding", ["deterministic", "bag"])
@pytest.mark.parametrize("formula", ["maj(x1, x3, x5)", "x2 ^ x4"])
def test_a_temperature_divides_every_score(formula, encoding):
    compiled = capax.compile(formula, T=7, encoding=encoding)
    warm = compiled_head(HeadQuestion(formula=formula, T=7, encoding=encoding, temperature=1.7))
    before, after = head_tables(compiled.model), head_tables(warm.model)

    def scores(tables):  # up to the constant that softmax does not see
        every = np.append(tables.logits.mid.ravel(), tables.cls_logit.mid)
        return every - every[-1]

    np.testing.assert_allclose(scores(after), scores(before) / 1.7, atol=1e-12)
    np.testing.assert_array_equal(after.values.mid, before.values.mid)


@pytest.mark.parametrize("formula", ["maj(x1, x3, x5)", "x2 ^ x4"])
def test_every_named_weight_is_the_one_that_changes(formula):
    construction = capax.compile(formula, T=7).construction
    names = named_weights(construction)
    assert len(names) == len(set(names)) >= 5
    for name, value in names.items():
        changed = named_weights(with_weight(construction, name, value + 0.5))
        assert changed[name] == value + 0.5
        assert {k: v for k, v in changed.items() if k != name} == {
            k: v for k, v in names.items() if k != name
        }
    with pytest.raises(InputError, match="weight: wanted one of"):
        with_weight(construction, "W_V[x6]", 1.0)


@pytest.mark.parametrize(
    "change", [{}, {"temperature": 0.8}, {"weight": "W_V[x5]", "value": 1.02}], ids=str
)
def test_the_downloaded_file_is_accepted_with_the_same_numbers(change, tmp_path):
    question = HeadQuestion(T=12, **change)
    path = tmp_path / "head.safetensors"
    path.write_bytes(weights_file(question))
    verdict = capax.verify(path)
    certificate = head_answer(question)["certificate"]
    assert verdict.ok
    claimed = {claim.name: claim.claimed for claim in verdict.claims}
    assert claimed["margin"] == certificate["margin"] > 0
    assert claimed["norms.W_QK.frobenius"] == certificate["norms"]["W_QK"]["frobenius"]


def test_without_changes_the_answer_is_that_of_the_command():
    question = HeadQuestion(formula="x2 & x3", T=9, encoding="bag")
    said = typed(*shlex.split(question.command)[1:])
    assert head_answer(question)["certificate"] == json.loads(said.stdout)


def test_break_it_shows_a_real_counterexample():
    question = HeadQuestion(T=30, temperature=4.0)
    answer = break_answer(question)
    assert answer["fails"] and not head_answer(question)["proved"]
    bits = bits_of(answer["on"], 30)
    compiled = compiled_head(question)
    output = float(compiled.model(bits))
    assert (output > 0) != bool(compiled.construction.function(bits) > 0.5)
    assert answer["output"][0] <= output + 1e-9 and output - 1e-9 <= answer["output"][1]
    with pytest.raises(InputError, match="download: this head is not proved right on all inputs"):
        weights_file(question)


@pytest.mark.parametrize("formula", ["x0 & x2", "~x1 | x3", "x1 ^ x4"])
def test_break_it_finds_the_worst_of_all_inputs(formula):
    """On a proved head nothing fails, and the nearest input is as near as the nearest of all."""
    question = HeadQuestion(formula=formula, T=8)
    answer = break_answer(question)
    compiled = compiled_head(question)
    assert not answer["fails"]
    tables, every = head_tables(compiled.model), np.arange(256)[:, None] >> np.arange(8) & 1
    low, high = output_bounds(compiled.model, tables, every)
    cut = 0.5 if formula == "x1 ^ x4" else 0.0
    right = compiled.construction.function(every) > 0.5
    gaps = np.where(right, high - cut, cut - low)
    mine = answer["output"][1] - cut if answer["wanted"] > cut else cut - answer["output"][0]
    assert mine == pytest.approx(gaps.min(), abs=1e-9)


def test_rungs_are_the_compiled_heads():
    rungs = ladder_answer(HeadQuestion(formula="x1 & x3"))["rungs"]
    assert [rung["T"] for rung in rungs][:3] == [4, 8, 16] and rungs[-1]["T"] == 100_000
    assert rungs[3] == head_answer(HeadQuestion(formula="x1 & x3", T=32))["head"]


def test_a_temperature_of_one_changes_nothing():
    construction = capax.compile("x0 & x2", T=5).construction
    assert at_temperature(construction, 1.0).selection == construction.selection


def test_ranges_of_ones():
    rng = np.random.default_rng(0)
    for T in (1, 2, 5, 40):
        bits = rng.integers(0, 2, T)
        np.testing.assert_array_equal(bits_of(ranges_of(bits), T), bits)
    assert ranges_of(np.array([1, 1, 0, 1])) == "0-1,3" and ranges_of(np.zeros(3, np.int64)) == ""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"T": 0}, "T: "),
        ({"T": 100_001}, "T: "),
        ({"temperature": 0}, "temperature: "),
        ({"temperature": "nan"}, "temperature: "),
        ({"value": "inf", "weight": "w"}, "value: "),
        ({"encoding": "trainable"}, "encoding: "),
        ({"evil": 1}, "evil: unknown field"),
        ({"formula": "__import__('os')"}, "formula: "),
        ({"formula": "x99", "T": 10}, "x99"),
        ({"formula": "parity9", "T": 10}, "formula: wanted at most 8 relevant bits"),
        ({"formula": "x1 |" * 2000}, "formula: "),
    ],
    ids=str,
)
def test_questions_that_cannot_be_asked(fields, said):
    with pytest.raises(InputError, match=said.replace("(", ".")):
        head_answer(HeadQuestion(**fields))
