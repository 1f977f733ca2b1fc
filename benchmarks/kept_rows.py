"""Jobs in several processes, one JSON line each, kept in a file: a second call goes on."""

import json
import multiprocessing
import time
from pathlib import Path


def add_options(parser):
    """--jobs, --minutes, --out of a benchmark."""
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--out", type=Path, help="JSON lines; jobs that are there are not repeated")


def run(work, jobs, options) -> list[dict]:
    """The rows of `work(job)` for all jobs (name -> arguments), those that are kept first."""
    lines = options.out.read_text().splitlines() if options.out and options.out.is_file() else []
    rows = {row["job"]: row for row in map(json.loads, lines)}
    todo = [(work, name, job) for name, job in jobs.items() if name not in rows]
    until, kept = time.monotonic() + 60 * options.minutes, [rows[n] for n in jobs if n in rows]
    if todo and options.minutes > 0:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for row in pool.imap_unordered(_one, todo):
                kept.append(row)
                print(json.dumps(row), flush=True)
                if options.out:
                    with options.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                if time.monotonic() > until:
                    pool.terminate()
                    break
    return kept


def _one(given) -> dict:
    work, name, job = given
    return {"job": name, **work(*job)}
