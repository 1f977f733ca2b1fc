"""Disk full, read-only folders, no home, closed pipes, 40 columns, ASCII: one line, no loss."""

import json
import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from capax.cli.publishing.cite import software
from capax.compiler import compile, save_compiled
from capax.errors import InputError
from capax.files import cache_folder, write_atomically
from capax.sweep.storage.store import Store
from typed_command import typed

pytestmark = pytest.mark.usefixtures("without_layout")

EXPERIMENT = """
name = "été"
[model]
family = "simulated"
threshold = 9.0
growth = 7.0
[panels.threshold]
T = [10, 30, 100]
search = { m_low = 5, m_high = 200, batch = 16, max_trials = 32 }
"""
CAPAX = f"{sys.executable} -m capax.cli"


def shell(line, folder, **environment):
    """A line of shell, as somebody types it; the exit code is that of the first command."""
    return subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


def test_a_reader_that_goes_away_a_full_pipe_and_closed_streams(tmp_path):
    gone = shell(f"{CAPAX} theorems | head -n 1", tmp_path)
    assert (gone.returncode, gone.stderr) == (1, b"")
    assert gone.stdout.count(b"\n") == 1

    full = shell(f"{CAPAX} cite > /dev/full", tmp_path)
    assert full.returncode == 2
    assert full.stderr == b"error: No space left on device\n"

    # A file must not get the number of a closed stream: what is said would be written into it.
    closed = shell(f"{CAPAX} function 'x1 &' >&- 2>&-", tmp_path)
    assert (closed.returncode, closed.stdout, closed.stderr) == (2, b"", b"")
    silent = shell(f"{CAPAX} function 'x1 & x2' --json 2>&-", tmp_path)
    assert silent.returncode == 0 and json.loads(silent.stdout)["formula"] == "x1 & x2"
    assert list(tmp_path.iterdir()) == []


TALKATIVE = """
import atexit, os, sys
from capax.cli.entry import main
from capax.cli.experiments.where import Where, ready_for
atexit.register(lambda: (print("late"), os.write(1, b"late, from below")))
ready_for(Where.ray, None)
os.write(1, b"a node died")
sys.argv = ["capax", "function", "x1 & x2", "--json"]
main()
"""


def test_what_libraries_say_is_no_result(tmp_path):
    """Below Python, threads of Ray print when a node dies, and once more when the process ends."""
    (tmp_path / "talk.py").write_text(TALKATIVE)
    done = shell(f"{sys.executable} talk.py", tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["formula"] == "x1 & x2"
    for said in (b"a node died", b"late\n", b"late, from below"):
        assert said in done.stderr


def test_ascii_no_home_40_columns_and_a_path_with_spaces_and_accents(made, tmp_path):
    folder = tmp_path / "un dossier [b]é"
    folder.mkdir()
    (folder / "épreuve 1.toml").write_text(EXPERIMENT, encoding="utf-8")
    swept = typed("sweep", folder / "épreuve 1.toml", "--store", folder / "où.sqlite", "--json")
    assert json.loads(swept.stdout)["store"] == str(folder / "où.sqlite")
    assert sorted(path.name for path in folder.iterdir()) == ["où.sqlite", "épreuve 1.toml"]
    surroundings = {
        "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "COLUMNS": "40",
        "HOME": "/proc/nobody",
    }  # fmt: skip
    shown = shell(f"{CAPAX} thresholds 'où.sqlite' '{made}/a.sqlite'", folder, **surroundings)
    assert (shown.returncode, shown.stderr) == (0, b"")
    text = shown.stdout.decode("ascii")
    assert max(map(len, text.splitlines())) <= 40
    assert "o\\u" in text.replace("\n", "")  # the name of the curve, in the letters there are


@pytest.fixture(scope="module")
def made():
    """A folder with an experiment, its store and a compiled function; it is compiled once."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # also for somebody else, who has no way into the folders of pytest
    (folder / "a.toml").write_text(EXPERIMENT, encoding="utf-8")
    assert typed("sweep", folder / "a.toml", "--store", folder / "a.sqlite").returncode == 0
    with pytest.MonkeyPatch.context() as patch:
        compiled = compile("x1 | x2", 9)
        patch.setattr("capax.compiler.compile", lambda *_, **__: compiled)
        save_compiled(folder / "w.safetensors", compiled)
        yield folder
    shutil.rmtree(folder)


def seen(text):
    return Counter(character for character in text if character.isalnum())


def test_nothing_is_lost_on_40_columns(made, monkeypatch):
    for command in (
        ("function", "maj(x1, x2, x3)"),
        ("thresholds", made / "a.sqlite"),
        ("compile", "x1 | x2", "-T", 9, "--dry-run"),
        ("reference",),
        ("sweep", made / "gone [b]é.toml"),
    ):
        monkeypatch.setenv("COLUMNS", "300")
        wide = typed(*command)
        monkeypatch.setenv("COLUMNS", "40")
        narrow = typed(*command)
        assert narrow.returncode == wide.returncode
        assert seen(narrow.stdout) == seen(wide.stdout), command
        assert narrow.stderr == wide.stderr


@contextmanager
def full_disk(bytes_left):
    """No file may grow beyond so many bytes; what is beyond is refused by the system.

    Python would keep the bytecode of a module that is imported here for the first time, as far as
    it fits (seen with 3.11.7): every later import of it would fail.
    """
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept


@contextmanager
def plain_user():
    """Root may write everywhere: become somebody who may not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def writers(made, target):
    """Every kind of file that a command writes, into the folder `target`."""
    return {
        "w.safetensors": ("compile", "x1 | x2", "-T", 9, "-o", target / "w.safetensors"),
        "r.html": ("report", made / "a.sqlite", "-o", target / "r.html"),
        "r.csv": ("export", made / "a.sqlite", "--out", target / "r.csv"),
        "r.parquet": ("export", made / "a.sqlite", "--out", target / "r.parquet"),
        "f.svg": ("figure", 2, "--store", made / "a.sqlite", "--out", target / "f.svg"),
        "d.npz": ("data", "and3", "-T", 9, "-m", 200, "--out", target / "d.npz"),
        "s.sqlite": ("sweep", made / "a.toml", "--store", target / "s.sqlite"),
    }


def refused(result, name):
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 2, (name, result.stderr)
    assert last.startswith("error: ") and name in last
    assert "Traceback" not in result.stderr and "error in Capax" not in last


def test_a_full_disk_leaves_the_old_file_and_a_read_only_folder_is_seen_first(made):
    folder = made / "full"
    folder.mkdir()
    old = (made / "w.safetensors").read_bytes()
    (folder / "w.safetensors").write_bytes(old)
    (folder / "r.csv").write_bytes(b"old")
    names = sorted(path.name for path in folder.iterdir())
    for name, command in writers(made, folder).items():
        with full_disk(1500):
            refused(typed(*command), name)
    folder.chmod(0o555)
    for name, command in writers(made, folder).items():
        with plain_user():
            result = typed(*command)
        refused(result, name)
        assert "cannot be written to" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "w.safetensors").read_bytes() == old
    assert (folder / "r.csv").read_bytes() == b"old"


def outcomes(path):
    with Store.read(path) as store:
        return [
            tuple(row) for row in store.select("SELECT trial_id, solved FROM trials ORDER BY 1")
        ]


def test_a_sweep_on_a_full_disk_keeps_what_is_finished_and_goes_on(made, tmp_path):
    path = tmp_path / "s.sqlite"
    command = writers(made, tmp_path)["s.sqlite"]
    with full_disk(110_000):
        stopped = typed(*command)
    refused(stopped, "s.sqlite")
    assert "finished trials are safe" in stopped.stderr
    kept, whole = outcomes(path), outcomes(made / "a.sqlite")
    assert 0 < len(kept) < len(whole) and set(kept) < set(whole)
    assert typed(*command).returncode == 0
    assert outcomes(path) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["s.sqlite"]


def test_without_a_home_the_cache_is_not_a_folder_called_tilde(monkeypatch):
    monkeypatch.delenv("CAPAX_CACHE", raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(InputError, match="CAPAX_CACHE"):
        cache_folder()


@pytest.mark.parametrize("nameless", [True, False])
def test_files_have_the_users_mode_and_nothing_stays_of_a_failed_one(
    tmp_path, monkeypatch, nameless
):
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    target = tmp_path / ("é" * 120)
    before = os.umask(0o027)
    try:
        for text in (b"one", b"two"):
            write_atomically(target, lambda file, text=text: file.write(text))
            assert target.read_bytes() == text and target.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
    during = []

    def broken(file):
        file.write(b"half")
        during.extend(path.name for path in tmp_path.iterdir())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, broken)
    assert len(during) == (1 if nameless else 2)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"two"


def test_the_citation_has_the_names_and_the_address_that_the_package_states():
    known = software("1.2", ["Ada Lovelace, Emmy Noether"], ["Repository, https://example.org/c"])
    assert "author  = {Ada Lovelace and Emmy Noether}" in known
    assert "url     = {https://example.org/c}" in known and "version = {1.2}" in known
    unknown = software("1.2", [], [])
    assert "author  = {{The Capax developers}}" in unknown and "url" not in unknown


def test_the_citation_file_and_the_package_say_the_same():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    names = ", ".join(author["name"] for author in project["authors"])
    addresses = [f"{name}, {url}" for name, url in project.get("urls", {}).items()]
    ours = software(project["version"], [names], addresses)
    said = (root / "CITATION.cff").read_text().partition("references:")[0]
    stated = dict(re.findall(r'^([a-z-]+): "?([^"\n]*)"?$', said, re.M))
    assert f"title   = {{{stated['title']}}}" in ours
    assert f"version = {{{stated['version']}}}" in ours
    assert f"year    = {{{stated['date-released'][:4]}}}" in ours
    assert re.findall(r'- name: "(.*)"', said) == names.split(", ")
    assert stated["license"] == project["license"]
    assert stated.get("repository-code", "") in ours and bool(addresses) == ("url " in ours)
