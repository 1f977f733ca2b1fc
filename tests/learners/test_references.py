"""Finding the user's learner, and telling its mistakes by its own line."""

from pathlib import Path

import pytest

from capax.errors import InputError
from capax.learners.adapters import fit_of, made_by
from capax.learners.fitting import attempt
from capax.learners.names import entry_of, known_names
from capax.learners.references import load, source_digest
from capax.learners.setting import Setting

BAD = Path(__file__).parent / "bad_learners.py"


def test_a_file_and_a_dotted_name_are_found():
    assert load(f"{BAD}:majority").__name__ == "majority"
    assert load("collections.OrderedDict")().__len__() == 0
    assert load("collections:OrderedDict") is load("collections.OrderedDict")


@pytest.mark.parametrize(
    "reference, said",
    [
        ("nowhere.py:build", "no such file: nowhere.py"),
        (f"{BAD}:majorty", "has no 'majorty'; it has os, time, np, majority"),
        ("no_such_module_xyz.name", "no module 'no_such_module_xyz'"),
        ("collections._sys", "wanted file.py:name"),
        (":", "wanted file.py:name"),
    ],
)
def test_what_cannot_be_found_is_said_in_one_line(reference, said):
    with pytest.raises(InputError) as raised:
        load(reference)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_fails_names_its_line(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import math\n\nx = math.no_such_thing\n")
    with pytest.raises(InputError, match=r"broken\.py, line 3: AttributeError"):
        load(f"{broken}:x")
    broken.write_text("def f(:\n")
    with pytest.raises(InputError, match=r"broken\.py, line 1: SyntaxError"):
        load(f"{broken}:f")


def test_another_source_is_another_learner(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def build(T): ...\n")
    before = source_digest(f"{mine}:build")
    mine.write_text("def build(T): pass\n")
    assert len(before) == 64
    assert source_digest(f"{mine}:build") != before


def test_names_are_known_and_misspelt_ones_corrected():
    assert {"transformer", "mlp", "lstm", "tree", "version_space"} <= set(known_names())
    assert entry_of("mlp").in_lanes
    assert entry_of("mlp").tuned
    assert not entry_of("tree").in_lanes
    with pytest.raises(InputError, match="did you mean 'forest'"):
        entry_of("forrest")


def test_factories_get_what_they_ask_for():
    setting = Setting(T=11, function="and3")
    assert made_by(lambda T: T, setting, 5) == 11
    assert made_by(lambda length: length, setting, 5) == 11
    assert made_by(lambda T, key: (T, key), setting, 5) == (11, 5)
    assert made_by(lambda function: function, setting, 5) == "and3"
    with pytest.raises(InputError, match="it wants width"):
        made_by(lambda T, width: None, setting, 5)


def test_objects_that_cannot_be_fitted_are_refused():
    with pytest.raises(InputError, match="wanted something that can be fitted, got 7"):
        fit_of(7, Setting(T=3))


def test_the_users_line_is_in_the_reason():
    import numpy as np

    X, y = np.zeros((4, 3), np.uint8), np.zeros(4, np.uint8)
    made = attempt(fit_of(load(f"{BAD}:raises"), Setting(T=3)), X, y, X, 0)
    assert made.reason == "bad_learners.py, line 16: KeyError: 'missing'"
