"""Optimizers with the names and arguments of onnxruntime.training.onnxblock.optim."""

from odt import optimizers
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.optimizer import Optimizer

LEARNING_RATE = 0.001  # of both; Optimizer.set_learning_rate changes it


@dataclass(frozen=True, slots=True)
class ClipGradNorm:
    """Gradient clipping.

    Attributes:
        max_norm: largest norm of all gradients together.
    """

    max_norm: float


@dataclass(frozen=True, slots=True)
class AdamW:
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

    def optimizer(self) -> Optimizer:
        """Returns the optimizer of odt."""
        return optimizers.OrtAdamW(LEARNING_RATE, *self.betas, self.eps, self.weight_decay)


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent, without momentum.

    Attributes:
        clip_grad: gradient clipping; None for none.
    """

    clip_grad: ClipGradNorm | None = None

    def optimizer(self) -> Optimizer:
        """Returns the optimizer of odt."""
        return optimizers.SGD(LEARNING_RATE)
