"""Default learning rates: smaller for a model that is already trained."""

import math
from collections.abc import Sequence

import numpy as np

from odt.core.data.dataset import DataSet
from odt.kernels.opdef import Array, TensorSpec
from odt.kernels.registry import LOSSES

# Factor of the optimizer's default rate. At the full default rate, fine-tuning all weights ruins a
# trained network: ResNet-8 falls from 76 % to 36 % accuracy in two epochs, because its BatchNorm is
# folded into the weights.
FINE_TUNING = 0.1
# Loss, as a fraction of the loss of the best constant prediction, below which a model counts as
# trained. A new model or a new head starts near 1; the lowest seen was 0.7 (an MLP on the Iris
# data).
TRAINED = 0.5


def constant_loss(data: DataSet, samples: Array, losses: Sequence[tuple[str, TensorSpec]]) -> float:
    """Returns the loss of the best constant prediction, the same for all samples; NaN if unknown.

    Args:
        data: the samples.
        samples: numbers of the samples to look at.
        losses: name of each loss, and the spec of one sample of its output.
    """
    if len(losses) != 1:
        return math.nan
    (column,), (name, output) = data.targets, losses[0]
    rows = np.empty((len(samples), column.spec.size), column.spec.dtype)
    column.read(samples, rows)
    weight = 1.0 if data.weights is None else float(data.weights[np.asarray(samples)].mean())
    return weight * LOSSES[name].constant_loss(rows, output)
