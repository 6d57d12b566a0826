"""Steps as ONNX Runtime counts them: gradients are summed until they are reset."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from odt.core.data.array_samples import ArraySamples
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import scales_of
from odt.core.runtime.parameters import by_name
from odt.core.runtime.program import Program
from odt.core.training import trainer as engine
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
        arguments: numbers of the arguments of the call that are x, then y; None if some of them are
            computed from the values of arguments.
    """

    x: Sequence[Array]
    y: Sequence[Array]
    weights: Array | None = None
    factor: float = 1.0
    constant: float = 0.0
    arguments: Sequence[int] | None = None


Samples = DataSet | ArraySamples


class Outputs:
    """Outputs of the model in a step.

    Attributes:
        arrays: the outputs (N, …).
    """

    def __init__(self, trainer: Trainer, places: Sequence[int], samples: int) -> None:
        """Allocates the arrays.

        Args:
            trainer: the trainer.
            places: numbers of the outputs.
            samples: N.
        """
        specs = trainer.session.samples.output_specs
        self.arrays = [np.empty((samples, *specs[k].shape), specs[k].dtype) for k in places]
        self._places = places

    def look(self, first: int, program: Program, at: int, count: int) -> None:
        """Copies the outputs of a micro-batch.

        Args:
            first: number of the first sample of the batch.
            program: the program, after its forward phase.
            at: place of the micro-batch in the batch.
            count: number of its samples.
        """
        rows = slice(first + at, first + at + count)
        for place, array in zip(self._places, self.arrays, strict=True):
            array[rows] = program.outputs[place][:count]


class Steps:
    """Trains and evaluates with a trainer; what it sums stays until the step after a reset."""

    def __init__(self) -> None:
        self._reset = False  # whether the next training step begins a new sum of gradients
        # At the last update, by tensor; in memory that the next step uses.
        self._sums: Mapping[int, Array] = {}
        # The last call: forms of its arguments, and its samples.
        self._forms: list[Any] = []
        self._last: tuple[Batch, ArraySamples] | None = None
        # Runs a training step on these samples; None until one has run on them, and if a step is
        # more than one compiled call.
        self._bound: Callable[[], float] | None = None

    def samples(self, forms: list[Any], arrays: Sequence[Array]) -> tuple[Batch, Samples] | None:
        """Returns the samples of a call if its arguments have the forms of those of the last call.

        Args:
            forms: whether the step trains, and dtype and shape of each argument.
            arrays: arguments of the call.
        """
        if self._last is None or forms != self._forms:
            return None
        batch, data = self._last
        assert batch.arguments is not None, "`open` keeps no other batches"
        data.replace([arrays[k] for k in batch.arguments])
        return self._last

    def open(self, trainer: Trainer, forms: list[Any], batch: Batch) -> tuple[Batch, Samples]:
        """Returns the samples of a call, checked against the model.

        Args:
            trainer: the trainer.
            forms: whether the step trains, and dtype and shape of each argument.
            batch: the samples.

        Raises:
            DataError: if shapes or dtypes do not match the model.
        """
        data = trainer.session.open(_alone(batch.x), _alone(batch.y), batch.weights)
        data = data.without_ignored()  # `ignore_index` of the loss says which label is
        self._last = self._bound = None
        if batch.arguments is not None and data.weights is None:
            self._forms = forms
            self._last = batch, ArraySamples(data)
        return batch, data

    def run(
        self,
        trainer: Trainer,
        batch: Batch,
        data: Samples,
        outputs: Outputs | None,
        *,
        train: bool,
    ) -> float:
        """Runs a step; returns the loss of the batch, before an update.

        Args:
            trainer: the trainer.
            batch: the samples.
            data: the same samples as a data set.
            outputs: gets the outputs; None for none.
            train: whether to add to the gradients.

        Raises:
            DataError: if values cannot be used; gradients that are not reset do not change.
        """
        # After an update, which sets `_sums`, the trainer has no other gradients to clear.
        if train and self._bound is not None and self._reset and self._sums:
            self._sums = {}
            loss = self._bound()
            self._reset = False
            return loss + batch.constant
        core = trainer.session.build(scales=scales_of(data.weights))
        size = core.info.batch_size
        samples = data.length
        before = self._begin(core, data, size) if train else {}
        loss = 0.0
        for first in range(0, samples, size):
            part = range(first, min(first + size, samples))
            look = partial(outputs.look, first) if outputs else None
            scale = batch.factor * len(part) / samples
            if train:
                loss += core.accumulate(data, part, scale, look)
            else:
                loss += scale * core.step(data, part, update=False, look=look)
        if train:
            self._reset = False
            if isinstance(data, ArraySamples) and samples <= size and outputs is None:
                self._bound = core.bind_accumulate(data, samples, batch.factor)
        for i, a in before.items():
            np.add(core.gradients[i], a, out=core.gradients[i])
        return loss + batch.constant

    def _begin(self, core: engine.Trainer, data: Samples, size: int) -> Mapping[int, Array]:
        """Begins a training step; returns the sums of gradients to which it adds."""
        if data.length > size or not self._reset:
            data.check_all()  # a bad sample changes no gradient
        before: Mapping[int, Array] = {}
        if self._reset:
            for a in core.gradients.values():
                a.fill(0)
        else:
            before = {i: a.copy() for i, a in self._sums.items()}
        self._sums = {}
        return before

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
        self._last = self._bound = None


def _alone(arrays: Sequence[Array]) -> Any:
    """Returns arrays in the form that a trainer takes: a single one by itself."""
    return list(arrays) if len(arrays) > 1 else arrays[0]
