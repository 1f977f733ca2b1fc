"""Every public name of `import capax` resolves and explains itself by an example."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import capax

pytestmark = pytest.mark.usefixtures("without_layout")

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "capax"
PAGE = (ROOT / "docs" / "api" / "capax.md").read_text()


@pytest.mark.parametrize("name", capax.__all__)
def test_a_public_name_explains_itself_with_an_example_that_runs(name):
    found = capax.callable_packages.resolved(capax._PUBLIC[name])
    text = inspect.getdoc(found) or ""
    assert ">>> " in text, f"capax.{name} shows no example"
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    example = parser.get_doctest(text, {"capax": capax}, f"capax.{name}", None, 0)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", capax.__all__)
def test_a_public_name_has_its_place_on_the_page(name):
    module, _, attribute = capax._PUBLIC[name].partition(":")
    assert f"## capax.{name}\n" in PAGE
    assert f"::: {module}.{attribute}\n" in PAGE


def test_dir_shows_the_product_and_nothing_else():
    assert dir(capax) == sorted(capax._PUBLIC)
    for name in dir(capax):
        assert callable(getattr(capax, name))


def test_type_checkers_see_the_same_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    listed = {
        alias.asname: f"{node.module}:{alias.name}"
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert listed == capax._PUBLIC
    assert (SOURCE / "py.typed").is_file()


@pytest.mark.parametrize("package", capax._PACKAGES)
def test_packages_resolve(package):
    assert getattr(capax, package) is importlib.import_module(f"capax.{package}")


def test_a_name_that_does_not_exist_says_so():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        capax.nonsense  # noqa: B018


def test_importing_loads_nothing_heavy():
    probe = "import sys, capax; print([m for m in ('jax', 'numpy', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_package_that_is_also_a_verb_can_be_called():
    probe = """
import capax.sweep.storage.store
import capax
assert callable(capax.sweep) and capax.sweep.storage.store.Store
from capax.sweep.storage import store
assert capax.sweep is sys.modules["capax.sweep"]
"""
    verbs = [name for name in capax._PACKAGES if name in capax.__all__]
    for verb in verbs:
        assert isinstance(getattr(capax, verb), capax.callable_packages.CallablePackage)
    if "sweep" in verbs:
        subprocess.run([sys.executable, "-c", f"import sys\n{probe}"], check=True)
