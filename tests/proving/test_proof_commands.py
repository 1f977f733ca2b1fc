"""`capax prove`, `check`, `compile --proof` and `decompile --proof`, as commands."""

import json
from functools import partial

import pytest
from small_transformers import saved

from capax.proving.run_checker import CHECKER


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a trained network, and its function as a formula."""
    folder = tmp_path_factory.mktemp("trained")
    path, f = saved(folder, 2, "relu", 2)
    rows = [r for r in range(8) if f.table[r] > 0.5]
    terms = (" & ".join(f"{'' if r >> t & 1 else '~'}x{t}" for t in range(3)) for r in rows)
    return folder, path.name, " | ".join(f"({term})" for term in terms)


def test_compile_writes_a_proof_beside_its_weights(tmp_path, warm_commands):
    run = partial(warm_commands.capax, folder=tmp_path)
    done = run("compile", "x1 & x4", "-T", "5", "--out", "w.safetensors", "--proof", "w.proof")
    assert done.returncode == 0
    told = json.loads(run("check", "w.proof", "w.safetensors", "--json").stdout)
    assert told["status"] == "proved" and told["line"] is told["reason"] is None
    assert "positions [1, 4] with the table 0x8" in told["statement"]
    source = json.loads(run("check", "--print-checker", "--json").stdout)["checker"]
    assert source == CHECKER.read_text()


def test_trained_networks_are_proved_by_prove_and_by_decompile(trained, warm_commands):
    folder, name, formula = trained
    run = partial(warm_commands.capax, folder=folder)
    done = run("prove", name, "--function", formula, "--out", "a.proof", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["out"] == "a.proof" and told["lines"] >= 9
    assert told["holds"] == ["real arithmetic", "float32"] and told["float32_margin"] > 0
    assert run("decompile", name, "--proof", "b.proof", "--json").returncode == 0
    for proof in ("a.proof", "b.proof"):
        checked = json.loads(run("check", proof, name, "--json").stdout)
        assert checked["status"] == "proved" and "'logit > 0'" in checked["statement"]
        assert checked["holds"] == ["real arithmetic"]
    lines = (folder / "a.proof").read_text().splitlines()
    (folder / "a.proof").write_text("\n".join(lines[:-1]))
    bad = run("check", "a.proof", name, "--json")
    told = json.loads(bad.stdout)
    assert bad.returncode == 1 and told["status"] == "refused" and told["statement"] is None
    assert told["line"] == len(lines) and "1 cells are open" in told["reason"]


def test_a_wrong_function_and_files_that_are_none_are_refused_in_one_line(trained, warm_commands):
    folder, name, formula = trained
    run = partial(warm_commands.capax, folder=folder)
    done = run("prove", name, "--function", f"~({formula})", "--cells", "20")
    assert done.returncode == 2 and "another decision where" in done.stderr
    assert not (folder / name).with_suffix(".proof").exists()
    (folder / "text.proof").write_text("nothing\n")
    done = run("check", "text.proof", name)
    assert done.returncode == 1 and "REFUSED: line 1" in done.stdout
    for missing in (("check", "none.proof", name), ("prove", "none.safetensors")):
        assert run(*missing).returncode == 2
