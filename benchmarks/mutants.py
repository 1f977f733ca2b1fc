"""Do the tests notice a bound that is slightly too small? Faults are planted; a test must fail.

    python benchmarks/mutants.py --count 400 --workers 2 --keep out/mutants
    python benchmarks/mutants.py --modules capacity/network --count 60
    python benchmarks/mutants.py --modules analysis/laws.py --count 0     # all mutants of a file

Each mutant is one fault (`mutation_operators.py`) in a copy of the sources. The tests of its layer
that execute its line run first, quickest first; a mutant that outlives them meets the rest of their
test files, which may share a fixture, and with `--whole` all tests of the layer. It is killed when
a test fails or the tests take five times their usual time, otherwise it survived. Results are lines
of JSON in the folder `--keep`; a second call goes on where the first one ended.
"""

import argparse
import json
import multiprocessing
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutation_operators import Mutant, mutants
from mutation_runs import Round, begin, mapped, outcome

ROOT = Path(__file__).parents[1]
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
    waiting = [mutant for mutant in chosen if mutant.name not in known]
    print(f"{len(chosen)} mutants, {len(chosen) - len(waiting)} known", flush=True)
    if waiting:
        top = Path(tempfile.mkdtemp(prefix="capax-mutants-"))
        try:
            _run(waiting, asked, _copies(top, asked.workers), results, known)
        finally:
            shutil.rmtree(top, ignore_errors=True)
    return report([known[mutant.name] for mutant in chosen], asked.share)


def _run(waiting: list[Mutant], asked: Any, copies: Any, results: Path, known: Any) -> None:
    context = multiprocessing.get_context("fork")
    with (
        context.Pool(asked.workers, begin, (copies, asked.longest)) as pool,
        results.open("a") as file,
    ):
        maps = _maps(sorted({tests_of(mutant.path) for mutant in waiting}), pool)
        jobs = [(m, list(_rounds(m, maps[tests_of(m.path)], asked.whole))) for m in waiting]
        for done, said in enumerate(pool.imap_unordered(outcome, jobs, 1), 1):
            known[said["name"]] = said
            file.write(json.dumps(said) + "\n")
            file.flush()
            print(f"{done}/{len(jobs)} {said['outcome']}: {said['name']}", flush=True)


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
        queues.append(_in_turn(found, random.Random(f"{seed} {module}")))
    if count == 0:
        return [mutant for queue in queues for mutant in queue]
    chosen: list[Mutant] = []
    while len(chosen) < count and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return chosen[:count]


def _in_turn(found: list[Mutant], chance: random.Random) -> list[Mutant]:
    """In random order, but so that the last ones, which are drawn first, are of all operators."""
    chance.shuffle(found)
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
    return {entry["name"]: entry for entry in map(json.loads, lines)}


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
            yield sorted(group, key=seconds.__getitem__), sum(map(seconds.__getitem__, group))


def report(outcomes: list[dict[str, Any]], share: float) -> int:
    """The table by module and by operator, then every survivor; 1 where too few were killed."""
    for title, key in (("module", _module), ("operator", lambda o: o["operator"])):
        print(f"\n{title:<28} mutants  killed   share")
        for name, group in _groups(outcomes, key):
            killed = sum(o["outcome"] == "killed" for o in group)
            print(f"{name:<28} {len(group):7d} {killed:7d} {killed / len(group):7.0%}")
    survivors = [o for o in outcomes if o["outcome"] == "survived"]
    killed = 1 - len(survivors) / max(len(outcomes), 1)
    print(f"\n{len(outcomes)} mutants, {len(survivors)} survived, {killed:.1%} killed")
    for said in sorted(survivors, key=lambda o: o["name"]):
        print(f"survived: {said['name']}")
    return int(killed < share)


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
    parser.add_argument("--share", type=float, default=0.9, help="share that must be killed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
