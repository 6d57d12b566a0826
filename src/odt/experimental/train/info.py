"""Training info: loss, optimizer and sizes, with onert's names and numbers."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np


class loss(IntEnum):
    """Loss functions, with onert's numbers."""

    UNDEFINED = 0
    MEAN_SQUARED_ERROR = 1
    CATEGORICAL_CROSSENTROPY = 2


class loss_reduction(IntEnum):
    """Reductions of the sample losses of a batch, with onert's numbers."""

    UNDEFINED = 0
    SUM_OVER_BATCH_SIZE = 1
    SUM = 2


class optimizer(IntEnum):
    """Optimizers, with onert's numbers."""

    UNDEFINED = 0
    SGD = 1
    ADAM = 2


class trainable_ops(IntEnum):
    """Special values of num_of_trainable_ops."""

    INCORRECT_STATE = -2
    ALL = -1
    NONE = 0


_Loss = loss  # the class, where a field of this name hides it


@dataclass
class lossinfo:
    """A loss function and its reduction."""

    loss: _Loss = _Loss.MEAN_SQUARED_ERROR
    reduction_type: loss_reduction = loss_reduction.SUM_OVER_BATCH_SIZE


@dataclass
class traininfo:
    """Training parameters; num_of_trainable_ops is a number or a value of trainable_ops."""

    learning_rate: float = 0.001
    batch_size: int = 1
    loss_info: lossinfo = field(default_factory=lossinfo)
    opt: optimizer = optimizer.SGD
    num_of_trainable_ops: int = 0


@dataclass
class tensorinfo:
    """Shape and dtype of a model input or output; the first axis is the batch."""

    dtype: np.dtype[np.generic]
    rank: int
    dims: list[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims as a tuple."""
        return tuple(self.dims)
