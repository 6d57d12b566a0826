"""Steps as ONNX Runtime counts them: gradients are summed until they are reset."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import TrainingError
from odt.training.trainer import Trainer
from odt.training.weights import Array


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of a call.

    Attributes:
        x: inputs of the model (N, …).
        y: targets of the losses (N, …).
        weights: weights of the samples (N,); None for 1.
        factor: factor of the mean loss.
        constant: what is added to the loss.
    """

    x: Sequence[Array]
    y: Sequence[Array]
    weights: Array | None = None
    factor: float = 1.0
    constant: float = 0.0

    def __len__(self) -> int:
        return len(self.y[0])

    def rows(self, at: slice) -> "Batch":
        """Returns a part of the samples."""
        weights = None if self.weights is None else self.weights[at]
        x, y = ([a[at] for a in arrays] for arrays in (self.x, self.y))
        return Batch(x, y, weights, self.factor, self.constant)


class Steps:
    """Trains and evaluates with a trainer; what it sums stays until the step after a reset."""

    def __init__(self) -> None:
        self._reset = False  # whether the next training step begins a new sum of gradients
        self._sums: dict[str, Array] = {}  # at the last update, in memory that the next step uses

    def train(self, trainer: Trainer, batch: Batch, size: int) -> float:
        """Adds the gradients of a batch, in parts of at most `size` samples; returns its loss."""
        if self._reset:
            for a in trainer.gradients.values():
                a.fill(0)
        before = {} if self._reset else {name: a.copy() for name, a in self._sums.items()}
        self._reset, self._sums, loss = False, {}, 0.0
        for at in range(0, len(batch), size):
            part = batch.rows(slice(at, at + size)) if size < len(batch) else batch
            scale = batch.factor * len(part) / len(batch)
            loss += trainer.forward_backward(alone(part.x), alone(part.y), scale, part.weights)
        for name, a in before.items():
            np.add(trainer.gradients[name], a, out=trainer.gradients[name])
        return loss + batch.constant

    def evaluate(self, trainer: Trainer, batch: Batch) -> float:
        """Returns the loss of a batch."""
        logs = trainer.evaluate(alone(batch.x), alone(batch.y), batch.weights)
        return batch.factor * logs["loss"] + batch.constant

    def update(self, trainer: Trainer) -> None:
        """Updates the parameters with the summed gradients, which stay.

        Raises:
            TrainingError: if there was no training step since the last update.
        """
        sums = dict(trainer.gradients)
        if not sums:
            raise TrainingError(
                "Optimizer.step: must follow a training step, but there was none since the last "
                "update. Call the module in training mode first."
            )
        trainer.session.build().apply_gradients(keep=True)
        self._sums = sums

    def reset(self) -> None:
        """Makes the next training step begin a new sum of gradients."""
        self._reset = True

    def gradient(self, trainer: Trainer, name: str) -> Array | None:
        """Returns the summed gradient of a parameter, not copied; None if there is none."""
        sums = self._sums or trainer.gradients
        return sums.get(name)

    def carry(self, trainer: Trainer) -> None:
        """Keeps the sums in memory of their own, because the trainer ends."""
        self._sums = {n: a.copy() for n, a in dict(self._sums or trainer.gradients).items()}


def alone(arrays: Sequence[Array]) -> Any:
    """Returns arrays in the form that a trainer takes: a single one by itself."""
    return list(arrays) if len(arrays) > 1 else arrays[0]
