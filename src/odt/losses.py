"""Losses and their hyper-parameters, with Keras' names.

Written by tools/write_loss_classes.py from the rows in kernels/losses.
"""

from typing import ClassVar

from odt.dataclass import dataclass
from odt.loss import Loss

__all__ = [
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "Huber",
    "KLDivergence",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "SparseCategoricalCrossentropy",
]


@dataclass(frozen=True, slots=True)
class CategoricalCrossentropy(Loss):
    """Categorical cross-entropy: −Σₖ tₖ log pₖ, t one-hot or any distribution.

    Attributes:
        label_smoothing: fraction of each target spread evenly over the classes.
    """

    name: ClassVar[str] = "categorical_crossentropy"
    label_smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class SparseCategoricalCrossentropy(Loss):
    """Sparse categorical cross-entropy: −log pₜ for a class index t.

    Attributes:
        label_smoothing: fraction of each target spread evenly over the classes.
    """

    name: ClassVar[str] = "sparse_categorical_crossentropy"
    label_smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class BinaryCrossentropy(Loss):
    """Binary cross-entropy: the loss of a unit is −t log p − (1 − t) log(1 − p), t from 0 to 1.

    Attributes:
        label_smoothing: fraction of each target spread evenly over the classes.
    """

    name: ClassVar[str] = "binary_crossentropy"
    label_smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class MeanSquaredError(Loss):
    """Mean squared error: the mean of (x − t)² over the elements of a sample."""

    name: ClassVar[str] = "mean_squared_error"


@dataclass(frozen=True, slots=True)
class MeanAbsoluteError(Loss):
    """Mean absolute error: the mean of |x − t| over the elements of a sample."""

    name: ClassVar[str] = "mean_absolute_error"


@dataclass(frozen=True, slots=True)
class Huber(Loss):
    """Huber loss: the mean of (x − t)² / 2, linear from |x − t| = δ on, over a sample's elements.

    Attributes:
        delta: error from which the loss is linear.
    """

    name: ClassVar[str] = "huber"
    delta: float = 1.0


@dataclass(frozen=True, slots=True)
class KLDivergence(Loss):
    """Kullback-Leibler divergence: Σₖ tₖ (log tₖ − log pₖ) of a distribution t, 0 where p = t."""

    name: ClassVar[str] = "kl_divergence"


@dataclass(frozen=True, slots=True)
class CategoricalFocalCrossentropy(Loss):
    """Categorical focal loss: −α Σₖ tₖ (1 − pₖ)^γ log pₖ, which down-weights easy samples.

    Attributes:
        alpha: factor of the loss.
        gamma: focusing parameter: exponent of 1 − p; 0 weights all samples equally.
        label_smoothing: fraction of each target spread evenly over the classes.
    """

    name: ClassVar[str] = "categorical_focal_crossentropy"
    alpha: float = 0.25
    gamma: float = 2.0
    label_smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class BinaryFocalCrossentropy(Loss):
    """Binary focal loss: binary cross-entropy times (1 − q)^γ, q the probability of the target.

    Attributes:
        apply_class_balancing: whether to weight positives by alpha and negatives by 1 − alpha.
        alpha: weight of true units with class balancing.
        gamma: focusing parameter: exponent of 1 − p; 0 weights all samples equally.
        label_smoothing: fraction of each target spread evenly over the classes.
    """

    name: ClassVar[str] = "binary_focal_crossentropy"
    apply_class_balancing: bool = False
    alpha: float = 0.25
    gamma: float = 2.0
    label_smoothing: float = 0.0
