"""Strict by default: shapes and types checked at every call, no silent promotion, 64-bit on."""

import os

os.environ.pop("COLUMNS", None)  # xdist sets it, and commands fold their lines where it is set
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
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # nobody reads where in a program
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")  # an operation came from

import atexit
import gc
import shutil
import sys
import tempfile
from pathlib import Path

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

from call_checks import check_calls
from eager_numpy import move_by_numpy
from plain_programs import forget_many, share_contexts, write_whole
from slow_tests import SLOW
from warm_commands import WarmCommands, WarmServer
from warm_workers import CollectedWorkers

TESTS = Path(__file__).parent

jaxtyping.jaxtyped = check_calls
jaxtyping.install_import_hook("capax", "beartype.beartype")

# What one process has compiled the others need not, nor the next session: they share a folder of
# compiled programs. An entry is found by the program, its options and the version of XLA. Workers
# write small ones too: an addition takes 17 ms to compile, 1.5 to write, 6 to find (Neoverse N1).
KEPT = TESTS.parent / ".cache" / "capax-tests-programs"
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    forget_many(KEPT)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(KEPT)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    jax.config.update("jax_compilation_cache_dir", str(KEPT))

if Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).name.startswith("capax-tests-"):  # not the user's
    write_whole()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

share_contexts()
if jax.config.jax_platforms == "cpu":
    move_by_numpy()
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "capax",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("capax")


# Commands as real processes, without seconds of imports for each: all workers ask one server, which
# the first process starts. It costs nothing before somebody asks. Those who ask keep the variables
# of the beginning, as the server does: a test may change ours.
WARM = "CAPAX_TESTS_WARM"
SERVER = COMMANDS = WORKERS = None


def pytest_configure():
    global SERVER, COMMANDS
    if WARM not in os.environ:
        os.environ[WARM] = tempfile.mkdtemp(prefix="capax-warm-")
        SERVER = WarmServer(Path(os.environ[WARM]))
    COMMANDS = WarmCommands(Path(os.environ[WARM]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    """Workers are forked from one process that has collected the tests; so is the server."""
    global SERVER, WORKERS
    if sys.platform == "linux":
        SERVER = SERVER and SERVER.stop()
        WORKERS = CollectedWorkers(Path(os.environ[WARM]), config.args)
        for spec in specs:
            spec.python = WORKERS.python()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure():
    gc.collect()  # what was not closed says so now;
    gc.freeze()  # pytest would look through everything five times
    if "PYTEST_XDIST_WORKER" in os.environ:  # all is told: nobody waits for thousands of programs
        atexit.register(os._exit, 0)  # to be taken down one by one
    if WORKERS is not None:
        WORKERS.stop()
    if SERVER is not None:
        SERVER.stop()
    if SERVER is not None or WORKERS is not None:
        shutil.rmtree(os.environ.pop(WARM), ignore_errors=True)


@pytest.fixture(scope="session")
def warm_commands():
    return COMMANDS


def pytest_collection_modifyitems(config, items):
    """Slow tests are marked, but for those that were asked for by name.

    Files with slow tests come first, whole: a worker that takes a file from another one would make
    its fixtures and compile its programs again. Before them the audit's: where none is taken away,
    one worker alone imports `transformers`.
    """
    asked = {word.partition("::")[0] for word in config.args}
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        slow = getattr(item, "originalname", item.name) in SLOW.get(path, ())
        if slow and f"tests/{path}" not in asked:
            item.add_marker(pytest.mark.slow)

    def place(item):
        path = item.path.relative_to(TESTS).as_posix()
        return 0 if path.startswith("audit/") else 1 + (path not in SLOW)

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: it is not looked through again and again for what could go. What
    comes is looked through less often than usual: a trace makes many objects, and few cycles."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(500_000, 20, 100)


@pytest.fixture(scope="module")
def without_layout():
    """Pictures in a third of the time, whose parts may overlap: for files with
    `pytestmark = pytest.mark.usefixtures("without_layout")`, which look at what is drawn, not
    where."""
    with pytest.MonkeyPatch.context() as patch:
        engine = "matplotlib.layout_engine.ConstrainedLayoutEngine"
        patch.setattr(f"{engine}.execute", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def browser():
    """A real browser; tests that need it are skipped where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    if chromium is None:
        pytest.skip("no Chromium on this machine; CI installs it")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def windows(browser):
    """A window with a mouse and one with a finger, for all tests: a new one takes as long to open
    as the largest page. Whoever has a page in it hears what it says."""

    class Window:
        def __init__(self, **options):
            self.page, self.address, self.problems = browser.new_page(**options), "", []
            self.page.on("console", lambda message: self.problems.append(message.text))
            self.page.on("pageerror", lambda error: self.problems.append(str(error)))
            self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
            self.page.on("request", self.asked)

        def asked(self, request):
            if request.url.split("#")[0] != self.address:
                self.problems.append(request.url)

    opened = {}

    def window(**options):
        kind = tuple(sorted(options.items()))
        if kind not in opened:
            opened[kind] = Window(**options)
        return opened[kind]

    yield window
    for window in opened.values():
        window.page.close()


@pytest.fixture
def open_file(windows):
    """Opens a file as a page; it may load nothing, say nothing and ask nothing."""
    problems = []

    def open_(path, width=1100, height=900, color_scheme="light", **options):
        window = windows(**{"has_touch": False, "is_mobile": False, **options})
        page = window.page
        window.address = "about:blank"
        page.goto("about:blank")
        page.mouse.move(0, 0)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=color_scheme)
        window.problems, window.address = problems, path.as_uri()
        page.goto(window.address)
        if path.suffix == ".html":
            page.wait_for_selector("html.ready")
        return page

    yield open_
    assert not problems
