"""The `capax` command as a user meets it: help, version, doctor, mistakes."""

import ast
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
    probe = (
        "import sys; from capax.cli.main import commands; commands()\n"
        f"print([p for p in {heavy} if p in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_command_loads_its_own_module_and_help_shows_all_of_them():
    from capax.cli.main import COMMANDS, commands

    assert set(commands().commands) == set(COMMANDS)
    for name, module in COMMANDS.items():
        alone = commands(name).commands
        assert name in alone and set(alone) == {n for n in COMMANDS if COMMANDS[n] == module}
    probe = (
        "import sys\nfrom capax.cli.main import command_line\n"
        "sys.argv = ['capax', 'cite', '--help']\ncommand_line()\n"
        "print([m for m in sys.modules if m.startswith('capax.cli.') and m.count('.') > 2])"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(ran.stdout.splitlines()[-1])
    assert "capax.cli.publishing.cite" in loaded
    assert all(m.split(".")[2] in ("publishing", "speaking") for m in loaded)


def test_what_is_seen_at_once_is_said_before_the_heavy_imports(tmp_path):
    """Seconds of imports, on a busy machine, for a name that was mistyped."""
    refused = [
        ["report", "no.sqlite"],
        ["thresholds", "no.sqlite"],
        ["export", "no.sqlite", "--out", "a.csv"],
        ["figure", "2", "--out", "a.png", "--store", "no.sqlite"],
        ["verify", "no.safetensors"],
        ["bound", "no.safetensors"],
        ["decompile", "no.safetensors"],
        ["audit", "no"],
        ["cover", "no.npy", "--eps", "1"],
        ["compile", "x0 &", "-T", "3"],
        ["data", "x0 &", "-T", "3", "-m", "3"],
        ["sweep", "no.toml"],
        ["card", "mlpp"],
    ]
    probe = (
        "import sys\nfrom capax.cli.main import command_line\n"
        f"for argv in {refused}:\n"
        "    sys.argv = ['capax', *argv]\n"
        "    try:\n        code = command_line()\n"
        "    except SystemExit as end:\n        code = end.code\n"
        "    heavy = [p for p in ('jax', 'matplotlib', 'pandas', 'torch') if p in sys.modules]\n"
        "    print(argv[0], code, *heavy)"
    )
    command = [sys.executable, "-c", probe]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.splitlines() == [f"{argv[0]} 2" for argv in refused]
    assert len(ran.stderr.splitlines()) == len(refused)


def test_doctor_uses_what_it_finds(warm_commands):
    result = warm_commands.capax("doctor", "--json")
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
    from capax.cli.main import commands

    for name, command in commands().commands.items():
        words = f"{command.help} {command.epilog}"
        assert "Example" in words, f"capax {name} shows no example"
        options = [option for p in command.params for option in p.opts]
        assert "--json" in options, f"capax {name} does not speak JSON"
