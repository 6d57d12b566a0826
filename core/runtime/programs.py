"""The programs of all workers of an engine."""

from collections.abc import Mapping, Sequence
from itertools import product

from odt.core.planning.schedule import Schedule
from odt.core.planning.verify import faults
from odt.core.runtime.batch import Run
from odt.core.runtime.gradients import Gradients
from odt.core.runtime.place import Place, Places
from odt.core.runtime.program import Outside, Program
from odt.kernels.native.binding import Calls
from odt.kernels.native.regions import Regions
from odt.kernels.rows.opdef import Array


class Programs:
    """The programs of all workers, by samples; those of whole batches are bound at once.

    Programs that update parameters are valid as long as `Parameters.pulls` does not change.
    """

    def __init__(
        self,
        schedule: Schedule,
        places: Places,
        sums: Gradients,
        read: Mapping[int, Array],
        packed: Mapping[str, Array],
        *,
        in_place: bool,
    ) -> None:
        """Binds the programs of whole batches.

        Args:
            schedule: micro-batches and workers.
            places: plans, and the memory of each worker.
            sums: sums of the gradients.
            read: parameters by tensor index.
            packed: packed weights, by name.
            in_place: whether gradients are computed in the sums, instead of added to them.
        """
        self._schedule, self._places, self._sums = schedule, places, sums
        self._read, self._packed, self._in_place = read, packed, in_place
        self._programs: dict[tuple[int, tuple[int, ...]], Program] = {}
        self._runs: dict[int, list[list[Run]]] = {}
        if sums.met:
            self.runs(schedule.batch)
        else:
            for worker, n in product(range(schedule.workers), schedule.sizes):
                self.program(worker, (n,) * schedule.workers)

    def runs(self, samples: int) -> list[list[Run]]:
        """Returns the micro-batches of each worker for a number of samples."""
        if samples not in self._runs:
            parts = self._schedule.parts(samples)
            runs = self._runs[samples] = [[] for _ in parts]
            for number in range(len(parts[0])):
                together = [part[number] for part in parts if number < len(part)]
                sizes = tuple(count for _, count in together)
                for worker, run in enumerate(together):
                    runs[worker].append(Run(self.program(worker, sizes), *run))
        return self._runs[samples]

    def program(self, worker: int, sizes: tuple[int, ...]) -> Program:
        """The program of a worker for a micro-batch.

        Args:
            worker: number of the worker.
            sizes: samples of the micro-batches that all workers run at the same time.
        """
        together = sizes if self._sums.met else (sizes[worker],)
        if (worker, together) not in self._programs:
            first = self._programs.get((0, together)) if sizes[0] == sizes[worker] else None
            self._programs[worker, together] = self._bind(worker, sizes, first)
        return self._programs[worker, together]

    def smaller(self, samples: int) -> Program:
        """Binds the program of fewer samples than a micro-batch, for the only worker.

        It places its values like the program of a micro-batch, if that is possible.
        """
        whole = self._places.at(0, self._schedule.micro_batch)
        place = self._places.at(0, samples)
        same_values = place.memory.offsets.keys() <= whole.memory.offsets.keys()
        if same_values and not faults(place.plan, whole.memory):
            place = Place(place.plan, whole.memory, whole.arena)
        return self._bound(0, place, {0: place}, {})

    def _bind(self, worker: int, sizes: tuple[int, ...], first: Program | None) -> Program:
        """Binds a program of a worker, with most calls from that of the first if there is one."""
        sums, place = self._sums, self._places.at(worker, sizes[worker])
        meeting = enumerate(sizes) if sums.met else [(worker, sizes[worker])]
        together = {k: self._places.at(k, n) for k, n in meeting}
        bound = {}
        if first is not None:
            tables = first.tables(Regions((first.arena, *sums.memory(0))), sums.met)
            regions = Regions((place.arena, *sums.memory(worker)))
            bound = {k: [table.resolve(regions)] for k, table in tables.items()}
        return self._bound(worker, place, together, bound)

    def _bound(
        self,
        worker: int,
        place: Place,
        together: Mapping[int, Place],
        bound: Mapping[int, Sequence[Calls]],
    ) -> Program:
        """Binds a program of a worker.

        Args:
            worker: number of the worker.
            place: its plan and memory.
            together: those of the workers that it meets, and its own.
            bound: calls that are bound already, by entry.
        """
        sums = self._sums
        adds = None if self._in_place else sums.adds[worker]
        into = sums.in_place(worker, place.plan, adds=not self._in_place)
        return Program(
            place.plan,
            place.memory,
            place.arena,
            self._read,
            sums.deliver(worker, together),
            bound=bound,
            outside=Outside(into, adds, self._packed),
        )
