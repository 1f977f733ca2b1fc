"""Would runs that leave when they have memorised their sample have been solved?

    python benchmarks/memorised.py store.sqlite ...

Replays the rule (`capax.training.slots.record.has_memorised`) on the recorded curves of stores
whose runs went on to their last step: how many solved runs it would have ended before they were
solved, and which share of all steps came after it held.
"""

import argparse
import json
from pathlib import Path

from capax.sweep.storage.store import Store
from capax.training.slots.record import has_memorised


def left_at(run) -> int | None:
    """The step at which the run would have left, unless it was solved by then."""
    curves = json.loads(run["curves"])
    for step, loss, right in zip(
        curves["step"], curves["loss"], curves["validation_accuracy"], strict=True
    ):
        if run["solved_step"] is not None and step >= run["solved_step"]:
            return None
        if has_memorised(loss, right):
            return int(step)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="+", type=Path)
    total = {"runs": 0, "solved": 0, "ended": 0, "steps": 0, "after": 0}
    for path in parser.parse_args().stores:
        with Store.read(path) as store:
            for run in store.select("SELECT outcome, solved_step, steps, curves FROM runs"):
                left, steps = left_at(run), run["steps"]
                total["runs"] += 1
                total["solved"] += run["outcome"] == "solved"
                total["ended"] += left is not None and run["outcome"] == "solved"
                total["steps"] += steps
                total["after"] += 0 if left is None else steps - left
    print("{runs} runs, {solved} solved, of which {ended} would have ended before".format(**total))
    print(f"{total['after'] / max(1, total['steps']):.0%} of all steps came after the rule held")


if __name__ == "__main__":
    main()
