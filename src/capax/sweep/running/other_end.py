"""The process that `apart` starts: reads requested trials, trains them, writes their outcomes.

Standard output carries the outcomes; other output goes to standard error. A line that names a panel
and T begins the next job. When no trial is left, or the sweep has ended, the input ends, and this
process exits after its chunk: under NVIDIA's multi-process service a process that dies in the
middle of a kernel ends others too.
"""

import json
import os
import queue
import sys
import threading
import traceback
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any

from capax.errors import InfeasibleError, InputError
from capax.sweep.experiments.spec import Panel
from capax.sweep.families.family import Family
from capax.sweep.families.known_families import family_of
from capax.sweep.running.runner import preparing, short_turns
from capax.sweep.storage.versions import device_here
from capax.sweep.trial import Outcome, Run, Stopped, Trial

Asked = dict[str, Any]
Heads = list[Asked]


def _outcomes(
    panel: Panel, T: int, asked: "queue.SimpleQueue[Asked | None]", sink: IO[bytes], heads: Heads
) -> Iterator[Outcome]:
    """Train the trials that arrive. The first message names the device, once it has answered."""
    family = family_of(panel)
    learner = family.learner(panel, T)
    _say(sink, {"device": device_here()})
    with short_turns(), preparing([lambda: family.prepare(panel, T)]):
        yield from learner(_trials(family, panel, T, asked, heads))


def _trials(
    family: Family, panel: Panel, T: int, asked: "queue.SimpleQueue[Asked | None]", heads: Heads
) -> Iterator[Trial | None]:
    """The requested trials, then None until more are requested; ends when another job begins, which
    is added to `heads`. Raises `Stopped` at the end."""
    while True:
        try:
            wanted = asked.get_nowait()
        except queue.Empty:
            yield None
            continue
        if wanted is None:
            raise Stopped
        if "T" in wanted:
            heads.append(wanted)
            return
        own = wanted.get("panel")
        settings = panel if own is None else Panel.model_validate(own)
        yield family.trial(settings, T, wanted["m"], wanted["index"])


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer until the sweep ends; report errors before exiting."""
    heads: Heads = [json.loads(source.readline())]
    asked: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, asked), daemon=True).start()
    try:
        while heads:
            head = heads.pop()
            panel = Panel.model_validate(head["panel"])
            for outcome in _outcomes(panel, head["T"], asked, sink, heads):
                _say(sink, _plain(outcome))
    except (Stopped, BrokenPipeError):
        return
    except InputError as error:
        _say(sink, {"wrong": str(error)})
    except InfeasibleError as error:
        _say(sink, {"infeasible": str(error)})
    except Exception:
        _say(sink, {"failed": traceback.format_exc()})


def _listen(source: IO[bytes], asked: "queue.SimpleQueue[Asked | None]") -> None:
    for line in source:
        asked.put(json.loads(line))
    asked.put(None)


def _plain(outcome: Outcome) -> dict[str, Any]:
    runs = [_fields(run) for run in outcome.runs]
    told = {"solved": bool(outcome.solved), "reason": outcome.reason, "runs": runs}
    return {"trial": outcome.trial.trial_id, **told}


def _fields(run: Run) -> dict[str, Any]:
    kept = run.parameters
    return {**asdict(run), "parameters": None if kept is None else b64encode(kept).decode()}


def _say(sink: IO[bytes], message: dict[str, Any]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")
    sink.flush()


def main() -> None:
    """`other_end CORE ...`: on these cores, or on all."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    cores = {int(core) for core in sys.argv[1:]}
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
