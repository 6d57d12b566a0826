"""Running statistics of batch normalization, which move towards those of each batch.

mean ← momentum · mean + (1 − momentum) · mean of the batch; so the variance, which is that of the
population: a sum of squares over their number, as in ONNX.
"""

from collections.abc import Collection

import numpy as np

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import Graph
from odt.kernels.rows.opdef import Array


class Statistics:
    """Running statistics.

    Attributes:
        arrays: mean or variance of each channel, by tensor.
    """

    def __init__(self, graph: Graph, tensors: Collection[int] = ()) -> None:
        """Begins with the statistics of the file.

        Args:
            graph: graph of the constants.
            tensors: the running statistics that move.
        """
        self.arrays: dict[int, Array] = {}
        for i in tensors:
            values = graph.tensors[i].real
            assert values is not None, "running statistics are constants"
            self.arrays[i] = np.array(values)

    def move(self, statistics: RunningStatistics, center: Array, inv: Array) -> None:
        """Moves the statistics of a normalization towards those of a batch.

        Args:
            statistics: the normalization.
            center: mean of the batch, C values.
            inv: 1 / √(variance + ε) of the batch, C values.
        """
        momentum, rest = statistics.momentum, 1 - statistics.momentum
        mean, variance = self.arrays[statistics.mean], self.arrays[statistics.variance]
        mean *= momentum
        mean += rest * center.reshape(-1)
        of_batch = inv.reshape(-1) ** -2 - statistics.epsilon
        variance *= momentum
        variance += rest * np.maximum(of_batch, 0)
