"""The process that `isolation` starts: reads data, fits, writes answers.

The output of the user's code is discarded: standard output carries the answers.
"""

import json
import os
import sys
from typing import IO, Any

import numpy as np

from capax.errors import CapaxError
from capax.learners.adapters import fit_of
from capax.learners.fitting import Attempt, attempt
from capax.learners.references import load
from capax.learners.setting import Setting


def serve(reference: str, source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer until the parent process ends. A learner that cannot be loaded fails every fit."""
    thing, trouble = None, ""
    try:
        thing = load(reference)
    except CapaxError as error:
        trouble = str(error)
    _reply(sink, Attempt())  # ready
    while line := source.readline():
        head = json.loads(line)
        body = np.frombuffer(source.read(head["bytes"]), np.uint8)
        _reply(sink, Attempt(reason=trouble) if trouble else _fitted(thing, head, body))


def _fitted(thing: Any, head: dict[str, Any], body: np.ndarray) -> Attempt:
    setting, m, n = Setting(**head["setting"]), head["m"], head["n"]
    X, y, inputs = np.split(body, np.cumsum([m * setting.T, m]))
    try:
        fit = fit_of(thing, setting)
    except CapaxError as error:
        return Attempt(reason=str(error))
    return attempt(fit, X.reshape(m, -1), y, inputs.reshape(n, -1), head["key"])


def _reply(sink: IO[bytes], result: Attempt) -> None:
    body = np.ascontiguousarray(result.answers, np.bool_).tobytes()
    head = {
        "shape": result.answers.shape,
        "reason": result.reason,
        "diverged": result.diverged,
        "seconds": result.seconds,
        "bytes": len(body),
    }
    sink.write(json.dumps(head).encode() + b"\n" + body)
    sink.flush()


def main() -> None:
    """Keep the pipe for answers; the user's `print` goes to standard error."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
