"""Losses and the gradient of one batch, for weights that are set."""

import time
from collections.abc import Mapping

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.core.training.trainer import Trainer
from odt.errors import TrainingError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array

MAX_SECONDS = 10  # of the processor: some calls take far longer than their operations suggest
MOVES = 3  # random changes that show how exact a loss is


class OutOfTimeError(Exception):
    """Raised if a forward pass would exceed the limit of time."""


class _OneBatch:
    """An order that repeats the first batch."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def order(self, epoch: int) -> SampleOrder:
        return range(self.samples)


class LossProbe:
    """Computes the loss of the first batch of some data.

    Attributes:
        data: data to read.
        start: the weights at the beginning, by tensor.
        passes: number of forward passes left.
    """

    def __init__(self, trainer: Trainer, data: Data, passes: int) -> None:
        self._trainer, self.data, self.passes = trainer, data, passes
        self.start = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
        self._samples = trainer.info.batch_size

    def _set(self, values: Mapping[int, Array]) -> None:
        for i, a in values.items():
            self._trainer.parameters.tensors[i][...] = a

    def loss(self, values: Mapping[int, Array]) -> float:
        """Returns the loss with some weights; others stay as they were set last.

        Raises:
            DataError: if the model rejects the data.
            OutOfTimeError: if no forward pass is left.
            TrainingError: if the loss is not finite.
        """
        if self.passes < 1:
            raise OutOfTimeError
        self._set(values)
        begin = time.process_time()
        loss = self._trainer.evaluate(self.data, range(self._samples)).loss
        seconds = max(time.process_time() - begin, 1e-6)
        self.passes = min(self.passes - 1, int(MAX_SECONDS / seconds))
        return loss

    def loss_or_inf(self, values: Mapping[int, Array]) -> float:
        """Returns the loss, or infinity if it is not finite."""
        try:
            return self.loss(values)
        except TrainingError:
            return np.inf

    def gradient(self) -> dict[int, Array]:
        """Returns the gradient at the start: the change by one SGD step with learning rate 1."""
        self._set(self.start)
        list(self._trainer.train(self.data, _OneBatch(self._samples), epochs=1))
        tensors = self._trainer.parameters.tensors
        return {i: self.start[i] - tensors[i] for i in self.start}

    def noise(self, loss: float, rng: np.random.Generator) -> float:
        """Returns the change of the loss if all weights change by their last bit."""
        last_bit = float(np.finfo(next(iter(self.start.values())).dtype).eps)
        losses = [LOSSES[name] for name, _ in self._trainer.runtime.losses]
        # The logarithm of a probability close to 1 is rounded as the probability is.
        least = 1.0 if any(loss_row.probabilities for loss_row in losses) else 0.0
        changes = [last_bit * max(abs(loss), least)]
        for _ in range(MOVES):
            moved = {
                i: np.nextafter(a, rng.choice((-np.inf, np.inf), a.shape).astype(a.dtype))
                for i, a in self.start.items()
            }
            changes.append(abs(self.loss(moved) - loss))
        return max(changes)
