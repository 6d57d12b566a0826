"""Default learning rates: smaller for a model that is already trained."""

import math
from collections.abc import Sequence

import numpy as np

from odt.core.data.dataset import DataSet
from odt.kernels.lossdef import DISTRIBUTIONS, LABELS
from odt.kernels.opdef import Array, TensorSpec
from odt.kernels.registry import LOSSES

# Fine-tuning all of a trained network at the default rate of a new one ruins it: of shipped
# networks ResNet-8 falls from 76 % to 36 % in two epochs, as BatchNorm is folded into the weights.
FINE_TUNING = 0.1  # of the optimizer's default rate
# Loss, as a fraction of the loss of the best constant prediction, below which a model counts as
# trained. A new model or a new head starts near 1, by luck at 0.7 (an MLP on the Iris data).
TRAINED = 0.5
# Losses whose value for the best constant prediction is the entropy of the targets' mean.
ENTROPIES = (
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "binary_crossentropy",
)


def constant_loss(data: DataSet, samples: Array, losses: Sequence[tuple[str, TensorSpec]]) -> float:
    """Loss of the best prediction that is the same for all samples; NaN if it is not known.

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
    kind, classes = LOSSES[name].targets, output.shape[-1] if output.shape else 1
    weight = 1.0 if data.weights is None else float(data.weights[np.asarray(samples)].mean())
    return weight * _constant_loss(name, kind, rows, classes)


def _constant_loss(name: str, kind: str, rows: Array, classes: int) -> float:
    if name == "mean_squared_error":
        return float(rows.var(axis=0, dtype=np.float64).mean())
    if name == "mean_absolute_error":
        return float(np.abs(rows - np.median(rows, axis=0)).mean(dtype=np.float64))
    if name not in ENTROPIES:
        return math.nan
    if kind == LABELS:
        counts = np.bincount(rows.ravel().astype(np.int64).clip(0, classes - 1))
        return _entropy(counts / counts.sum())
    if kind == DISTRIBUTIONS:
        return _entropy(rows.reshape(-1, classes).mean(axis=0, dtype=np.float64))
    mean = rows.mean(axis=0, dtype=np.float64)
    return float(np.mean([_entropy(np.array([p, 1 - p])) for p in mean]))


def _entropy(probabilities: Array) -> float:
    some = probabilities[probabilities > 0]
    return float(-(some * np.log(some)).sum())
