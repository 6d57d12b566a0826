"""Samples with the outputs of a teacher as a further target."""

from collections.abc import Callable, Sequence

import numpy as np

from odt.core.data.column import Column
from odt.core.data.protocol import Data, SampleOrder, scales_of, targets_and_weights
from odt.kernels.rows.opdef import Array


class TaughtData:
    """Data with the teacher's output as a further target, for callers that read one more target.

    Its positions have the weights of those of the first target, whose output the teacher teaches.

    Attributes:
        weights: weights of samples and positions; None for 1.

    Args:
        data: the samples.
        targets: number of their targets.
        outputs: outputs of the teacher, by the number of the sample.
        convert: changes rows of outputs in place to what the loss takes.
    """

    def __init__(
        self, data: Data, targets: int, outputs: Column, convert: Callable[[Array], None]
    ) -> None:
        self.weights = data.weights
        self._data, self._targets, self._outputs, self._convert = data, targets, outputs, convert

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each."""
        own = self._targets
        targets, weights = targets_and_weights(targets, scales_of(self.weights))
        self._data.read(samples, inputs, (*targets[:own], *weights[:own]))
        for out in targets[own:]:
            self._outputs.read(samples, out)
            self._convert(out.reshape(len(samples), -1, copy=False))
        for out in weights[own:]:
            np.copyto(out, weights[0])
