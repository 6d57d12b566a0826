"""Keeps the weights of the best epoch, for early stopping."""

from collections.abc import Mapping

import numpy as np

from odt.core.runtime.arena import copy_arrays
from odt.core.training.monitor import Monitor
from odt.kernels.rows.opdef import Array


class Best:
    """The epoch with the best monitored value; the first if values are equal.

    Attributes:
        epoch: number of the best epoch; 0 before the first validation.
        monitor: the monitored value.
        waited: number of epochs after the best one.
        copies: weights of the best epoch by tensor; empty if they are not kept.

    Args:
        tensors: weights to copy in the best epoch; empty to store only its number.
        monitor: name of the monitored value.
    """

    def __init__(self, tensors: Mapping[int, Array], monitor: str = "val_loss") -> None:
        self.epoch = 0
        self.monitor = Monitor(monitor)
        self.waited = 0
        self._tensors = tensors
        self.copies = copy_arrays(tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of the copied weights."""
        return sum(a.nbytes for a in self.copies.values())

    @property
    def state(self) -> tuple[float, ...]:
        """What a resume needs beside the copies: value, epoch, epochs since.

        Empty before the first finite value.
        """
        value = self.monitor.best
        return () if value is None else (value, self.epoch, self.waited)

    @state.setter
    def state(self, state: tuple[float, ...]) -> None:
        if state:
            self.monitor.best, self.epoch, self.waited = state[0], int(state[1]), int(state[2])

    def see(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Copies the current weights if the epoch is the best so far.

        Args:
            epoch: number of the epoch.
            logs: values of the epoch by name.
        """
        self.waited += 1
        if self.monitor.improves(logs):
            self.epoch = epoch
            self.waited = 0
            for i, a in self.copies.items():
                np.copyto(a, self._tensors[i])

    def restore(self) -> None:
        """Restores the weights of the best epoch, if there is one."""
        if self.epoch:
            for i, a in self.copies.items():
                np.copyto(self._tensors[i], a)
