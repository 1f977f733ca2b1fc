"""The `capax` command as a user meets it: help, version, doctor, mistakes."""

import json
import subprocess
import sys

import pytest

from typed_command import typed


def capax(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "capax.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_help_and_version():
    shown = capax("--help")
    assert shown.returncode == 0
    assert "doctor" in shown.stdout
    assert "Example" in shown.stdout
    assert typed("--version").stdout.startswith("capax ")
    assert capax().stdout == shown.stdout


def test_help_is_quick_because_it_imports_no_heavy_package():
    heavy = ("jax", "numpy", "scipy", "matplotlib", "pandas", "torch", "ray", "pydantic")
    probe = f"import sys, capax.cli.main; print([p for p in {heavy} if p in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_doctor_uses_what_it_finds():
    result = capax("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0
    assert report["ok"]
    assert report["jax"]["devices"]
    assert set(report["extras"]) == {"torch", "ray"}


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "extra"]])
def test_mistakes_are_one_line_and_exit_code_2(arguments):
    result = typed(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1


def test_every_command_has_an_example_and_speaks_json():
    from typer.main import get_command

    from capax.cli.main import app

    for name, command in get_command(app).commands.items():
        words = f"{command.help} {command.epilog}"
        assert "Example" in words, f"capax {name} shows no example"
        options = [option for p in command.params for option in p.opts]
        assert "--json" in options, f"capax {name} does not speak JSON"
