"""Do the tests notice a bound that is slightly too small? Faults are planted; a test must fail.

    python benchmarks/mutants.py --count 400 --jobs 2 --whole --keep out/mutants
    python benchmarks/mutants.py --modules capacity/network --count 60
    python benchmarks/mutants.py --modules analysis/laws.py --count 0     # all mutants of a file
    python benchmarks/mutants.py --again --whole                # plant the survivors once more
    python benchmarks/mutants.py --minutes 0 --report docs/mutants.md   # only the table

Each mutant is one fault (`mutation_operators.py`) in a copy of the sources. Of the test files that
name its folder, the tests that execute its line run first, the quick ones first; a mutant that
outlives them meets the rest of these files. With `--whole` it is the test files of its layer that
execute its file or start processes. It is killed when a test fails or takes five times its usual
time, otherwise it survived. Tests that fail without a fault are left out. To find out
which tests execute which line takes as long as the tests do; it is done once per test file, and
`--by-name` goes without: for a few mutants the test files that name the module are quicker. Results
are lines of JSON in the folder `--keep`; a second call goes on where the first one ended, also
where `--minutes` ended it, and takes over what other files (`--known`) tell. Harmless survivors
stand with their reasons in `harmless_mutants.json`; `--control` plants these, and in every module
no fault at all: a test that fails would say that the harness kills without a fault.
"""

import argparse
import hashlib
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from mutation_maps import all_passing, maps_of, round_by_name, round_of, test_files
from mutation_operators import Mutant, mutants
from mutation_report import enough, harmless, survived, tables, write_report
from mutation_runs import COLD, IMPORTED, begin, outcome, told

ROOT = Path(__file__).parents[1]
MODULES = ("capacity", "compiler/proof", "compiler/certificate", "decompile/proof",
           "decompile/bounds", "analysis",
           "boolean/best_possible", "audit/heads", "cards/measuring", "sweep/storage",
           "learners")  # fmt: skip
TOP = ("src", "tests", "docs", "benchmarks", "examples", "course", "tools")


def main() -> int:
    """Plant, run, print a table; 1 if fewer than the wanted share was killed."""
    asked = _arguments()
    asked.keep.mkdir(parents=True, exist_ok=True)
    chosen = sample(asked.modules, asked.count, asked.seed)
    results, reasons = asked.results or asked.keep / "results.jsonl", harmless()
    known = _known([*asked.known, results])
    if asked.control:
        every = sample(asked.modules, 0, asked.seed)
        chosen = [*map(_no_fault, asked.modules), *(m for m in every if m.key in reasons)]
        known = {}
    else:  # what was read and found harmless counts as a survivor, unplanted
        read = [mutant for mutant in chosen if mutant.key in reasons]
        known |= {m.key: told(m, "") for m in read}
    waiting = [m for m in chosen if m.key not in known or _again(known[m.key], reasons, asked)]
    waiting.sort(key=lambda m: m.key not in known)  # survivors first, where there are new tests
    print(f"{len(chosen)} mutants, {len(chosen) - len(waiting)} known", flush=True)
    if waiting and asked.minutes > 0:
        top = Path(tempfile.mkdtemp(prefix="copies-", dir=asked.keep)).resolve()
        try:
            _run(waiting, asked, top, results, known)
        finally:
            shutil.rmtree(top, ignore_errors=True)
    done = [known[m.key] for m in chosen if m.key in known and not _killer_is_gone(known[m.key])]
    if asked.control:
        killed = [said for said in done if not survived(said)]
        print(*(f"killed: {said['name']} by {said['by']}" for said in killed), sep="\n")
        return int(bool(killed))
    text = tables(done, asked.modules)
    print("\n" + text)
    if asked.report is not None:
        write_report(asked.report, text)
    return int(not enough(done, asked.share))


def _run(waiting: list[Mutant], asked: Any, top: Path, results: Path, known: Any) -> None:
    copies = _copies(top, asked.jobs)
    end = time.time() + 60 * asked.minutes
    context = multiprocessing.get_context("fork")

    def pool(files: list[str], maps: Any) -> Any:
        queue = context.Queue()
        for copied in copies:
            queue.put(copied)
        return context.Pool(asked.jobs, begin, (queue, asked, end, files, maps))

    maps: Any = {}
    if asked.by_name:
        jobs = [(mutant, round_by_name(mutant, ROOT, asked.leave_out)) for mutant in waiting]
    else:
        files = test_files(waiting, ROOT, asked.whole)
        files = [file for file in files if file not in asked.leave_out]
        with pool([], {}) as workers:
            maps = maps_of(files, ROOT, asked.keep / "maps", workers)
        jobs = [(m, round_of(m, maps, ROOT, asked.whole) if m.operator else all_passing(m, maps))
                for m in waiting]  # fmt: skip
    _share_compiled(top, asked.keep)
    files = sorted({test.partition("::")[0] for _, tests in jobs for test in tests})
    for collected in (files, []):  # what a warm worker cannot do is left to a cold one
        cold = []
        with pool(collected, maps) as workers, results.open("a") as file:
            for number, said in workers.imap_unordered(outcome, list(enumerate(jobs)), 1):
                if said == COLD:
                    cold.append(jobs[number])
                elif said is not None:  # else the time is over
                    said["whole"] = asked.whole and not asked.quick
                    known[said["key"]] = said
                    file.write(json.dumps(said) + "\n")
                    file.flush()
                    print(f"{said['outcome']}: {said['name']}", flush=True)
        jobs = cold
        print(f"{len(jobs)} left", flush=True)


def _share_compiled(top: Path, keep: Path) -> None:
    """Programs that were compiled for the maps, of all workers, in one folder for all."""
    (keep / "compiled").mkdir(exist_ok=True)
    for program in top.glob("*/compiled/*"):
        shutil.copy2(program, keep / "compiled")


def _again(said: dict[str, Any], reasons: dict[str, str], asked: Any) -> bool:
    """Whether a known mutant is planted once more: its killer is gone, or it met too few tests."""
    if not survived(said):
        return _killer_is_gone(said)
    met = said.get("whole") or not asked.whole
    return said["key"] not in reasons and (asked.again or not met)


def _killer_is_gone(said: dict[str, Any]) -> bool:
    file, _, test = said["by"].partition("::")
    return "/" in file and test.partition("[")[0] not in _tests_that_stand()


@cache
def _tests_that_stand() -> set[str]:
    """Names of all tests; a test may have moved to another file since it killed a mutant."""
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text())}


def _no_fault(module: str) -> Mutant:
    top = ROOT / "src" / "capax" / module
    path = top if top.is_file() else min(top.rglob("*.py"))
    return Mutant(path.relative_to(ROOT).as_posix(), 1, "", 0, 0, "", "", f"no fault in {module}")


def sample(modules: list[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants of these folders or files, drawn in turn from each (0: all of them)."""
    queues = []
    for module in modules:
        top = ROOT / "src" / "capax" / module
        if not top.exists():
            sys.exit(f"--modules: wanted a folder or file below src/capax, got {module!r}")
        found = []
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            found += mutants(path.relative_to(ROOT).as_posix(), path.read_text())
        queues.append(_in_turn(found, seed))
    if count == 0:
        return [mutant for queue in queues for mutant in queue]
    chosen: list[Mutant] = []
    while len(chosen) < count and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return chosen[:count]


def _in_turn(found: list[Mutant], seed: int) -> list[Mutant]:
    """In random order, but so that the last ones, which are drawn first, are of all operators.

    The order is that of hashes of a mutant's own text: a change elsewhere does not change it.
    """
    found.sort(key=lambda m: hashlib.sha256(f"{seed} {m.key}".encode()).hexdigest())
    numbers: Counter[str] = Counter()
    ranks = {}
    for mutant in found:
        numbers[mutant.operator] += 1
        ranks[mutant] = numbers[mutant.operator]
    return sorted(found, key=lambda mutant: -ranks[mutant])


def _known(files: list[Path]) -> dict[str, dict[str, Any]]:
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return {entry["key"]: entry for entry in map(json.loads, lines)}


def _copies(top: Path, number: int) -> list[str]:
    """Paths of copies of the repository, one per worker."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
        names = listed.stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        names = _files_below(ROOT)
    for worker in range(number):
        for name in names:
            if (ROOT / name).is_file():
                (top / str(worker) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, top / str(worker) / name)
    return [str(top / str(worker)) for worker in range(number)]


def _files_below(root: Path) -> list[str]:
    """Where there is no Git: all files of the folders that the tests need."""
    wanted = [root / name for name in TOP]
    files = [path for top in wanted for path in top.rglob("*") if "__pycache__" not in path.parts]
    files += [path for path in root.iterdir() if path.is_file()]
    return [path.relative_to(root).as_posix() for path in files if path.is_file()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", nargs="+", default=list(MODULES), help="below src/capax")
    parser.add_argument("--count", type=int, default=400, help="how many; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", "--workers", type=int, default=2, help="processes")
    parser.add_argument("--pin", action="store_true", help="each process on one core")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "mutants")
    parser.add_argument("--results", type=Path, help="instead of results.jsonl in the folder")
    parser.add_argument("--known", nargs="+", type=Path, default=[], help="results of others")
    parser.add_argument("--whole", action="store_true", help="survivors meet their whole layer")
    parser.add_argument(
        "--longest", type=float, default=900.0, help="seconds for a test file without a fault"
    )
    parser.add_argument("--report", type=Path, help="a page of Markdown, its tables replaced")
    parser.add_argument("--control", action="store_true", help="plant the harmless: none may die")
    parser.add_argument("--leave-out", nargs="+", default=[], help="tests and test files")
    parser.add_argument("--by-name", action="store_true", help="no map: files that name the module")
    parser.add_argument("--quick", action="store_true", help="no slow tests, no commands")
    parser.add_argument("--minutes", type=float, default=1e6, help="then no mutant is begun")
    parser.add_argument("--again", action="store_true", help="plant known survivors once more")
    parser.add_argument("--warm", nargs="+", default=IMPORTED, help="modules imported beforehand")
    parser.add_argument("--share", type=float, default=0.9, help="share that must be killed")
    asked = parser.parse_args()
    if asked.quick:
        sys.path.append(str(ROOT / "tests"))
        from slow_tests import SLOW

        asked.leave_out += [f"tests/{file}::{test}" for file in SLOW for test in SLOW[file]]
    return asked


if __name__ == "__main__":
    sys.exit(main())
