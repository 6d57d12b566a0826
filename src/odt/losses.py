"""Losses and their hyper-parameters, with Keras' names.

Written by tools/write_loss_classes.py from the rows in kernels/losses.
"""

from dataclasses import dataclass
from typing import ClassVar

from odt.loss import Loss

__all__ = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "Huber",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "SparseCategoricalCrossentropy",
]


@dataclass(frozen=True, slots=True)
class CategoricalCrossentropy(Loss):
    """Categorical cross-entropy: −Σₖ tₖ log pₖ, t one-hot or any distribution."""

    name: ClassVar[str] = "categorical_crossentropy"


@dataclass(frozen=True, slots=True)
class SparseCategoricalCrossentropy(Loss):
    """Sparse categorical cross-entropy: −log pₜ for a class number t."""

    name: ClassVar[str] = "sparse_categorical_crossentropy"


@dataclass(frozen=True, slots=True)
class BinaryCrossentropy(Loss):
    """Binary cross-entropy: each unit's loss is −t log p − (1 − t) log(1 − p), t from 0 to 1."""

    name: ClassVar[str] = "binary_crossentropy"


@dataclass(frozen=True, slots=True)
class MeanSquaredError(Loss):
    """Mean squared error: a sample's loss is the mean of (x − t)² over its elements."""

    name: ClassVar[str] = "mean_squared_error"


@dataclass(frozen=True, slots=True)
class MeanAbsoluteError(Loss):
    """Mean absolute error: a sample's loss is the mean of |x − t| over its elements."""

    name: ClassVar[str] = "mean_absolute_error"


@dataclass(frozen=True, slots=True)
class Huber(Loss):
    """Huber loss: a sample's loss is the mean of h(x − t) over its elements.

    Attributes:
        delta: Error from which the loss is linear.
    """

    name: ClassVar[str] = "huber"
    delta: float = 1.0
