"""The functions of a program, lowered and compiled for one device and width.

width 1: the program of one lane, unbatched. width W: the same program for W lanes, under `vmap` on
a GPU, one lane after the other on a CPU: there the compiler may round the elements of a batch
differently (at the ends of vectors), and a run must not depend on its slot.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import SingleDeviceSharding

from capax.attention.collapsed.design import LONG
from capax.training.programs.advancing import advance, advance_or_look, start
from capax.training.programs.evaluating import examine
from capax.training.programs.hidden_progress import hidden_progress, progress_rows
from capax.training.programs.in_order import InOrder
from capax.training.programs.kernel_choice import may_serve, source_compiles, trouble
from capax.training.programs.lane_shapes import KEY, lane_shape, packed_width, stacked
from capax.training.programs.piece_sizes import by_library, keeps_little
from capax.training.programs.program import SUBSET, Lane, Program, TargetBits
from capax.training.specs.xla_options import drawn_simply, in_pieces, launched_singly

GROUP = 16  # lanes admitted, or examined on the whole pool, by one call
_INDEX = jax.ShapeDtypeStruct((GROUP,), jnp.int32)
# Tracing is Python: done one program at a time, the first is ready while others are still traced.
_TRACING = InOrder()


@dataclass(frozen=True)
class ProgramCompiler:
    """Lowers and compiles the functions of a program for one device and width."""

    program: Program
    device: jax.Device
    width: int
    options: dict[str, Any]
    number: int  # of the program, among all requested programs

    def draw(self) -> Any:
        """Parameters from keys."""
        function, key = partial(start, self.program.path, self.program.rule), KEY
        if self.width > 1:
            function, key = self._each(function), stacked(key, GROUP)
        return self._build("draw", function, key)

    def write(self) -> Any:
        """New runs into slots; a single slot needs no program for this."""
        if self.width == 1:
            return None
        lane = lane_shape(self.program)
        spec, rows = self.program.path.spec, lane.data.bits.shape[0]
        width = packed_width(spec.T, spec.alphabet)
        bits = jax.ShapeDtypeStruct((rows, width), jnp.uint8)
        fresh = lane._replace(data=lane.data._replace(bits=bits))
        lanes, fresh = stacked(lane, self.width), stacked(fresh, GROUP)
        write = partial(_write, spec.T, spec.alphabet, self.device.platform == "cpu")
        return self._build("write", write, lanes, fresh, _INDEX, donate=(0,))

    def examine(self) -> Any:
        """The whole pool, if `advance` does not examine it."""
        program, lane = self.program, lane_shape(self.program)
        if program.looks_itself(self.width):
            return None
        pool = self._pool(program.validation_rows)
        if self.width == 1:
            return self._build("examine", partial(examine, program), lane.params, lane.target, pool)

        def examine_some(params: Any, target: TargetBits, index: Any, pool: Any) -> Any:
            chosen = jax.tree.map(lambda x: x[index], (params, target))
            return self._each(lambda lane: examine(program, lane[0], lane[1], pool))(chosen)

        lanes = stacked(lane, self.width)
        return self._build("examine", examine_some, lanes.params, lanes.target, _INDEX, pool)

    def progress(self) -> Any:
        """The measures of hidden progress of every lane."""
        program, lane = self.program, lane_shape(self.program)
        pool = self._pool(progress_rows(program))
        look = partial(hidden_progress, program)
        if self.width == 1:
            return self._build("progress", look, lane.params, KEY, lane.target, pool)

        def look_at_all(params: Any, keys: Any, target: TargetBits, pool: Any) -> Any:
            return self._each(lambda x: look(x[0], x[1], x[2], pool))((params, keys, target))

        lanes, keys = stacked(lane, self.width), stacked(KEY, self.width)
        return self._build("progress", look_at_all, lanes.params, keys, lanes.target, pool)

    def advance(self) -> Any:
        """One chunk; a kernel that supports it is used at once, and tested in parallel."""
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
        heads = stacked(head, program.pools) if program.pools > 1 else head
        if program.looks_itself(self.width):
            pool, looks = self._pool(program.validation_rows), jax.ShapeDtypeStruct((), jnp.bool_)
            either = partial(advance_or_look, program)
            return self._build("advance", either, lane, pool, looks, donate=(0,))
        if self.width == 1:
            return self._build("advance", partial(advance, program), lane, head, donate=(0,))

        def advance_all(lanes: Lane, heads: Any, busy: Any) -> Any:
            one = lambda lane: advance(program, lane[0], heads, lane[1])  # noqa: E731
            return self._each(one)((lanes, busy))

        busy = jax.ShapeDtypeStruct((self.width,), jnp.float32)
        lanes = stacked(lane, self.width)
        return self._build("advance", advance_all, lanes, heads, busy, donate=(0,))

    def _pool(self, rows: int) -> Any:
        columns = self.program.path.spec.T + self.program.labelled
        return jax.ShapeDtypeStruct((rows, columns), jnp.uint8)

    def _may_be_fused(self) -> bool:
        """Waits for NVRTC before tracing begins, so that no other program waits for this one."""
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
        with _TRACING.turn(self.number):
            lowered = self._traced(name, jax.jit(function, donate_argnums=donate), placed)
        return self._compiled(name, lowered)

    def _traced(self, name: str, function: Any, arguments: Any) -> Any:
        del name  # benchmarks measure compilation by name
        return function.lower(*arguments)

    def _compiled(self, name: str, lowered: Any) -> Any:
        return lowered.compile(compiler_options=self.options | self._more_options(name))

    def _more_options(self, name: str) -> dict[str, Any]:
        platform = self.device.platform
        if platform == "gpu" and name == "advance" and self.program.path.spec.T >= LONG:
            return launched_singly()
        if platform != "cpu":
            return {}
        if name == "draw":
            return drawn_simply()
        if not self.program.block:
            return {}
        path = self.program.path
        return in_pieces(small=keeps_little(path), library=by_library(path))


def _into(future: Future[Any], make: Callable[[], Any]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:
        future.set_exception(error)


def _write(T: int, alphabet: int, one_by_one: bool, lanes: Lane, fresh: Lane, index: Any) -> Lane:
    """New runs, their bits unpacked, into slots.

    On a CPU one by one: XLA makes a loop of every `at[].set`, one for each array of a run.
    """
    packed = fresh.data.bits
    if alphabet > 2:
        bits = packed
    elif packed.shape[1]:  # in online training there are no rows
        bits = jnp.unpackbits(packed, axis=2, count=T, bitorder="little")
    else:
        bits = jnp.zeros((len(packed), 0, T), jnp.uint8)
    fresh = fresh._replace(data=fresh.data._replace(bits=bits))
    if not one_by_one:
        return jax.tree.map(lambda old, new: old.at[index].set(new), lanes, fresh)

    def put(i: Any, lanes: Lane) -> Lane:
        at = partial(lax.dynamic_update_index_in_dim, index=index[i], axis=0)
        return jax.tree.map(lambda old, new: at(old, new[i]), lanes, fresh)

    return lax.fori_loop(0, len(index), put, lanes)
