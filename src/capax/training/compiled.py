"""Compiled programs, kept per (program, device, width), and compiled ahead in threads on request.

The functions of a program are compiled side by side, and programs in the order in which they were
asked for, so that the first can train while the others are still on their way.

width 1: the program of one lane, unbatched. width W: the same program for W lanes, under `vmap` on
a GPU, one lane after the other on a CPU: there the compiler may round the elements of a batch
differently (by where vectors end), and a run must not depend on its slot.
"""

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import SingleDeviceSharding

from capax.attention.collapsed.design import LONG
from capax.training.hardware import drawn_simply, launched_singly
from capax.training.kernel_choice import may_serve, source_compiles, trouble
from capax.training.program import SUBSET, Data, Lane, Program, Target, advance, examine, start

_SENT = 1 << 28  # bytes of zeros that are sent to a device; to compile a program is faster beyond
GROUP = 16  # lanes admitted, or examined on the whole pool, by one call


@dataclass(frozen=True)
class Executables:
    """draw: parameters from keys; write: new runs into slots (width > 1); advance: one chunk for
    all slots; examine: the whole pool."""

    draw: Any
    write: Any
    advance: Any
    examine: Any


class InOrder:
    """One at a time, and of those who wait the lowest number first."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: list[int] = []
        self._taken = False

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait until nobody is in and nobody with a lower number waits."""
        with self._change:
            heapq.heappush(self._waiting, number)
            self._change.wait_for(lambda: not self._taken and self._waiting[0] == number)
            heapq.heappop(self._waiting)
            self._taken = True
        try:
            yield
        finally:
            with self._change:
                self._taken = False
                self._change.notify_all()


_lock = threading.Lock()
# Tracing is Python: done one program at a time, the first is ready while others are still traced.
_tracing = InOrder()
_numbers = itertools.count()
_kept: dict[Any, Future[Any]] = {}


def executables(
    program: Program, device: jax.Device, width: int, options: dict[str, Any]
) -> Executables:
    """Compile once per process; later callers, also in other threads, wait for the same result."""
    compiler = _Compiler(program, device, width, options, next(_numbers))
    key = (device, tuple(sorted(options.items())))
    group = 1 if width == 1 else GROUP
    parts: dict[str, tuple[Any, Callable[[], Any]]] = {  # the longest to compile first
        name: ((name, program, width, *key), getattr(compiler, name))
        for name in ("advance", "examine", "write")
    }
    parts["draw"] = ("draw", program.path, program.rule, group, *key), compiler.draw
    with ThreadPoolExecutor(len(parts), thread_name_prefix="compile") as pool:
        made = {name: pool.submit(_once, *part) for name, part in parts.items()}
    return Executables(**{name: future.result() for name, future in made.items()})


def _once(key: Any, make: Callable[[], Any]) -> Any:
    with _lock:
        future = _kept.get(key)
        mine = future is None
        if future is None:
            future = _kept[key] = Future()
    if mine:
        try:
            future.set_result(make())
        except BaseException as error:
            with _lock:
                del _kept[key]
            future.set_exception(error)
    return future.result()


@dataclass(frozen=True)
class _Compiler:
    """Lowers and compiles the functions of a program for one device and width."""

    program: Program
    device: jax.Device
    width: int
    options: dict[str, Any]
    number: int  # of the program, among all that were asked for

    def draw(self) -> Any:
        """Parameters from keys."""
        function, key = partial(start, self.program.path, self.program.rule), _KEY
        if self.width > 1:
            function, key = self._each(function), _stacked(key, GROUP)
        return self._build("draw", function, key)

    def write(self) -> Any:
        """New runs into slots; one slot needs no program for it."""
        if self.width == 1:
            return None
        lane = lane_shape(self.program)
        T, rows = self.program.path.spec.T, lane.data.bits.shape[0]
        bits = jax.ShapeDtypeStruct((rows, packed_width(T)), jnp.uint8)
        fresh = lane._replace(data=lane.data._replace(bits=bits))
        lanes, fresh = _stacked(lane, self.width), _stacked(fresh, GROUP)
        return self._build("write", partial(_write, T), lanes, fresh, _INDEX, donate=(0,))

    def examine(self) -> Any:
        """The whole pool."""
        program, lane = self.program, lane_shape(self.program)
        pool = self._pool(program.validation_rows)
        if self.width == 1:
            return self._build("examine", partial(examine, program), lane.params, lane.target, pool)

        def examine_some(params: Any, target: Target, index: Any, pool: Any) -> Any:
            chosen = jax.tree.map(lambda x: x[index], (params, target))
            return self._each(lambda lane: examine(program, lane[0], lane[1], pool))(chosen)

        lanes = _stacked(lane, self.width)
        return self._build("examine", examine_some, lanes.params, lanes.target, _INDEX, pool)

    def advance(self) -> Any:
        """One chunk; where the kernel may serve it is taken at once, and tried on one example
        meanwhile."""
        if self.width > 1 and self._may_be_fused():
            trial: Future[Any] = Future()
            tried = partial(trouble, self.program, self.width, self.device)
            threading.Thread(target=_into, args=(trial, tried), daemon=True).start()
            try:
                fused = self._advance(replace(self.program, fused=True))
            except jax.errors.JaxRuntimeError:
                fused = None
            if trial.result() is None and fused is not None:
                return fused
        return self._advance(self.program)

    def _advance(self, program: Program) -> Any:
        lane, head = lane_shape(program), self._pool(min(SUBSET, program.validation_rows))
        if self.width == 1:
            return self._build("advance", partial(advance, program), lane, head, donate=(0,))

        def advance_all(lanes: Lane, pool: Any, busy: Any) -> Any:
            one = lambda lane: advance(program, lane[0], pool, lane[1])  # noqa: E731
            return self._each(one)((lanes, busy))

        busy = jax.ShapeDtypeStruct((self.width,), jnp.float32)
        lanes = _stacked(lane, self.width)
        return self._build("advance", advance_all, lanes, head, busy, donate=(0,))

    def _pool(self, rows: int) -> Any:
        columns = self.program.path.spec.T + self.program.labelled
        return jax.ShapeDtypeStruct((rows, columns), jnp.uint8)

    def _may_be_fused(self) -> bool:
        """Waits for NVRTC here, where nobody waits for us to finish tracing."""
        return may_serve(self.program, self.width, self.device) and source_compiles(self.program)

    def _each(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`function` for every lane of its argument."""
        if self.device.platform == "cpu":
            return partial(lax.map, function)
        return jax.vmap(function)

    def _build(
        self, name: str, function: Any, *arguments: Any, donate: tuple[int, ...] = ()
    ) -> Any:
        where = SingleDeviceSharding(self.device)
        placed = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), arguments
        )
        with _tracing.turn(self.number):
            lowered = self._traced(name, jax.jit(function, donate_argnums=donate), placed)
        return self._compiled(name, lowered)

    def _traced(self, name: str, function: Any, arguments: Any) -> Any:
        del name  # who measures wants to know it
        return function.lower(*arguments)

    def _compiled(self, name: str, lowered: Any) -> Any:
        return lowered.compile(compiler_options=self.options | self._more_options(name))

    def _more_options(self, name: str) -> dict[str, Any]:
        platform = self.device.platform
        if platform == "gpu" and name == "advance" and self.program.path.spec.T >= LONG:
            return launched_singly()
        return drawn_simply() if platform == "cpu" and name == "draw" else {}


_KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)
_INDEX = jax.ShapeDtypeStruct((GROUP,), jnp.int32)


def _into(future: Future[Any], make: Callable[[], Any]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:
        future.set_exception(error)


def packed_width(T: int) -> int:
    """Bytes of T bits, eight to a byte."""
    return -(-T // 8)


def _write(T: int, lanes: Lane, fresh: Lane, index: Any) -> Lane:
    """New runs, their bits unpacked, into slots."""
    bits = jnp.unpackbits(fresh.data.bits, axis=2, count=T, bitorder="little")
    fresh = fresh._replace(data=fresh.data._replace(bits=bits))
    return jax.tree.map(lambda old, new: old.at[index].set(new), lanes, fresh)


def lane_shape(program: Program) -> Lane:
    """Shapes of a lane."""
    spec, s = program.path.spec, program.s
    rows = program.rows if program.mode == "full_batch" else 0
    shape = jax.ShapeDtypeStruct
    real = shape((), jnp.float32)
    each = shape((rows,), jnp.float32)
    target = Target(
        shape((s,), jnp.int32),
        shape((s,), jnp.float32),
        shape((2**s,), jnp.float32),
        shape((), jnp.uint32),
    )
    params, state = jax.eval_shape(partial(start, program.path, program.rule), _KEY)
    data = Data(shape((rows, spec.T), jnp.uint8), each, each)
    step = shape((), jnp.int32)
    return Lane(params, state, step, data, target, real, real, real, _KEY)


def empty_lanes(program: Program, width: int, device: jax.Device) -> Lane:
    """`width` lanes of zeros on the device, as the program expects them."""
    lanes = _stacked(lane_shape(program), width)
    if sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(lanes)) < _SENT:
        return jax.device_put(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), lanes), device)
    made = jax.jit(
        lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), lanes),
        out_shardings=SingleDeviceSharding(device),
    )
    return made()


def _stacked(tree: Any, width: int) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((width, *x.shape), x.dtype), tree)
