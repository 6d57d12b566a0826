"""Losses of the best constant prediction, estimated from the targets of some samples.

targets (N, size)    output: spec of one sample of the output, whose last axis counts classes

A model whose loss is well below this loss is already trained.
"""

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec


def label_entropy(targets: Array, output: TensorSpec) -> float:
    """Entropy of the frequencies of class numbers, without those that are ignored."""
    labels = targets.ravel().astype(np.int64).clip(None, _classes(output) - 1)
    counts = np.bincount(labels[labels >= 0])
    return _entropy(counts / max(int(counts.sum()), 1))


def distribution_entropy(targets: Array, output: TensorSpec) -> float:
    """Entropy of the mean distribution."""
    return _entropy(targets.reshape(-1, _classes(output)).mean(axis=0, dtype=np.float64))


def fraction_entropy(targets: Array, output: TensorSpec) -> float:
    """Mean over the elements of the entropy of yes and no."""
    mean = targets.mean(axis=0, dtype=np.float64)
    return float(np.mean([_entropy(np.array([p, 1 - p])) for p in mean]))


def variance(targets: Array, output: TensorSpec) -> float:
    """Mean over the elements of the variance."""
    return float(targets.var(axis=0, dtype=np.float64).mean())


def absolute_deviation(targets: Array, output: TensorSpec) -> float:
    """Mean absolute deviation from the median of each element."""
    return float(np.abs(targets - np.median(targets, axis=0)).mean(dtype=np.float64))


def _classes(output: TensorSpec) -> int:
    return output.shape[-1] if output.shape else 1


def _entropy(probabilities: Array) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())
