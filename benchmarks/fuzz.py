"""Hostile input by the hundred thousand: `python benchmarks/fuzz.py --cases 100000 --jobs 2`.

Formulas, experiment files, weight files, checkpoints, cards, point and data files, stores, special
files and command lines, each case through the real entry point of `capax`, in one process. A case
is bad when it ends with a traceback, an exit code other than 0, 1, 2 or 130, after more than 10 s
or 2 GB, with a file that a planted payload made, or with a file changed that had to stay. Bad cases
are kept in the folder `--out`, and those over 3 s, which a busier machine would find bad;
`--again FILE` repeats one.

Cases come in turns of 500, and a finished turn is a line of turns.jsonl in that folder: after
`--minutes`, or a kill, the same command goes on with the turns that are left. `--seed` draws
other cases.
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

STUCK = 300.0  # seconds after which a worker that does not come back is ended and its case kept
SLOW = 3.0  # seconds of a case that is good but kept
TURN = 500  # cases of one process: what JAX compiled for them is forgotten with it
APART = 10**7  # between the numbers of the first cases of two seeds


def main() -> int:
    """Run, print a table, return 1 if a case was bad or cases are left."""
    asked = _arguments()
    if asked.again:
        return _again(Path(asked.again))
    asked.out.mkdir(parents=True, exist_ok=True)
    start, written = time.perf_counter(), asked.out / "turns.jsonl"
    found = Tally(written)
    first = APART * asked.seed
    turns = [range(n, min(n + TURN, first + asked.cases))
             for n in range(first, first + asked.cases, TURN)]  # fmt: skip
    left = [turn for turn in turns if [turn.start, turn.stop, asked.only] not in found.turns]
    said, ends = start, start + 60 * asked.minutes
    workers: list[Worker] = []
    while (left or workers) and time.perf_counter() < ends:
        while left and len(workers) < asked.jobs:
            workers.append(Worker(left.pop(0), asked))
        for worker in list(workers):
            if worker.is_through():
                found.add(worker)
                workers.remove(worker)
        if time.perf_counter() - said > 10:
            said = time.perf_counter()
            total = found.total + sum(len(worker.results) for worker in workers)
            print(f"{total} cases, {found.bad} bad", file=sys.stderr, flush=True)
        time.sleep(0.05)
    for worker in workers:
        worker.process.kill()
    print(found.table(time.perf_counter() - start))
    return 1 if found.bad or left or workers else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="which cases")
    parser.add_argument("--only", default="", help="one kind: formula, experiment, weights, ...")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder of the results")
    parser.add_argument("--again", help="repeat a kept case and say everything")
    return parser.parse_args()


class Worker:
    """Processes that work off a turn, one after the other where a case ends one."""

    def __init__(self, turn: range, asked: argparse.Namespace) -> None:
        self.turn, self.only, self.out = turn, asked.only, asked.out
        self.results: list[dict[str, Any]] = []
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe(duplex=False)
        self._since = time.perf_counter() + 60  # it has to import first
        left = self.turn[len(self.results) :]
        self.process = context.Process(target=_work, args=(left, self.only, there))
        self.process.start()
        there.close()

    def is_through(self) -> bool:
        """Take in what has come; where a case ended the process, go on with the next."""
        ended = not self.process.is_alive()  # asked first: then the pipe holds everything
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll():
                self._take(self._pipe.recv())
                self._since = time.perf_counter()
        if len(self.results) == len(self.turn):
            return ended
        if ended or time.perf_counter() - self._since > STUCK:
            self._take(self._lost())
            if len(self.results) < len(self.turn):
                self._start()
        return False

    def _take(self, result: dict[str, Any]) -> None:
        case = result.pop("case")
        self.results.append(result)
        if case is None:
            return
        kind = result["kind"] if result["faults"] else f"slow-{result['kind']}"
        path = self.out / f"{kind}-{result['seed']}.json"
        path.write_text(json.dumps({**case, "ended": result}, indent=1))
        argv = " ".join(case["argv"])[:120].encode("ascii", "backslashreplace").decode()
        how = result["faults"] or f"slow: {result['seconds']:.1f} s"
        print(f"{path}: capax {argv}\n    {how}", file=sys.stderr, flush=True)

    def _lost(self) -> dict[str, Any]:
        """The case that ended or stopped the process."""
        why = f"the process ended ({self.process.exitcode})"
        if self.process.is_alive():
            why = f"the process does not come back within {STUCK:.0f} s"
            self.process.kill()
        self.process.join()
        from fuzzing.kinds import drawn

        seed = self.turn[len(self.results)]
        case = drawn(seed, self.only)
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
    """How many cases of each kind ended how, over all turns of a file."""

    def __init__(self, written: Path) -> None:
        self.written, self.total, self.bad = written, 0, 0
        self.turns: list[list[Any]] = []
        self.codes: dict[str, Counter[Any]] = defaultdict(Counter)
        self.slowest: dict[str, float] = defaultdict(float)
        self.spent: dict[str, float] = defaultdict(float)
        self.largest: dict[str, float] = defaultdict(float)
        if written.exists():
            for line in written.read_text().splitlines():
                self._count(json.loads(line))

    def add(self, worker: Worker) -> None:
        """Write a turn down."""
        columns = {name: [result[name] for result in worker.results]
                   for name in ("kind", "code", "seconds", "megabytes")}  # fmt: skip
        bad = [i for i, result in enumerate(worker.results) if result["faults"]]
        turn = {"turn": [worker.turn.start, worker.turn.stop, worker.only], "bad": bad, **columns}
        with self.written.open("a") as file:
            file.write(json.dumps(turn) + "\n")
        self._count(turn)

    def _count(self, turn: dict[str, Any]) -> None:
        self.turns.append(turn["turn"])
        columns = [turn[name] for name in ("kind", "code", "seconds", "megabytes")]
        for i, (kind, code, seconds, megabytes) in enumerate(zip(*columns, strict=True)):
            self.total += 1
            self.codes[kind][code] += 1
            self.slowest[kind] = max(self.slowest[kind], seconds)
            self.spent[kind] += seconds
            self.largest[kind] = max(self.largest[kind], megabytes)
            self.bad += i in turn["bad"]
            self.codes[kind]["bad"] += i in turn["bad"]

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
        spent = sum(self.spent.values())
        lines.append(f"{self.total} cases, {spent:.0f} s of a core: {self.bad} bad; "
                     f"this time {seconds:.0f} s")  # fmt: skip
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
