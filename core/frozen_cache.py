"""What the frozen part of a model makes of each sample, computed once and kept.

The programs that train begin at these values. A sample's are computed when it is first asked for,
with the micro-batch it comes in, so the first epoch takes what it takes without a cache and the
next ones what the part that trains takes. Order and epochs do not matter, nor where training
goes on after a break: what is not there yet is computed.
"""

import os
import tempfile
from collections.abc import Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import numpy as np

from odt.core.engine import Plans, Work
from odt.core.evaluator import Data, Order
from odt.core.lower import sample_spec
from odt.core.program import Program, make_arena
from odt.core.schedule import Schedule
from odt.errors import OptionError, TrainingError
from odt.kernels.opdef import Array, TensorSpec


class FrozenCache:
    """Data whose inputs are the values in which the frozen part ends.

    Attributes:
        nbytes: of all samples' values.

    Args:
        plans: of the whole model.
        work: the frozen part, forward only.
        schedule: of training; each worker may compute frozen parts at the same time as others.
        data: samples as the whole model takes them; the same values each time.
        targets: the same samples; it is asked for no inputs.
        samples: how many there are; their numbers are below.
        dtype: of what is kept of floats; None keeps theirs, and then every bit.
        on_disk: in a file in the folder for temporary files that is gone when the process ends,
            however it ends; otherwise in memory.

    Raises:
        OptionError: if there is no room.
    """

    def __init__(
        self,
        plans: Plans,
        work: Work,
        schedule: Schedule,
        data: Data,
        targets: Data,
        samples: int,
        *,
        dtype: np.dtype[np.floating] | None = None,
        on_disk: bool = False,
    ) -> None:
        self.data = data
        self.targets = targets
        plan = plans.at(work, schedule.micro_batch)[0]
        rows = []
        for name in plan.outputs:
            one = sample_spec(plan.graph, name, plan.values[name].spec, schedule.micro_batch)
            kept = dtype if dtype is not None and one.dtype.kind == "f" else one.dtype
            rows.append(TensorSpec((samples, one.size), kept))
        self.nbytes = sum(spec.nbytes for spec in rows)
        self._names = [plan.graph.label(i) for i in work.end]
        self._kept = _room(rows, self.nbytes, on_disk)
        self._there = np.zeros(samples, np.bool_)
        self._runners: SimpleQueue[_Runner] = SimpleQueue()
        self._arena_nbytes = 0
        for _ in range(schedule.workers):
            runner = _Runner(plans, work, schedule.micro_batch)
            self._arena_nbytes += runner.arena.nbytes
            self._runners.put(runner)

    @property
    def arena_nbytes(self) -> int:
        """Bytes in which frozen parts are computed; 0 once there is nothing left to compute."""
        return self._arena_nbytes

    def read(self, samples: Order, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Fills the arrays, one row a sample; computes what is not there yet.

        Raises:
            DataError: for values no loss can use.
            TrainingError: for values that the dtype does not hold.
        """
        numbers = np.asarray(samples)
        if self._there[numbers].all():
            self.targets.read(samples, (), targets)
        else:
            self._compute(samples, numbers, targets)
        for kept, out in zip(self._kept, inputs, strict=True):
            if kept.dtype == out.dtype:
                np.take(kept, numbers, axis=0, out=out, mode="clip")  # other modes buffer out
            else:
                np.copyto(out, kept[numbers])

    def _compute(self, samples: Order, numbers: Array, targets: Sequence[Array]) -> None:
        runner = self._runners.get()
        try:
            program = runner.program(len(numbers))
            rows = [a.reshape(len(numbers), -1, copy=False) for a in program.inputs]
            self.data.read(samples, rows, targets)
            program.forward()
            for kept, name, made in zip(self._kept, self._names, program.outputs, strict=True):
                values = made.reshape(len(numbers), -1, copy=False)
                kept[numbers] = values
                if kept.dtype != values.dtype and np.isinf(kept[numbers]).any():
                    raise TrainingError(
                        f"--cache-dtype {kept.dtype}: {name} must be within "
                        f"±{np.finfo(kept.dtype).max:g}, but got {abs(values).max():g}. "
                        "Leave it out."
                    )
            self._there[numbers] = True
        finally:
            self._runners.put(runner)
        if self._there.all():
            self._runners, self._arena_nbytes = SimpleQueue(), 0

    def close(self) -> None:
        """Gives memory and disk back."""
        self._kept.clear()
        self._runners, self._arena_nbytes = SimpleQueue(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Runner:
    """The frozen part bound to an arena."""

    def __init__(self, plans: Plans, work: Work, micro_batch: int) -> None:
        self._plans = plans
        self._work = work
        self._memory = plans.at(work, micro_batch)[1]
        self._programs: dict[int, Program] = {}
        self.arena = make_arena(self._memory.nbytes)

    def program(self, samples: int) -> Program:
        if samples not in self._programs:
            plan = self._plans.at(self._work, samples)[0]
            self._programs[samples] = Program(plan, self._memory, self.arena, {})
        return self._programs[samples]


def _room(rows: Sequence[TensorSpec], nbytes: int, on_disk: bool) -> list[Array]:
    """Arrays of these specs, in memory or mapped from files without a name.

    Raises:
        OptionError: if there is no room.
    """
    try:
        return [_mapped(spec) if on_disk else np.empty(spec.shape, spec.dtype) for spec in rows]
    except (OSError, MemoryError) as e:
        reason = str(getattr(e, "strerror", None) or e).lower()
        where = f"disk: {tempfile.gettempdir()}" if on_disk else "ram: memory"
        hint = "Let TMPDIR name another folder." if on_disk else "Give --cache-frozen disk."
        raise OptionError(
            f"--cache-frozen {where}: must have room for {nbytes:,} bytes, but got: {reason}. "
            f"{hint}"
        ) from e


def _mapped(spec: TensorSpec) -> Array:
    with tempfile.TemporaryFile(prefix="odt-cache-") as file:
        if hasattr(os, "posix_fallocate"):  # a hole that the disk cannot fill would be a SIGBUS
            os.posix_fallocate(file.fileno(), 0, spec.nbytes)
        return np.asarray(np.memmap(file, spec.dtype, "w+", shape=spec.shape))
