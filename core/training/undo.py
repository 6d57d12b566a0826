"""Undoes epochs after which the model is worse than before training, and lowers the learning rate.

Only training with the default learning rate does so: a rate that the user gives is kept.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from odt.core.runtime.parameters import Groups, Parameters
from odt.core.training.passes import Result
from odt.core.training.snapshot import Snapshot

DIVISOR = 10  # of the learning rate, after an epoch that is undone
WORSE = 1.5  # times the loss before training, where its spread is unknown


def worst(loss: float, spread: float) -> float:
    """Returns the largest loss that does not count as worse than that before training.

    Args:
        loss: loss before training.
        spread: its standard deviation over batches; NaN for a single batch.
    """
    return loss + ((WORSE - 1) * abs(loss) if math.isnan(spread) else spread)


class UndoState(NamedTuple):
    """What a resume needs besides the copy, as a checkpoint holds it.

    Attributes:
        loss: loss before training.
        worst: the largest loss with which an epoch is kept.
        running: 1 if an epoch is judged by the mean loss of its steps, else 0.
        step: number of updates before the epoch.
        total: sum of the losses of the epoch's samples so far.
        samples: number of these samples.
    """

    loss: float
    worst: float
    running: float
    step: float
    total: float
    samples: float


class Undo:
    """The state before an epoch, and the loss with which the epoch is judged.

    Attributes:
        before: the state before the epoch.
        loss: loss before training of the validation samples, or without them of training samples;
            NaN until it is known.
        worst: the largest loss with which an epoch is kept.
        after: loss after the last epoch.
        running: whether an epoch without validation is judged by the mean loss of its steps;
            otherwise by `measure` after it.
        measure: computes the loss of the training samples that `loss` has.
    """

    def __init__(self, parameters: Parameters) -> None:
        """Copies the state of weights and optimizer."""
        self._parameters = parameters
        self.before = Snapshot(parameters)
        self.loss = self.worst = self.after = math.nan
        self.running = False
        self._total = self._samples = 0.0
        self.measure: Callable[[], float] = lambda: math.nan  # until a run sets it

    @property
    def state(self) -> UndoState | tuple[()]:
        """What a resume needs besides the copy; empty while the loss is not known."""
        if math.isnan(self.loss):
            return ()
        return UndoState(
            loss=float(self.loss),
            worst=float(self.worst),
            running=float(self.running),
            step=float(self.before.step),
            total=float(self._total),
            samples=float(self._samples),
        )

    def set_state(self, state: UndoState) -> None:
        """Takes over the state of a checkpoint, except for its copy."""
        self.loss, self.worst, self.running = state.loss, state.worst, bool(state.running)
        self._total, self._samples = state.total, state.samples

    def groups(self) -> Groups:
        """The state before the epoch, by role and tensor."""
        return self.before.groups()

    def keep(self) -> None:
        """Copies the current state, before an epoch."""
        self.before.keep()
        self._total = self._samples = 0.0

    def see(self, loss: float, samples: int) -> None:
        """Counts a step of the epoch, with the loss of its samples."""
        self._total += loss * samples
        self._samples += samples

    def resume(self, restore: Callable[[], object]) -> None:
        """Takes over the state before an epoch that had begun before a resume.

        Args:
            restore: sets weights and optimizer state to those before the epoch.
        """
        now = Snapshot(self._parameters)
        restore()
        self.before.keep()
        now.restore()

    def is_worse(self, validation: Result | None) -> bool:
        """Whether the loss after an epoch is too high.

        Args:
            validation: result on the validation samples; None without them.
        """
        if validation is not None:
            self.after = validation.loss
        elif self.running:
            self.after = self._total / max(self._samples, 1)
        else:
            self.after = self.measure()
        return not self.after <= self.worst  # NaN is worse, too
