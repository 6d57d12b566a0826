"""Losses with the names and arguments of onnxruntime.training.onnxblock.loss."""

from typing import Any, ClassVar

import numpy as np

from odt.core.recipe.option_values import check_whole
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.training.weights import Array

REDUCTIONS = ("mean", "sum")


class Loss:
    """Base class of losses.

    Attributes:
        reduction: mean or sum of the losses of a batch.
    """

    __slots__ = ()
    name: ClassVar[str] = ""  # in odt
    reduction: str

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            remedy = "`odt.sample_losses` returns the loss of each sample." * (
                self.reduction == "none"
            )
            raise OptionError("reduction", "must be mean or sum", self.reduction, remedy)

    def weigh(self, targets: Array) -> tuple[Array, Array | None, float]:
        """Returns the targets, the samples' weights, and the factor of the mean weighted loss.

        Args:
            targets: targets of a batch.
        """
        return targets, None, float(targets.size) if self.reduction == "sum" else 1.0


@dataclass(frozen=True, slots=True)
class MSELoss(Loss):
    """Mean squared error.

    Attributes:
        reduction: mean or sum of the losses of all values of a batch.
    """

    name: ClassVar[str] = "mean_squared_error"
    reduction: str = "mean"


@dataclass(frozen=True, slots=True)
class L1Loss(Loss):
    """Mean absolute error.

    Attributes:
        reduction: mean or sum of the losses of all values of a batch.
    """

    name: ClassVar[str] = "mean_absolute_error"
    reduction: str = "mean"


@dataclass(frozen=True, slots=True)
class CrossEntropyLoss(Loss):
    """Cross-entropy of logits for labels; of probabilities, if the model ends in SOFTMAX.

    The mean is Σ w · loss / Σ w, as in PyTorch.

    Attributes:
        weight: weights w of the classes (K,).
        reduction: mean or sum of the losses of a batch.
        ignore_index: label whose samples have the weight 0.
    """

    name: ClassVar[str] = "sparse_categorical_crossentropy"
    weight: Any = None
    reduction: str = "mean"
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        Loss.__post_init__(self)
        check_whole("ignore_index", self.ignore_index, -(2**31))
        if self.weight is not None:
            object.__setattr__(self, "weight", _class_weights(self.weight))

    def weigh(self, targets: Array) -> tuple[Array, Array | None, float]:
        """Returns the labels, the samples' weights, and the factor of the mean weighted loss.

        Args:
            targets: labels (N,).

        Raises:
            DataError: if samples have several labels, or all weights are 0.
        """
        if self.weight is None and self.ignore_index is None:
            return Loss.weigh(self, targets)
        if targets.ndim != 1:
            raise DataError(
                "labels: must be (N,) with class weights or ignore_index, but got "
                f"{targets.shape}. Leave both out."
            )
        ignored = targets == self.ignore_index
        labels = np.where(ignored, 0, targets)
        table = np.array((1.0,) if self.weight is None else self.weight, np.float32)
        weights = np.where(ignored, np.float32(0), table.take(labels, mode="clip"))
        total = float(weights.sum())
        if total <= 0:
            raise DataError("labels: must have a class with a weight above 0, but all have 0.")
        return labels, weights, len(labels) / (total if self.reduction == "mean" else 1.0)


@dataclass(frozen=True, slots=True)
class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of logits; of probabilities, if the model ends in LOGISTIC.

    Attributes:
        weight: must be left out.
        reduction: mean or sum of the losses of all values of a batch.
        pos_weight: must be left out.
    """

    name: ClassVar[str] = "binary_crossentropy"
    weight: Any = None
    reduction: str = "mean"
    pos_weight: Any = None

    def __post_init__(self) -> None:
        Loss.__post_init__(self)
        for name in ("weight", "pos_weight"):
            if getattr(self, name) is not None:
                raise OptionError(
                    name,
                    "must be left out of BCEWithLogitsLoss",
                    "weights",
                    'Give a loss of your own, `loss="module:object"`.',
                )


LOSSES = (MSELoss, L1Loss, CrossEntropyLoss, BCEWithLogitsLoss)


def _class_weights(given: Any) -> tuple[float, ...]:
    """Checks class weights (K,)."""
    try:
        weights = np.asarray(given)
    except ValueError:  # rows of different lengths
        weights = np.array(None)
    fits = weights.ndim == 1 and weights.size and weights.dtype.kind in "fiu"
    if not (fits and np.isfinite(weights).all() and weights.min() >= 0):
        raise OptionError("weight", "must be (K,) numbers of at least 0", repr(given))
    return tuple(map(float, weights))
