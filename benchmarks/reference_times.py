"""Steps to solve parities into the reference card that travels with the package.

    capax card transformer mlp ... --T 10,15,20 --target times --json > parity_card.json
    python benchmarks/reference_times.py parity_card.json "1 x NVIDIA H200"

Rows that are not finished are left out. The rest of the reference card stays as it is.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from capax.cards.answers.card_rows import from_json
from capax.cards.answers.reference_card import FILE, reference_card, write_reference


def main(path: str, device: str) -> None:
    text = Path(path).read_text()
    made = from_json(text, path)
    rows = tuple(row for row in made.times if row.solved + row.censored and not row.note)
    fields = {k: v for k, v in made.protocol.items() if k.startswith("parity_")}
    known = reference_card()
    protocol = {**known.protocol, **fields, "parity_device": device}
    write_reference(replace(known, times=rows, protocol=protocol), {})
    print(f"{FILE}: {len(rows)} rows of {len({row.learner for row in rows})} learners")
    print(json.dumps({row.learner: row.words for row in rows if row.s == 2}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:3])
