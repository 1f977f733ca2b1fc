"""The harness that plants faults: each operator plants its fault, and a fault is noticed."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

from mutation_operators import mutants  # noqa: E402
from mutation_swaps import swapped  # noqa: E402


@pytest.mark.parametrize(
    "source, operator, planted",
    [
        ("x = np.nextafter(y, inf)", "rounding dropped", "x = (y)"),
        ("x = round_up(y, digits)", "rounding dropped", "x = (y)"),
        ("x = values.widened(error)", "rounding dropped", "x = (values)"),
        ("x = (a + b).widened(error)", "rounding dropped", "x = (a + b)"),
        ("x = error + slack", "term dropped", "x = (error)"),
        ("share = delta / routes", "share not divided", "share = (delta)"),
        ("x = 2 * R", "factor dropped", "x = (R)"),
        ("x = n + 1", "constant one less", "x = n + (0)"),
        ("x = sum(terms)", "other extreme", "x = max(terms)"),
        ("x = (low, high)", "swapped ends", "x = (high, low)"),
        ("x = interval.low", "swapped ends", "x = interval.high"),
        ("x = a <= b", "edge of a comparison", "x = (a < b)"),
        ("x = f(y, T=T)", "argument ignored", "x = f(y)"),
        ("require(x > 0, 'x', 'positive', x)", "validation skipped", "pass"),
        ("x = y**2", "power dropped", "x = (y)"),
        ("x = a and b", "other connective", "x = (a or b)"),
        ("x = math.sqrt(y)", "function dropped", "x = (y)"),
    ],
)
def test_each_operator_plants_its_fault(source, operator, planted):
    found = {(m.operator, m.applied(source)) for m in mutants("a.py", source)}
    assert (operator, planted) in found


@pytest.mark.parametrize(
    "source",
    [
        'def f(x: Annotated[int, 3]) -> Literal[2]:\n    "1 + 1."\n    raise E(f"{x + 1}")',
        "def __repr__(self):\n    return self.low + 1",
        "def told(x) -> str:\n    return x + 1",
        "MAX_STEPS = 100",
        "def f(x, draws=100, *, quick=False, name=None): ...",
        "x = math.hypot(a, b)",
        "x = Term(latex=a)",
        "x = connect(a, timeout=30.0)",
        "x = one_line(a, 60)",
    ],
)
def test_places_without_numbers_are_left_alone(source):
    assert mutants("a.py", source) == []


def test_the_sample_does_not_depend_on_other_lines():
    """A mutant keeps its key when lines come or go above it; equal lines have keys of their own."""
    source = "x = a + slack\nx = a + slack\n"
    keys = [m.key for m in mutants("a.py", source)]
    assert len(set(keys)) == len(keys)
    assert keys == [m.key for m in mutants("a.py", "import math\n\n" + source)]


def test_every_attack_in_the_guide_has_its_test():
    page = (ROOT / "docs" / "guides" / "trust.md").read_text()
    section = page.partition("## Attacks that once succeeded")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(tests/\S+)::(test_\w+)`", row) for row in rows]
    assert len(rows) == 16 and all(named)
    for file, test in (pair for pairs in named for pair in pairs):
        assert f"def {test}(" in (ROOT / file).read_text(), test


def test_offsets_count_characters_not_bytes():
    source = "ε = 'γ' if ok else None; x = α + β\n"
    assert "ε = 'γ' if ok else None; x = (α)\n" in {
        m.applied(source) for m in mutants("a.py", source)
    }


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_fault_in_the_description_code_is_noticed(tmp_path):
    """A sample of the real thing, in this process: faults in the prior of the Occam bound meet the
    two tests that hold its code lengths against a calculation by hand and against Kraft."""
    path = "src/capax/decompile/bounds/description.py"
    source = (ROOT / path).read_text()
    tests = loaded(ROOT / "tests/decompile/test_search_and_code.py", "tests_of_description")
    known = {
        entry["key"] for entry in json.loads((BENCHMARKS / "harmless_mutants.json").read_text())
    }
    survived = []
    for number, mutant in enumerate(mutants(path, source)):
        planted = tmp_path / f"planted_{number}.py"
        planted.write_text(mutant.applied(source))
        try:
            tests.description_bits = loaded(planted, planted.stem).description_bits
            tests.test_code_lengths_by_hand()
            tests.test_the_code_obeys_krafts_inequality_on_all_functions(2)
        except (Exception, pytest.fail.Exception):
            continue
        survived.append(mutant)
    assert number > 50
    assert [mutant.name for mutant in survived if mutant.key not in known] == []


TOY = """
import functools
RATIO = 2 * 3
@functools.cache
def cached(x):
    return x + 1
def nested(x, extra=4 * 5):
    def inner(y):
        return y + x
    return inner(1) + extra
class Thing:
    width = 6 * 7
    @property
    def size(self):
        return self.width * 2
"""


@pytest.mark.parametrize(
    "before, after, value",
    [("x + 1", "(x)", 8), ("y + x", "(y)", 21), ("self.width * 2", "(self.width)", 42),
     ("2 * 3", "(2)", None), ("4 * 5", "(4)", None), ("6 * 7", "(6)", None)],
)  # fmt: skip
def test_a_fault_reaches_whoever_holds_the_function(before, after, value, tmp_path, monkeypatch):
    """Faults outside of functions are left to a process that has not imported the module."""
    (tmp_path / "planted_toy.py").write_text(TOY)
    toy = loaded(tmp_path / "planted_toy.py", "planted_toy")
    monkeypatch.setitem(sys.modules, "planted_toy", toy)
    cached, nested, thing = toy.cached, toy.nested, toy.Thing()
    (mutant,) = (
        m for m in mutants("planted_toy.py", TOY) if (m.before, m.after) == (before, after)
    )
    assert swapped(mutant, str(tmp_path), TOY) == (value is not None)
    values = {"x + 1": cached(8), "y + x": nested(9), "self.width * 2": thing.size}
    assert values.get(before) == value


def test_a_fault_is_noticed_and_harmless_ones_survive(tmp_path):
    """The whole harness on a package of two lines: a bound with a test, a bound without."""
    (tmp_path / "benchmarks").mkdir()
    for source in BENCHMARKS.glob("muta*.py"):
        (tmp_path / "benchmarks" / source.name).write_text(source.read_text())
    package, tests = tmp_path / "src" / "capax" / "toy", tmp_path / "tests" / "toy"
    for folder in (package, tests):
        folder.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "bounds.py").write_text(
        "def tested(x):\n    return x + 1\n\n\ndef untested(x):\n    return x * 2\n"
    )
    (tests / "test_bounds.py").write_text(
        "from capax.toy.bounds import tested, untested\n\n\n"
        "def test_attained():\n    assert tested(3) == 4\n\n\n"
        "def test_on_a_random_instance():\n    assert untested(0) == 0\n"
    )
    command = [sys.executable, "benchmarks/mutants.py", "--modules", "toy", "--count", "0"]
    ended = subprocess.run(
        [*command, "--workers", "1", "--keep", "kept", "--share", "1", "--warm", "coverage"],
        cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout + ended.stderr
    lines = (tmp_path / "kept" / "results.jsonl").read_text().splitlines()
    found = {(said["line"], said["after"]): said["outcome"] for said in map(json.loads, lines)}
    assert {outcome for (line, _), outcome in found.items() if line == 2} == {"killed"}
    assert found[6, "(x)"] == "survived" and found[6, "(2)"] == "killed"
