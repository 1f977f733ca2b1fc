"""Files of strangers: an answer or one line, in bounded time, whatever their bytes are."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.array_files import load_npy, load_npz
from capax.errors import InputError
from capax.reading import MAX_DEPTH, existing, parse_json, read_text


def npy_bytes(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def declared(text: str, content: bytes = b"") -> bytes:
    """A .npy file with a header of our own."""
    padded = text.encode() + b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + content


ARRAYS = [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3, dtype=np.float32)),
          np.array(3), np.zeros((0, 5)), np.array([True, False])]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_come_back_as_they_were(tmp_path, array):
    (tmp_path / "a.npy").write_bytes(npy_bytes(array))
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy"), array)
    np.savez_compressed(tmp_path / "b.npz", X=array, other=np.arange(3))
    assert set(load_npz(tmp_path / "b.npz", ["X", "y"])) == {"X"}
    np.testing.assert_array_equal(load_npz(tmp_path / "b.npz", ["X"])["X"], array)


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "NumPy's format"),
        (b"\x93NUMPY\x01\x00\xff\xff", "NumPy's format"),
        (declared("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"),
         "bytes its header declares"),
        (declared("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"), "lengths"),
        (declared("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"x" * 8), "numbers"),
        (declared("__import__('os').system('touch planted')"), "NumPy's format"),
        (declared("((((((((((((((((((((((((("), "NumPy's format"),
        (declared("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", b"x" * 9), "bytes"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_one_line(tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        load_npy(tmp_path / "a.npy")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "planted").exists()


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("bytes") / "a.npz"
    for prefix in (b"", b"PK\x03\x04", npy_bytes(np.arange(3))[:40]):
        file.write_bytes(prefix + content)
        for read in (load_npy, lambda path: load_npz(path, ["X"])):
            try:
                read(file)
            except InputError as error:
                assert "\n" not in str(error)


def test_an_archive_that_promises_too_much_is_refused(tmp_path):
    file = tmp_path / "a.npz"
    huge = declared("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", huge + b"\0" * 1000)
    with pytest.raises(InputError, match="bytes its header declares"):
        load_npz(file, ["X"])
    file.write_bytes(file.read_bytes()[:80])
    with pytest.raises(InputError, match="not a readable"):
        load_npz(file, ["X"])


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 1000, "9" * 5000, "[NaN]", "-Infinity", "{", "nonsense", ""],
)
def test_json_that_is_none_or_too_much(text):
    with pytest.raises(InputError, match=r"^header: "):
        parse_json(text, "header")


def test_json_within_the_limits():
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "header")
    assert parse_json('{"a": [1, 2.5, null]}', "header") == {"a": [1, 2.5, None]}


@pytest.mark.parametrize("name", ["nowhere", "x" * 5000, "nul\0inside", "."])
def test_files_that_are_not_there(name):
    with pytest.raises(InputError):
        existing(name)


def test_text_that_is_none_or_too_long(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="wanted a text file"):
        read_text(file)
    file.write_text("x" * 100)
    with pytest.raises(InputError, match="at most 0 MiB"):
        read_text(file, limit=50)


def test_devices_pipes_and_folders_are_named_and_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, said in (("pipe", "a device, pipe or socket"), ("zero", "a device, pipe or socket"),
                       (".", "a folder")):  # fmt: skip
        with pytest.raises(InputError, match=f"wanted a text file, got '{said}'"):
            read_text(tmp_path / name)
    with pytest.raises(InputError, match=r"none: file not found \(wanted a text file\)"):
        read_text(tmp_path / "none")


def test_a_file_that_says_it_is_empty_is_read_up_to_the_limit():
    """Files of /proc have a size of 0 and content all the same."""
    assert read_text("/proc/self/status", 10**6).startswith("Name:")
    with pytest.raises(InputError, match="at most"):
        read_text("/proc/self/status", 10)


def test_a_key_that_stands_twice_is_refused():
    with pytest.raises(InputError, match="the key 'a' occurs twice"):
        parse_json('{"b": [{"a": 1, "a": 2}]}', "x")
