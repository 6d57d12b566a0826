"""Optimizers and their hyper-parameters, with Keras' names.

Written by tools/write_optimizer_classes.py from the rows in kernels/optimizers.
"""

from dataclasses import dataclass
from typing import ClassVar

from odt.kernels.schedules import Schedule
from odt.optimizer import Optimizer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
]


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """Stochastic gradient descent, also with momentum or Nesterov momentum.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        momentum: Momentum coefficient.
        nesterov: Nesterov momentum.
        weight_decay: Weight decay (added to the gradient).
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
        beta_1: Decay rate of the first moment.
        beta_2: Decay rate of the second moment.
        epsilon: Constant added to the denominator.
        weight_decay: Weight decay (added to the gradient).
    """

    name: ClassVar[str] = "adam"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-07
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
        beta_1: Decay rate of the first moment.
        beta_2: Decay rate of the second moment.
        epsilon: Constant added to the denominator.
        weight_decay: Weight decay (decoupled).
    """

    name: ClassVar[str] = "adamw"
    learning_rate: float | Schedule = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-08
    weight_decay: float = 0.01
