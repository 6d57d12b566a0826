"""The places of values: a plan, its memory plan, and the arena of a worker."""

from collections.abc import Callable, Sequence
from functools import partial

from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Plan
from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.arena import view
from odt.core.runtime.program import large_enough
from odt.dataclass import dataclass
from odt.kernels.native.binding import Calls
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's plan, and the memory of its values."""

    plan: Plan
    memory: MemoryPlan
    arena: Array

    def array(self, name: str) -> Array:
        """A value of the arena."""
        offset = self.memory.offsets[self.plan.root(name)]
        return view(self.arena, offset, self.plan.values[name].spec)

    def gradient(self, parameter: str) -> Array:
        """The complete gradient of a parameter, flat."""
        return self.array(self.plan.gradients[parameter]).reshape(-1, copy=False)

    def block_of(self, parameter: str) -> Callable[[Array, int], Calls]:
        """Returns a function that binds the call which computes a block of a gradient.

        Its arguments are the array of the block, and the number of the block's first unit.
        """
        call = self.plan.deliveries[parameter].call
        assert call is not None
        assert call.compiled is not None
        arrays = {n: self.array(v) for n, v in call.arrays.items() if n not in call.writes}
        geometry = call.compiled.prepare(call.attrs, call.specs)
        bind = partial(call.compiled.bind, call.attrs, **arrays, **geometry)
        (written,) = call.writes

        def bind_block(block: Array, first: int) -> Calls:
            calls = bind(**{written: block}, first=first)
            assert isinstance(calls, Calls)
            return calls

        return bind_block


class Places:
    """The places of all workers, by number of samples."""

    def __init__(self, plans: StepPlans, arenas: Sequence[Array]) -> None:
        """Keeps the arenas, one for each worker."""
        self._plans, self._arenas = plans, arenas
        self._places: dict[tuple[int, int], Place] = {}

    def at(self, worker: int, samples: int) -> Place:
        """Returns the plan for a number of samples with a worker's memory."""
        key = worker, samples
        if key not in self._places:
            plan, memory = self._plans.verified(samples)
            arena = large_enough(self._arenas[worker], memory)
            self._places[key] = Place(plan, memory, arena)
        return self._places[key]
