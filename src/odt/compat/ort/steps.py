"""Steps as ONNX Runtime counts them: gradients are summed until they are reset."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.runtime.parameters import by_name
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
        # At the last update, by tensor; in memory that the next step uses.
        self._sums: Mapping[int, Array] = {}

    def train(self, trainer: Trainer, batch: Batch, data: DataSet, size: int) -> float:
        """Adds the gradients of a batch; returns its loss.

        Args:
            trainer: the trainer.
            batch: the samples.
            data: the same samples as a data set.
            size: number of samples that are computed at once, at most.

        Raises:
            DataError: if values cannot be used; gradients that are not reset do not change.
        """
        core = trainer.session.build(weighted=batch.weights is not None)
        if len(batch) > size or not self._reset:
            data.check_all()  # a bad sample changes no gradient
        if self._reset:
            for a in core.gradients.values():
                a.fill(0)
        before = {} if self._reset else {i: a.copy() for i, a in self._sums.items()}
        self._sums, loss = {}, 0.0
        if len(batch) <= size:
            loss = core.accumulate(data, len(batch), batch.factor)
        else:
            for at in range(0, len(batch), size):
                part = batch.rows(slice(at, at + size))
                scale = batch.factor * len(part) / len(batch)
                loss += trainer.forward_backward(alone(part.x), alone(part.y), scale, part.weights)
        self._reset = False
        for i, a in before.items():
            np.add(core.gradients[i], a, out=core.gradients[i])
        return loss + batch.constant

    def evaluate(self, trainer: Trainer, batch: Batch, data: DataSet) -> float:
        """Returns the loss of a batch; arguments as for `train`."""
        return batch.factor * trainer.evaluate(data)["loss"] + batch.constant

    def update(self, trainer: Trainer) -> None:
        """Updates the parameters with the summed gradients, which stay.

        Raises:
            TrainingError: if there was no training step since the last update.
        """
        core = trainer.session.build()
        sums = core.gradients
        if not sums:
            raise TrainingError(
                "Optimizer.step: must follow a training step, but there was none since the last "
                "update. Call the module in training mode first."
            )
        core.apply_gradients(keep=True)
        self._sums = sums

    def reset(self) -> None:
        """Makes the next training step begin a new sum of gradients."""
        self._reset = True

    def gradient(self, trainer: Trainer, name: str) -> Array | None:
        """Returns the summed gradient of a parameter, not copied; None if there is none."""
        core = trainer.session.build()
        return by_name(core.graph, self._sums or core.gradients).get(name)

    def carry(self, trainer: Trainer) -> None:
        """Keeps the sums in memory of their own, because the trainer ends."""
        sums = self._sums or trainer.session.build().gradients
        self._sums = {i: a.copy() for i, a in sums.items()}


def alone(arrays: Sequence[Array]) -> Any:
    """Returns arrays in the form that a trainer takes: a single one by itself."""
    return list(arrays) if len(arrays) > 1 else arrays[0]
