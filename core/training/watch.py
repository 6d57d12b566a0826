"""Interfaces of the training loop: observers of steps, sources of samples, validation."""

from typing import Protocol

from odt.core.data.protocol import Data, SampleOrder
from odt.core.training.passes import Result


class Watch:
    """Sees the steps of a training run; subclasses override what they need."""

    def step(self, epoch: int, step: int, loss: float) -> None:
        """Sees a step.

        Args:
            epoch: number of the epoch, from 1.
            step: number of the step in the epoch, from 1.
            loss: loss of the step, before its update.
        """

    def stop(self) -> bool:
        """Returns whether training ends; called after each step."""
        return False


class Feed(Protocol):
    """Prepares the training samples of an epoch, which are then read by position in its order."""

    def epoch(self, number: int, order: SampleOrder, first: int, end: int) -> Data: ...


class Evaluate(Protocol):
    """Returns loss and metrics on samples; arguments as for `Trainer.evaluate`."""

    def __call__(self, data: Data, order: SampleOrder, *, rest: bool) -> Result: ...
