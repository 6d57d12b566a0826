"""Losses for TrainSession.compile."""

from collections.abc import Mapping
from typing import Literal

from odt.experimental.train.info import loss as _kinds
from odt.experimental.train.info import loss_reduction, lossinfo

__all__ = ["CategoricalCrossentropy", "LossFunction", "MeanSquaredError", "lossinfo"]

REDUCTIONS = {"mean": loss_reduction.SUM_OVER_BATCH_SIZE, "sum": loss_reduction.SUM}


class LossFunction:
    """Base class of losses.

    Args:
        reduction: reduction of the sample losses of a batch, mean or sum.

    Raises:
        ValueError: if the reduction is neither.
    """

    kind = _kinds.UNDEFINED

    def __init__(self, reduction: Literal["mean", "sum"] = "mean") -> None:
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction: must be mean or sum, but got {reduction!r}")
        self.reduction = REDUCTIONS[reduction]


class MeanSquaredError(LossFunction):
    """Mean squared error; targets have the shape of the model's output."""

    kind = _kinds.MEAN_SQUARED_ERROR


class CategoricalCrossentropy(LossFunction):
    """Categorical cross-entropy; targets are one-hot rows or other distributions."""

    kind = _kinds.CATEGORICAL_CROSSENTROPY


NAMES: Mapping[str, type[LossFunction]] = {
    "mean_squared_error": MeanSquaredError,
    "categorical_crossentropy": CategoricalCrossentropy,
}
