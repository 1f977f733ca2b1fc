"""The record every promise is made of: numbers of any size print, nothing is hidden."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.capacity.bound import Assumption, Bound, Term
from capax.capacity.magnitude import log_sum, number, number_latex, safe_exp, shown, shown_latex
from capax.errors import InputError

KEYS = {"statement", "log_cover", "value", "vacuous", "terms", "norms", "m_needed"}


def example(log_value: float = math.log(0.2)) -> Bound:
    return Bound(
        statement="Corollary 4.5",
        value=safe_exp(log_value),
        log_value=log_value,
        log_cover=123.4,
        terms=(
            Term.of("empirical loss", 0.05),
            Term("complexity", log_value, "2 R", r"2\hat R", (Term("QK", 1.0), Term("V", 0.0))),
        ),
        norms={"W_QK_F": 3.2},
        assumptions=(Assumption("sequences are independent"), Assumption("margin > 0", True)),
        m_needed=5000,
        latex=r"\frac{C}{\epsilon^2}",
        target=0.1,
    )


@pytest.mark.parametrize(
    ("log_value", "text", "latex"),
    [
        (-math.inf, "0", "0"),
        (math.inf, "infinite", r"\infty"),
        (0.0, "1", "1"),
        (math.log(48210.0), "48210", "48210"),
        (math.log(3.2e7), "3.2e+07", r"3.2 \cdot 10^{7}"),
        (800.0, "10^347.4", "10^{347.4}"),
        (-800.0, "10^-347.4", "10^{-347.4}"),
    ],
)
def test_numbers_of_any_size(log_value, text, latex):
    assert shown(log_value) == text
    assert shown_latex(log_value) == latex


def test_plain_numbers_use_the_same_notation():
    assert number(0.0) == "0"
    assert number(250_000.0) == "250000"
    assert number_latex(2.5e9) == r"2.5 \cdot 10^{9}"


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6))
def test_log_sum_equals_the_plain_sum_where_it_fits(logs):
    plain = math.fsum(math.exp(value) for value in logs)
    assert log_sum(logs) == pytest.approx(math.log(plain), rel=1e-12, abs=1e-12)


def test_log_sum_of_nothing():
    assert log_sum([]) == -math.inf
    assert log_sum([-math.inf, 3.0]) == 3.0


def test_vacuous_is_said():
    assert not example().vacuous
    assert example(math.log(1.5)).vacuous
    assert "vacuous" in example(900.0).explain()
    assert "vacuous" in example(900.0).explain("latex")
    assert not Bound("cover", 12.0, kind="log_cover").vacuous


def test_explanation_names_everything():
    text = example().explain()
    for piece in (
        "Corollary 4.5",
        "0.2",
        "dominant",
        "W_QK_F = 3.2",
        "[assumed]",
        "[yes]",
        "5 000",
    ):
        assert piece in text, piece
    latex = example().explain("latex")
    for piece in (r"\begin{align*}", r"\frac{C}{\epsilon^2}", r"\boxed{0.2}", r"2\hat R"):
        assert piece in latex, piece
    assert latex.count("{") == latex.count("}")


def test_json_has_the_fixed_keys_and_no_infinity():
    payload = example(5000.0).to_json()
    assert payload.keys() >= KEYS
    text = json.dumps(payload, allow_nan=False)
    assert json.loads(text)["value"] is None
    assert json.loads(text)["log10_value"] == pytest.approx(5000.0 / math.log(10.0))


def test_dominant_and_failed_assumptions():
    assert example().dominant.name == "complexity"
    assert Bound("empty", 0.0).dominant is None
    assert example().holds
    assert not Bound("x", 1.0, assumptions=(Assumption("margin > 0", False),)).holds


@pytest.mark.parametrize("value", [math.nan, -0.1])
def test_impossible_values_are_refused(value):
    with pytest.raises(InputError, match="value"):
        Bound("x", value)


def test_unknown_style_is_refused():
    with pytest.raises(InputError, match="style"):
        example().explain("html")
