"""What decompilation must show, measured: `python benchmarks/decompile.py [part ...]`.

Parts: compiled, train, solved, failed, enclosures, certificates, others, speed. Trained models are
kept in a folder (--folder), so that parts can be run one by one; `train` makes those that are not
there. Networks are independent of each other: --workers processes share them.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from decompile_runs import paths, read, train_models

from capax.attention import transformer_spec
from capax.boolean import SparseFunction, parse
from capax.data import TaskSpec
from capax.decompile.decompiling import Effort

QUICK = Effort(pairs=400, fillers=16, fresh=500)
MILLION = 1_000_000


def say(**row):
    print(json.dumps(row), flush=True)


def shared(work, items, workers):
    """`work` of every item, in their order, by so many processes (1: this one)."""
    if workers == 1:
        yield from map(work, items)
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(work, items)


def tables_to_compile():
    """All 256 functions of 3 bits and 500 random ones of 4 bits."""
    rng = np.random.default_rng(0)
    every = [np.array([n >> r & 1 for r in range(8)], float) for n in range(256)]
    return every + [rng.integers(0, 2, 16).astype(float) for _ in range(500)]


def one_compiled(case):
    """(equal, proved, CPU seconds) of one compiled network, decompiled."""
    from capax.compiler import compile
    from capax.decompile.decompiling import decompile

    encoding, number, table = case
    rng, s = np.random.default_rng(number), int(np.log2(len(table)))
    places = tuple(sorted(rng.choice(19, s, replace=False).tolist()))
    f, began = SparseFunction(places, table, 19), time.process_time()
    found = decompile(compile(f, 19, encoding=encoding).model, effort=QUICK)
    g, h = f.relevant(), found.function
    equal = h.support == g.support and bool((h.table == g.table).all())
    return equal, found.all_inputs.status == "proved", time.process_time() - began


def compiled(_folder, number, workers):
    """The functions of 3 and 4 bits, in every encoding."""
    from capax.compiler import ENCODINGS

    tables = tables_to_compile()[: number or None]
    for encoding in ENCODINGS:
        began = time.perf_counter()
        cases = [(encoding, i, table) for i, table in enumerate(tables)]
        equal, proved, seconds = np.sum(list(shared(one_compiled, cases, workers)), axis=0)
        say(part="compiled", encoding=encoding, networks=len(cases), equal=int(equal),
            proved=int(proved), cpu_seconds=round(float(seconds), 1),
            seconds=round(time.perf_counter() - began, 1))  # fmt: skip


def one_solved(cells, path):
    """A solved run: is its formula the target, and what is proved about it?"""
    from capax.decompile.anatomy import classify
    from capax.decompile.decompiling import decompile

    model, task, outcome = read(path)
    if outcome != "solved":
        return None
    began = time.process_time()
    found = decompile(model, p=task.probability, effort=Effort(cells=cells) if cells else Effort())
    whole, kind = found.all_inputs, classify(found, task.target).kind
    return {"run": path.stem, "formula": found.formula.text, "kind": kind,
            "status": whole.status, "margin": whole.margin, "found": whole.found_margin,
            "ones": whole.ones, "ones_share": whole.ones_share,
            "proved_share": whole.proved_share, "method": whole.method,
            "cpu_seconds": round(time.process_time() - began, 2)}  # fmt: skip


def solved(folder, number, workers, names=("t50", "t50exit", "t300"), cells=0):
    """Solved runs of each set, and how many are proved, refuted and open."""
    for name in names:
        rows = []
        for row in shared(partial(one_solved, cells), paths(folder, name, number), workers):
            if row is not None:
                rows.append(row)
                say(part=name, **row)
        say(part=f"{name} summary", runs=len(rows), kinds=Counter(r["kind"] for r in rows),
            status=Counter(r["status"] for r in rows))  # fmt: skip


def one_failed(path):
    """A run below the threshold: what had it learnt?"""
    from capax.data.examples import training_examples
    from capax.decompile.anatomy import quick_anatomy

    model, task, outcome = read(path)
    if outcome != "failed":
        return None
    data = training_examples(task)
    return path.stem, quick_anatomy(model, task.target, p=task.probability, data=data)


def failed(folder, number, workers):
    """Runs below the threshold, and the tally of what they computed."""
    from capax.decompile.anatomy import tally

    found = []
    for row in shared(one_failed, paths(folder, "t50fail", number), workers):
        if row is not None:
            run, anatomy = row
            found.append(anatomy)
            say(part="failed", run=run, kind=anatomy.kind, formula=anatomy.formula,
                agreement=anatomy.agreement, shared=anatomy.shared, missing=anatomy.missing,
                extra=anatomy.extra, fits=anatomy.fits_training)  # fmt: skip
    fits = Counter(a.kind for a in found if a.fits_training)
    say(part="failed summary", runs=len(found), tally=tally(found), fits=fits)


def one_attacked(inputs, path):
    """A million random and searched inputs against the enclosures of one model."""
    from decompile_enclosures import attack_enclosures

    model, task, _ = read(path)
    tried, outside, nearest = attack_enclosures(model, task, inputs)
    return {"run": f"{path.parent.name}/{path.stem}", "inputs": tried, "outside": outside,
            "nearest": nearest}  # fmt: skip


def enclosures(folder, number, workers, inputs=MILLION):
    """Every model of every set (failed ones too): no logit outside of its enclosure."""
    every = [
        p for name in ("t300", "t50", "t50exit", "t50fail") for p in paths(folder, name, number)
    ]
    rows = []
    for row in shared(partial(one_attacked, inputs), every, workers):
        rows.append(row)
        say(part="enclosures", **row)
    say(part="enclosures summary", models=len(rows), inputs=sum(r["inputs"] for r in rows),
        fewest=min(r["inputs"] for r in rows), outside=sum(r["outside"] for r in rows))  # fmt: skip


def certificates(_folder, number, _workers):
    """500 training sets at T = 20, m = 30: is the true error ever above the certificate?"""

    from capax.decompile.decompiling import decompile
    from capax.training import TrialSpec, train

    X = (np.arange(1 << 20)[:, None] >> np.arange(20) & 1).astype(np.uint8)
    some = X[np.random.default_rng(1).choice(len(X), 1 << 14, replace=False)]
    trials = (
        TrialSpec(
            task=TaskSpec(function="and3", T=20, m=30, p=0.5, seed=i, reject_ambiguous=False),
            model=transformer_spec(T=20, d=16, heads=4, mlp_width=32),
            steps=300, eval_every=100, restarts=1,
        )
        for i in range(number or 500)
    )  # fmt: skip
    from capax.decompile.reading.oracle import oracle

    violated, values, errors = 0, [], []
    for result in train(trials, keep="final", max_m=30, early_exit=False):
        run, task = result.runs[0], result.spec.task
        found = decompile(run.parameters, Evidence(training_examples(task)),
                          effort=Effort(pairs=600, fresh=4000, cells=0))  # fmt: skip
        asked, f = oracle(run.parameters), task.target
        error = float((asked(some) != (f(some) > 0.5)).mean())
        if error + 0.05 > found.certificate.best.value:  # near: on all inputs
            error = float((asked(X) != (f(X) > 0.5)).mean())
        violated += error > found.certificate.best.value
        values.append(found.certificate.best.value)
        errors.append(error)
    say(part="certificates", sets=len(values), violated=violated, delta=0.05,
        median_bound=float(np.median(values)), largest_error=max(errors),
        median_error=float(np.median(errors)),
        vacuous=int(sum(v >= 1 for v in values)))  # fmt: skip


def others(_folder, _number, _workers):
    """A PyTorch LSTM trained on xor of 2 of 20 bits, and a scikit-learn tree, by queries alone."""
    import torch
    from sklearn.tree import DecisionTreeClassifier

    from capax.decompile.decompiling import decompile

    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(21, 24, batch_first=True)
            self.out = torch.nn.Linear(24, 1)

        def forward(self, x):
            place = torch.eye(20).expand(len(x), 20, 20)
            states, _ = self.lstm(torch.cat([2 * x[..., None] - 1, place], -1))
            return self.out(states[:, -1])[:, 0]

    f = parse("x3 ^ x12", 20)
    rng, model = np.random.default_rng(0), Reader()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = 0
    while step < 3000:
        step += 1
        p = min(0.5, 0.12 + 0.0004 * step)  # rare ones first: at p = 1/2 xor gives no slope
        X = (rng.random((128, 20)) < p).astype(np.uint8)
        y = torch.tensor(f(X), dtype=torch.float32)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            model(torch.tensor(X).float()), y
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if p == 0.5 and loss.item() < 2e-3:
            break
    found = decompile(model, T=20)
    say(part="lstm", steps=step, loss=loss.item(), formula=found.formula.text,
        agreement=found.agreement.value, queries=found.queries)  # fmt: skip
    X = rng.integers(0, 2, (2000, 30)).astype(np.uint8)
    tree = DecisionTreeClassifier(random_state=0).fit(X, parse("maj(x3, x12, x20)", 30)(X))
    found = decompile(tree)
    say(part="tree", formula=found.formula.text, agreement=found.agreement.value,
        queries=found.queries)  # fmt: skip


def speed(folder, _number, _workers):
    """Seconds for one model at T = 300, and for the support of a function of 10 000 bits."""
    from capax.decompile.decompiling import decompile

    model, task, _ = read(paths(folder, "t300", 1)[0])
    for part, call in (
        ("t300", lambda: decompile(model, p=task.probability)),
        ("T = 10000", lambda: decompile(lambda X: parse("x5 & x17 & ~x8000", 10_000)(X) - 0.5,
                                        T=10_000)),
    ):  # fmt: skip
        wall, cpu = time.perf_counter(), time.process_time()
        found = call()
        say(part=f"speed {part}", formula=found.formula.text, queries=found.queries,
            status=found.all_inputs.status, seconds=round(time.perf_counter() - wall, 1),
            cpu_seconds=round(time.process_time() - cpu, 1))  # fmt: skip


def trained(folder, number, _workers):
    """The runs that the other parts read."""
    train_models(folder, number)


PARTS = {"compiled": compiled, "train": trained, "solved": solved, "failed": failed,
         "enclosures": enclosures, "certificates": certificates, "others": others,
         "speed": speed}  # fmt: skip

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    arguments.add_argument("--folder", type=Path, default=Path("decompile_models"))
    arguments.add_argument("--number", type=int, default=0, help="only so many of each")
    arguments.add_argument("--workers", type=int, default=1, help="processes")
    given = arguments.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        arguments.error(
            f"parts: wanted some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}"
        )
    for part in given.parts:
        PARTS[part](given.folder, given.number, given.workers)
