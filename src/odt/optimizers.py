"""Optimizers and their hyper-parameters, with Keras' names."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Base class of optimizers: a learning rate and hyper-parameters.

    Attributes:
        learning_rate: step size, above 0.
    """

    name: ClassVar[str] = ""
    learning_rate: float = 0.001

    def hyper_parameters(self) -> dict[str, Any]:
        """Returns the hyper-parameters by name, without the learning rate."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "learning_rate"}


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """Stochastic gradient descent, equal to torch.optim.SGD without dampening.

    Attributes:
        learning_rate: step size, above 0.
        momentum: momentum coefficient, 0 for none.
        nesterov: Nesterov momentum.
        weight_decay: L2 penalty, added to the gradient.
    """

    name: ClassVar[str] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """Adam in Keras' form: epsilon is added to the root of the moment before bias correction.

    Attributes:
        learning_rate: step size, above 0.
        beta_1: decay rate of the first moment, below 1.
        beta_2: decay rate of the second moment, below 1.
        epsilon: constant added to the square root of the second moment.
        weight_decay: L2 penalty, added to the gradient.
    """

    name: ClassVar[str] = "adam"
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay, equal to torch.optim.AdamW.

    Attributes:
        learning_rate: step size, above 0.
        beta_1: decay rate of the first moment, below 1.
        beta_2: decay rate of the second moment, below 1.
        epsilon: constant added to the square root of the bias-corrected second moment.
        weight_decay: decoupled weight decay.
    """

    name: ClassVar[str] = "adamw"
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
