"""Pickles and archives of PyTorch that lie or would run something: one line, nothing run."""

import io
import os
import pickle
import struct
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusing import MEGABYTE, refused

from any_text import any_text
from capax.audit.reading.torch_pickle import Machine
from capax.errors import InputError
from typed_command import typed


class Bomb:
    """Unpickled by Python it would run a command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 2020"])
def test_a_pickle_that_would_run_a_command_runs_nothing(legacy, tmp_path):
    trace = tmp_path / "was_run"
    state = {"weight": torch.ones(3), "bomb": Bomb(f"touch {trace}")}
    torch.save(state, tmp_path / "x.bin", _use_new_zipfile_serialization=not legacy)
    done = typed("audit", tmp_path / "x.bin")
    assert done.returncode == 2
    assert "wants to call 'posix.system': refused, nothing run" in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert not trace.exists()
    torch.load(tmp_path / "x.bin", weights_only=False)  # the payload is real
    assert trace.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL, REDUCE
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # STACK_GLOBAL
        b"(S'true'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'true'\no.",  # OBJ
        b"\x80\x02cos\nsystem\n)\x81.",  # NEWOBJ
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nN(S'true'\ntNtR.",
        b"\x80\x02ccollections\nOrderedDict\n(ctorch\nSize\ntR.",
        b"\x80\x02\x82\x01.",  # an extension registry entry
    ],
)
def test_every_way_to_call_something_is_refused(program):
    with pytest.raises(InputError, match="pickle"):
        Machine().run(io.BytesIO(program))


def test_a_name_alone_is_text_and_is_never_looked_up():
    found = Machine().run(io.BytesIO(b"\x80\x02cantigravity\nanything\n."))
    assert str(found) == "antigravity.anything"


def test_nested_a_million_deep_and_memo_far_away_cost_nothing():
    deep = b"\x80\x02)" + b"\x85" * 300_000
    with pytest.raises(InputError):  # as a key, hashing it would overflow the stack of the process
        Machine().run(io.BytesIO(b"\x80\x02}" + deep[2:] + b"K\x01s."))
    far = b"\x80\x02K\x01r\xff\xff\xff\xff."
    assert Machine().run(io.BytesIO(far)) == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_input_error(program):
    try:
        Machine().run(io.BytesIO(b"\x80\x02" + program))
    except InputError as error:
        assert "\n" not in str(error)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
                    | any_text() | st.binary(), lambda inner: st.lists(inner, max_size=3)
                    | st.tuples(inner, inner) | st.dictionaries(any_text(), inner, max_size=3),
                    max_leaves=9), st.integers(3, 4))  # fmt: skip
def test_plain_values_come_back_as_python_reads_them(value, protocol):
    assert Machine().run(io.BytesIO(pickle.dumps(value, protocol))) == value


def test_a_compressed_archive_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("x/data.pkl", "w") as bomb:
        for _ in range(300):  # a megabyte at a time: who writes it must not hold it either
            bomb.write(bytes(MEGABYTE))
    assert path.stat().st_size < 3 * MEGABYTE
    refused(path, "an uncompressed entry")


def test_half_an_archive_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.ones(4)}, path)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(path, "x.pt")


@pytest.mark.parametrize("junk", [b"", b"hello", b"\x80\x02K\x01."])
def test_bytes_that_are_no_archive_are_refused(junk, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(junk)
    refused(path, "x.pt")


@pytest.mark.parametrize(
    "shape, stride", [((2**20, 2**20), (0, 0)), ((5,), (1,)), ((2, 2), (9, 1))]
)
def test_views_outside_their_storage_are_refused(shape, stride, tmp_path):
    """`as_strided` in a file could read anything, or make a terabyte of four numbers."""
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(4.0)}, path)
    source = zipfile.ZipFile(path)
    plain = source.read("x/data.pkl")
    pattern = b"K\x00K\x04\x85q" if b"K\x00K\x04\x85q" in plain else None
    assert pattern is not None
    at = plain.index(pattern)

    def pickled(numbers):
        return b"(" + b"".join(b"J" + struct.pack("<i", n) for n in numbers) + b"t"

    memo = plain[at + 5 : at + 7]  # q, number
    rest = plain[at + 7 :]
    end = rest.index(b"\x85") + 1
    lying = plain[:at] + b"K\x00" + pickled(shape) + memo + pickled(stride) + rest[end:]
    with zipfile.ZipFile(tmp_path / "y.pt", "w") as archive:
        for name in source.namelist():
            archive.writestr(name, lying if name == "x/data.pkl" else source.read(name))
    refused(tmp_path / "y.pt", "a view inside its storage")
