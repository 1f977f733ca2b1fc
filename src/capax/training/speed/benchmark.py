"""Time per training step and model: ours against the naive model and PyTorch, in one run.

Only ratios from one run on one machine are meaningful, so all contestants are timed together, with
the ceilings of the machine, on the same work: the default model, m examples, full batches.
"""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.training.programs.advancing import start
from capax.training.programs.program import Program
from capax.training.programs.seeds import pool_for, seed_for, training_for
from capax.training.programs.shape import memory_of, program_of
from capax.training.slots.slots import Slots
from capax.training.specs.hardware import Hardware
from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec
from capax.training.speed.roofline import Ceilings, best_of, least_seconds, measure, together
from capax.training.steps.optimiser import transformation
from capax.training.steps.paths import NaivePath

LENGTHS = (50, 300, 800, 3000)
ROUNDS = 2  # all is timed twice, minutes apart: a shared machine is slow for seconds at a time
Say = Callable[[str], None]
Seconds = dict[str, float]  # per step and model, by contestant


@dataclass(frozen=True)
class Timing:
    """Milliseconds per step and model at one T; None for a rival that was not timed."""

    naive_jax_ms: float | None
    torch_full_ms: float | None
    torch_cls_ms: float | None
    capax_ms: float
    speedup_full: float | None
    speedup_cls: float | None
    roofline_fraction: float


def trial_at(T: int, m: int, chunk: int = 100) -> TrialSpec:
    """The work that is timed: the default model and optimiser on a 3-bit AND."""
    task = TaskSpec(T=T, m=m, reject_ambiguous=False, validation_size=512)
    return TrialSpec(task=task, model=TransformerSpec(T=T), steps=chunk, eval_every=chunk)


def _spec(trial: TrialSpec) -> TransformerSpec:
    assert isinstance(trial.model, TransformerSpec)
    return trial.model


def capax_seconds(
    trial: TrialSpec, hardware: Hardware, budget: float, models: int | None = None
) -> float:
    """Seconds per step and model of the engine's own program, evaluation included.

    models: at once (more than there are slots take turns, at the same time per model); default:
    every slot of every worker busy (1024 on a GPU).
    """
    devices = hardware.worker_devices()
    if models is not None:
        devices = devices[: max(1, min(len(devices), models))]
    program = program_of(trial, hardware)
    width = memory_of(program, hardware).slots
    width = width if models is None else min(width, -(-models // len(devices)))
    pool = pool_for(trial.task)
    options = hardware.compiler_options()
    ready = [_filled(Slots(program, d, width, [pool], options), trial, program) for d in devices]
    chunks: list[Callable[[], object]] = [partial(s.advance, range(s.width)) for s in ready]
    together(chunks)
    seconds = best_of(lambda: together(chunks), budget)
    return seconds / (trial.eval_every * width * len(devices))


def _filled(slots: Slots, trial: TrialSpec, program: Program) -> Slots:
    run = trial.run(0)
    seed = seed_for(run, training_for(run), program)
    slots.admit(dict.fromkeys(range(slots.width), seed))
    return slots


def naive_seconds(trial: TrialSpec, hardware: Hardware, budget: float) -> float:
    """Seconds per step of the naive model in JAX, with all threads of JAX."""
    path, rule = NaivePath(_spec(trial), "timed as a rival"), OptimiserSpec()
    rates = (rule.lr, rule.weight_decay, 1.0)
    optimiser = transformation(rule, *rates)
    training = training_for(trial.run(0))
    assert training is not None, "the benchmark trains on a full batch"
    X, y = jnp.asarray(training.X, jnp.int32), jnp.asarray(training.y, jnp.float32)

    def loss(params: Any) -> jax.Array:
        z = path.logits(params, X)
        return jnp.mean(jnp.logaddexp(z, jnp.zeros_like(z)) - y * z)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(jax.grad(loss)(params), state, params)
            return jax.tree.map(jnp.add, params, updates), state

    with jax.default_device(hardware.all_devices[0]):
        now = [jax.jit(partial(start, path, rule))(np.zeros(2, np.uint32))]

        def advance() -> None:
            now[0] = jax.block_until_ready(step(*now[0]))

        advance()
        return best_of(advance, budget)


def torch_seconds(trial: TrialSpec, only_cls: bool, budget: float) -> float:
    """Seconds per step of the PyTorch model on the CPU, with all its threads."""
    from capax.training.speed.torch_rivals import single_step

    spec = _spec(trial)
    step = single_step(spec.T, trial.task.m, spec.d, spec.heads, spec.mlp_width, only_cls=only_cls)
    step()
    return best_of(step, budget, least=1)


def torch_graph_seconds(trial: TrialSpec, models: int, budget: float) -> float:
    """Seconds per step and model of the collapse batched by hand in PyTorch, as a CUDA graph."""
    import torch

    from capax.training.speed.torch_rivals import batched_graph_step

    spec = _spec(trial)
    step = batched_graph_step(models, spec.T, trial.task.m, spec.d, spec.heads, spec.mlp_width)

    def fifty() -> None:
        for _ in range(50):
            step()
        torch.cuda.synchronize()

    fifty()
    return best_of(fifty, budget) / (50 * models)


def has_torch() -> bool:
    """Whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def time_all(
    T: int, m: int, hardware: Hardware, budget: float, say: Say, known: Seconds
) -> Seconds:
    """Seconds of every contestant at one T: the shorter of the `known` and the new times.

    A rival with steps longer than the budget is not timed again: a step is its own average.
    """
    trial = trial_at(T, m)
    contestants: dict[str, Callable[[], float]] = {
        "capax": lambda: capax_seconds(trial, hardware, budget),
        "naive JAX": lambda: naive_seconds(trial, hardware, budget),
    }
    if has_torch() and hardware.platform == "cpu":
        contestants["PyTorch, full"] = lambda: torch_seconds(trial, False, budget)
        contestants["PyTorch, cls"] = lambda: torch_seconds(trial, True, budget)
    found = dict(known)
    for name, seconds in contestants.items():
        if known.get(name, 0.0) <= budget:
            say(f"T = {T}: {name}")
            found[name] = min(known.get(name, math.inf), seconds())
    return found


def timing_of(T: int, m: int, seconds: Seconds, ceilings: Ceilings) -> Timing:
    """Milliseconds of a step by library, and how many times as fast Capax is."""
    ours, naive = seconds["capax"], seconds["naive JAX"]
    full, cls = seconds.get("PyTorch, full"), seconds.get("PyTorch, cls")
    return Timing(
        naive_jax_ms=1e3 * naive,
        torch_full_ms=None if full is None else 1e3 * full,
        torch_cls_ms=None if cls is None else 1e3 * cls,
        capax_ms=1e3 * ours,
        speedup_full=None if full is None else full / ours,
        speedup_cls=None if cls is None else cls / ours,
        roofline_fraction=least_seconds(_spec(trial_at(T, m)), m, ceilings) / ours,
    )


def benchmark(
    lengths: tuple[int, ...] = LENGTHS,
    *,
    m: int = 60,
    hardware: Hardware | None = None,
    budget: float = 3.0,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """All measurements in one run; the keys are the keys of `capax bench --json`.

    budget: seconds per measurement (the shortest time of several tries counts).
    """
    hardware = hardware or Hardware()
    ceilings, seconds = Ceilings(0.0, 0.0), dict[int, Seconds].fromkeys(lengths, {})
    for _ in range(ROUNDS):
        say("ceilings of the machine")
        ceilings = ceilings.or_higher(measure(hardware, budget / 3))
        for T in lengths:
            seconds[T] = time_all(T, m, hardware, budget, say, seconds[T])
    timings = {T: timing_of(T, m, seconds[T], ceilings) for T in lengths}
    say("growth with the number of models")
    counts = (1, 2, 4) if hardware.platform == "cpu" else (64, 256, 1024)
    middle = trial_at(300 if 300 in lengths else lengths[0], m)
    graph = None
    if hardware.platform != "cpu" and has_torch():
        say("PyTorch, hand-batched, CUDA graph")
        graph = 1e3 * torch_graph_seconds(middle, counts[-1], budget)
    models = {N: 1e3 * N * capax_seconds(middle, hardware, budget / 2, N) for N in counts}
    return {
        "device": device_name(hardware),
        "m": m,
        "workers": len(hardware.worker_devices()),
        "gflops_per_second": ceilings.flops_per_second / 1e9,
        "gbytes_per_second": ceilings.bytes_per_second / 1e9,
        "exponent_T": exponent({T: t.capax_ms for T, t in timings.items()}),
        "torch_graph_ms": graph,
        "step_ms_of_models": {str(N): value for N, value in models.items()},
        "T": {str(T): asdict(timing) for T, timing in timings.items()},
    }


def exponent(times: dict[int, float]) -> float | None:
    """Growth exponent of the time between the two largest lengths of 300 or more."""
    long = sorted(T for T in times if T >= 300)
    if len(long) < 2:
        return None
    first, last = long[0], long[-1]
    return math.log(times[last] / times[first]) / math.log(last / first)


def device_name(hardware: Hardware) -> str:
    """The device in words, with the number of workers."""
    kind = hardware.all_devices[0].device_kind
    return f"{kind} ({hardware.platform}, {len(hardware.worker_devices())} workers)"
