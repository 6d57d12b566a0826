"""The weights of the epoch that was best, for training that goes on too long."""

import math
from collections.abc import Mapping

import numpy as np

from odt.core.runtime.arena import aligned_copy
from odt.kernels.opdef import Array


class Best:
    """The epoch with the least validation loss; among equals the first.

    Attributes:
        epoch: its number; 0 before there is one.
        loss: of its validation.
        waited: how many epochs there have been since.

    Args:
        tensors: whose values in that epoch are kept; none for its number alone.
    """

    def __init__(self, tensors: Mapping[int, Array]) -> None:
        self.epoch = 0
        self.loss = math.inf
        self.waited = 0
        self._tensors = tensors
        self._copies = {i: aligned_copy(a) for i, a in tensors.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(a.nbytes for a in self._copies.values())

    def see(self, epoch: int, loss: float) -> None:
        """Keeps the values as they are now if they are the best.

        Args:
            epoch: its number.
            loss: of its validation.
        """
        self.waited += 1
        if loss < self.loss:
            self.epoch, self.loss, self.waited = epoch, loss, 0
            for i, a in self._copies.items():
                np.copyto(a, self._tensors[i])

    def restore(self) -> None:
        """Gives the tensors their values of the best epoch, if there is one."""
        if self.epoch:
            for i, a in self._copies.items():
                np.copyto(self._tensors[i], a)
