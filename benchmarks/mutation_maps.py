"""Which tests meet a mutant: those that execute its line, the cheapest file of tests first.

A map is made once per test file, with coverage, and kept: it serves until the test file changes.
Where a source file changed since, its lines are not trusted, and a mutant meets every test that
executes any line of its file. A map that is out of date can hide a killing test, never invent one.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutation_operators import Mutant
from mutation_runs import mapped

FEW = 6  # test files by name, at most
Maps = dict[str, Any]  # by test file: seconds, lines, failing, start, and hashes of what was run
ELSEWHERE = re.compile("warm_commands|subprocess|multiprocessing|[Pp]rocess|Command|isolat|pool")


ALSO = {"decompile": ("tests/proving/",)}  # layers whose code another layer's tests are about


def tests_of(path: str) -> tuple[str, ...]:
    """The folders of tests of a source file: that of its layer, and others of `ALSO`."""
    layer = Path(path).parts[2]
    return (f"tests/{layer}/", *ALSO.get(layer, ()))


def test_files(mutants: list[Mutant], root: Path, whole: bool) -> list[str]:
    """Test files of the mutants' layers: those that name a mutant's folder, or all of them, and
    then also those of other layers that import from a mutant's file."""
    folders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for mutant in mutants:
        parts = Path(mutant.path).parts[1:-1]
        folders[tests_of(mutant.path)].add(".".join(parts))
    imports = {f"from {module_of(mutant.path)} import" for mutant in mutants}
    found = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        file, text = path.relative_to(root).as_posix(), path.read_text()
        own = [names for folder, names in folders.items() if file.startswith(folder)]
        near = own and (whole or any(name in text for name in own[0]))
        if near or (whole and any(words in text for words in imports)):
            found.append(file)
    return found


def module_of(path: str) -> str:
    """The dotted name of a source file."""
    return ".".join(Path(path).with_suffix("").parts[1:])


def maps_of(files: list[str], root: Path, kept: Path, pool: Any) -> Maps:
    """Maps of test files: those that are kept, and the rest made now."""
    kept.mkdir(parents=True, exist_ok=True)
    maps = {file: _kept(file, root, kept) for file in files}
    wanted = [file for file in files if maps[file] is None]
    wanted.sort(key=lambda file: -(root / file).stat().st_size)  # the longest begin first
    print(f"mapping {len(wanted)} of {len(files)} test files", flush=True)
    for file, found in zip(wanted, pool.imap(mapped, wanted, 1), strict=True):
        if found is None:
            raise SystemExit("no time left for the maps; those that were made are kept")
        hashes = {path: _hash(root / path) for path in (file, *found["lines"])}
        maps[file] = {**found, "hashes": hashes}
        (kept / _name(file)).write_text(json.dumps(maps[file]))
    for found in maps.values():
        for name in sorted(found["failing"]):
            print(f"left out, fails or does not end without a fault: {name}", flush=True)
    return maps


def _kept(file: str, root: Path, kept: Path) -> Any:
    path = kept / _name(file)
    found = json.loads(path.read_text()) if path.exists() else None
    return found if found and found["hashes"][file] == _hash(root / file) else None


def _name(file: str) -> str:
    return file.replace("/", "-") + ".json"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def round_of(mutant: Mutant, maps: Maps, root: Path, whole: bool) -> list[str]:
    """Tests that execute the line, the rest of their files, and, if asked for, of the layer.

    The rest of the files is there because tests share fixtures: the line was executed for the first
    of them alone. A line outside of functions belongs to every test that executes its file. Of the
    layer's other files those are met that start processes: a file that executes nothing of the
    mutant's file, here or elsewhere, cannot notice it.
    """
    now = _hash(root / mutant.path)
    whole = whole or not any(found["lines"].get(mutant.path) for found in maps.values())
    folder, groups = tests_of(mutant.path), defaultdict(list)
    for file, found in maps.items():
        lines = found["lines"].get(mutant.path, {})
        line = str(mutant.line) if found["hashes"].get(mutant.path) == now else ""
        near = set(lines.get(line) or [test for names in lines.values() for test in names])
        passing = [test for test in found["seconds"] if test not in found["failing"]]
        text = (root / file).read_text()
        own = file.startswith(folder) or f"from {module_of(mutant.path)} import" in text
        if not (near or (whole and ELSEWHERE.search(text))) or not own or not passing:
            continue
        for rank, tests in _ranked(near, passing, found["seconds"]):
            cost = found["start"] + sum(map(found["seconds"].__getitem__, tests))
            groups[rank].append((cost, tests))
    ordered = [tests for rank in sorted(groups) for _, tests in sorted(groups[rank])]
    return [test for tests in ordered for test in tests]


def all_passing(mutant: Mutant, maps: Maps) -> list[str]:
    """All tests of a mutant's layer, but for those that fail without a fault."""
    own = {file: maps[file] for file in maps if file.startswith(tests_of(mutant.path))}
    return [test for m in own.values() for test in m["seconds"] if test not in m["failing"]]


def round_by_name(mutant: Mutant, root: Path, leave_out: list[str]) -> list[str]:
    """Without a map: a few test files that name the module's folder.

    First the one that is called like the module, then those that name it, then by their length.
    """
    module = module_of(mutant.path)
    parent, _, own = module.rpartition(".")
    words = (f"{module} import", f"from {parent} import {own}")
    files = [file for file in test_files([mutant], root, whole=False) if file not in leave_out]

    def place(file: str) -> tuple[bool, bool, int]:
        named = any(word in (root / file).read_text() for word in words)
        return own not in file, not named, (root / file).stat().st_size

    return sorted(files, key=place)[:FEW]


def _ranked(near: set[str], passing: list[str], seconds: Any) -> Iterator[tuple[int, list[str]]]:
    """(0, tests that execute the line), (1, tests beside them), (2, tests of other files)."""
    by_time = sorted(passing, key=seconds.__getitem__)
    close = [test for test in by_time if test in near]
    beside = [test for test in by_time if test not in near]
    if close:
        yield 0, close
    if beside:
        yield (1 if close else 2), beside
