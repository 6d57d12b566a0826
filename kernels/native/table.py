"""A relocatable table of calls: arrays are places in regions, so that it runs on any memory."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from odt.kernels.native.binding import Call, Calls
from odt.kernels.native.regions import Place, Regions


class Row(NamedTuple):
    """A call of a table.

    Attributes:
        name: name of the kernel, without its instruction set.
        operands: as those of the bound call, with places for arrays in regions. Other arrays are
            memory that all users of the table share.
    """

    name: str
    operands: tuple[Any, ...]


class Table:
    """Calls in order, bound in regions of memory, that can run on other regions of these sizes."""

    def __init__(self, loops: Sequence[Calls], regions: Regions) -> None:
        """Makes the table of bound calls, whose arrays are in the regions or shared."""
        self._calls = [call for loop in loops for call in loop.calls]
        self._regions = regions

    def __iter__(self) -> Iterator[Row]:
        """Yields the calls without addresses."""
        for call in self._calls:
            operands = zip(call.operands, self._places(call), strict=True)
            yield Row(call.name, tuple(a if place is None else place for a, place in operands))

    def resolve(self, regions: Regions) -> Calls:
        """Returns the calls on the memory of other regions."""
        return Calls([self._resolved(call, regions) for call in self._calls])

    def _resolved(self, call: Call, regions: Regions) -> Call:
        bits = [
            at if place is None else regions.addresses[place.region] + place.offset
            for at, place in zip(call.bits, self._places(call), strict=True)
        ]
        return Call(call.name, call.operands, bits, regions)

    def _places(self, call: Call) -> Iterator[Place | None]:
        """Yields the place of each operand that is an array in a region; None for others."""
        for operand, bits in zip(call.operands, call.bits, strict=True):
            yield self._regions.place(bits) if isinstance(operand, np.ndarray) else None
