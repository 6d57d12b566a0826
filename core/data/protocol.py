"""The interface between training and data."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol, runtime_checkable

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

# Numbers of samples in the order they are used: a range, or an array.
SampleOrder = Sequence[int]


class SampleOrders(Protocol):
    """The order of the training samples in each epoch."""

    def order(self, epoch: int) -> SampleOrder: ...


class Scales(IntEnum):
    """What has a factor of its own in a loss. Finer factors serve data with coarser weights.

    Values have factors in losses that are sums over values alone, such as huber.
    """

    BATCH = 0
    SAMPLES = 1
    POSITIONS = 2
    VALUES = 3


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of data: factors of their losses, which multiply if there are both kinds.

    Attributes:
        samples: weight of each sample by its number, (N,); None for 1.
        scales: what has a weight of its own; `read` returns the weights of positions and values.
        counted: for each target the fraction of its labels in each sample that count, (N,), because
            others are ignored; None, or no entry, for all.
    """

    samples: Array | None = None
    scales: Scales = Scales.SAMPLES
    counted: tuple[Array | None, ...] = ()


def scales_of(weights: Weights | None) -> Scales:
    """Returns what must have a factor of its own for data with such weights."""
    return Scales.BATCH if weights is None else weights.scales


def targets_and_weights(
    arrays: Sequence[Array], scales: Scales
) -> tuple[Sequence[Array], Sequence[Array]]:
    """Divides the arrays of targets that `Data.read` fills into targets and weights of positions.

    Args:
        arrays: the arrays.
        scales: what has a weight of its own.
    """
    count = len(arrays) // 2 if scales >= Scales.POSITIONS else len(arrays)
    return arrays[:count], arrays[count:]


class Data(Protocol):
    """A source of samples, read by number; several threads may read at once."""

    @property
    def weights(self) -> Weights | None:
        """The weights of the samples; None for 1."""

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each.

        Args:
            samples: numbers of the samples.
            inputs: an array for each input.
            targets: an array for each target. With weights of positions or values, the
                arrays (samples, weights) follow, one for each target.

        Raises:
            DataError: for values that no loss can use.
        """


@runtime_checkable
class BoxedData(Data, Protocol):
    """A source of samples with boxes of objects, from which it encodes the targets of a model."""

    def boxes_like(self, samples: int) -> Array:
        """Returns an array (samples, M, 5) for boxes."""

    def read_boxes(self, samples: SampleOrder, inputs: Sequence[Array], boxes: Array) -> None:
        """Reads samples with their boxes: class, y1, x1, y2, x2; the class −1 for no box."""

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        """Writes the targets of boxes, as `read` does."""
