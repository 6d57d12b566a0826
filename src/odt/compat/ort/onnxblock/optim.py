"""Optimizers with the names and arguments of onnxruntime.training.onnxblock.optim."""

from collections.abc import Sequence
from typing import Any, cast

from odt import optimizers
from odt.compat.ort.onnx_source import proto
from odt.compat.ort.optimizer_model import DEFAULT_RATE, OPSET, optimizer_model
from odt.core.recipe.option_values import (
    check_hyper_parameters,
    check_learning_rate,
    check_word,
)
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.scalars import is_number
from odt.optimizer import Optimizer

LEARNING_RATE = DEFAULT_RATE  # of both; Optimizer.set_learning_rate changes it

__all__ = ["OPSET", "SGD", "AdamW", "ClipGradNorm"]


@dataclass(frozen=True, slots=True)
class ClipGradNorm:
    """Gradient clipping.

    Attributes:
        max_norm: largest norm of all gradients together.
    """

    max_norm: float

    def __post_init__(self) -> None:
        if not is_number(self.max_norm) or self.max_norm < 0:
            raise OptionError("max_norm", "must be a number of at least 0", repr(self.max_norm))


class _Optimizer:
    """What optimizers have in common."""

    __slots__ = ()
    clip_grad: ClipGradNorm | None

    def optimizer(self) -> Optimizer:
        """Returns the optimizer of odt."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Returns arguments of odt.Trainer."""
        return arguments_of(self.optimizer(), self.clip_grad)

    def __call__(self, parameters: Any) -> str:
        """Does nothing, because the model of an optimizer does not depend on the parameters.

        Args:
            parameters: parameters that train, and frozen ones.
        """
        return "update_completed"

    def to_model_proto(self) -> Any:
        """Returns the optimizer model: an onnx.ModelProto if onnx is imported, else its bytes."""
        return proto(optimizer_model(self.arguments()))


def arguments_of(optimizer: Optimizer, clip: ClipGradNorm | None = None) -> dict[str, Any]:
    """Returns an optimizer as arguments of odt.Trainer.

    Args:
        optimizer: the optimizer, whose learning rate is a number.
        clip: gradient clipping.

    Raises:
        OptionError: if a value is invalid.
    """
    check_word("optimizer", optimizer.name, OPTIMIZERS)
    check_learning_rate(optimizer.learning_rate)
    values = optimizer.hyper_parameters()
    check_hyper_parameters(optimizer.name, values)
    if clip is not None and not isinstance(clip, ClipGradNorm):
        raise OptionError("clip_grad", "must be a ClipGradNorm", repr(clip))
    rows = OPTIMIZERS[optimizer.name].hyper_parameters
    return {
        "optimizer": optimizer.name,
        "learning_rate": float(cast("float", optimizer.learning_rate)),
        "hyper_parameters": {p.name: (bool if p.switch else float)(values[p.name]) for p in rows},
        "clip_norm": float(clip.max_norm) if clip else 0.0,
    }


@dataclass(frozen=True, slots=True)
class AdamW(_Optimizer):
    """AdamW in ONNX Runtime's form, `odt.OrtAdamW`.

    Attributes:
        bias_correction: must be True.
        betas: decay rates of the moments.
        eps: constant added to the denominator.
        weight_decay: decoupled weight decay.
        clip_grad: gradient clipping; None for none.
    """

    bias_correction: bool = True
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 0.0
    clip_grad: ClipGradNorm | None = None

    def __post_init__(self) -> None:
        if not self.bias_correction:
            raise OptionError("bias_correction", "must be True", self.bias_correction)
        if not isinstance(self.betas, Sequence) or len(self.betas) != 2:
            raise OptionError("betas", "must be two numbers", self.betas)

    def optimizer(self) -> Optimizer:
        """Returns the optimizer of odt."""
        return optimizers.OrtAdamW(LEARNING_RATE, *self.betas, self.eps, self.weight_decay)


@dataclass(frozen=True, slots=True)
class SGD(_Optimizer):
    """Stochastic gradient descent, without momentum.

    Attributes:
        clip_grad: gradient clipping; None for none.
    """

    clip_grad: ClipGradNorm | None = None

    def optimizer(self) -> Optimizer:
        """Returns the optimizer of odt."""
        return optimizers.SGD(LEARNING_RATE)
