"""Losses with the names and arguments of onnxruntime.training.onnxblock.loss."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from odt.compat.ort.onnxblock import blocks
from odt.compat.ort.onnxblock.block import Block
from odt.compat.ort.onnxblock.recorder import current
from odt.core.recipe.option_values import check_whole
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.training.weights import Array

REDUCTIONS = ("mean", "sum")


class Loss(Block):
    """Base class of losses, which are blocks.

    Attributes:
        reduction: mean or sum of the losses of a batch.
    """

    __slots__ = ()
    name: ClassVar[str] = ""  # in odt
    reduction: str

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            remedy = ""
            if self.reduction == "none":
                remedy = "`odt.sample_losses` returns the loss of each sample."
            raise OptionError("reduction", "must be mean or sum", self.reduction, remedy)

    def weigh(self, targets: Array) -> tuple[Array, Array | None, float]:
        """Returns the targets, the samples' weights, and the factor of the mean weighted loss.

        Args:
            targets: targets of a batch.
        """
        return targets, None, float(targets.size) if self.reduction == "sum" else 1.0

    def _reduced(self, values: str) -> str:
        """Adds the mean or the sum of values."""
        reduce = blocks.ReduceMean if self.reduction == "mean" else blocks.ReduceSum
        return str(reduce(keepdims=False)(values))


def _target(name: str, output: str) -> str:
    """Returns the name of the targets of an output, which become an input unless there is one."""
    return name if current().has(name) else current().input_like(name, output)


@dataclass(frozen=True, slots=True)
class MSELoss(Loss):
    """Mean squared error.

    Attributes:
        reduction: mean or sum of the losses of all values of a batch.
    """

    name: ClassVar[str] = "mean_squared_error"
    reduction: str = "mean"

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Adds the loss.

        Args:
            loss_input_name: name of the output.
            target_name: name of the targets, a new input unless there is such a tensor.
        """
        target = _target(target_name, loss_input_name)
        return self._reduced(blocks.Pow(2.0)(blocks.Sub()(loss_input_name, target)))


@dataclass(frozen=True, slots=True)
class L1Loss(Loss):
    """Mean absolute error.

    Attributes:
        reduction: mean or sum of the losses of all values of a batch.
    """

    name: ClassVar[str] = "mean_absolute_error"
    reduction: str = "mean"

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Adds the loss.

        Args:
            loss_input_name: name of the output.
            target_name: name of the targets, a new input unless there is such a tensor.
        """
        target = _target(target_name, loss_input_name)
        return self._reduced(blocks.Abs()(blocks.Sub()(loss_input_name, target)))


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

    def build(self, scores_input_name: str, labels_name: str = "labels") -> str:
        """Adds the loss.

        Args:
            scores_input_name: name of the logits, whose last axis is the classes.
            labels_name: name of the labels, a new input unless there is such a tensor.
        """
        recorder = current()
        if not recorder.has(labels_name):
            recorder.labels_of(labels_name, scores_input_name)
        scores, axes = scores_input_name, len(recorder.declared(labels_name)[1])
        if axes > 1:  # the operator has the classes in the second axis
            order = (0, axes, *range(1, axes))
            scores = recorder.node("Transpose", [scores], {"perm": order})
        inputs = [scores, labels_name]
        if self.weight is not None:
            inputs.append(recorder.constant("celoss.weight", np.array(self.weight, np.float32)))
        attributes: dict[str, float | str | Sequence[int]] = {"reduction": self.reduction}
        if self.ignore_index is not None:
            attributes["ignore_index"] = self.ignore_index
        return recorder.node("SoftmaxCrossEntropyLoss", inputs, attributes, word="loss")


@dataclass(frozen=True, slots=True)
class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of logits; of probabilities, if the model ends in LOGISTIC.

    Attributes:
        weight: factors of the losses, which are broadcast; for ONNX models.
        reduction: mean or sum of the losses of all values of a batch.
        pos_weight: factors of the losses of ones, which are broadcast; for ONNX models.
    """

    name: ClassVar[str] = "binary_crossentropy"
    weight: Any = None
    reduction: str = "mean"
    pos_weight: Any = None

    def check_unweighted(self) -> None:
        """Raises OptionError if there are weights, which only ONNX models take."""
        for name in ("weight", "pos_weight"):
            if getattr(self, name) is not None:
                raise OptionError(
                    name,
                    "must be left out of BCEWithLogitsLoss",
                    "weights",
                    "ONNX models take them.",
                )

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Adds the loss.

        Args:
            loss_input_name: name of the output.
            target_name: name of the targets, a new input unless there is such a tensor.
        """
        target, one = _target(target_name, loss_input_name), blocks.Constant(1.0)
        sigmoid, log, mul, sub = blocks.Sigmoid(), blocks.Log(), blocks.Mul(), blocks.Sub()
        p = sigmoid(loss_input_name)
        ones = mul(log(p), target)
        if self.pos_weight is not None:
            ones = mul(ones, current().constant("bceloss.pos_weight", _floats(self.pos_weight)))
        zeros = mul(log(sub(one(), p)), sub(one(), target))
        loss = blocks.Neg()(blocks.Add()(ones, zeros))
        if self.weight is not None:
            loss = mul(current().constant("bceloss.weight", _floats(self.weight)), loss)
        return self._reduced(loss)


def _floats(values: Any) -> Array:
    return np.asarray(values, np.float32)


LOSSES = (MSELoss, L1Loss, CrossEntropyLoss, BCEWithLogitsLoss)


def _class_weights(values: Any) -> tuple[float, ...]:
    """Returns class weights (K,), checked."""
    try:
        weights = np.asarray(values)
    except ValueError:  # rows of different lengths
        weights = np.array(None)
    fits = weights.ndim == 1 and weights.size and weights.dtype.kind in "fiu"
    if not (fits and np.isfinite(weights).all() and weights.min() >= 0):
        raise OptionError("weight", "must be (K,) numbers of at least 0", repr(values))
    return tuple(map(float, weights))
