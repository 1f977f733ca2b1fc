"""Errors in one line, files whole or not at all, identity that depends on nothing but content."""

import json
import os

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_text import any_text
from capax.errors import CapaxError, InputError, require, shown
from capax.files import check_writable, write_atomically
from capax.identity import canonical_json, digest, key_from, key_words
from capax.machine import num_cores

FIELDS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(), inner, max_size=3),
    max_leaves=8,
)


def test_require_names_argument_wanted_and_got():
    require(True, "eps", "a positive number", -1)
    with pytest.raises(InputError, match=r"^eps: wanted a positive number, got -1$"):
        require(False, "eps", "a positive number", -1)


@given(any_text())
def test_shown_is_one_short_line(text):
    assert len(shown(text)) <= 80
    assert "\n" not in shown(text)


def test_input_errors_are_value_errors_with_exit_code_2():
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, CapaxError)
    assert InputError("x").exit_code == 2


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.bin"
    write_atomically(path, lambda file: file.write(b"first"))
    assert path.read_bytes() == b"first"

    def breaks_half_way(file):
        file.write(b"half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_atomically(path, breaks_half_way)
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_full_disk_is_reported_in_one_line(tmp_path):
    def disk_full(_file):
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left on device"):
        write_atomically(tmp_path / "a.bin", disk_full)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_targets_are_refused_before_any_work(tmp_path):
    with pytest.raises(InputError, match="got a folder"):
        check_writable(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        check_writable(tmp_path / "missing" / "file")


@given(FIELDS)
def test_canonical_json_is_stable_under_a_round_trip(fields):
    assert canonical_json(json.loads(canonical_json(fields))) == canonical_json(fields)


@given(st.dictionaries(any_text(), st.integers(), min_size=2, max_size=5))
def test_identity_ignores_the_order_of_fields(fields):
    reversed_fields = dict(reversed(fields.items()))
    assert digest(reversed_fields) == digest(fields)


def test_keys_depend_on_fields_and_on_purpose():
    keys = {key_words({"T": T}, purpose) for T in (2, 3) for purpose in ("train", "support")}
    assert len(keys) == 4


def test_a_key_does_not_depend_on_the_precision_mode():
    with jax.enable_x64(False):
        narrow = jax.random.bits(key_from({"T": 5}, "train"), (7,), "uint32")
    wide = jax.random.bits(key_from({"T": 5}, "train"), (7,), "uint32")
    np.testing.assert_array_equal(narrow, wide)


def test_cores_are_those_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 8}, raising=False)
    assert num_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert num_cores() == os.cpu_count()
