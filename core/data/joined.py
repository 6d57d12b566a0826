"""Training and validation data from different files, numbered consecutively."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from odt.core.data.protocol import (
    Data,
    SampleOrder,
    Scales,
    Weights,
    scales_of,
    targets_and_weights,
)
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
        if first.weights or second.weights:
            none = Weights(scales=Scales.BATCH)
            a, b = first.weights or none, second.weights or none
            counted = zip_longest(a.counted, b.counted)
            self.weights = Weights(
                _joined(a.samples, b.samples, border, length, np.float32),
                max(a.scales, b.scales),
                tuple(_joined(*pair, border, length, np.float64) for pair in counted),
            )

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
        """Reads samples of a source, and fills in weights of positions that it does not have.

        Weights of its samples are in `weights`, and multiply those of 1.
        """
        scales, given = scales_of(self.weights), scales_of(source.weights)
        missing: Sequence[Array] = ()
        if given < scales:
            assert given < Scales.POSITIONS, "weights of positions do not fit values"
            targets, missing = targets_and_weights(targets, scales)
        source.read(samples, inputs, targets)
        for weights in missing:
            weights.fill(1)


def _joined(
    first: Array | None, second: Array | None, border: int, length: int, dtype: type
) -> Array | None:
    """Returns the factors of the samples of both sources, 1 by default; None if neither has any."""
    joined: Array | None = None
    for factors, part in ((first, slice(border)), (second, slice(border, None))):
        if factors is not None:
            joined = np.ones(border + length, dtype) if joined is None else joined
            joined[part] = factors[: len(joined[part])]
    return joined
