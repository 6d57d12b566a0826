"""Weights of samples: factors of their losses, for each sample, position or class.

As in Keras, the loss of a batch is Σ weight · loss / number of samples: weights do not change the
divisor. Metrics are not weighted.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.data.column import Column
from odt.core.data.protocol import SampleOrder, Scales, Weights, scales_of
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.kernels.rows.scalars import is_number, plain

BALANCED = "balanced"
WEIGHT = TensorSpec((), np.dtype(np.float32))  # of one sample
ClassWeights = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Weighting:
    """Identifies the weights of a training run, for checkpoints.

    Attributes:
        classes: classes with their weights; other classes have weight 1.
        samples: checksum of the weights of single samples; empty if none were given.
    """

    classes: ClassWeights = ()
    samples: str = ""


def read_weights(column: Column) -> Array:
    """Reads the weights of all samples.

    Raises:
        DataError: if a weight is negative or not finite.
    """
    weights = np.empty((column.length, 1), WEIGHT.dtype)
    column.read(slice(0, column.length), weights)
    problem = check_weights(weights)
    if problem is not None:
        row, rule = problem
        raise DataError(f"{column.name}: sample {row}: {rule}.")
    return weights[:, 0]


def check_weights(rows: Array) -> tuple[int, str] | None:
    """Checks that weights are finite and 0 or more, as a `Check`."""
    valid = (rows >= 0) & np.isfinite(rows)
    if valid.all():
        return None
    row, place = (int(i[0]) for i in np.nonzero(~valid))
    return row, f"weights must be finite and 0 or more, but got {float(rows[row, place]):g}"


def checksum(weights: Weights | None, positions: Sequence[Column]) -> str:
    """The CRC-32 of the weights of samples, and of positions; empty for none."""
    if scales_of(weights) is Scales.BATCH:
        return ""
    crc = 0
    if weights is not None and weights.samples is not None:
        crc = zlib.crc32(np.ascontiguousarray(weights.samples).data)
    for column in positions:
        for _, rows in column.blocks():
            crc = zlib.crc32(rows.data, crc)
    return f"{crc:08x}"


def weighs_classes(weights: Any) -> bool:
    """Whether class weights are given: neither None nor an empty mapping.

    Raises:
        OptionError: if they are neither a text nor a mapping, as the array of scikit-learn's
            compute_class_weight.
    """
    if weights is None:
        return False
    if not isinstance(weights, str | Mapping):
        rule = f"must be {BALANCED} or a mapping from classes to weights"
        remedy = "dict(enumerate(weights)) maps the classes to them in order"
        raise OptionError("class_weight", rule, type(weights).__name__, remedy)
    return bool(weights)


def class_weights(
    weights: str | Mapping[int, float], labels: Array | None, training: SampleOrder, classes: int
) -> ClassWeights:
    """Resolves and checks class weights.

    Args:
        weights: weights by class, or balanced: n / (K · n_c) for class c, as in scikit-learn, where
            n is the number of training samples, n_c of them have class c, and K classes occur
            among them.
        labels: class of each sample; None if the targets are not classes.
        training: numbers of the training samples.
        classes: number of classes of the model.

    Raises:
        OptionError: if a weight or class is invalid.
    """
    if not isinstance(weights, str):
        for label, weight in weights.items():
            if label not in range(classes):
                rule = f"classes must be 0 … {classes - 1}"
                raise OptionError("class_weight", rule, repr(plain(label)))
            if not (is_number(weight) and weight >= 0):
                actual = f"{plain(weight)!r} for class {label}"
                raise OptionError("class_weight", "weights must be finite and 0 or more", actual)
    elif weights != BALANCED:
        raise OptionError("class_weight", f"must be {BALANCED} or weights", weights)
    if labels is None:
        raise OptionError(
            "class_weight",
            "must come with targets that are one class for each sample",
            "others",
            "Give `sample_weight=`.",
        )
    if not isinstance(weights, str):
        return tuple(sorted((int(label), float(weight)) for label, weight in weights.items()))
    of_training = labels[np.asarray(training)]
    is_class = (of_training >= 0) & (of_training < classes)
    values, counts = np.unique(of_training[is_class], return_counts=True)
    balanced = counts.sum() / (len(values) * counts)
    return tuple(zip(values.tolist(), balanced.tolist(), strict=True))


def weigh_classes(
    weights: Array | None, classes: ClassWeights, labels: Array, training: SampleOrder
) -> Array:
    """Multiplies the weights of the training samples by the weights of their classes.

    Args:
        weights: weights of all samples, which are not changed; None for 1.
        classes: weights of classes.
        labels: class of each sample. Samples with other labels keep their weights: ignored ones,
            and wrong ones, which are refused when they are read.
        training: numbers of the training samples; validation is not weighted by classes.
    """
    numbers = np.asarray(training)
    weighted = np.ones(len(labels), WEIGHT.dtype) if weights is None else weights.copy()
    table = np.ones(max((label for label, _ in classes), default=0) + 1, WEIGHT.dtype)
    for label, weight in classes:
        table[label] = weight
    of_training = labels[numbers]
    has_weight = (of_training >= 0) & (of_training < len(table))
    weighted[numbers] *= np.where(has_weight, table[of_training.clip(0, len(table) - 1)], 1)
    return weighted
