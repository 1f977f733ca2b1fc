"""Hostile input by the hundred thousand: `python benchmarks/fuzz.py --cases 100000 --workers 2`.

Formulas, experiment files, weight files, point and data files, stores and command lines, each case
through the real entry point of `capax`. A case is bad when it ends with a traceback, an exit code
other than 0, 1, 2 or 130, after more than 10 s or 2 GB, with a file that a planted payload made, or
with a file changed that had to stay. Bad cases are kept in a folder, and those over 3 s, which a
busier machine would find bad; `--again FILE` repeats one.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "src")]
os.environ |= {"JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
os.environ["MALLOC_ARENA_MAX"] = "2"  # threads reserve addresses, which are limited below
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "capax-fuzz-jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

STUCK = 900.0  # seconds after which a worker that does not come back is ended and its case kept
SLOW = 3.0  # seconds of a case that is good but kept
TURN = 1000  # cases of one process: what JAX compiled for them is forgotten with it


def main() -> int:
    """Run, print a table, return 1 if a case was bad."""
    asked = _arguments()
    if asked.again:
        return _again(Path(asked.again))
    asked.keep.mkdir(parents=True, exist_ok=True)
    found, start = Tally(asked.keep), time.perf_counter()
    workers = [Worker(i, asked) for i in range(asked.workers)]
    said = start
    while workers:
        for worker in list(workers):
            ended = not worker.process.is_alive()  # asked first: then the pipe holds everything
            for result in worker.results():
                found.add(result)
            if ended and worker.at >= worker.seeds.stop:
                workers.remove(worker)
            elif ended or worker.is_stuck():
                if worker.at < worker.turn.stop:
                    found.add(worker.lost())
                worker.start()
        if time.perf_counter() - said > 10:
            said = time.perf_counter()
            rate = found.total / (said - start)
            line = f"{found.total} cases, {found.bad} bad, {rate:.0f} a second"
            print(line, file=sys.stderr, flush=True)
        time.sleep(0.05)
    print(found.table(time.perf_counter() - start))
    return 1 if found.bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", default="", help="one kind: formula, experiment, weights, ...")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="folder for bad cases")
    parser.add_argument("--again", help="repeat a kept case and say everything")
    return parser.parse_args()


class Worker:
    """A process that works off every n-th case and writes down the one it is at."""

    def __init__(self, index: int, asked: argparse.Namespace) -> None:
        self.asked = asked
        last = asked.first + asked.cases
        self.seeds = range(asked.first + index, last, asked.workers)
        self.at, self.since = self.seeds.start, time.perf_counter()
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=False)
        self.turn = range(self.at, self.seeds.stop, self.seeds.step)[:TURN]
        self.pipe, self.since = here, time.perf_counter() + 60  # it has to import first
        self.process = context.Process(target=_work, args=(self.turn, self.asked.only, there))
        self.process.start()
        there.close()

    def results(self) -> list[dict[str, Any]]:
        found = []
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                found.append(self.pipe.recv())
                self.at = found[-1]["seed"] + self.seeds.step
                self.since = time.perf_counter()
        return found

    def is_stuck(self) -> bool:
        return time.perf_counter() - self.since > STUCK

    def lost(self) -> dict[str, Any]:
        """The case that ended or stopped the process."""
        why = f"the process ended ({self.process.exitcode})"
        if self.process.is_alive():
            why = f"the process does not come back within {STUCK:.0f} s"
            self.process.kill()
        self.process.join()
        from fuzzing.kinds import drawn

        seed, self.at = self.at, self.at + self.seeds.step
        case = drawn(seed, self.asked.only)
        return {"seed": seed, "faults": [why], "seconds": STUCK, "megabytes": 0.0, "code": None,
                "kind": case.kind, "case": case.to_json()}  # fmt: skip


def _work(seeds: range, only: str, pipe: Any) -> None:
    """In a process of its own: judge the cases, tell how each ended."""
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    _describe_package()
    from fuzzing.judge import judge
    from fuzzing.kinds import drawn
    from fuzzing.samples import good_files
    from fuzzing.seams import seams

    good_files()
    with seams():
        for name in ("scalar", "mlp", "transformer"):  # what is compiled once is compiled now
            judge(_warm(name), seconds=60.0)
        _limit()
        for seed in seeds:
            case = drawn(seed, only)
            verdict = judge(case)
            pipe.send({"seed": seed, "faults": list(verdict.faults),
                       "seconds": verdict.seconds, "megabytes": verdict.megabytes,
                       "code": verdict.code, "kind": case.kind,
                       "case": case.to_json() if _is_kept(verdict) else None})  # fmt: skip


def _is_kept(verdict: Any) -> bool:
    return bool(verdict.faults) or verdict.seconds > SLOW


def _describe_package() -> None:
    """Where Capax runs from its sources, uninstalled, nobody knows its version: say one."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("capax")
    except PackageNotFoundError:
        above = Path(tempfile.mkdtemp(prefix="capax-fuzz-"))
        (above / "capax-0.dist-info").mkdir()
        text = "Metadata-Version: 2.1\nName: capax\nVersion: 0\n"
        (above / "capax-0.dist-info" / "METADATA").write_text(text)
        sys.path.append(str(above))


def _warm(name: str) -> Any:
    from fuzzing.case import Case
    from fuzzing.samples import good_files

    command = ("bound", "x") if name == "transformer" else ("verify", "x")
    return Case("warm", command, {"x": good_files()[f"{name}.safetensors"]})


def _limit() -> None:
    """Who asks for far more than two gigabytes is refused by the system.

    The judge measures memory in use; addresses are reserved more freely, by every thread.
    """
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 8 * 2**30, resource.RLIM_INFINITY))


class Tally:
    """How many cases of each kind ended how; bad ones are written to a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.total, self.bad = folder, 0, 0
        self.codes: dict[str, Counter[Any]] = defaultdict(Counter)
        self.slowest: dict[str, float] = defaultdict(float)
        self.spent: dict[str, float] = defaultdict(float)
        self.largest: dict[str, float] = defaultdict(float)

    def add(self, result: dict[str, Any]) -> None:
        kind = result["kind"]
        self.total += 1
        self.codes[kind][result["code"]] += 1
        self.slowest[kind] = max(self.slowest[kind], result["seconds"])
        self.spent[kind] += result["seconds"]
        self.largest[kind] = max(self.largest[kind], result["megabytes"])
        if result["faults"]:
            self.bad += 1
            self.codes[kind]["bad"] += 1
            self._keep(kind, result)
        elif result["case"]:
            self._keep(f"slow-{kind}", result)

    def _keep(self, kind: str, result: dict[str, Any]) -> None:
        case = result.pop("case")
        path = self.folder / f"{kind}-{result['seed']}.json"
        path.write_text(json.dumps({**case, "ended": result}, indent=1))
        argv = " ".join(case["argv"])[:120].encode("ascii", "backslashreplace").decode()
        how = result["faults"] or f"slow: {result['seconds']:.1f} s"
        print(f"{path}: capax {argv}\n    {how}", file=sys.stderr, flush=True)

    def table(self, seconds: float) -> str:
        lines = [f"{'kind':12}{'cases':>8}{'exit 0':>8}{'1':>7}{'2':>8}{'130':>5}{'bad':>6}"
                 f"{'mean':>9}{'slowest':>10}{'largest':>10}"]  # fmt: skip
        for kind, codes in sorted(self.codes.items()):
            cases = sum(codes.values()) - codes["bad"]
            mean = 1000 * self.spent[kind] / cases
            lines.append(
                f"{kind:12}{cases:8}{codes[0]:8}{codes[1]:7}{codes[2]:8}{codes[130]:5}"
                f"{codes['bad']:6}{mean:6.0f} ms{self.slowest[kind]:8.1f} s"
                f"{self.largest[kind]:7.0f} MB"
            )
        lines.append(f"{self.total} cases in {seconds:.0f} s: {self.bad} bad")
        return "\n".join(lines)


def _again(path: Path) -> int:
    from fuzzing.case import Case
    from fuzzing.judge import judge
    from fuzzing.seams import seams

    os.environ["CAPAX_DEBUG"] = "1"
    with seams():
        verdict = judge(Case.read(path))
    print(verdict.out, verdict.err, *verdict.faults, sep="\n")
    print(f"exit code {verdict.code}, {verdict.seconds:.1f} s, {verdict.megabytes:.0f} MB")
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
