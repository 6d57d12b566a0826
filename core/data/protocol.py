"""The interface between training and data."""

from collections.abc import Sequence
from typing import Protocol

from odt.kernels.rows.opdef import Array

# Numbers of samples in the order they are used: a range, or an array.
SampleOrder = Sequence[int]


class SampleOrders(Protocol):
    """The order of the training samples in each epoch."""

    def order(self, epoch: int) -> SampleOrder: ...


class Data(Protocol):
    """A source of samples, read by number; several threads may read at once."""

    @property
    def weights(self) -> Array | None:
        """The weight of each sample by its number; None for 1."""

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each.

        Raises:
            DataError: for values that no loss can use.
        """
