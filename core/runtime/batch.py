"""A batch for an engine: what fills programs with its samples, and what sees their outputs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from odt.core.runtime.program import Program
from odt.kernels.opdef import Array


class Filled(Protocol):
    """Arrays to fill with samples: those of a program, or of a whole batch."""

    @property
    def inputs(self) -> Sequence[Array]: ...
    @property
    def targets(self) -> Sequence[Array]: ...
    @property
    def scales(self) -> Sequence[Array]: ...


# Fills inputs and targets with samples [first, first + count) of the batch, and multiplies scales
# by the weights of these samples.
Fill = Callable[[Filled, int, int], None]
# Gets a program's outputs and targets after its forward phase; arguments as for Fill.
Look = Callable[[Program, int, int], None]


class Batch(NamedTuple):
    """Arguments of `Engine.run` that concern the samples.

    Attributes:
        scales: factor of each loss's sum over samples.
        fill: fills a program's inputs and targets.
        look: gets a program's outputs; None if not needed.
    """

    scales: Sequence[float]
    fill: Fill
    look: Look | None


# Elements of NumPy's buffers for casting and gathering. Half the default saves memory for each
# worker and is equally fast.
UFUNC_BUFFER = 4096


@contextmanager
def numpy_settings() -> Iterator[None]:
    """Settings of a thread that runs programs; the size of buffers stays until the thread ends."""
    with np.errstate(all="ignore"):  # values that are not finite are detected in the loss
        np.setbufsize(UFUNC_BUFFER)
        yield


class NotFiniteError(Exception):
    """Raised for a loss that is NaN or infinite.

    Attributes:
        value: name in the plan of the first value that is not finite.
    """

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
