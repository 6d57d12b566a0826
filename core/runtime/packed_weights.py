"""Weights in the layout of the kernels, which the micro-batches of all workers share."""

from collections.abc import Mapping

from odt.core.runtime.arena import make_arrays
from odt.core.runtime.program import Program
from odt.core.runtime.team import Task, Team
from odt.kernels.native.binding import in_order
from odt.kernels.rows.opdef import TensorSpec


class PackedWeights:
    """Weights that are packed at the beginning of a step.

    Attributes:
        arrays: the packed weights, by name.
    """

    def __init__(self, specs: Mapping[str, TensorSpec]) -> None:
        """Allocates the memory."""
        self.arrays = make_arrays(specs)
        self._tasks: list[Task] = []

    def bind(self, program: Program, workers: int) -> None:
        """Divides the calls that pack the weights of a program among workers."""
        calls = program.packing()
        self._tasks = [in_order(calls[k::workers]) for k in range(workers)]

    def pack(self, team: Team) -> None:
        """Packs the weights as they are now."""
        if self.arrays:
            team.run(self._tasks)
