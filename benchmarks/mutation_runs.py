"""Runs of pytest: which tests execute a line, and which test fails first with a fault planted.

A worker imports the libraries once and forks a process per run of pytest; it computes nothing, so
that it may fork. It imports nothing of the package itself: every process reads the sources anew,
with the fault in them. Each worker has a copy of the repository to itself.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import pytest
from mutation_operators import Mutant
from mutation_report import NOT_ENDED
from mutation_swaps import swapped

IMPORTED = ("jax.numpy", "equinox", "optax", "scipy.stats", "scipy.optimize", "scipy.special",
            "pydantic", "hypothesis", "pytest", "beartype", "jaxtyping", "typer", "rich.table",
            "coverage")  # fmt: skip
QUIETLY = (
    "-q",
    "--no-header",
    "-p",
    "no:benchmark",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
PATIENCE = 5.0  # times the usual time of a test, after which a mutant counts as killed
START = 30.0  # seconds added for imports and compilation
BUSY = 5.0  # times this limit, which is of the process's own time, on the clock of the wall
USUAL = 10.0  # seconds of a test that was not timed
_COPY, _COMPILED, _LONGEST, _END = "", "", 0.0, 0.0
_LEFT_OUT: tuple[str, ...] = ()
_TIMES: dict[str, float] = {}  # seconds of tests, as far as they were run: the next mutant's order
UNTIMED = 0.3
COLD = "needs a process that has not imported its module"
_WARM = False  # whether tests are imported before mutants are planted
_QUICK, COMMANDS = False, "warm_commands"  # the fixture of tests that start commands
_SECONDS = itertools.count(1)  # no two mutants of a worker have the same time


def begin(copies: Any, asked: Any, end: float, files: list[str], maps: Any) -> None:
    """A worker starts: it takes a copy of the repository and imports the libraries `asked.warm`.

    asked: the arguments of the command. end: the time after which no mutant is begun or judged.
    files: tests to collect beforehand. maps: of test files, as far as they are known.
    """
    global _COPY, _COMPILED, _LONGEST, _END, _LEFT_OUT, _QUICK, _WARM
    _COPY, _LONGEST, _END = copies.get(), asked.longest, end
    _COMPILED = str(asked.keep.resolve() / "compiled")
    _LEFT_OUT, _QUICK = tuple(asked.leave_out), asked.quick
    os.environ |= {"JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{_COPY}/compiled"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    if asked.pin:  # XLA then makes one thread, not one per core and worker
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(Path(_COPY).name) % len(cores)]})
    for name in asked.warm:
        __import__(name)
    for known in maps.values():
        _TIMES.update(known["seconds"])
    _WARM = bool(files)
    _collect(files, {file: found["computes"] for file, found in maps.items()})


def _collect(files: list[str], computes: dict[str, bool]) -> None:
    """Import the package and the tests in this worker, for all processes that it forks.

    Not those whose import computes: threads of JAX do not survive a fork. A map knows it, else a
    process is forked to try.
    """
    streams = [os.dup(stream) for stream in (0, 1, 2)]
    _enter()
    for file in files:
        if file not in computes:
            computes[file] = _forked(lambda file=file: _imports(file), START) != "false"
    collected = [file for file in files if not computes[file]]
    if collected:
        pytest.main([*QUIETLY, "--collect-only", *collected])
    for stream, kept in enumerate(streams):
        os.dup2(kept, stream)
    print(f"{len(collected)} of {len(files)} test files collected", flush=True)


def _imports(file: str) -> bool:
    """Import a test file; whether something was computed, or the import failed."""
    return pytest.main([*QUIETLY, "--collect-only", file]) != 0 or _has_computed()


def _has_computed() -> bool:
    xla = sys.modules.get("jax._src.xla_bridge")
    return xla is not None and bool(xla._backends)


def mapped(file: str) -> dict[str, Any] | None:
    """Of one test file: seconds per test, tests per executed line, and tests that fail.

    None: no time left.
    """
    found = _forked(lambda: _map(file), _LONGEST)
    if not found and time.time() > _END:
        return None
    nothing = {"seconds": {}, "lines": {}, "failing": [file], "start": 0.0, "computes": True}
    return json.loads(found) if found else nothing


def outcome(numbered: tuple[int, tuple[Mutant, list[str]]]) -> tuple[int, Any]:
    """Plant the fault and run its tests until one fails: (number of the job, what is kept of it).

    None instead: no time left. `COLD`: a worker that has imported the tests cannot do it.
    """
    number, (mutant, tests) = numbered
    return number, _judged(mutant, tests)


def _judged(mutant: Mutant, tests: list[str]) -> Any:
    if time.time() > _END:
        return None
    start, file = time.perf_counter(), Path(_COPY) / mutant.path
    original, times = file.read_text(), file.stat()
    file.write_text(mutant.applied(original))
    planted = times.st_mtime + next(_SECONDS)  # bytecode is known by its source's time in seconds
    os.utime(file, (planted, planted))
    try:
        killer = _first_failure(mutant, original, tests)
    finally:
        file.write_text(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    if time.time() > _END:
        return None
    if killer == COLD:
        return COLD
    return {**told(mutant, killer), "seconds": round(time.perf_counter() - start, 1)}


def told(mutant: Mutant, killer: str) -> dict[str, Any]:
    """What is kept of a mutant; killer: the test that failed, "" where none did."""
    said = {"name": mutant.name, "outcome": "killed" if killer else "survived", "by": killer}
    return {**said, **asdict(mutant)}


def _first_failure(mutant: Mutant, original: str, tests: list[str]) -> str:
    """The first test that fails; "" where all pass. Tests that do not end count as a failure."""

    def work() -> str:
        in_force = not (_WARM and mutant.operator) or swapped(mutant, _COPY, original)
        return _run(tests) if in_force else COLD

    said = _forked(lambda: (work(), _TIMES), START)
    if not said:
        return NOT_ENDED
    killer, times = json.loads(said)
    _TIMES.update(times)
    return killer


def _forked(work: Callable[[], Any], limit: float) -> str:
    """What `work` returns in a process of its own, as JSON; "" where it did not return in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing, limit)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # servers and learners that a test started
    return said


def _answer(work: Callable[[], Any], writing: int, limit: float) -> NoReturn:
    os.setsid()
    os.set_inheritable(writing, False)
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, signal.SIG_DFL)
    _end_after(limit)
    _enter()
    said = json.dumps(work()).encode()
    while said:
        said = said[os.write(writing, said) :]
    os._exit(0)


def _end_after(limit: float) -> None:
    """This process has so many seconds of its own from now on; a busy machine kills no mutant."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, min(BUSY * limit, max(_END - time.time(), 0.01)))


def _enter() -> None:
    """Into the copy of the repository, in silence."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    os.chdir(_COPY)
    sys.path.insert(0, f"{_COPY}/src")
    beside = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{_COPY}/src{os.pathsep}{beside}"  # for commands that a test starts


@contextlib.contextmanager
def _compiled_programs() -> Iterator[None]:
    """JAX finds the programs of earlier runs, and leaves its own: in a folder of links, because two
    writers, or one that is stopped, would leave half a file in a folder for all."""
    shared, own = Path(_COMPILED), Path(_COPY) / "compiled"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    known = {program.name for program in shared.iterdir()}
    for name in known:
        os.link(shared / name, own / name)
    yield
    for program in own.iterdir():
        if program.name not in known:
            with contextlib.suppress(FileExistsError):
                os.link(program, shared / program.name)


def _run(tests: list[str]) -> str:
    """File by file, so that a failure in the first saves the imports of the others. Files are
    named, not tests: pytest cannot find a test by every name that it gives."""
    with _compiled_programs():
        for file, own in itertools.groupby(tests, lambda test: test.partition("::")[0]):
            failures = _Failures()
            _end_after(START)  # each of its tests begins anew
            code = pytest.main([*QUIETLY, "-x", file], plugins=[failures, _Order(list(own))])
            if failures.names:
                return failures.names[0]
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return f"{file} (pytest ended with {code})"
    return ""


def _map(file: str) -> dict[str, Any]:
    import coverage

    measured = coverage.Coverage(data_file=None, include=[f"{_COPY}/src/capax/*"])
    begun, timing, failures = time.perf_counter(), _Timing(measured), _Failures(mapping=True)
    measured.start()
    pytest.main([*QUIETLY, file], plugins=[timing, failures, _Order([file])])
    measured.stop()
    data, lines = measured.get_data(), {}
    for path in data.measured_files():
        contexts = data.contexts_by_lineno(path).items()
        tests = {str(line): [name for name in names if name] for line, names in contexts}
        lines[Path(path).relative_to(_COPY).as_posix()] = tests
    start, failing = timing.first - begun, failures.names
    found = {"seconds": timing.seconds, "lines": lines, "failing": failing, "start": start}
    return {**found, "computes": timing.computes}


class _Failures:
    """A plugin of pytest that remembers the tests that failed; one that does not end is ended."""

    def __init__(self, mapping: bool = False) -> None:
        self.names: list[str] = []
        self.mapping = mapping

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self.mapping:
            _end_after(PATIENCE * _TIMES.get(nodeid, USUAL) + START)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            _TIMES[report.nodeid] = report.duration
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(f"{report.nodeid} (import)")


class _Order:
    """A plugin of pytest that runs the named tests and whole files, in the order of their names."""

    def __init__(self, tests: list[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}

    def place(self, item: Any) -> int | None:
        starts_commands = COMMANDS in getattr(item, "fixturenames", ())
        if item.nodeid.startswith(_LEFT_OUT) or (_QUICK and starts_commands):
            return None
        return self.places.get(item.nodeid, self.places.get(item.nodeid.partition("::")[0]))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        placed = [(self.place(i), _TIMES.get(i.nodeid, UNTIMED), i) for i in items]
        placed = [each for each in placed if each[0] is not None]
        items[:] = [item for *_, item in sorted(placed, key=lambda each: each[:2])]


class _Timing:
    """A plugin of pytest that tells coverage which test runs, and times each."""

    def __init__(self, measured: Any) -> None:
        self.measured, self.seconds = measured, {}
        self.first, self.computes = 0.0, True

    def pytest_collection_finish(self) -> None:
        self.computes = _has_computed()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid)
        self.start = time.perf_counter()
        self.first = self.first or self.start

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.perf_counter() - self.start
        self.measured.switch_context("")
