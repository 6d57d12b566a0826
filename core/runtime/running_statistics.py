"""Running statistics of batch normalization, which move towards those of each batch.

mean ← momentum · mean + (1 − momentum) · mean of the batch, and likewise the variance. The variance
of a batch is that of the population: a sum of squares over their number, as in ONNX.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import Graph
from odt.kernels.native.binding import Run
from odt.kernels.native.updates import bind_move_statistics, fits_compiled
from odt.kernels.rows.opdef import Array


class Statistics:
    """Running statistics.

    Attributes:
        arrays: mean or variance of each channel, by tensor.
    """

    def __init__(self, graph: Graph, moving: Sequence[RunningStatistics] = ()) -> None:
        """Begins with the statistics of the file.

        Args:
            graph: graph of the constants.
            moving: the running statistics that move.
        """
        self.arrays: dict[int, Array] = {}
        self._variances = {each.variance for each in moving}
        for i in (i for each in moving for i in (each.mean, each.variance)):
            values = graph.tensors[i].real
            assert values is not None, "running statistics are constants"
            self.arrays[i] = np.array(values)

    def restart(self, values: Mapping[int, Array]) -> None:
        """Sets all statistics, by tensor; a variance is at least 0."""
        for i, a in values.items():
            np.maximum(a, 0 if i in self._variances else -np.inf, out=self.arrays[i])

    def bind(self, statistics: RunningStatistics, center: Array, inv: Array) -> Run:
        """Returns the call that moves the statistics of a normalization towards those of a batch.

        Args:
            statistics: the normalization.
            center: mean of the batch, C values.
            inv: 1 / √(variance + ε) of the batch, C values.
        """
        mean, variance = self.arrays[statistics.mean], self.arrays[statistics.variance]
        arrays, momentum = (mean, variance, center, inv), statistics.momentum
        if fits_compiled(*arrays):
            return bind_move_statistics(*arrays, momentum, statistics.epsilon)
        return partial(self._move, *arrays, momentum, statistics.epsilon)

    @staticmethod
    def _move(
        mean: Array, variance: Array, center: Array, inv: Array, momentum: float, epsilon: float
    ) -> None:
        rest, factor = 1 - momentum, inv.reshape(-1, copy=False)
        mean *= momentum
        mean += rest * center.reshape(-1, copy=False)
        variance *= momentum
        variance += rest * np.maximum(1 / (factor * factor) - epsilon, 0)
