"""Keeps the weights of the best epoch, for early stopping."""

import math
from collections.abc import Mapping

import numpy as np

from odt.core.runtime.arena import aligned_copy
from odt.kernels.opdef import Array


class Best:
    """The epoch with the least validation loss, the first of equal ones.

    Attributes:
        epoch: its number; 0 before the first validation.
        loss: its validation loss.
        waited: number of epochs since.

    Args:
        tensors: weights to copy in that epoch; none to keep the number alone.
    """

    def __init__(self, tensors: Mapping[int, Array]) -> None:
        self.epoch = 0
        self.loss = math.inf
        self.waited = 0
        self._tensors = tensors
        self._copies = {i: aligned_copy(a) for i, a in tensors.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the copied weights."""
        return sum(a.nbytes for a in self._copies.values())

    def see(self, epoch: int, loss: float) -> None:
        """Copies the current weights if the epoch is the best so far.

        Args:
            epoch: number of the epoch.
            loss: its validation loss.
        """
        self.waited += 1
        if loss < self.loss:
            self.epoch, self.loss, self.waited = epoch, loss, 0
            for i, a in self._copies.items():
                np.copyto(a, self._tensors[i])

    def restore(self) -> None:
        """Restores the weights of the best epoch, if there is one."""
        if self.epoch:
            for i, a in self._copies.items():
                np.copyto(self._tensors[i], a)
