"""Do the tests notice a bound that is slightly too small? Faults are planted; a test must fail.

    python benchmarks/mutants.py --count 400 --workers 2 --keep out/mutants
    python benchmarks/mutants.py --modules capacity/network --count 60
    python benchmarks/mutants.py --modules analysis/laws.py --count 0     # all mutants of a file
    python benchmarks/mutants.py --again --whole                # plant the survivors once more

Each mutant is one fault (`mutation_operators.py`) in a copy of the sources. The tests of its layer
that execute its line run first, the quick ones first; a mutant that outlives them meets the rest of
their test files, which may share a fixture, and with `--whole` all tests of the layer. It is killed
when a test fails or the tests take five times their usual time, otherwise it survived. To find out
which tests execute which line takes as long as the tests do; `--by-name` goes without. Results are
lines of JSON in the folder `--keep`; a second call goes on where the first one ended, also where
`--minutes` ended it. Harmless survivors stand with their reasons in `harmless_mutants.json`.
"""

import argparse
import hashlib
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutation_operators import Mutant, mutants
from mutation_runs import IMPORTED, Round, begin, mapped, outcome, share_compiled, told

ROOT = Path(__file__).parents[1]
USUAL = 10.0  # seconds of a test file, where it was not timed
MODULES = ("capacity", "compiler/proof", "decompile/proof", "decompile/bounds", "analysis",
           "boolean/best_possible", "audit/heads", "cards/measuring", "sweep/storage",
           "learners")  # fmt: skip


def main() -> int:
    """Plant, run, print a table; 1 if fewer than the wanted share was killed."""
    asked = _arguments()
    asked.keep.mkdir(parents=True, exist_ok=True)
    chosen = sample(asked.modules, asked.count, asked.seed)
    results = asked.keep / "results.jsonl"
    known = _known(results)
    harmless = _harmless()
    for mutant in chosen:  # what was read and found harmless counts as a survivor, unplanted
        if mutant.key in harmless:
            known[mutant.key] = {**told(mutant, ""), "by": "read and found harmless"}
    waiting = [m for m in chosen if m.key not in known or _again(m, known, harmless, asked.again)]
    print(f"{len(chosen)} mutants, {len(chosen) - len(waiting)} known", flush=True)
    if waiting:
        top = Path(tempfile.mkdtemp(prefix="capax-mutants-"))
        try:
            _run(waiting, asked, top, results, known)
        finally:
            shutil.rmtree(top, ignore_errors=True)
    done = [known[mutant.key] for mutant in chosen if mutant.key in known]
    return report(done, harmless, asked.share)


def _run(waiting: list[Mutant], asked: Any, top: Path, results: Path, known: Any) -> None:
    copies = _copies(top, asked.workers)
    end = time.time() + 60 * asked.minutes
    context = multiprocessing.get_context("fork")
    with (
        context.Pool(asked.workers, begin, (copies, asked, end)) as pool,
        results.open("a") as file,
    ):
        if asked.by_name:
            jobs = [(m, list(_rounds_by_name(m, asked.whole))) for m in waiting]
            jobs.sort(
                key=lambda job: (job[0].key in known, len(job[1][0][0]))
            )  # the new, the quick
        else:
            maps = _maps(sorted({tests_of(mutant.path) for mutant in waiting}), pool)
            jobs = [(m, list(_rounds(m, maps[tests_of(m.path)], asked.whole))) for m in waiting]
        share_compiled(top)
        for done, said in enumerate(pool.imap_unordered(outcome, jobs, 1), 1):
            if said is None:
                continue  # the time is over
            known[said["key"]] = said
            file.write(json.dumps(said) + "\n")
            file.flush()
            print(f"{done}/{len(jobs)} {said['outcome']}: {said['name']}", flush=True)


def _again(mutant: Mutant, known: Any, harmless: dict[str, str], again: bool) -> bool:
    return again and mutant.key not in harmless and _survived(known[mutant.key])


def _survived(said: dict[str, Any]) -> bool:
    return said["outcome"] == "survived"


def _harmless() -> dict[str, str]:
    """Reasons by key, of survivors that were read and found equivalent or harmless."""
    file = Path(__file__).with_name("harmless_mutants.json")
    listed = json.loads(file.read_text()) if file.exists() else []
    return {entry["key"]: entry["reason"] for entry in listed}


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


def tests_of(path: str) -> str:
    """The folder of tests of a source file: that of its layer."""
    return f"tests/{Path(path).parts[2]}"


def _known(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {entry["key"]: entry for entry in map(json.loads, lines)}


def _copies(top: Path, number: int) -> Any:
    """A queue with the path of one copy of the repository per worker."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else _files_below(ROOT)
    queue = multiprocessing.get_context("fork").Queue()
    for worker in range(number):
        for name in names:
            if (ROOT / name).is_file():
                (top / str(worker) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, top / str(worker) / name)
        queue.put(str(top / str(worker)))
    return queue


def _files_below(root: Path) -> list[str]:
    """Where there is no Git: all files of the folders that the tests need."""
    wanted = [root / name for name in ("src", "tests", "docs", "benchmarks", "examples")]
    files = [path for top in wanted for path in top.rglob("*") if "__pycache__" not in path.parts]
    files += [path for path in root.iterdir() if path.is_file()]
    return [path.relative_to(root).as_posix() for path in files if path.is_file()]


def _maps(folders: list[str], pool: Any) -> dict[str, dict[str, Any]]:
    """Per folder of tests: seconds per test, and the tests that execute a line of a file.

    Tests that fail without a fault say nothing about faults: they are named and left out.
    """
    files = {
        path.relative_to(ROOT).as_posix(): folder
        for folder in folders
        for path in sorted((ROOT / folder).rglob("test_*.py"))
    }
    print(f"mapping {len(files)} test files", flush=True)
    maps: dict[str, Any] = {f: {"seconds": {}, "lines": defaultdict(dict)} for f in folders}
    for folder, found in zip(files.values(), pool.imap(mapped, files, 1), strict=True):
        failing = set(found["failing"])
        for name in sorted(failing):
            print(f"left out, fails or does not end without a fault: {name}", flush=True)
        passing = {test: s for test, s in found["seconds"].items() if test not in failing}
        maps[folder]["seconds"] |= passing
        for path, lines in found["lines"].items():
            for line, tests in lines.items():
                known = maps[folder]["lines"][path].setdefault(line, [])
                known += [test for test in tests if test in passing]
    return maps


def _rounds(mutant: Mutant, tests: dict[str, Any], whole: bool) -> Iterator[Round]:
    """Tests that execute the line, the rest of their files, and, if asked for, the layer.

    A line outside of functions belongs to every test that executes any line of its file.
    """
    seconds, lines = tests["seconds"], tests["lines"].get(mutant.path, {})
    near = set(lines.get(str(mutant.line)) or [t for names in lines.values() for t in names])
    files = {test.partition("::")[0] for test in near}
    beside = {test for test in seconds if test.partition("::")[0] in files} - near
    rest = set(seconds) - near - beside if whole or not near else set()
    for group in (near, beside, rest):
        if group:
            yield _quickest_first(group, seconds), sum(map(seconds.__getitem__, group))


def _rounds_by_name(mutant: Mutant, whole: bool) -> Iterator[Round]:
    """Without a map: test files that name the module, then, if asked for, the rest of the layer."""
    module = ".".join(Path(mutant.path).with_suffix("").parts[1:])
    parent, _, own = module.rpartition(".")
    words = (f"{module} import", f"from {parent} import {own}")
    files = sorted((ROOT / tests_of(mutant.path)).rglob("test_*.py"))
    near = [f for f in files if any(word in f.read_text() for word in words)]
    rest = [f for f in files if f not in near] if whole or not near else []
    for group in (near, rest):
        if group:
            yield [f.relative_to(ROOT).as_posix() for f in group], USUAL * len(group)


def _quickest_first(tests: set[str], seconds: dict[str, float]) -> list[str]:
    """File by file, because tests of a file share fixtures: the file with the quickest first."""
    files = defaultdict(list)
    for test in sorted(tests, key=seconds.__getitem__):
        files[test.partition("::")[0]].append(test)
    return [test for group in files.values() for test in group]


def report(outcomes: list[dict[str, Any]], harmless: dict[str, str], share: float) -> int:
    """The table by module and by operator, then every survivor with the reason why it may.

    1 where fewer than `share` were killed, or a survivor has no reason.
    """
    for title, key in (("module", _module), ("operator", lambda o: o["operator"])):
        print(f"\n{title:<28} mutants  killed   share")
        for name, group in _groups(outcomes, key):
            killed = sum(not _survived(o) for o in group)
            print(f"{name:<28} {len(group):7d} {killed:7d} {killed / len(group):7.1%}")
    survivors = sorted(filter(_survived, outcomes), key=lambda o: o["name"])
    open_ones = [said for said in survivors if said["key"] not in harmless]
    killed = 1 - len(survivors) / max(len(outcomes), 1)
    print(f"\n{len(outcomes)} mutants, {killed:.1%} killed, {len(survivors)} survived, "
          f"{len(open_ones)} of them without a reason")  # fmt: skip
    for said in survivors:
        print(f"survived: {said['name']} [{said['key']}]")
        if said["key"] in harmless:
            print(f"    {harmless[said['key']]}")
    return int(killed < share or bool(open_ones))


def _module(said: dict[str, Any]) -> str:
    return "/".join(Path(said["path"]).parts[2:4]).removesuffix(".py")


def _groups(outcomes: list[Any], key: Any) -> Iterator[tuple[str, list[Any]]]:
    groups = defaultdict(list)
    for said in outcomes:
        groups[key(said)].append(said)
    yield from sorted(groups.items())
    if len(groups) > 1:
        yield "all", outcomes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", nargs="+", default=list(MODULES), help="below src/capax")
    parser.add_argument("--count", type=int, default=400, help="how many; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "mutants")
    parser.add_argument("--whole", action="store_true", help="survivors meet their whole layer")
    parser.add_argument(
        "--longest", type=float, default=900.0, help="seconds for a test file without a fault"
    )
    parser.add_argument("--by-name", action="store_true", help="no map: files that name the module")
    parser.add_argument("--leave-out", nargs="+", default=[], help="tests that fail here anyway")
    parser.add_argument("--minutes", type=float, default=1e6, help="then no mutant is begun")
    parser.add_argument("--again", action="store_true", help="plant known survivors once more")
    parser.add_argument("--warm", nargs="+", default=IMPORTED, help="modules imported beforehand")
    parser.add_argument("--share", type=float, default=0.9, help="share that must be killed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
