"""Commands that people wait for: this version of the code beside an earlier one, turn by turn.

    git worktree add ../earlier a96d9ca9
    python benchmarks/commands.py --against ../earlier
    python benchmarks/commands.py --against ../earlier --only card --json

A command is a process of its own in a folder of its own, where it writes its results. First its
cache is empty, then it runs again with the programs of the first time. Printed are seconds until
its first output, until its end, and seconds of a core (also of the processes it starts). Both
versions get the same files: a checkpoint that the earlier one trains, and a GPT-2 of random weights
with a text for `--text`. A command with an option that a version does not have gets no row.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RULE = "x2 & x3 & x10"
COMMANDS = {
    "help": "--help",
    "train": f"train|{RULE}|-T|50|-m|300|--out|mine.safetensors",
    "bound": "bound|model.safetensors|--data|data.npz|--holdout|data.npz|--family|and3",
    "decompile": "decompile|model.safetensors|--data|data.npz",
    "compile": f"compile|{RULE}|-T|1000",
    "figure2": "sweep|figure2|--scale|quick|--store|figure2.sqlite",
    "audit": "audit|gpt2|--top|5",
    "text": "audit|gpt2|--text|text.txt|--split|spaces|--top|5",
    "read": "audit|gpt2|--text|text.txt|--split|spaces|--top|5|--take-out|0",
    "card": "card|--T|20,50,100|--target|and3|--store|card.sqlite",
}
LAYERS, WIDTH, HEADS, WORDS, TOKENS = 12, 768, 12, 512, 2000


def timed(tree: Path, folder: Path, line: str, cache: Path) -> dict[str, float] | None:
    """One process, its output read to the end; None if it does not know the command."""
    program = ["-c", "from capax.cli.entry import main; main()", *line.split("|")]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"PYTHONPATH": str(tree / "src"), "CAPAX_CACHE": str(cache)}
    used, began = _core_seconds(), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *program],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    start = process.stdout.read(1)
    first = time.perf_counter() - began
    output = start + process.stdout.read()
    code = process.wait()
    if code == 2 and b"No such option" in output:
        return None
    if code != 0:
        sys.exit(f"{tree}: capax {' '.join(line.split('|'))} ended with {output.decode()[-2000:]}")
    ended = time.perf_counter() - began
    return {"first": first, "seconds": ended, "core_seconds": _core_seconds() - used}


def _core_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_gpt2(folder: Path) -> None:
    """Random weights of the shape of the small GPT-2, with a vocabulary of its own, and a text."""
    import numpy as np
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = {"n_layer": LAYERS, "n_embd": WIDTH, "n_head": HEADS, "vocab_size": WORDS}
    GPT2LMHeadModel(GPT2Config(**shape)).save_pretrained(folder / "gpt2")
    (folder / "gpt2" / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(WORDS)))
    drawn = np.random.default_rng(0).integers(0, WORDS, TOKENS)
    (folder / "text.txt").write_text(" ".join(f"w{i}" for i in drawn))


def compare(trees: dict[str, Path], name: str, files: Path, turns: int) -> list[dict[str, Any]]:
    """One command in both versions: a row for an empty cache, and one with programs compiled."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for _ in range(turns):
        for version, tree in trees.items():
            with tempfile.TemporaryDirectory() as at:
                cache = Path(at) / "cache"
                for state in ("empty", "compiled"):
                    folder = Path(at) / state
                    folder.mkdir()
                    for file in files.iterdir():
                        (folder / file.name).symlink_to(file)
                    found = timed(tree, folder, COMMANDS[name], cache)
                    if found is None:
                        break
                    best = rows.setdefault((version, state), found)
                    rows[version, state] = {k: min(best[k], found[k]) for k in found}
    return [{"command": name, "version": v, "cache": s, **row} for (v, s), row in rows.items()]


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, required=True, help="folder of the other version")
    parser.add_argument("--only", nargs="+", default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument("--turns", type=int, default=2, help="the shortest of so many times")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    trees, rows = {"before": options.against.resolve(), "now": here}, []
    with tempfile.TemporaryDirectory() as at:
        files, cache = Path(at) / "files", Path(at) / "cache"
        files.mkdir()
        if {"audit", "text", "read"} & set(options.only):
            write_gpt2(files)
        train = f"train|{RULE}|-T|50|-m|300|--out|model.safetensors|--data|data.npz"
        timed(trees["before"], files, train, cache)
        for name in options.only:
            rows += compare(trees, name, files, options.turns)
            print([row for row in rows if row["command"] == name], file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'command':>10s} {'cache':>9s} {'version':>8s}  first      s  core s")
    for row in rows:
        numbers = " ".join(f"{row[k]:6.2f}" for k in ("first", "seconds", "core_seconds"))
        print(f"{row['command']:>10s} {row['cache']:>9s} {row['version']:>8s} {numbers}")


if __name__ == "__main__":
    main()
