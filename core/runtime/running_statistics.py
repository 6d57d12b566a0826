"""Running statistics of batch normalization, which move towards those of each batch.

mean ← momentum · mean + (1 − momentum) · mean of the batch; so the variance, which is that of the
population: a sum of squares over their number, as in ONNX.
"""

from collections.abc import Collection, Iterable
from typing import TypeAlias

import numpy as np

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import Graph
from odt.kernels.rows.opdef import Array

Moments: TypeAlias = tuple[RunningStatistics, Array, Array]  # mean, 1 / √(variance + ε)


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

    def move(self, moments: Iterable[Moments]) -> None:
        """Moves the statistics towards those of batches, one after the other."""
        for statistics, center, inv in moments:
            variance = np.maximum(1 / inv.astype(np.float64) ** 2 - statistics.epsilon, 0)
            for i, values in ((statistics.mean, center), (statistics.variance, variance)):
                running, momentum = self.arrays[i], statistics.momentum
                running[...] = momentum * running + (1 - momentum) * values
