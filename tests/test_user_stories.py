"""Five users and their questions: the commands that each types, up to the answer."""

import csv
import json
import re
from pathlib import Path

import pytest

from test_documents import blocks, run
from typed_command import typed

pytestmark = pytest.mark.usefixtures("without_layout")


def answer(*words):
    """What `capax words --json` says; the command must succeed."""
    done = typed(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_theorist_how_many_examples_does_this_norm_need_and_is_the_construction_true(tmp_path):
    told = answer("bound", "--norms", "W_QK=2,v=1", "-T", 1000, "-m", 100_000, "--margin", "0.5")
    compared = told["log_cover_compared"]
    assert 0 < told["value"] < 1 and compared["log10_paper"] > compared["log10_ours"] > 0
    made = tmp_path / "and3.safetensors"
    assert answer("compile", "x1 & x4 & x7", "-T", 60, "--out", made)
    checked = typed("verify", made)
    assert checked.returncode == 0 and "x1 & x4 & x7" in checked.stdout + checked.stderr


def test_lecturer_figures_for_tomorrow_without_training_anything(tmp_path):
    figure, bounds = tmp_path / "figure1.png", tmp_path / "bounds.svg"
    assert typed("figure", "1", "--out", figure).returncode == 0
    (tmp_path / "class.csv").write_text("T,m\n10,30\n100,60\n")
    words = ("--norms", "W_QK=2,v=1", "--plot", bounds, "--curve", tmp_path / "class.csv")
    assert typed("bound", *words).returncode == 0
    assert figure.read_bytes()[:4] == b"\x89PNG" and "<svg" in bounds.read_text()[:600]


def test_interpreter_what_does_my_pytorch_model_compute(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from torch_models import Attention

    torch.manual_seed(0)
    model, draw = Attention(9, 8, 2), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(250):
        X = torch.randint(0, 2, (64, 9), generator=draw).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(X), X[:, 2] * X[:, 5])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    torch.save(model.state_dict(), tmp_path / "net.pt")
    code = "from torch_models import Attention\ndef build(T):\n    return Attention(T, 8, 2)\n"
    (tmp_path / "net.py").write_text(code)
    told = answer("decompile", tmp_path / "net.pt", "--module", f"{tmp_path}/net.py:build", "-T", 9)
    assert told["formula"] == "and(x2, x5)" and told["all_inputs"]["status"] == "proved"


LEARNER = """
import numpy as np

def fit(X, y):
    \"\"\"A bit that is 1 in all positive examples belongs to the conjunction.\"\"\"
    kept = X[y > 0].all(axis=0) if (y > 0).any() else np.ones(X.shape[1], bool)
    return lambda Z: Z[:, kept].all(axis=1)
"""


def test_architect_how_does_my_learner_compare(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text(LEARNER)
    reference = f"{tmp_path}/mine.py:fit"
    words = ("card", "--mine", reference, "--T", 20, "--m-high", 640, "--trials", 16,
             "--store", tmp_path / "card.sqlite", "--csv", tmp_path / "card.csv",
             "--plot", tmp_path / "card.png")  # fmt: skip
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "card.csv").read_text().splitlines()))
    own = next(r for r in rows if r["learner"] == reference and r["accuracy"] == "1.0")
    assert 10 <= int(own["m_star"]) <= 80
    assert {"transformer", "mlp"} <= {r["learner"] for r in rows}
    assert (tmp_path / "card.png").stat().st_size > 10_000


def test_student_an_experiment_from_the_file_to_the_table_and_the_page(tmp_path, warm_commands):
    """The page for students, as it stands: what its commands say, and what they write."""
    page = blocks(Path(__file__).parents[1] / "docs" / "users" / "student.md")
    said = [run(warm_commands, kind, body, tmp_path) for kind, body in page]
    found = re.findall(r"b = \S+ \[(\S+), (\S+)\]", said[1])[:2]
    for growth, ends in zip((5, 20), found, strict=True):
        low, high = map(float, ends)
        assert low < growth < high, said[1]
    assert said[1].count("grows like log T") >= 2
    table = csv.DictReader((tmp_path / "homework.csv").read_text().splitlines())
    assert {row["growth"] for row in table} == {"5", "20"}
    assert "homework" in (tmp_path / "homework.html").read_text()
    assert "tabular" in (tmp_path / "homework.tex").read_text()
