"""The judge: runs one case in this process through the real entry point and says what is wrong.

Wrong is: an exit code other than 0, 1, 2 or 130; a traceback or a warning of Python's; more than
one line of error; standard output that is no JSON although `--json` asks for it; more than 10
seconds of the processor or 2 GB; a file that a planted payload made; a file changed that had to
stay.
"""

import io
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

from capax.cli import entry
from fuzzing.case import Case
from fuzzing.hostile import PLANTED

SECONDS, BYTES = 10.0, 2 * 2**30
ASLEEP, WORK = 60.0, 0.1  # by the clock, and the work in this time below which a command waits
CODES = {0, 1, 2, 130}
_TRACES = re.compile(r"Traceback \(most recent|^Exception ignored|\.py:\d+: \w*Warning", re.M)


class Overtime(BaseException):
    """Raised into a command that does not come back."""


@dataclass(frozen=True)
class Verdict:
    """How a case ended; `faults` is empty when all is well."""

    code: object
    seconds: float
    megabytes: float
    faults: tuple[str, ...]
    out: str
    err: str


def judge(case: Case, seconds: float = SECONDS) -> Verdict:
    """Run the case in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as above:
        folder = Path(above) / "case"
        folder.mkdir()
        case.write(folder)
        out, err, raised = io.StringIO(), io.StringIO(), ""
        _forget_peak()
        before = _peak()
        start, code = time.process_time(), None
        with _inside(folder, case.argv), redirect_stdout(out), redirect_stderr(err):
            try:
                with _at_most(seconds):
                    code = entry.run_command()  # `main` adds the signals, and ends the process
            except SystemExit as ending:
                code = ending.code
            except Overtime:
                raised = f"does not answer within {seconds:.0f} s, at {_where()}"
            except BaseException:
                raised = "raises " + " | ".join(traceback.format_exc().splitlines()[-5:])
        spent, peak = time.process_time() - start, _peak()
        said = out.getvalue() + "\n" + err.getvalue()
        faults = [raised] if raised else []
        faults += _faults(case, code, said, err.getvalue()) if not raised else []
        faults += _not_json(case, out.getvalue()) if not raised else []
        large = peak > BYTES and peak - before > BYTES / 2  # what was there before is not its own
        faults += [f"{peak / 1e6:.0f} MB"] if large else []
        faults += _files(case, Path(above), folder, code)
    return Verdict(code, spent, peak / 1e6, tuple(faults), out.getvalue(), err.getvalue())


def _faults(case: Case, code: object, said: str, err: str) -> list[str]:
    faults = []
    if code not in CODES:
        faults.append(f"exit code {code}: {err.strip()[-300:]}")
    if _TRACES.search(said):
        faults.append("a traceback or a warning of Python's")
    if "out of memory" in said:
        faults.append("out of memory")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    if code == 2 and case.argv[:1] != ("verify",) and len(errors) > 1:
        faults.append(f"{len(errors)} lines of error")
    if code == 2 and not errors and "note: " not in err:
        faults.append("exit code 2 and not a word")
    return faults


def _not_json(case: Case, out: str) -> list[str]:
    """A last word `--json` asks for JSON, or nothing where there is no answer."""
    if case.argv[-1:] != ("--json",) or "--help" in case.argv or not out.strip():
        return []
    try:
        json.loads(out, parse_constant=_refused)
    except ValueError as error:
        return [f"standard output is no JSON ({error}): {out[:80]!r}"]
    return []


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _files(case: Case, above: Path, folder: Path, code: object) -> list[str]:
    faults = []
    names = [path.name for path in above.rglob("*")]
    faults += [f"a payload made {PLANTED}"] if PLANTED in names else []
    must = (*case.kept, *(case.spared if code != 0 else ()))
    for name in must:
        path = folder / name
        if not path.is_file() or path.read_bytes() != case.files[name]:
            faults.append(f"{name} was changed")
        beside = [p.name for p in folder.iterdir() if p.name.startswith(f"{name}-")]
        faults += [f"{other} left behind" for other in beside if other not in case.files]
    half = [p.name for p in folder.glob(".*") if p.name not in (".cache",)]
    faults += [f"half-written {name}" for name in half if name not in case.files]
    return faults


@contextmanager
def _inside(folder: Path, argv: tuple[str, ...]) -> Iterator[None]:
    """The world as a command line sees it; afterwards as it was."""
    before, words, hook = Path.cwd(), sys.argv, sys.unraisablehook
    interrupt = signal.getsignal(signal.SIGINT)
    home = {name: os.environ.get(name) for name in ("HOME", "CAPAX_CACHE", "CAPAX_MEMORY_GB")}
    os.chdir(folder)
    os.environ |= {"HOME": str(folder.parent), "CAPAX_CACHE": str(folder.parent / "cache")}
    os.environ["CAPAX_MEMORY_GB"] = "1"
    sys.argv = ["capax", *argv]
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=ResourceWarning)
            yield
    finally:
        os.chdir(before)
        sys.argv, sys.unraisablehook = words, hook
        signal.signal(signal.SIGINT, interrupt)
        for name, value in home.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises `Overtime` after so much work, or where a minute passes without work.

    On a busy machine a minute alone says nothing.
    """
    worked = time.process_time()

    def ring(bell: int, frame: object) -> None:
        nonlocal worked
        now = time.process_time()
        if bell == signal.SIGALRM and now - worked > WORK:
            worked = now
            return
        _PLACE[:] = traceback.format_stack(frame)[-3:]  # type: ignore[arg-type]
        raise Overtime

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, seconds, 1.0),
              (signal.SIGALRM, signal.ITIMER_REAL, ASLEEP, ASLEEP))  # fmt: skip
    before = [signal.signal(bell, ring) for bell, _, _, _ in clocks]
    for _, timer, limit, again in clocks:
        signal.setitimer(timer, limit, again)
    try:
        yield
    finally:
        for (bell, timer, _, _), old in zip(clocks, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(bell, old)


_PLACE: list[str] = []


def _where() -> str:
    return " > ".join(line.strip().splitlines()[0] for line in _PLACE)


def _forget_peak() -> None:
    """Start counting the peak of the memory in use anew (Linux; elsewhere it only ever grows)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
