"""What decompilation must show, measured: `python benchmarks/decompile.py [part ...]`.

Parts: compiled, train, solved, failed, enclosures, certificates, others, speed. Trained models are
kept in a folder (--folder), so that parts can be run one by one; `train` makes them.
"""

import argparse
import json
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np

from capax.attention import load, save, transformer_spec
from capax.boolean import SparseFunction, parse
from capax.data import TaskSpec

QUICK = {"pairs": 400, "fillers": 16, "fresh": 500}


def say(**row):
    print(json.dumps(row), flush=True)


def compiled(_folder, number):
    """All 256 functions of 3 bits and 500 random ones of 4 bits, in every encoding."""
    from capax.compiler import ENCODINGS, compile
    from capax.decompile.decompiling import decompile

    rng = np.random.default_rng(0)
    tables = [np.array([n >> r & 1 for r in range(8)], float) for n in range(256)]
    tables += [rng.integers(0, 2, 16).astype(float) for _ in range(500)]
    for encoding in ENCODINGS:
        began, equal, proved = time.process_time(), 0, 0
        for table in tables[:number] if number else tables:
            s = int(np.log2(len(table)))
            places = tuple(sorted(rng.choice(19, s, replace=False).tolist()))
            f = SparseFunction(places, table, 19)
            found = decompile(compile(f, 19, encoding=encoding).model, **QUICK)
            g = f.relevant()
            h = found.function
            equal += h.support == g.support and bool((h.table == g.table).all())
            proved += found.all_inputs.status == "proved"
        seconds = round(time.process_time() - began, 1)
        say(part="compiled", encoding=encoding, networks=len(tables[: number or None]),
            equal=equal, proved=proved, cpu_seconds=seconds)  # fmt: skip


# name -> T, m, how many runs, whether they go on after they are solved
RUNS = {
    "t50": (50, 300, 104, False),
    "t50exit": (50, 300, 100, True),
    "t300": (300, 300, 24, False),
    "t50fail": (50, 30, 110, False),
}


def train_models(folder, number):
    """The runs of Figure 3's settings: solved ones at two lengths, and ones below the threshold."""
    from capax.training import TrialSpec, train

    for name, (T, m, runs, early) in RUNS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        trials = (
            TrialSpec(
                task=TaskSpec(function="and3", T=T, m=m, seed=i), model=transformer_spec(T=T),
                steps=1000, eval_every=50, restarts=1,
            )
            for i in range(number or runs)
        )  # fmt: skip
        for result in train(trials, keep="final", max_m=m, early_exit=early):
            run = result.runs[0]
            about = {"spec": run.spec.model_dump(mode="json"), "outcome": run.outcome}
            path = folder / name / f"{result.spec.task.seed:03d}.safetensors"
            save(path, run.parameters, about)


def models(folder, name, outcome, number):
    """(path, model, task) of the runs that ended so."""
    for path in islice(sorted((folder / name).glob("*.safetensors")), number or None):
        model, about = load(path)
        if about["outcome"] == outcome:
            yield path, model, TaskSpec(**about["spec"]["task"])


def solved(folder, number):
    """Solved runs: is the formula the target, and what is proved about it?"""
    from capax.decompile.anatomy import classify
    from capax.decompile.decompiling import decompile

    for name in ("t50", "t50exit", "t300"):
        rows = []
        for path, model, task in models(folder, name, "solved", number):
            began = time.process_time()
            found = decompile(model, p=task.probability)
            whole, kind = found.all_inputs, classify(found, task.target).kind
            row = {"run": path.stem, "formula": found.formula.text, "kind": kind,
                   "status": whole.status, "margin": whole.margin, "found": whole.found_margin,
                   "ones": whole.ones, "ones_share": whole.ones_share,
                   "proved_share": whole.proved_share,
                   "cpu_seconds": round(time.process_time() - began, 2)}  # fmt: skip
            rows.append(row)
            say(part=name, **row)
        say(part=f"{name} summary", runs=len(rows), kinds=Counter(r["kind"] for r in rows),
            status=Counter(r["status"] for r in rows))  # fmt: skip


def failed(folder, number):
    """Runs below the threshold: what had they learnt?"""
    from capax.decompile.anatomy import quick_anatomy, tally
    from capax.decompile.training_data import TrainingData, draw_training

    found = []
    for path, model, task in models(folder, "t50fail", "failed", number):
        drawn = draw_training(task)
        data = TrainingData(drawn.X, drawn.y)
        anatomy = quick_anatomy(model, task.target, p=task.probability, data=data)
        found.append(anatomy)
        say(part="failed", run=path.stem, kind=anatomy.kind, formula=anatomy.formula,
            agreement=anatomy.agreement, shared=anatomy.shared, missing=anatomy.missing,
            extra=anatomy.extra, fits=anatomy.fits_training)  # fmt: skip
    say(part="failed summary", runs=len(found), tally=tally(found))


def enclosures(folder, number):
    """A million random and searched inputs per model against the enclosures of the logit."""
    from capax.decompile.counterexample import search
    from capax.decompile.enclosure import enclose
    from capax.decompile.head_sets import Cells, HeadSets
    from capax.decompile.head_tables import head_tables
    from capax.decompile.table_forward import TableForward

    for path, model, task in models(folder, "t50", "solved", number or 4):
        f, tables = task.target, head_tables(model)
        support, rows = tuple(sorted(f.support)), np.arange(8)
        every = Cells(support, rows, 0 * rows, 0 * rows + task.T - 3)
        bounds = enclose(model, HeadSets(tables, every))
        forward, rng = TableForward(model, tables), np.random.default_rng(0)
        outside, nearest = 0, np.inf
        for block in range(50):
            density = rng.random((20_000, 1)) if block % 2 else task.probability
            X = (rng.random((20_000, task.T)) < density).astype(np.int64)
            row = sum(X[:, t] << i for i, t in enumerate(support))
            z = forward.logits(forward.sums(X))
            outside += int(((z < bounds.low[row]) | (z > bounds.high[row])).sum())
            nearest = min(nearest, float((z - bounds.low[row]).min()))
        for sign in ("0", "1"):  # searched towards both ends
            g = SparseFunction(support, np.full(8, float(sign)), task.T)
            worst = search(forward, g, rng, p=task.probability)
            row = sum(int(worst.bits[t]) << i for i, t in enumerate(support))
            z = forward.logits(forward.sums(worst.bits[None].astype(np.int64)))[0]
            outside += int(not bounds.low[row] <= z <= bounds.high[row])
        say(part="enclosures", run=path.stem, inputs=1_000_000, outside=outside, nearest=nearest)


def certificates(_folder, number):
    """500 training sets at T = 20, m = 30: is the true error ever above the certificate?"""
    from capax.decompile.decompiling import decompile
    from capax.decompile.training_data import TrainingData, draw_training
    from capax.training import TrialSpec, train

    X = (np.arange(1 << 20)[:, None] >> np.arange(20) & 1).astype(np.uint8)
    trials = (
        TrialSpec(
            task=TaskSpec(function="and3", T=20, m=30, p=0.5, seed=i, reject_ambiguous=False),
            model=transformer_spec(T=20, d=16, heads=4, mlp_width=32),
            steps=300, eval_every=100, restarts=1,
        )
        for i in range(number or 500)
    )  # fmt: skip
    from capax.decompile.oracle import oracle

    violated, values, errors = 0, [], []
    for result in train(trials, keep="final", max_m=30, early_exit=False):
        run, task = result.runs[0], result.spec.task
        drawn = draw_training(task)
        found = decompile(run.parameters, TrainingData(drawn.X, drawn.y), p=0.5, routes=False,
                          prove=False, pairs=600, fresh=4000)  # fmt: skip
        wrong = oracle(run.parameters)(X) != (task.target(X) > 0.5)
        error = float(wrong.mean())
        violated += error > found.certificate.bound.value
        values.append(found.certificate.bound.value)
        errors.append(error)
    say(part="certificates", sets=len(values), violated=violated, delta=0.05,
        median_bound=float(np.median(values)), largest_error=max(errors),
        median_error=float(np.median(errors)),
        vacuous=int(sum(v >= 1 for v in values)))  # fmt: skip


def others(_folder, _number):
    """A PyTorch LSTM trained on xor of 2 of 20 bits, and a scikit-learn tree, by queries alone."""
    import torch
    from sklearn.tree import DecisionTreeClassifier

    from capax.decompile.decompiling import decompile

    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(21, 32, batch_first=True)
            self.out = torch.nn.Linear(32, 1)

        def forward(self, x):
            place = torch.eye(20).expand(len(x), 20, 20)
            states, _ = self.lstm(torch.cat([2 * x[..., None] - 1, place], -1))
            return self.out(states[:, -1])[:, 0]

    f = parse("x3 ^ x12", 20)
    rng, model = np.random.default_rng(0), Reader()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    while step < 3000:
        step += 1
        X = rng.integers(0, 2, (256, 20)).astype(np.uint8)
        y = torch.tensor(f(X), dtype=torch.float32)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            model(torch.tensor(X).float()), y
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss.item() < 2e-3:
            break
    found = decompile(model, T=20)
    say(part="lstm", steps=step, loss=loss.item(), formula=found.formula.text,
        agreement=found.agreement.value, queries=found.queries)  # fmt: skip
    X = rng.integers(0, 2, (2000, 30)).astype(np.uint8)
    tree = DecisionTreeClassifier(random_state=0).fit(X, parse("maj(x3, x12, x20)", 30)(X))
    found = decompile(tree)
    say(part="tree", formula=found.formula.text, agreement=found.agreement.value,
        queries=found.queries)  # fmt: skip


def speed(folder, _number):
    """Seconds for one model at T = 300, and for the support of a function of 10 000 bits."""
    from capax.decompile.decompiling import decompile

    _, model, task = next(models(folder, "t300", "solved", 0))
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


PARTS = {"compiled": compiled, "train": train_models, "solved": solved, "failed": failed,
         "enclosures": enclosures, "certificates": certificates, "others": others,
         "speed": speed}  # fmt: skip

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("parts", nargs="*", default=list(PARTS))
    arguments.add_argument("--folder", type=Path, default=Path("decompile_models"))
    arguments.add_argument("--number", type=int, default=0, help="only so many of each")
    given = arguments.parse_args()
    for part in given.parts:
        PARTS[part](given.folder, given.number)
