"""The parser: right meaning, and for any text a function or a one-line error."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any_text import any_text
from capax.boolean import SparseFunction, parse
from capax.errors import InputError

ALL = np.array(list(itertools.product((0, 1), repeat=11)))
x = ALL.T.astype(bool)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("x2 & x3 & x10", x[2] & x[3] & x[10]),
        ("x1 ^ x2", x[1] ^ x[2]),
        ("~x4 | (x1 & x7)", ~x[4] | (x[1] & x[7])),
        ("x1 | x2 ^ x3 & x4", x[1] | (x[2] ^ (x[3] & x[4]))),
        ("~x1 & x2", ~x[1] & x[2]),
        ("!(x1 & x2)", ~(x[1] & x[2])),
        ("x1 ^ x2 ^ x3 ^ x2", x[1] ^ x[3]),
        ("maj(x1, x5, x9)", x[1].astype(int) + x[5] + x[9] >= 2),
        ("maj(x1,x2,x3,x4)", x[1:5].sum(axis=0) > 2),
        ("thr2(x1,x2,x3)", x[1:4].sum(axis=0) >= 2),
        ("parity(x1,x2,x3)", x[1:4].sum(axis=0) % 2 == 1),
        ("xor(x1,x2)", x[1] ^ x[2]),
        ("and(x1, or(x2, not(x3)))", x[1] & (x[2] | ~x[3])),
        ("table(0xE8; x1,x2,x3)", x[1:4].sum(axis=0) >= 2),
        ("table(0x2; x3, x1)", x[3] & ~x[1]),
        ("table(0x6; x1 & x2, x3)", (x[1] & x[2]) ^ x[3]),
        ("sym(0110; x1,x2,x3)", (x[1:4].sum(axis=0) % 3) > 0),
        ("maj(x1,x1,x2)", x[1]),
        ("0", np.zeros(2048, bool)),
        ("x1 | 1", np.ones(2048, bool)),
        ("and3", x[0] & x[1] & x[2]),
        ("or2", x[0] | x[1]),
        ("parity3", x[:3].sum(axis=0) % 2 == 1),
        ("maj5", x[:5].sum(axis=0) >= 3),
        (" thr2of5 ", x[:5].sum(axis=0) >= 2),
        ("X1&x02", x[1] & x[2]),
    ],
)
def test_meaning(text, meaning):
    assert np.array_equal(parse(text, T=11)(ALL), meaning)


def test_irrelevant_variables_are_dropped_with_a_note():
    f = parse("x1 & x2 | x1 & ~x2")
    assert f.support == (1,) and f.notes == ("x2 does not matter and was dropped",)
    assert parse("x1 ^ x1 ^ x3 & ~x3").support == ()
    assert parse("x1 & x2").notes == parse("maj(x1, x2, x3)").notes == parse("maj3").notes == ()
    for even in ("maj4", "maj(x0, x1, x2, x3)"):
        f = parse(even)
        assert f.notes == ("majority of an even number of bits: a tie counts as 0",)
        assert f(np.array([[1, 1, 0, 0], [1, 1, 1, 0]])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1, got the end"),
        ("x1 &", "column 5, got the end"),
        ("x1 x2", "column 4, got 'x2'"),
        ("(x1", "wanted '\\)' at column 4"),
        ("x1 @ x2", "cannot read '@' at column 4"),
        ("x50", "x50: out of range for T = 50; positions are 0-based, the last one is x49"),
        ("__import__(x1)", "got '__import__'"),
        ("eval(x1)", "unknown function"),
        ("x1.x2", "cannot read"),
        ("foo", "got 'foo'"),
        ("2", "got '2'"),
        ("and()", "got '\\)'"),
        ("and(x1,)", "got '\\)'"),
        ("not(x1,x2)", "not: wanted one argument"),
        ("thr5(x1,x2)", "0..3"),
        ("sym(01; x1,x2)", "3 digits"),
        ("sym(x1; x1)", "digits 0 and 1"),
        ("table(0xFF; x1)", "at most 2 bits"),
        ("table(7; x1)", "such as 0xE8"),
        ("table(0x1, x1)", "wanted ';'"),
        ("and0", "1 <= s <= 20"),
        ("and21", "1 <= s <= 20"),
        ("thr9of5", "0..6"),
        ("x99999999999999999999", "below"),
        ("(" * 41 + "x1" + ")" * 41, "nesting"),
        ("x1" + " " * 5000, "4096 characters"),
        ("and(" + ",".join(["x1"] * 65) + ")", "64 arguments"),
        ("|".join(f"x{i}" for i in range(21)), "20 distinct variables"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse(text, T=50)
    assert "\n" not in str(caught.value)


def function_or_one_line(text: str) -> None:
    try:
        assert isinstance(parse(text), SparseFunction)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@settings(max_examples=300)
@given(any_text(max_size=60))
@example("\x00")
@example("\ud800")
@example("x١")
@example("x" + "9" * 4000)
@example("(" * 4000)
@example("~" * 4000 + "x1")
@example("x1" + "&x1" * 1300)
def test_any_text_gives_a_function_or_a_one_line_error(text):
    function_or_one_line(text)


words = ["x0", "x1", "x7", "0", "1", "0xE8", "011", "(", ")", "&", "|", "^", "~", ",", ";", " "]
names = ["and", "or", "maj", "xor", "not", "thr2", "sym", "table", "and3", "thr1of2", "(", ")"]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(words + names), max_size=25).map("".join))
def test_near_formulas_too(text):
    function_or_one_line(text)


operators = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}
leaf = st.sampled_from([(f"x{i}", x[i]) for i in range(6)])
grown = st.recursive(
    leaf,
    lambda inner: st.one_of(
        inner.map(lambda a: (f"~({a[0]})", ~a[1])),
        st.tuples(inner, st.sampled_from("&|^"), inner).map(
            lambda t: (f"({t[0][0]}) {t[1]} ({t[2][0]})", operators[t[1]](t[0][1], t[2][1]))
        ),
        st.tuples(inner, inner, inner).map(
            lambda t: (f"maj({t[0][0]},{t[1][0]},{t[2][0]})", sum(a[1] * 1 for a in t) >= 2)
        ),
    ),
    max_leaves=12,
)


@given(grown)
def test_random_formulas_mean_what_they_say(pair):
    text, meaning = pair
    assert np.array_equal(parse(text)(ALL), meaning)


def test_twenty_variables_are_quick():
    f = parse("maj(" + ",".join(f"x{i}" for i in range(19)) + ") ^ x19")
    assert f.s == 20 and f.table.sum() == 2**19
