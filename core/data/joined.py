"""Training and validation data from different files, numbered consecutively."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.protocol import Data, SampleOrder, Scales, Weights, scales_of
from odt.kernels.rows.opdef import Array


class JoinedSamples:
    """Two sources of samples as one: the numbers of the second follow those of the first.

    Attributes:
        weights: weights of samples and positions; None if neither source has weights.

    Args:
        first: source of the samples below `border`.
        second: source of the others.
        border: number of samples used from the first source.
        length: number of samples of the second.
    """

    def __init__(self, first: Data, second: Data, border: int, length: int) -> None:
        self._first, self._second, self._border = first, second, border
        self.weights: Weights | None = None
        scales = max(scales_of(first.weights), scales_of(second.weights))
        if scales:
            samples = _joined(first.weights, second.weights, border, length)
            self.weights = Weights(samples, scales)

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples, all from one source, into the arrays, one row each."""
        if samples[0] < self._border:
            self._read(self._first, samples, inputs, targets)
            return
        if isinstance(samples, range):
            numbers: SampleOrder = range(samples.start - self._border, samples.stop - self._border)
        else:
            numbers = np.asarray(samples) - self._border  # type: ignore[assignment]
        self._read(self._second, numbers, inputs, targets)

    def _read(
        self, source: Data, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        """Reads samples of a source, and fills in weights of positions that it does not have."""
        count = len(targets)
        scales = scales_of(self.weights)
        if scales_of(source.weights) < scales and scales >= Scales.POSITIONS:
            count //= 2
        source.read(samples, inputs, targets[:count])
        for weights in targets[count:]:
            weights.fill(1)


def _joined(
    first: Weights | None, second: Weights | None, border: int, length: int
) -> Array | None:
    """Returns the weights of the samples of both sources; None if neither has any."""
    joined: Array | None = None
    for weights, part in ((first, slice(border)), (second, slice(border, None))):
        if weights is not None and weights.samples is not None:
            joined = np.ones(border + length, np.float32) if joined is None else joined
            joined[part] = weights.samples[: len(joined[part])]
    return joined
