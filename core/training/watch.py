"""Arguments of the training loop: callbacks, limits, and a feed of batches."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from odt.core.data.protocol import Data, SampleOrder


@dataclass(slots=True)
class Watch:
    """Callbacks and limits of a training run.

    Attributes:
        step: called after each step with the number of the epoch, the step's number in it, and the
            loss.
        stop: called after each step; True ends training.
        max_steps: number of updates, from the first epoch, after which training ends.
        max_seconds: time after which training ends.
    """

    step: Callable[[int, int, float], None] = lambda epoch, step, loss: None
    stop: Callable[[], bool] = lambda: False
    max_steps: float = math.inf
    max_seconds: float = math.inf


class Feed(Protocol):
    """Prepares the training samples of an epoch, which are then read by position in its order."""

    def epoch(self, number: int, order: SampleOrder, first: int, end: int) -> Data: ...
