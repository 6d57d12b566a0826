"""Trains a model file: the object behind `odt train`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from odt.batch_trainer import BatchTrainer
from odt.callbacks import Callback, History
from odt.core.checkpoints.resume import Saver, changed_constants, read_resume
from odt.core.data.dataset import EpochOrder
from odt.core.export.exporter import export_model
from odt.core.model.dequantize import as_stored
from odt.core.model.training_info import encode_training_info
from odt.core.recipe.resolve import values_used
from odt.data import batches_of, is_batches
from odt.fitting import Fit, split_samples

Array: TypeAlias = np.ndarray[Any, Any]
Path: TypeAlias = str | os.PathLike[str]
Logs: TypeAlias = dict[str, float]

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Trainer(BatchTrainer):
    """A model with loss, optimizer and metrics, ready to train.

    What is left out comes from the checkpoint, then from the training info of a circle+ file,
    then from odt's defaults: Adam with learning rate 0.001, batches of 32, all weights train, and
    the loss that the model's last operator asks for. Memory is planned and allocated when training
    begins, or by `build`. A trainer is a context manager; `close` ends its threads.

    Args:
        model: a model or the path of its file.
        loss: categorical_crossentropy, sparse_categorical_crossentropy, binary_crossentropy or
            mean_squared_error.
        optimizer: "sgd", "adam", "adamw", or SGD(...), Adam(...), AdamW(...).
        learning_rate: of an optimizer that is given by its name.
        batch_size: samples in a step.
        metrics: names such as "accuracy" or "mean_absolute_error".
        trainable: which weights train: last(2), select("head/*"), freeze(...) or Trainable(...).
        sparse: pattern of filters → share of their output channels that trains, by strength.
        reduction: sum_over_batch_size or sum.
        output_losses: name or number of an output → its loss, or "none".
        loss_weights: name or number of an output → weight of its loss.
        memory_budget: bytes that training may take beyond Python, such as "64MB".
        micro_batch: samples computed at once; chosen if left out.
        workers: threads; chosen if left out.
        cache_frozen: "ram" or "disk": computes the part that does not train once for each sample.
        cache_dtype: "float16" halves the cache and rounds.
        keep_best: keeps a copy of the weights of the epoch with the least validation loss.
        checkpoint: path of a checkpoint to resume from.

    Attributes:
        model: the model.
        stop_training: set to True to end `fit` after the batch.

    Raises:
        ModelError: if the model or the checkpoint cannot be read.
        UnsupportedError: if an operator cannot be computed.
        OptionError: if values contradict each other or the model.
    """

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int = 1,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool | None = None,
        seed: int | None = None,
        callbacks: Sequence[Callback] = (),
        data_length: int | None = None,
        check_data: bool = False,
        patience: int | None = None,
        save_to: Path | None = None,
        save_every: int | None = None,
        properties: Mapping[str, str | int | float] | None = None,
    ) -> History:
        """Trains.

        Args:
            x: inputs: an array (N, …), a list or mapping of arrays for several inputs, the path of
                a data file, a DataSet, or an iterable of batches (x, y) such as a DataLoader.
            y: targets (N, …), likewise; left out with a DataSet or an iterable.
            epochs: number of the last epoch; a resumed run counts from the first one.
            validation_split: share of the samples, the last ones, that validates.
            validation_data: (x, y) or a DataSet that validates.
            shuffle: whether samples are taken in another order in each epoch; True, or as in the
                checkpoint.
            seed: of the orders; 0, or as in the checkpoint.
            callbacks: called while training runs.
            data_length: uses only so many samples.
            check_data: whether all samples are checked before the first step.
            patience: epochs without a smaller validation loss after which training ends.
            save_to: path of a checkpoint that is written after each epoch.
            save_every: writes it after so many steps instead.
            properties: of the user, stored in the checkpoint.

        Returns:
            Losses and metrics of each epoch.

        Raises:
            DataError: if the data do not fit the model, or hold values that no loss can use.
            OptionError: if values contradict each other.
            TrainingError: if the loss is no longer finite.
        """
        history = History()
        self.stop_training = False
        run = Fit(self, [history, *callbacks], epochs)
        if is_batches(x, y):
            run.batches(x, validation_data)
            return history
        data = self.open(x, y)
        batch = self.recipe.info.batch_size
        parts = split_samples(data.length, data_length, validation_split, batch)
        then = self.resume.progress
        was = then.shuffle if self.resume.own else True
        self._order = EpochOrder(
            parts.training, was if shuffle is None else shuffle, then.seed if seed is None else seed
        )
        trainer = self.build(data_length or data.length)
        self._saver = Saver(
            os.fspath(save_to) if save_to is not None else None,
            trainer,
            self._order,
            every=save_every or 0,
            properties=properties,
            before=self.resume,
        )
        run.samples(data, parts, self._order, self._saver, validation_data, patience, check_data)
        return history

    def evaluate(self, x: Any, y: Any = None) -> Logs:
        """Loss and metrics on samples.

        Args:
            x: inputs, as in `fit`.
            y: targets.

        Returns:
            The loss and the metrics by name.
        """
        trainer = self.build()
        if is_batches(x, y):
            return self._evaluate_batches(x)
        data = self.open(x, y)
        return self.logs(trainer.evaluate(data, range(data.length), rest=True))

    def predict(self, x: Any) -> Any:
        """The model's outputs with the weights as they are now.

        Args:
            x: inputs (N, …), as in `fit`.

        Returns:
            An array (N, …); a list of arrays if the model has several outputs.
        """
        data = self.open(x)
        trainer = self.build()
        found = [np.empty((data.length, *s.shape), s.dtype) for s in trainer.runtime.output_specs]
        first = 0
        for rows in trainer.predict(data, range(data.length)):
            for whole, part in zip(found, rows, strict=True):
                whole[first : first + len(part)] = part
            first += len(rows[0])
        return found[0] if len(found) == 1 else found

    def save_checkpoint(self, path: Path) -> None:
        """Writes weights, optimizer state and position.

        Args:
            path: ends in .odt for odt's own format, which resumes bit for bit; onert's otherwise.

        Raises:
            ModelError: if it cannot be written.
        """
        trainer = self.build()
        if self._saver is None:
            self._saver = Saver(None, trainer, self._order, before=self.resume)
        self._saver.write_to(os.fspath(path))

    def load_checkpoint(self, path: Path) -> None:
        """Sets weights and optimizer state to those of a checkpoint.

        Args:
            path: a checkpoint of odt or onert.

        Raises:
            ModelError: if it cannot be read or is of another model.
        """
        trainer = self.build()
        read_resume(path).restore(trainer.graph, trainer.parameters)

    def export(
        self,
        path: Path,
        file_format: str | None = None,
        *,
        float_weights: bool = False,
        training_info: bool = False,
    ) -> None:
        """Writes the model with its trained weights; all other bytes stay as they are.

        Args:
            path: to be written.
            file_format: "tflite" or "circle"; None for what the path ends in, or the model's.
            float_weights: stores weights as float32 that the file has as float16 or int8.
            training_info: adds loss, optimizer and what trains: a circle+ file.

        Raises:
            ModelError: if the file cannot be written.
        """
        trainer, end = self.build(), os.path.splitext(os.fspath(path))[1].lstrip(".")
        if file_format is None:
            file_format = end if end in ("tflite", "circle") else self.model.format
        used = values_used(self.recipe.model.graph, trainer.info) if training_info else None
        changed = changed_constants(self.recipe.graph, self._graph)
        weights = {**changed, **trainer.weights()}
        export_model(
            self.recipe.model, weights, path, file_format, used, float_weights=float_weights
        )

    def check_export(self, *, float_weights: bool = False, training_info: bool = False) -> None:
        """Raises OptionError or UnsupportedError now if `export` could not write the weights."""
        trainer = self.build()
        if training_info:
            used = values_used(self.recipe.model.graph, trainer.info)
            encode_training_info(used, len(self.recipe.model.graph.nodes))
        if not float_weights:
            as_stored(self.recipe.model, self.recipe.dequantized, trainer.weights())

    def finish(self) -> None:
        """Writes the checkpoint of `fit` and restores the best weights.

        `fit` does so at its end, but not where it raises a LostFileError.
        """
        if self._saver is not None:
            self._saver.finish()
        self.build().best.restore()

    def rescue(self, path: Path) -> None:
        """Writes weights and optimizer state where the model's own file is lost.

        Args:
            path: of a checkpoint in odt's own format.
        """
        self.build()
        saver = self._saver or Saver(None, self.build(), self._order, before=self.resume)
        saver.rescue(os.fspath(path))

    def _evaluate_batches(self, batches: Iterable[Any]) -> Logs:
        sums: Logs = {}
        total = 0
        for x, y in batches_of(batches, self.samples, self.recipe.info.batch_size):
            data = self._whole_batch(x, y)
            found = self.logs(self.build().batch(data, data.length, update=False))
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + value * data.length
            total += data.length
        return {name: value / total for name, value in sums.items()}
