"""Each architecture of the zoo: a step in the engine against the same model in PyTorch.

python benchmarks/learners.py                        # T = m = 100 and T = 400, m = 300, all of them
python benchmarks/learners.py --sizes 100x100 --names mlp lstm --budget 5 --json
python benchmarks/learners.py --before               # also the forms that GPUs have, on this CPU

Both train the same shapes with AdamW on the full batch. The engine works as in a card: a process
for every core, one run in each, gradients in pieces. PyTorch trains one model after the other with
all cores, as people do. One run, one machine: only the ratios count. `ceiling` is the share of the
operations per second that products of 1024 x 1024 reach on all cores together, measured in the same
turns, because the clock of a shared machine changes; counted are the operations in matrix products
of the step as the engine does it, loops included. Sums, activations, look-ups in tables and the
optimiser count for nothing, so tables make this share smaller.
"""

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

NAMES = (
    *("transformer", "transformer2", "mlp", "deep_sets", "linear_attention"),
    *("cnn", "lstm", "gru", "ssm", "mixer"),
)
MOST = 1024  # examples that the program has room for, as in a card


def product_operations(jaxpr: Any) -> int:
    """Multiplications and additions in the matrix products of a program, loops counted."""
    import math

    from jax.extend.core import ClosedJaxpr

    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            length = math.prod(shape[axis] for axis in contracted)
            total += 2 * math.prod(equation.outvars[0].aval.shape) * length
            continue
        inner = [
            product_operations(getattr(x, "jaxpr", x))
            for value in equation.params.values()
            for x in (value if isinstance(value, tuple) else (value,))
            if isinstance(x, ClosedJaxpr) or hasattr(x, "eqns")
        ]
        if inner:
            times = equation.params["length"] if equation.primitive.name == "scan" else 1
            one = max(inner) if equation.primitive.name == "cond" else sum(inner)
            total += times * one
    return total


def model_at(name: str, T: int) -> tuple[Any, dict[str, Any]]:
    """Its spec as in a card, and its fields."""
    from capax.cards.protocol.matched_sizes import sizes
    from capax.learners.names import entry_of

    entry = entry_of(name)
    fields = sizes(entry, T)
    assert entry.spec is not None
    return entry.spec(T=T, **fields), fields


class Engine:
    """A run of one learner in this process: `steps(n)` takes n steps."""

    def __init__(self, name: str, T: int, m: int, before: bool) -> None:
        import jax
        import jax.numpy as jnp
        import numpy as np

        from capax.data.task import TaskSpec
        from capax.training import Hardware, TrialSpec
        from capax.training.programs import advancing
        from capax.training.programs import program as programs
        from capax.training.programs.piece_sizes import by_library, cpu_piece, keeps_little
        from capax.training.programs.seeds import training_for
        from capax.training.programs.shape import program_of
        from capax.training.specs.xla_options import in_pieces
        from capax.training.steps.paths import ModulePath, path_for

        spec, _ = model_at(name, T)
        task = TaskSpec(T=T, m=m, reject_ambiguous=False, validation_size=512)
        trial, hardware = TrialSpec(task=task, model=spec), Hardware(workers=1)
        piece = cpu_piece(path_for(spec, "cpu"))
        program = program_of(trial, hardware, max_m=MOST, block=piece)
        if before and isinstance(program.path, ModulePath):
            program = replace(program, path=ModulePath(spec))
        training = training_for(trial.run(0))
        assert training is not None
        pad = ((0, program.rows - m), (0, 0))
        data = programs.Data(
            np.pad(training.X.astype(np.uint8), pad),
            np.pad(training.y.astype(np.float32), pad[0]),
            (np.arange(program.rows) < m).astype(np.float32),
        )
        params, state = advancing.start(program.path, program.rule, np.zeros(2, np.uint32))
        rates = (np.float32(1e-3), np.float32(1e-4), np.float32(1000))
        lane = programs.Lane(params, state, np.int32(0), data, None, *rates, np.zeros(2, np.uint32))

        def advance(lane: Any, number: Any) -> Any:
            step, _ = advancing._plain(program, lane, None)
            carry = (lane.params, lane.state, lane.step)
            return jax.lax.fori_loop(0, number, lambda _, c: step(c, None)[0], carry)

        self._lane = jax.device_put(lane)
        small, library = keeps_little(program.path), by_library(program.path)
        options = hardware.compiler_options() | in_pieces(small=small, library=library)
        lowered = jax.jit(advance).lower(self._lane, jnp.int32(1))
        self._advance = lowered.compile(compiler_options=options)
        self._wait, self._number = jax.block_until_ready, jnp.int32
        self.operations = self._counted(program.path, m)

    def _counted(self, path: Any, m: int) -> int:
        import jax
        import jax.numpy as jnp

        def loss(params: Any, inputs: Any) -> Any:
            return jnp.sum(path.logits(params, inputs))

        inputs = path.prepare(self._lane.data.bits[:m])
        return product_operations(jax.make_jaxpr(jax.grad(loss))(self._lane.params, inputs).jaxpr)

    def steps(self, number: int) -> None:
        """Take this many steps, always from the same start."""
        self._wait(self._advance(self._lane, self._number(number)))

    def seconds(self, budget: float) -> float:
        """Per step."""
        import time

        from capax.training.speed.roofline import best_of

        began = time.perf_counter()
        self.steps(2)
        number = max(1, int(0.2 * budget / max(1e-6, (time.perf_counter() - began) / 2)))
        return best_of(lambda: self.steps(number), budget) / number


def serve(core: int, pipe: Connection) -> None:
    """One process on one core: programs are made, then timed when the others are ready too."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    from capax.training import Hardware
    from capax.training.speed.roofline import measure

    engine: Engine | None = None
    while (order := pipe.recv()) is not None:
        if order[0] == "ceiling":
            pipe.send(measure(Hardware(workers=1), order[1]).flops_per_second)
        elif order[0] == "make":
            engine = Engine(*order[1:])
            pipe.send(engine.operations)
        else:
            assert engine is not None
            pipe.send(engine.seconds(order[1]))


class Crew:
    """A process for every core, all of which get the same order at the same time."""

    def __init__(self) -> None:
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for core in cores:
            ours, theirs = context.Pipe()
            context.Process(target=serve, args=(core, theirs), daemon=True).start()
            self._pipes.append(ours)

    def tell(self, *order: Any) -> list[Any]:
        """What each of them answers."""
        for pipe in self._pipes:
            pipe.send(order)
        return [pipe.recv() for pipe in self._pipes]

    def close(self) -> None:
        """Send them home."""
        for pipe in self._pipes:
            pipe.send(None)

    def step_seconds(self, budget: float) -> float:
        """Per step and model, all cores busy."""
        found = self.tell("time", budget)
        return sum(found) / len(found) ** 2


def torch_step(name: str, T: int, m: int) -> Callable[[], None]:
    """One step of the model in PyTorch."""
    import torch
    from torch_twins import twin

    from capax.training.speed.torch_rivals import adamw_step

    torch.manual_seed(0)
    return adamw_step(twin(name, T, model_at(name, T)[1]), T, m)


def compare(
    crew: Crew, name: str, T: int, m: int, budget: float, before: bool, turns: int
) -> dict[str, Any]:
    """One architecture, both ways and the ceiling, turn by turn; the best of each counts."""
    from capax.training.speed.roofline import best_of

    step = torch_step(name, T, m)
    step()
    row: dict[str, Any] = {"name": name, "T": T, "m": m}
    if before and name in ("cnn", "lstm", "gru", "ssm", "mixer"):  # that have two forms
        crew.tell("make", name, T, m, True)
        row["before_ms"] = 1e3 * crew.step_seconds(budget / 2)
    row["operations"] = crew.tell("make", name, T, m, False)[0]
    ours, theirs, ceilings = [], [], []
    for _ in range(turns):
        ceilings.append(sum(crew.tell("ceiling", budget / 4)))
        ours.append(crew.step_seconds(budget / 2))
        theirs.append(best_of(step, budget / 2))
    row |= {"engine_ms": 1e3 * min(ours), "torch_ms": 1e3 * min(theirs)}
    row |= {"ratio": min(theirs) / min(ours), "gflops_per_second": max(ceilings) / 1e9}
    return row | {"ceiling": row["operations"] / (min(ours) * max(ceilings))}


def show(rows: Sequence[dict[str, Any]]) -> None:
    """A table for reading."""
    head = ("name", "T", "m", "before_ms", "engine_ms", "torch_ms", "ratio", "ceiling")
    rates = [row["gflops_per_second"] for row in rows]
    print(f"ceilings: {min(rates):.0f} to {max(rates):.0f} Gflop/s on {os.cpu_count()} cores")
    print(" ".join(f"{x:>16s}" if x == "name" else f"{x:>9s}" for x in head))
    for row in rows:
        cells = [f"{row['name']:>16s}", f"{row['T']:9d}", f"{row['m']:9d}"]
        for x in head[3:]:
            value = row.get(x)
            cells.append(f"{'-' if value is None else format(value, '.3g'):>9s}")
        print(" ".join(cells), flush=True)


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--sizes", nargs="+", default=["100x100", "400x300"], help="T x m")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of two turns")
    parser.add_argument("--turns", type=int, default=2, help="more of them on a shared machine")
    parser.add_argument("--before", action="store_true", help="also the forms written for GPUs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    crew, rows = Crew(), []
    for T, m in (map(int, size.split("x")) for size in options.sizes):
        for name in options.names:
            rows.append(compare(crew, name, T, m, options.budget, options.before, options.turns))
            print(rows[-1], file=sys.stderr, flush=True)
    crew.close()
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
