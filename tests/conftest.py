"""Strict by default: shapes and types checked at every call, no silent promotion, 64-bit on."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores already
# Programs of the tests compile for seconds and run for milliseconds: plain code, in a third of the
# time. A JAX that does not know these flags says so and ends; the constraints name one that does.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)

import gc
import shutil
import tempfile
from dataclasses import is_dataclass
from functools import wraps
from inspect import isclass
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, ForwardRef, Literal, get_args, get_origin, get_type_hints

import jax
import jaxtyping
import pytest
import typer
from beartype import BeartypeConf, beartype
from hypothesis import HealthCheck, settings

from slow_tests import SLOW
from warm_commands import WarmCommands, WarmServer

TESTS = Path(__file__).parent
check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
one_call = jaxtyping.jaxtyped("context")  # within it one letter is one size


def has_shapes(annotation):
    """Whether an annotation contains a jaxtyping array, or text that could be one."""
    if isinstance(annotation, str | ForwardRef):
        return True
    if isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    if get_origin(annotation) is Literal:  # its words are no names
        return False
    return any(has_shapes(part) for part in get_args(annotation))


def is_plain(function):
    annotations = getattr(function, "__annotations__", {}).values()
    return isinstance(function, FunctionType) and not any(map(has_shapes, annotations))


def resolves(annotation, function):
    """False for a quoted name that only type checkers import."""
    named = SimpleNamespace(__annotations__={"it": annotation})
    try:
        get_type_hints(named, globalns=function.__globals__)
    except NameError:
        return False
    return True


def check_arrays(function):
    """Types and sizes of one call, as jaxtyping's own decorator has it at a third of the cost.

    That one binds the arguments of every call to their names, for its message, and checks them
    a second time with the result.
    """
    checked = None

    @wraps(function)
    def call(*arguments, **named):
        nonlocal checked
        if checked is None:  # not before all names of its module are there
            function.__annotations__ = {
                name: annotation if resolves(annotation, function) else Any
                for name, annotation in function.__annotations__.items()
            }
            checked = check_types(function)
        with one_call:
            return checked(*arguments, **named)

    return call


SEEN_INSIDE = set()


def was_checked(function):
    """Whether a function inside a function was decorated before: each call makes a new one, and to
    write and compile its checks takes a thousand times as long as most of them run."""
    code = getattr(function, "__code__", None)
    if code is None or "<locals>" not in function.__qualname__:
        return False
    before = code in SEEN_INSIDE
    SEEN_INSIDE.add(code)
    return before


def check_calls(*, typechecker):
    """In place of `jaxtyping.jaxtyped`: beartype alone where no array is named."""
    del typechecker

    def decorate(decorated):
        if isclass(decorated):
            if is_dataclass(decorated) and "__init__" in vars(decorated):
                decorated.__init__ = decorate(decorated.__init__)
            return decorated
        if typer.Context in getattr(decorated, "__annotations__", {}).values():
            return decorated  # Typer asks for this annotation and passes a Context of Click
        if was_checked(decorated) or decorated.__qualname__ == "require":
            return decorated  # `require` takes anything, and is asked millions of times
        return check_types(decorated) if is_plain(decorated) else check_arrays(decorated)

    return decorate


jaxtyping.jaxtyped = check_calls
jaxtyping.install_import_hook("capax", "beartype.beartype")

# What one process has compiled the others need not: the workers of a session, and the commands
# they start, share a folder of compiled programs. The first process makes and removes it.
MADE_HERE = None
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    MADE_HERE = tempfile.mkdtemp(prefix="capax-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = MADE_HERE
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    jax.config.update("jax_compilation_cache_dir", MADE_HERE)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "capax", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("capax")


# Commands as real processes, without seconds of imports for each: all workers ask one server, which
# the first process starts. It costs nothing before somebody asks.
WARM = "CAPAX_TESTS_WARM"
SERVER = None


def pytest_configure():
    global SERVER
    if WARM not in os.environ:
        os.environ[WARM] = tempfile.mkdtemp(prefix="capax-warm-")
        SERVER = WarmServer(Path(os.environ[WARM]))


def pytest_unconfigure():
    if SERVER is not None:
        SERVER.stop()
        shutil.rmtree(os.environ.pop(WARM), ignore_errors=True)
    if MADE_HERE is not None:
        shutil.rmtree(MADE_HERE, ignore_errors=True)


@pytest.fixture(scope="session")
def warm_commands():
    return WarmCommands(Path(os.environ[WARM]))


def pytest_collection_modifyitems(config, items):
    """Slow tests are marked, but for those that were asked for by name.

    Files with slow tests come first, whole: a worker that takes a file from another one would make
    its fixtures and compile its programs again.
    """
    asked = {word.partition("::")[0] for word in config.args}
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        slow = getattr(item, "originalname", item.name) in SLOW.get(path, ())
        if slow and f"tests/{path}" not in asked:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.relative_to(TESTS).as_posix() not in SLOW)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: it is not looked through again and again for what could go."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def browser():
    """A real browser; tests that need it are skipped where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    if chromium is None:
        pytest.skip("no Chromium on this machine; CI installs it")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_file(browser):
    """Opens a file as a page; it may load nothing, say nothing and ask nothing."""
    problems, contexts = [], []

    def open_(path, width=1100, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page, address = context.new_page(), path.as_uri()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda r: r.url.split("#")[0] != address and problems.append(r.url))
        page.goto(address)
        if path.suffix == ".html":
            page.wait_for_selector("html.ready")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems
