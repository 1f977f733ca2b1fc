"""The slots of one worker: runs enter, advance together, are examined, and leave."""

import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from capax.machine import num_cores
from capax.training.programs.compiled import Executables, executables
from capax.training.programs.hidden_progress import progress_rows
from capax.training.programs.lane_shapes import empty_lanes
from capax.training.programs.program import SUBSET, LaneMeasures, Program
from capax.training.programs.program_compiler import GROUP
from capax.training.programs.seeds import Seed, unpacked

# Several calls of `train` may share the cores: as many chunks at once as there are cores, so that a
# model stays in its core's cache for a whole chunk.
_CORES = threading.BoundedSemaphore(num_cores())


class Slots:
    """`width` lanes of one program on one device."""

    def __init__(
        self,
        program: Program,
        device: jax.Device,
        width: int,
        pools: Sequence[np.ndarray],
        options: dict[str, Any],
        progress: bool = False,
    ) -> None:
        self.program, self.device, self.width = program, device, width
        self._turn = _CORES if device.platform == "cpu" else nullcontext()
        self._run: Executables = executables(program, device, width, options, progress)
        self._drawn = pools  # more may follow
        self._pools: list[jax.Array] = []  # on the device
        self._heads: list[jax.Array] = []  # their first rows, in one array for all if lanes differ
        self._own = np.zeros(width, np.int32)  # the number of each slot's pool
        self._load(0)
        self._looked_at = self._pools[0][: progress_rows(program)] if progress else None
        self._keys = np.zeros((width, 2), np.uint32)  # of the first parameters
        self._lanes: Any = None
        if width > 1:
            self._lanes = empty_lanes(program, width, device)

    def _load(self, last: int) -> None:
        """The pools up to number `last` onto the device."""
        missing = range(len(self._pools), last + 1)
        if not missing:
            return
        self._pools += [jax.device_put(self._drawn[i], self.device) for i in missing]
        heads = [self._drawn[i][:SUBSET] for i in range(last + 1)]
        if self.width > 1 and self.program.pools > 1:
            none = np.zeros_like(heads[0])
            heads = [np.stack([*heads, *[none] * (self.program.pools - len(heads))])]
        self._heads = jax.device_put(heads, self.device)

    def admit(self, seeds: dict[int, Seed]) -> None:
        """Start new runs in the given slots."""
        for slot, (lane, key) in seeds.items():
            self._keys[slot], self._own[slot] = key, lane.target.pool
        self._load(int(np.max(self._own)))
        if self.width == 1:
            spec = self.program.path.spec
            for lane, key in seeds.values():
                bits_apart = unpacked(lane, spec.T, spec.alphabet)
                lane, key = jax.device_put((bits_apart, key), self.device)
                params, state = self._run.draw(key)
                self._lanes = lane._replace(params=params, state=state)
            return
        waiting = list(seeds.items())
        for first in range(0, len(waiting), GROUP):
            group = waiting[first : first + GROUP]
            group += [group[-1]] * (GROUP - len(group))  # writing a slot twice is harmless
            index = np.array([slot for slot, _ in group], np.int32)
            stacked = jax.tree.map(lambda *x: np.stack(x), *(seed for _, seed in group))
            lanes, keys, index = jax.device_put((*stacked, index), self.device)
            params, state = self._run.draw(keys)
            fresh = lanes._replace(params=params, state=state)
            self._lanes = self._run.write(self._lanes, fresh, index)

    def advance(self, busy: Iterable[int]) -> LaneMeasures:
        """Train the slots in `busy` for one chunk; the measurements, one entry per slot."""
        with self._turn:
            arguments = (self._lanes, self._heads[0])
            if self._run.examine is None:
                arguments = (self._lanes, self._pools[self._own[0]], np.False_)
            elif self.width == 1:
                arguments = (self._lanes, self._heads[self._own[0]])
            else:
                flags = np.zeros(self.width, np.float32)
                flags[list(busy)] = 1.0
                arguments += (jax.device_put(flags, self.device),)
            self._lanes, measured = self._run.advance(*arguments)
            return jax.tree.map(lambda x: np.atleast_1d(np.asarray(x)), measured)

    @property
    def records_progress(self) -> bool:
        """Whether measures of hidden progress are recorded."""
        return self._run.progress is not None

    def progress(self) -> np.ndarray:
        """The measures of hidden progress of every slot, in the order of their names."""
        keys = self._keys if self.width > 1 else self._keys[0]
        with self._turn:
            keys = jax.device_put(keys, self.device)
            arguments = (self._lanes.params, keys, self._lanes.target, self._looked_at)
            found = self._run.progress(*arguments)
            return np.asarray(found).reshape(self.width, -1)

    def examine(self, slots: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Right answers on the whole pool and attention mass, for the given slots."""
        pool = self._pools[self._own[0]]
        if self._run.examine is None:
            self._lanes, seen = self._run.advance(self._lanes, pool, np.True_)
            return np.atleast_1d(np.asarray(seen.correct)), np.atleast_1d(np.asarray(seen.mass))
        if self.width == 1:
            found = self._run.examine(self._lanes.params, self._lanes.target, pool)
            return np.atleast_1d(np.asarray(found[0])), np.atleast_1d(np.asarray(found[1]))
        correct, mass = np.zeros(self.width, np.int32), np.zeros(self.width, np.float32)
        for number, pool in enumerate(self._pools):
            own = [slot for slot in slots if self._own[slot] == number]
            for first in range(0, len(own), GROUP):
                group = own[first : first + GROUP]
                index = np.array(group + [group[-1]] * (GROUP - len(group)), np.int32)
                at = jax.device_put(index, self.device)
                found = self._run.examine(self._lanes.params, self._lanes.target, at, pool)
                correct[index], mass[index] = np.asarray(found[0]), np.asarray(found[1])
        return correct[slots], mass[slots]

    def change_rate(self, lr: float) -> None:
        """Continue with another learning rate in all slots."""
        rates = jax.device_put(np.full(self._lanes.lr.shape, lr, np.float32), self.device)
        self._lanes = self._lanes._replace(lr=rates)

    def model(self, slot: int) -> Any:
        """The parameters of one slot, as an ordinary Transformer if it is one."""
        params = self._lanes.params
        if self.width > 1:
            params = _of_slot(params, slot)
        return self.program.path.model(jax.tree.map(jax.numpy.asarray, jax.device_get(params)))

    def take_over(self, narrower: "Slots") -> None:
        """Continue the runs of slots with fewer rows; only their data is padded."""
        lanes = jax.device_get(narrower._lanes)
        extra = self.program.rows - narrower.program.rows
        axis = 0 if self.width == 1 else 1
        data = jax.tree.map(
            lambda x: np.pad(x, [(0, extra if i == axis else 0) for i in range(x.ndim)]), lanes.data
        )
        self._lanes = jax.device_put(lanes._replace(data=data), self.device)
        self._keys, self._own = narrower._keys.copy(), narrower._own.copy()
        self._load(int(np.max(self._own)))


@jax.jit
def _of_slot(params: Any, slot: Any) -> Any:
    """The parameters of one slot, by one program instead of one for each array."""
    return jax.tree.map(lambda x: x[slot], params)
