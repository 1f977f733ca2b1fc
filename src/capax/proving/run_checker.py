"""A proof file checked in a separate process, by a Python that imports nothing of Capax."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from capax.errors import CapaxError

CHECKER = Path(__file__).with_name("capax_check.py")


def check_proof(proof: Path | str, weights: Path | str) -> dict[str, Any]:
    """`status` (proved or refused), `statement`, and the `line` and `reason` of a refusal."""
    command = [sys.executable, "-I", "-S", str(CHECKER), str(proof), str(weights), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise CapaxError(f"the checker stopped with exit code {done.returncode}: {last}") from None
