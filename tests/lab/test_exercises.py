"""The mark of an exercise is the truth about the answer; programs are run elsewhere."""

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import capax
from capax.boolean.functions import all_patterns
from capax.compiler import save_compiled
from capax.errors import InputError
from capax.lab.exercises.exercise_table import EXERCISES, exercise
from capax.lab.exercises.marking import mark
from capax.lab.exercises.python_answers import answers_of
from typed_command import typed

SOLUTIONS = Path(__file__).parents[2] / "course" / "solutions"
FILES = sorted(path.name for path in SOLUTIONS.glob("exercise_*"))


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", FILES)
def test_every_solution_is_proved(name):
    number = name[len("exercise_")]
    done = typed("exercise", number, SOLUTIONS / name)
    inputs = f"proved on all 2^{exercise(int(number)).T} inputs"
    assert done.returncode == 0 and done.stdout.startswith(inputs), done.stdout + done.stderr


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The solutions that are files of weights."""
    folder = tmp_path_factory.mktemp("weights")
    runpy.run_path(str(SOLUTIONS / "weights.py"))["main"](folder)
    return folder


def test_solutions_that_are_weights_are_proved(weights):
    assert mark(4, weights / "exercise_4.safetensors").ok
    found = mark(5, weights / "exercise_5.safetensors")
    assert found.ok and found.margin > 0


def test_a_compiled_head_is_no_trained_one_and_another_length_is_refused(weights, tmp_path):
    compiled = save_compiled(tmp_path / "c.safetensors", capax.compile("x2 & x7", T=10))
    with pytest.raises(
        InputError, match="answer: wanted a network of capax train, got 'ClsScalar'"
    ):
        mark(5, compiled)
    with pytest.raises(InputError, match="T: wanted a network for 8 bits, got 10"):
        mark(2, compiled)
    with pytest.raises(InputError, match="T: wanted a network for 1000 bits"):
        mark(3, weights / "exercise_5.safetensors")


def softmax_output(score, value, bits):
    """One head token by token, in plain floats: the oracle of the marks."""
    pairs = [(score.get("CLS", 0.0), value.get("CLS", 0.0))]
    for t, bit in enumerate(bits):
        names = (f"x{t}", f"bit{bit}")
        pairs.append(tuple(sum(row.get(n, 0.0) for n in names) for row in (score, value)))
    masses = [math.exp(s) for s, _ in pairs]
    return sum(m * v for m, (_, v) in zip(masses, pairs, strict=True)) / sum(masses)


def test_heads_by_hand_are_marked_as_softmax_decides(tmp_path):
    """Random heads near the solution: proved where all 256 inputs are right, else a wrong one."""
    rng, seen = np.random.default_rng(5), set()
    f = capax.parse("maj(x1, x3, x5)", 8)
    for _ in range(12):
        names = ("x1", "x3", "x5", "bit1", "CLS")
        score = dict(zip(names, np.array([4, 4, 4, 4, 8]) + rng.normal(0, 0.4, 5), strict=True))
        value = dict(zip(names, np.array([1, 1, 1, 0, -1.5]) + rng.normal(0, 0.02, 5), strict=True))
        rows = [f"[{name}]\n" + "".join(f"{k} = {float(v)}\n" for k, v in table.items())
                for name, table in (("score", score), ("value", value))]  # fmt: skip
        found = mark(2, written(tmp_path, "head.toml", "".join(rows)))
        outputs = {tuple(x): softmax_output(score, value, x) for x in all_patterns(8).tolist()}
        right = {x: (y > 0) == (f(np.array(x)) > 0.5) for x, y in outputs.items()}
        assert found.ok == all(right.values())
        if found.ok:
            assert 0 < found.margin <= min(abs(y) for y in outputs.values()) + 1e-12
        else:
            shown = tuple(int(t in found.counterexample) for t in range(8))
            assert not right[shown] and found.wanted != found.got
        seen.add(found.verdict)
    assert seen == {"proved", "counterexample"}


def test_a_right_head_must_keep_the_limits(tmp_path):
    plain = save_compiled(tmp_path / "plain.safetensors", capax.compile("maj(x1, x5, x9)", T=1000))
    done = typed("exercise", 3, plain)
    assert done.returncode == 1
    assert "right on all 2^1000 inputs, but: Frobenius norm of W_QK 12.48" in done.stdout
    text = (SOLUTIONS / "exercise_3.toml").read_text()
    weak = written(tmp_path, "weak.toml", text.replace("-1.92", "-1.8"))
    assert "margin" in mark(3, weak).reason
    loud = written(tmp_path, "loud.toml", text.replace("1.25", "2.5").replace("-1.92", "-3.84"))
    assert mark(3, loud).reason == "value 3.84, wanted at most 2"
    big = save_compiled(
        tmp_path / "big.safetensors",
        capax.compile(exercise(4).formula, T=12, family="general"),
    )
    assert "units, wanted at most 8" in mark(4, big).reason


def test_a_weight_changed_by_hand_is_marked_by_what_it_computes(tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    path = save_compiled(tmp_path / "h.safetensors", capax.compile("maj(x1, x3, x5)", T=8))
    with safe_open(path, "numpy") as opened:
        header = opened.metadata()
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    arrays["W_V"] = -arrays["W_V"]
    save_file(arrays, path, metadata=header)
    assert mark(2, path).verdict == "counterexample"


def test_covers(tmp_path):
    words = [f"{k:07b}" for k in range(128)]
    assert mark(1, written(tmp_path, "a.toml", f"centres = {words}")).reason.startswith(
        "128 centres"
    )
    found = mark(1, written(tmp_path, "b.toml", f"centres = {words[:20]}"))
    lost = "".join(str(int(t in found.counterexample)) for t in range(7))
    assert all(sum(a != b for a, b in zip(lost, w, strict=True)) > 1 for w in words[:20])
    assert found.got == "the nearest at distance 2"


def test_a_formula_is_compared_on_all_inputs(tmp_path):
    found = mark(4, written(tmp_path, "f.toml", 'formula = "~(x2 ^ x5 ^ x8 ^ x11)"'))
    assert found.counterexample == () and (found.wanted, found.got) == ("0", "1")
    done = typed("exercise", 4, tmp_path / "f.toml", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["counterexample"] == []


PROGRAMS = {
    "it is wrong": ("def answer(x): return x[1]", ""),
    "it fails": ("def answer(x): return x[99]", "answer: p.py, line 1: IndexError"),
    "no function": ("def other(x): return 1", "has no 'answer'"),
    "no program": ("def answer(x:", "p.py, line 1: SyntaxError"),
    "no answer": ("def answer(x): return 'x'", "answer: wanted 512 labels"),
    "by chance": ("import random\ndef answer(x): return random.random()", "two different answers"),
    "it ends": ("import os\nos._exit(0)", "its process ended without an answer"),
    "it prints": ("print('{}')\ndef answer(x): return x[1]", ""),
    "it exits": ("def answer(x): raise SystemExit", "SystemExit"),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_programs_are_asked_in_a_process_of_their_own(case, tmp_path):
    text, said = PROGRAMS[case]
    path = written(tmp_path, "p.py", f"{text}\nfrom pathlib import Path")
    done = typed("exercise", 2, path)
    if said:
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    else:
        assert done.returncode == 1 and "counterexample: 0" in done.stdout


def test_the_process_of_a_program_is_not_ours_and_has_a_time_limit(tmp_path):
    told = tmp_path / "pid"
    text = f"import os, pathlib\npathlib.Path({str(told)!r}).write_text(str(os.getpid()))\n"
    path = written(tmp_path, "p.py", text + "def answer(x):\n    while True: pass")
    with pytest.raises(InputError, match="took more than the time limit"):
        answers_of(path, 3, seconds=0.3)
    assert int(told.read_text()) != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


BAD = {
    "x8 = 1": "score.x8: wanted x0 to x7",
    "x1 = nan": "nan|finite",
    "x1 = 1e300": "score.x1: wanted a number of at most 1e+06",
    "x1 = true": "score.x1: ",
    "'<b>' = 1": "score.<b>: ",
    "x01 = 1": "score.x01: ",
}


@pytest.mark.parametrize("line", BAD)
def test_heads_that_are_none(line, tmp_path):
    path = written(tmp_path, "h.toml", f"[score]\n{line}\n[value]\nx1 = 1")
    with pytest.raises(InputError, match=BAD[line].replace("+", ".")):
        mark(2, path)


@pytest.mark.parametrize(
    ("number", "text", "said"),
    [
        (0, "", "exercise: wanted a number from 1 to 5"),
        (2, "formula = 'maj(x1, x3, x5)'", "wanted score and value, got 'formula'"),
        (2, "score = 3\nvalue = 1", "score: wanted a table"),
        (1, "centres = []", "centres: wanted at least one word"),
        (1, "centres = ['01']", "words of 7 characters"),
        (1, "centres = [[]]", "centres: wanted a list of words"),
        (4, "formula = 'x1 &'", "formula: "),
        (4, "formula = 7", "formula: wanted a formula"),
        (5, "formula = 'x1'", "wanted a .safetensors file, got '.toml'"),
    ],
    ids=str,
)
def test_files_that_are_no_answers(number, text, said, tmp_path):
    done = typed("exercise", number, written(tmp_path, "a.toml", text))
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_questions_are_shown_and_name_what_they_ask():
    listed = typed("exercise")
    for one in EXERCISES:
        assert f"Exercise {one.number}, {one.lesson}" in listed.stdout
        for form in one.forms:
            assert form in one.question
        for limit in (one.margin, one.norm, one.value, one.units):
            assert not limit or f"{limit:g}" in one.question
    assert json.loads(typed("exercise", 3, "--json").stdout)["exercises"][0]["T"] == 1000


def test_other_commands_load_nothing_of_the_lab_and_its_server_starts_before_the_rest():
    probe = """
import sys, capax.cli.main
capax.cli.main.commands()
def loaded(*names):
    print([name for name in sys.modules if name.startswith(names)])
loaded("capax.lab", "starlette", "uvicorn", "anywidget", "jax", "numpy")
import capax.lab.server
loaded("jax", "numpy", "scipy", "pydantic", "capax.data", "capax.compiler")
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
