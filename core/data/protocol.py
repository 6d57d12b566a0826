"""What training asks of data."""

from collections.abc import Sequence
from typing import Protocol

from odt.kernels.opdef import Array

# Numbers of samples in the order they are used: a range, or an array.
SampleOrder = Sequence[int]


class Data(Protocol):
    """Samples by number; read from several threads at once."""

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Fills the arrays, one row a sample; raises DataError for values no loss can use."""
