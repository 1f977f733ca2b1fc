"""The package works alone: built as a wheel, installed where there is no checkout, used from there.

The fresh environment sees the dependencies that are installed here (they are not downloaded again)
but not this checkout. `make wheel` does the same with everything from the registry, for each
interpreter it is given.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (built,) = folder.glob("capax-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of commands of an environment that has the wheel and our dependencies."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True, with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = home / "lib" / version / "site-packages"
    # a path added by a .pth file is searched, but its own .pth files (our checkout) are not read
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
        "--no-compile",  # commands compile the modules that they load
    ]
    target = ["--prefix", str(home), str(wheel)]
    subprocess.run([*command, *target], check=True, capture_output=True, text=True)
    script = home / "bin" / "capax"
    body = script.read_text().splitlines()
    script.write_text("\n".join([f"#!{home / 'bin' / 'python'}", *body[1:]]) + "\n")
    return home / "bin"


def run(installed, folder, *arguments):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(installed / "capax"), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_what_the_package_reads(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "capax").rglob("*")
            if p.is_file() and p.suffix not in (".py", ".pyc")}  # fmt: skip
    assert data <= names
    assert "capax/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs"))]


def test_the_lab_is_small_and_the_solutions_stay_at_home(wheel):
    infos = zipfile.ZipFile(wheel).infolist()
    assert not [
        info.filename for info in infos if "solution" in info.filename or "course" in info.filename
    ]
    parts = ("capax/lab/", "capax/cli/publishing/lab", "capax/cli/publishing/exercise")
    sizes = [info.compress_size for info in infos if info.filename.startswith(parts)]
    assert len(sizes) > 30 and sum(sizes) < 300_000


def test_the_package_is_the_wheel(installed, tmp_path):
    probe = "import capax; print(capax.__file__)"
    python = [str(installed / "python"), "-c", probe]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    shown = subprocess.run(python, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert shown.stdout.startswith(str(installed.parent))


def test_doctor_and_cite_work_alone(installed, tmp_path):
    assert json.loads(run(installed, tmp_path, "doctor", "--json"))["ok"]
    assert "@inproceedings{edelman2022inductive" in run(installed, tmp_path, "cite")


def test_an_experiment_by_name_works_alone(installed, tmp_path):
    run(installed, tmp_path, "sweep", "smoke", "--store", "smoke.sqlite")
    assert (tmp_path / "smoke.sqlite").is_file()


def test_the_pinned_versions_install_on_the_oldest_python():
    """A fresh machine may have 3.11.2 (Debian 12): pip finds no version there that needs 3.11.5."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f"{asked.removeprefix('>=')}.0"
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    needed = {}
    for name in pinned:
        with contextlib.suppress(metadata.PackageNotFoundError):  # of another platform
            needed[name] = metadata.metadata(name).get("Requires-Python") or ""
    assert len(needed) > len(pinned) / 2
    assert [f"{n}: {r}" for n, r in needed.items() if oldest not in SpecifierSet(r)] == []
