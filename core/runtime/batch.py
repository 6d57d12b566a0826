"""A batch for an engine: what fills programs with its samples, and what sees their outputs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odt.core.runtime.program import Program, Samples
from odt.dataclass import dataclass

# Fills inputs and targets with samples [first, first + count) of the batch, and multiplies scales
# by the weights of these samples.
Fill = Callable[[Samples, int, int], None]
# Gets a program's outputs and targets after its forward phase; arguments as for Fill.
Look = Callable[[Program, int, int], None]


class Batch(NamedTuple):
    """The samples of a batch.

    Attributes:
        samples: number of samples.
        scales: factor of each loss's sum over samples.
        fill: fills a program's inputs and targets.
        look: gets a program's outputs; None if not needed.
        update: number of the update to which the batch belongs; 1 is the first.
        before: samples of the same update in earlier batches.
    """

    samples: int
    scales: Sequence[float]
    fill: Fill
    look: Look | None
    update: int
    before: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A micro-batch on one worker: its program, first sample and number of samples."""

    program: Program
    at: int
    count: int


class NotFiniteError(Exception):
    """Raised for a loss that is NaN or infinite.

    Attributes:
        value: name in the plan of the first value that is not finite.
    """

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
