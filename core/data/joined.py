"""Training and validation data from different files, numbered consecutively."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.kernels.rows.opdef import Array


class JoinedSamples:
    """Two sources of samples as one: the numbers of the second follow those of the first.

    Attributes:
        weights: weight of each sample; None if neither source has weights.

    Args:
        first: source of the samples below `border`.
        second: source of the others.
        border: number of samples used from the first source.
        length: number of samples of the second.
    """

    def __init__(self, first: Data, second: Data, border: int, length: int) -> None:
        self._first, self._second, self._border = first, second, border
        self.weights: Array | None = None
        if first.weights is not None or second.weights is not None:
            self.weights = np.ones(border + length, np.float32)
            for source, places in ((first, slice(border)), (second, slice(border, None))):
                if source.weights is not None:
                    self.weights[places] = source.weights[: len(self.weights[places])]

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples, all from one source, into the arrays, one row each."""
        if samples[0] < self._border:
            self._first.read(samples, inputs, targets)
            return
        if isinstance(samples, range):
            numbers: SampleOrder = range(samples.start - self._border, samples.stop - self._border)
        else:
            numbers = np.asarray(samples) - self._border  # type: ignore[assignment]
        self._second.read(numbers, inputs, targets)
