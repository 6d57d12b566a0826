"""One run of `Trainer.fit`: epochs, validation, callbacks, checkpoints."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from odt.callbacks import Callback
from odt.core.checkpoints.resume import Saver
from odt.core.data.dataset import DataSet, EpochOrder, Split, split
from odt.core.data.protocol import Data
from odt.core.recipe.resolve import contradiction
from odt.core.training.trainer import Epoch, Watch
from odt.data import batches_of
from odt.errors import DataError
from odt.notes import warnings_before_training

if TYPE_CHECKING:
    from odt.trainer import Trainer


def split_samples(length: int, wanted: int | None, share: float, batch: int) -> Split:
    """The samples that train and those that validate.

    Args:
        length: of the data.
        wanted: how many of them; None for all.
        share: that validates.
        batch: samples in a step.

    Raises:
        DataError: if there are not as many, or not as many as a batch to train.
    """
    if wanted is not None and wanted > length:
        raise DataError(
            f"--data-length: must be at most {length}, the samples of the files, but got {wanted}"
        )
    parts = split(wanted or length, share)
    samples = len(parts.training)
    if not samples:
        raise DataError(
            f"--validation-split {share:g}: must leave samples to train, but got none of "
            f"{wanted or length}. Give less."
        )
    if samples < batch:
        raise DataError(
            f"--batch-size {batch}: the training data has {samples} samples. Give "
            f"--batch-size {samples} or less, or more data."
        )
    return parts


class Fit:
    """A run of fit."""

    def __init__(self, trainer: "Trainer", callbacks: Sequence[Callback], epochs: int) -> None:
        self.trainer, self.callbacks, self.epochs = trainer, callbacks, epochs
        for callback in callbacks:
            callback.trainer = trainer
        base = Callback
        self._batch_end = [
            c
            for c in callbacks
            if type(c).on_train_batch_end is not base.on_train_batch_end
            or "on_train_batch_end" in vars(c)
        ]
        self._batch_begin = [
            c
            for c in callbacks
            if type(c).on_train_batch_begin is not base.on_train_batch_begin
            or "on_train_batch_begin" in vars(c)
        ]

    def samples(
        self,
        data: DataSet,
        parts: Split,
        order: EpochOrder,
        saver: Saver,
        validation_data: Any,
        patience: int | None,
        check_data: bool,
    ) -> None:
        """Trains on samples by number."""
        trainer, resume = self.trainer, self.trainer.resume
        core = trainer.build()
        held = trainer.open(*_pair(validation_data)) if validation_data is not None else None
        steps = len(parts.training) // core.info.batch_size
        first, done = resume.start(core.info.batch_size, steps)
        given: AbstractContextManager[Data] = nullcontext(data)
        if core.caches:
            cut = (parts.training, parts.validation)
            given = trainer.cache = core.frozen(data, data.without_inputs(), cut)
        self._begin()
        for note in (trainer.recipe.dequantized.note, *data.notes):
            trainer.warn(note)
        wrong = contradiction(trainer.recipe.model.graph, core.info)
        trainer.warn(wrong and f"Warning: {wrong}")
        if check_data:
            data.check_all()
        changed = resume.warning(core, order)
        trainer.warn(changed and f"Warning: {changed}")
        for message in warnings_before_training(core, parts, order, resume, first, self.epochs):
            trainer.warn(message)

        def step(epoch: int, number: int, loss: float) -> None:
            saver.step(epoch, number)
            for callback in self._batch_end:
                callback.on_train_batch_end(number - 1, {"loss": loss})
            if number < steps and not trainer.stop_training:
                for callback in self._batch_begin:
                    callback.on_train_batch_begin(number, {})

        logs: dict[str, float] = {}
        with given as samples:
            if first <= self.epochs:
                self._epoch_begin(first - 1)
            for epoch in core.fit(
                samples,
                order,
                epochs=self.epochs,
                validation=parts.validation,
                watch=Watch(step, lambda: trainer.stop_training),
                start=first,
                skip=done,
                patience=patience,
            ):
                saver.epoch()
                trainer.epoch, logs = epoch, self._logs(epoch)
                if held is not None:
                    result = core.evaluate(held, range(held.length), rest=True)
                    logs |= trainer.logs(result, "val_")
                self._epoch_end(epoch.number - 1, logs)
                if trainer.stop_training:
                    break
                if epoch.number < self.epochs:
                    self._epoch_begin(epoch.number)
        trainer.finish()
        for callback in self.callbacks:
            callback.on_train_end(logs)

    def batches(self, data: Any, validation_data: Any) -> None:
        """Trains on batches that an iterable gives."""
        trainer = self.trainer
        core = trainer.build()
        batch_size = core.info.batch_size
        held = trainer.open(*_pair(validation_data)) if validation_data is not None else None
        logs: dict[str, float] = {}
        self._begin()
        for number in range(self.epochs):
            self._epoch_begin(number)
            sums: dict[str, float] = {}
            total = 0
            for k, (x, y) in enumerate(batches_of(data, trainer.samples, batch_size)):
                for callback in self._batch_begin if k else ():
                    callback.on_train_batch_begin(k, {})
                samples = trainer.open(x, y)
                found = trainer.logs(core.batch(samples, samples.length, update=True))
                for name, value in found.items():
                    sums[name] = sums.get(name, 0.0) + value * samples.length
                total += samples.length
                for callback in self._batch_end:
                    callback.on_train_batch_end(k, found)
                if trainer.stop_training:
                    break
            if not total:
                raise DataError("x: must give batches in every epoch, but it gave none.")
            logs = {name: value / total for name, value in sums.items()}
            if held is not None:
                logs |= trainer.logs(core.evaluate(held, range(held.length), rest=True), "val_")
            self._epoch_end(number, logs)
            if trainer.stop_training:
                break
        for callback in self.callbacks:
            callback.on_train_end(logs)

    def _begin(self) -> None:
        for callback in self.callbacks:
            callback.on_train_begin({})

    def _epoch_begin(self, number: int) -> None:
        for callback in self.callbacks:
            callback.on_epoch_begin(number, {})
        for callback in self._batch_begin:
            callback.on_train_batch_begin(0, {})

    def _epoch_end(self, number: int, logs: dict[str, float]) -> None:
        for callback in self.callbacks:
            callback.on_epoch_end(number, logs)

    def _logs(self, epoch: Epoch) -> dict[str, float]:
        logs, held = self.trainer.logs(epoch.training), epoch.validation
        return logs | (self.trainer.logs(held, "val_") if held else {})


def _pair(data: Any) -> tuple[Any, ...]:
    """Arguments of Trainer.open."""
    return tuple(data) if isinstance(data, tuple | list) else (data,)
