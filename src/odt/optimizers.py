"""Optimizers and their hyper-parameters, with Keras' names.

Written by tools/write_optimizer_classes.py from the rows in kernels/optimizers.
"""

from typing import ClassVar

from odt.dataclass import dataclass
from odt.kernels.rows.scheduledef import Schedule
from odt.optimizer import Optimizer

__all__ = [
    "SGD",
    "Adafactor",
    "Adagrad",
    "Adam",
    "Adam8bit",
    "AdamW",
    "Lion",
    "Optimizer",
    "OrtAdamW",
    "RMSprop",
]


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum or Nesterov momentum.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        momentum: momentum coefficient.
        nesterov: whether to use Nesterov momentum.
        weight_decay: weight decay (added to the gradient).
    """

    name: ClassVar[str] = "sgd"
    learning_rate: float | Schedule = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """Adam in Keras' form: epsilon is added to the root of the moment before bias correction.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: decay rate of the first moment.
        beta_2: decay rate of the second moment.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (added to the gradient).
        lazy: whether to update only the rows of embedding tables that a batch reads.
    """

    name: ClassVar[str] = "adam"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-07
    weight_decay: float = 0.0
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: decay rate of the first moment.
        beta_2: decay rate of the second moment.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (decoupled).
    """

    name: ClassVar[str] = "adamw"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-08
    weight_decay: float = 0.01


@dataclass(frozen=True, slots=True)
class RMSprop(Optimizer):
    """RMSprop: divides the gradient by the root of its mean square; optionally with momentum.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        rho: decay rate of the squared gradients.
        momentum: momentum coefficient.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (added to the gradient).
    """

    name: ClassVar[str] = "rmsprop"
    learning_rate: float | Schedule = 0.001
    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-07
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Adagrad(Optimizer):
    """Adagrad: divides the gradient by the root of the sum of all squared gradients so far.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (added to the gradient).
    """

    name: ClassVar[str] = "adagrad"
    learning_rate: float | Schedule = 0.01
    epsilon: float = 1e-10
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Lion(Optimizer):
    """Lion: updates weights by the sign of an interpolated momentum, its only state.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: decay rate of the first moment (weight of the momentum in the update).
        beta_2: decay rate of the second moment (decay rate of the momentum).
        weight_decay: weight decay (decoupled).
    """

    name: ClassVar[str] = "lion"
    learning_rate: float | Schedule = 0.0001
    beta_1: float = 0.9
    beta_2: float = 0.99
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Adafactor(Optimizer):
    """Adafactor: the second moment of a matrix is stored as row and column means.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        decay_exponent: exponent γ of the second moment's decay rate 1 − t^−γ.
        clip_threshold: largest root mean square of an update.
        weight_decay: weight decay (decoupled).
    """

    name: ClassVar[str] = "adafactor"
    learning_rate: float | Schedule = 0.01
    decay_exponent: float = 0.8
    clip_threshold: float = 1.0
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Adam8bit(Optimizer):
    """Adam with 8-bit state, by block-wise dynamic quantization of both moments.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: decay rate of the first moment.
        beta_2: decay rate of the second moment.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (added to the gradient).
    """

    name: ClassVar[str] = "adam8bit"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-07
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class OrtAdamW(Optimizer):
    """AdamW in ONNX Runtime's form: epsilon as in Keras' Adam, and weight decay after the step.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: decay rate of the first moment.
        beta_2: decay rate of the second moment.
        epsilon: constant added to the denominator.
        weight_decay: weight decay (decoupled).
    """

    name: ClassVar[str] = "ort_adamw"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-06
    weight_decay: float = 0.0
