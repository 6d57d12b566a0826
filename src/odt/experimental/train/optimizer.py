"""Optimizers for TrainSession.compile."""

from collections.abc import Mapping

from odt.experimental.train.info import optimizer as _kinds
from odt.experimental.train.info import trainable_ops

__all__ = ["SGD", "Adam", "Optimizer", "trainable_ops"]


class Optimizer:
    """Base class of optimizers.

    Attributes:
        learning_rate: step size.
        nums_trainable_ops: number of operators, from the end of the model, that train; −1 for all.
    """

    kind = _kinds.UNDEFINED

    def __init__(
        self, learning_rate: float = 0.001, nums_trainable_ops: int = trainable_ops.ALL
    ) -> None:
        self.learning_rate = learning_rate
        self.nums_trainable_ops = nums_trainable_ops

    def hyper_parameters(self) -> dict[str, float]:
        """Returns the hyper-parameters by odt's names, without the learning rate."""
        return {}


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if it is not 0."""

    kind = _kinds.SGD

    def __init__(self, learning_rate: float = 0.001, momentum: float = 0.0) -> None:
        super().__init__(learning_rate)
        self.momentum = momentum

    def hyper_parameters(self) -> dict[str, float]:
        """Returns the hyper-parameters by odt's names, without the learning rate."""
        return {"momentum": self.momentum}


class Adam(Optimizer):
    """Adam; unlike in onert, beta1, beta2 and epsilon have an effect."""

    kind = _kinds.ADAM

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-7,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def hyper_parameters(self) -> dict[str, float]:
        """Returns the hyper-parameters by odt's names, without the learning rate."""
        return {"beta_1": self.beta1, "beta_2": self.beta2, "epsilon": self.epsilon}


NAMES: Mapping[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam}
