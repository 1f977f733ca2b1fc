"""Tables of a head against the tokens themselves: each encoding, each bit, and the forward pass."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forward_pass import outputs
from naive_head import all_inputs

import capax
from capax.attention import (
    BagOfVectors,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.attention.parts.normalizers import Hardmax, Softmax
from capax.capacity.network.sample_points import Sample
from capax.compiler.certificate.certificate import error_from_range, function_from, proven_error
from capax.compiler.certificate.norm_table import _nonzero_rows, paper_bounds_of
from capax.compiler.certificate.sample_size import _is_conjunction, _longest_image, _mlp_class
from capax.compiler.extensions.average_range import error_by_position, error_by_symbol
from capax.compiler.proof.enclosed import exactly
from capax.compiler.proof.output_range import output_range, scalar_direction
from capax.compiler.proof.tables import HeadTables, head_tables, readout_output, token_images
from capax.compiler.verified.claims import at_least, at_most, equal, is_number
from capax.errors import InputError

T, k = 5, 3


def drawn(*shape: int) -> jax.Array:
    return jax.device_put(np.random.default_rng(sum(shape)).normal(size=shape))


ENCODINGS = {
    "deterministic": lambda: DeterministicPositions(T),
    "orthonormal bag": lambda: OrthonormalBag(T),
    "trainable": lambda: TrainablePositions(drawn(2, 7), drawn(T, 7), drawn(7)),
    "bag": lambda: BagOfVectors(drawn(T, 7), drawn(7)),
    "incoherent": lambda: IncoherentCodes(T, 7, codes=drawn(T + 3, 7)),
}


@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_images_are_those_of_the_tokens(make):
    code = make()
    W = np.random.default_rng(1).normal(size=(code.d, k))
    images, cls = (part.mid for part in token_images(code, exactly(W)))
    tokens = jax.jit(lambda bits, W: code(bits) @ W)
    for bit in (0, 1):
        wanted = np.asarray(tokens(jnp.full(T, bit), W))
        np.testing.assert_allclose(images[:, bit], wanted[:-1], atol=1e-13)
        np.testing.assert_allclose(cls, wanted[-1], atol=1e-13)


@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_tables_give_the_outputs_of_the_network(make):
    code = make()
    weights = drawn(code.d, 2), drawn(code.d, 2), drawn(code.d, k), drawn(k, 2), drawn(2)
    model = ClsScalar(code, *weights, scale="sqrt")
    found = readout_output(model, head_tables(model).head(all_inputs(T)))
    np.testing.assert_allclose(found, outputs(model, all_inputs(T)), atol=1e-12)


def test_networks_without_a_proof_are_refused():
    """Tables are those of a plain softmax, ranges those of a linear read-out."""
    model = capax.compile("x0 & x1", 3).model
    for norm in (Softmax(temperature=2.0), Hardmax()):
        with pytest.raises(InputError, match="norm: wanted a softmax of temperature 1"):
            head_tables(replace(model, norm=norm))
    for name in ("W_Q", "W_V"):
        large = replace(model, W_K=1e200 * model.W_K, **{name: 1e200 * getattr(model, name)})
        large = replace(large, W_V=1e200 * large.W_V) if name == "W_V" else large
        with pytest.raises(InputError, match="scores and values that fit float64"):
            head_tables(large)
    bent = replace(model, activation="relu")
    for call in (lambda: scalar_direction(bent), lambda: readout_output(bent, np.ones((1, 4)))):
        with pytest.raises(InputError, match="activation: wanted identity"):
            call()


def test_the_longest_image_is_that_of_every_token():
    """Also of tokens that differ from the last one in a single coordinate."""
    rng = np.random.default_rng(0)
    values = np.tile(rng.normal(size=k), (T, 2, 1))
    values[1, 0, 2], values[3, 1] = 40.0, rng.normal(size=k)
    W_1 = rng.normal(size=(k, 6))
    for cls in (np.zeros(k), np.full(k, 90.0)):
        tables = HeadTables(*(exactly(x) for x in (np.zeros((T, 2)), values, np.zeros(()), cls)))
        everyone = np.concatenate([values.reshape(-1, k), cls[None]])
        longest = np.linalg.norm(everyone @ W_1, axis=1).max()
        assert _longest_image(tables, W_1) == pytest.approx(longest, rel=1e-12)


@pytest.mark.parametrize("claimed", [True, math.nan, math.inf, "3", None])
def test_what_is_no_number_is_refuted(claimed):
    assert not is_number(claimed)
    assert at_most("n", claimed, 0.0, 0.5).status == "refuted"
    assert at_least("n", claimed, 2.0, 3.0).status == "refuted"


def test_claims_are_proved_by_the_far_end_and_refuted_by_the_near_one():
    for claimed, most, least in ((1.0, "refuted", "proved"), (2.5, "unproved", "unproved"),
                                 (3.0, "proved", "unproved"), (4, "proved", "refuted"),
                                 (2.0, "unproved", "proved")):  # fmt: skip
        assert at_most("n", claimed, 2.0, 3.0).status == most
        assert at_least("n", claimed, 2.0, 3.0).status == least


def test_margins_and_errors_are_rounded_outward():
    """2/3 cannot be a stored margin of twelve digits: it lies below, and the error above."""
    made = capax.compile("maj(x0, x1, x2)", 5)
    tables = head_tables(made.model)
    f = capax.parse("maj(x0, x1, x2)", 5)
    low, high = output_range(made.model, tables, f.support)
    error, margin = proven_error(made.model, tables, f)
    plain = error_from_range(f, low, high, signed=isinstance(made.model, ClsScalar))
    assert plain[0] <= error <= plain[0] * (1 + 2e-11)
    assert plain[1] * (1 - 2e-11) <= margin <= plain[1]
    for stored in (error, margin):
        assert float(f"{stored:.11e}") == stored


@pytest.mark.parametrize(
    "claimed, status", [(3, "proved"), (4, "refuted"), (3.0, "refuted"), ("3", "refuted")]
)
def test_a_claim_is_equal_in_value_and_kind(claimed, status):
    assert equal("n", claimed, 3).status == status
    assert equal("n", True, 1).status == "refuted"


def test_a_conjunction_is_one_on_its_last_row_alone():
    for text, yes in (("x0 & x1", True), ("x0 | x1", False), ("x0 & ~x1", False), ("x0", True)):
        assert _is_conjunction(capax.parse(text, 3)) == yes


def test_the_papers_orders_are_compared_where_there_is_something_to_compare():
    """No ratio for a matrix that the network has not, nor for a jump of size zero."""
    norms = {"W_Q": {"frobenius": 2.0}, "w_2": {"frobenius": 3.0}}
    xor, constant = capax.parse("x0 ^ x1", 3), capax.parse("1", 3)
    found = paper_bounds_of(xor, norms, scalar=False, general=False)
    assert set(found) == {"W_Q", "w_2"} and found["w_2"]["ratio"] == pytest.approx(1.5)
    assert found["W_Q"]["ratio"] == pytest.approx(2 / math.log(6))
    assert set(paper_bounds_of(constant, norms, scalar=False, general=False)) == {"W_Q"}


def test_means_by_symbol_need_scores_without_positions():
    logits, values = np.zeros((T, 2)), np.repeat(np.array([[0.0, 1.0]]), T, axis=0)[..., None]
    error_by_symbol(HeadTables.exact(logits, values, 0.3, np.array([0.5])), (1,))
    for part, at in ((logits, (2, 1)), (values, (2, 1, 0))):
        part[at] += 0.5
        with pytest.raises(InputError, match="scores that do not depend on positions"):
            error_by_symbol(HeadTables.exact(logits, values, 0.3, np.array([0.5])), (1,))
        part[at] -= 0.5


@pytest.mark.parametrize("support", [["a", 1], [0.5, 1], [None, 1], 3])
def test_a_support_of_a_file_is_a_list_of_integers(support):
    with pytest.raises(InputError, match="support: wanted integers"):
        function_from(support, "0x8", 5)


def test_rows_that_count_in_the_error_of_a_norm():
    M = np.random.default_rng(0).normal(size=(40, 6)) * (np.arange(40) % 3 == 0)[:, None]
    assert _nonzero_rows(M) == 14 and _nonzero_rows(0 * M) == 0


@pytest.mark.parametrize("formula", ["x0 ^ x2", "(x1 & x4) | (~x1 & x2)"])
def test_scores_are_amplified_by_the_longest_image_of_a_token(formula):
    model = capax.compile(formula, T, dtype=np.float64).model
    tables = head_tables(model)
    scores = _mlp_class(model, tables).build(Sample(10, T))[0]
    everyone = np.concatenate([tables.values.mid.reshape(-1, len(model.W_1)),
                               tables.cls_value.mid[None]])  # fmt: skip
    longest = np.linalg.norm(everyone @ np.asarray(model.W_1), axis=1).max()
    stated = math.log(np.linalg.norm(model.w_2) * longest)
    assert "W_QK" in scores.name and scores.log_amplification == pytest.approx(stated, abs=1e-9)


def test_the_error_of_a_mean_is_attained():
    """Two of five tokens, weights that leak, on all inputs: the error is that of the worst."""
    rng = np.random.default_rng(0)
    logits = np.repeat(np.where(np.arange(T) < 2, 4.0, rng.normal(size=T))[:, None], 2, axis=1)
    values = np.repeat(np.array([[0.0, 1.0]]), T, axis=0)[..., None]
    tables = HeadTables.exact(logits, values, 0.3, np.array([0.5]))
    error, worst = error_by_position(tables, np.array([0, 1]))
    bits = all_inputs(T)
    weights = np.exp(logits[:, 0])
    outputs_ = (bits @ weights + np.exp(0.3) * 0.5) / (weights.sum() + np.exp(0.3))
    errors = np.abs(outputs_ - bits[:, :2].mean(axis=1))
    assert error == pytest.approx(errors.max(), rel=1e-9)
    assert error >= errors.max() * (1 - 1e-15)
    assert errors[(bits == worst).all(axis=1)] == pytest.approx(errors.max(), rel=1e-9)
