"""Callbacks of `Trainer.fit`, with Keras' protocol and names.

Epochs and batches are counted from 0. `logs` holds the loss and the metrics by name; values on
validation data have names that begin with `val_`.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from odt.arguments import checked_arguments
from odt.core.model.model import FORMATS
from odt.core.options.option import Number
from odt.core.recipe.option_values import check_number, check_whole
from odt.core.runtime.parameters import by_name
from odt.core.storage.reading import unwritable
from odt.core.training.monitor import Monitor
from odt.errors import OdtError, OptionError
from odt.habits import known_arguments, missing_attribute
from odt.text import quantity

if TYPE_CHECKING:
    from odt.charts.plot import Plot
    from odt.training.trainer import Trainer

Logs: TypeAlias = Mapping[str, float]
PathLike: TypeAlias = str | os.PathLike[str]
FACTOR = Number("above 0 and below 1", most=1, open_least=True, open_most=True)
LEAST_RATE = Number("a number, 0 or more")
EXPORTED = tuple(f".{name}" for name in FORMATS)  # suffixes of models


class Callback:
    """Base class of callbacks; override the methods that you need.

    Attributes:
        trainer: the trainer whose `fit` runs. `trainer.stop_training = True` ends training after
            the current batch.
        params: "epochs" is the number of the last epoch, and "steps" the number of batches of an
            epoch; "steps" is None if the batches come from an iterable.
    """

    trainer: "Trainer"
    params: Mapping[str, int | None]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what = type(self).__name__
            raise missing_attribute(name, lambda: dir(type(self)), what, "Callback")

    def on_train_begin(self, logs: Logs) -> None:
        """Called before the first batch."""

    def on_train_end(self, logs: Logs) -> None:
        """Called after the last batch, with the logs of the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Called before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Called after an epoch and its validation."""

    def on_train_batch_begin(self, batch: int, logs: Logs) -> None:
        """Called before a batch."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Called after a batch; `logs` holds its loss."""

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if k not in Callback.__annotations__}
        monitor = shown.pop("_monitor", None)
        if monitor is not None:
            shown = {"monitor": monitor.name, **shown}
        options = (f"{name}={value!r}" for name, value in shown.items() if name[0] != "_")
        return f"{type(self).__name__}({', '.join(options)})"


class History(Callback):
    """Losses and metrics of all epochs, as returned by `fit`.

    Attributes:
        epoch: numbers of the epochs, from 0.
        history: mapping from names (loss, val_loss, a metric) to lists of values, one for each
            epoch.
        start: values before the first step. Values of training are computed from at most 256
            samples. Empty for a resumed run, and for batches from an iterable.
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}
        self.start: Logs = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Adds the epoch's values."""
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)

    @checked_arguments
    def plot(self, *names: str) -> "Plot":
        """Returns the plot of loss and metrics over the epochs, which a notebook shows.

        Args:
            *names: names of values, such as "loss"; all if left out.

        Raises:
            OptionError: if there is no value of a name.
        """
        from odt.training import history_html

        return history_html.plot(self._points, names)

    def __repr__(self) -> str:
        epochs = quantity(len(self.epoch), "epoch")
        return f"History({epochs}: {', '.join(self.history) or 'no values'})"

    def _repr_html_(self) -> str:
        from odt.training import history_html

        return history_html.html(self._points)

    @property
    def _points(self) -> dict[str, list[tuple[float, float]]]:
        """Points (epoch, value) by name; epoch 0 is before training, so that epochs begin at 1."""
        points: dict[str, list[tuple[float, float]]] = {}
        for name in [*self.history, *(self.start.keys() - self.history.keys())]:
            line = self.history.get(name, [])
            numbers = [epoch + 1.0 for epoch in self.epoch[len(self.epoch) - len(line) :]]
            points[name] = list(zip(numbers, line, strict=True))
            if name in self.start:
                points[name].insert(0, (0.0, self.start[name]))
        return points


class LambdaCallback(Callback):
    """Callback made of functions.

    Args:
        on_train_begin: called with (logs).
        on_train_end: called with (logs).
        on_epoch_begin: called with (epoch, logs).
        on_epoch_end: called with (epoch, logs).
        on_train_batch_begin: called with (batch, logs).
        on_train_batch_end: called with (batch, logs).
    """

    @known_arguments(base="Callback")
    @checked_arguments
    def __init__(
        self,
        on_train_begin: Callable[[Logs], object] | None = None,
        on_train_end: Callable[[Logs], object] | None = None,
        on_epoch_begin: Callable[[int, Logs], object] | None = None,
        on_epoch_end: Callable[[int, Logs], object] | None = None,
        on_train_batch_begin: Callable[[int, Logs], object] | None = None,
        on_train_batch_end: Callable[[int, Logs], object] | None = None,
    ) -> None:
        # Attributes of the instance, which hide the methods of Callback.
        functions = {name: f for name, f in locals().items() if name.startswith("on_") and f}
        self.__dict__.update(functions)


class EarlyStopping(Callback):
    """Early stopping: ends training when a value stops improving.

    Args:
        monitor: name of the value in logs.
        min_delta: smallest change that counts as an improvement.
        patience: number of epochs without an improvement after which training ends.
        mode: min, max, or auto: min for losses, errors and perplexity, else max.
        restore_best_weights: whether the weights of the best epoch are restored at the end.

    Attributes:
        stopped_epoch: number of the epoch after which training ended early; 0 if it did not.
        best_epoch: number of the best epoch.

    Raises:
        OptionError: if an argument is invalid.
    """

    @known_arguments(base="Callback")
    @checked_arguments
    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        restore_best_weights: bool = False,
    ) -> None:
        check_whole("patience", patience, 0)
        self._monitor = Monitor(monitor, mode, min_delta)
        self.patience = patience
        self.restore_best_weights = restore_best_weights
        self.stopped_epoch = 0
        self.best_epoch = 0

    def on_train_begin(self, logs: Logs) -> None:
        """Resets the best value and the numbers of epochs."""
        self.stopped_epoch = self.best_epoch = 0
        self._monitor.best = None
        self._waited = 0
        self._weights: dict[str, Any] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Ends training if the value has not improved for `patience` epochs."""
        if self._monitor.improves(logs):
            self.best_epoch = epoch
            self._waited = 0
            if self.restore_best_weights:
                core = self.trainer.session.build()
                weights = by_name(core.graph, core.weights())
                self._weights = {name: a.copy() for name, a in weights.items()}
            return
        self._waited += 1
        if self._waited >= self.patience:
            self.stopped_epoch = epoch
            self.trainer.stop_training = True

    def on_train_end(self, logs: Logs) -> None:
        """Restores the weights of the best epoch, with `restore_best_weights`."""
        for name, values in self._weights.items():
            self.trainer.weights[name] = values


class ReduceLROnPlateau(Callback):
    """Reduces the learning rate when a value stops improving.

    `patience` counts as in Keras, `cooldown` as in torch. A checkpoint holds the reduced rate, but
    not how long the callback has waited: for a resume with the same bits, use the schedule
    ReduceOnPlateau.

    Args:
        monitor: name of the value in logs.
        factor: factor of the learning rate.
        patience: number of epochs without an improvement after which the rate is reduced.
        mode: min, max, or auto: min for losses, errors and perplexity, else max.
        min_delta: smallest change that counts as an improvement.
        cooldown: number of epochs after a reduction in which nothing is counted.
        min_lr: lowest learning rate.

    Raises:
        OptionError: if an argument is invalid.
    """

    @known_arguments(base="Callback")
    @checked_arguments
    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        check_number("factor", factor, FACTOR)
        check_number("min_lr", min_lr, LEAST_RATE)
        check_whole("patience", patience, 0)
        check_whole("cooldown", cooldown, 0)
        self._monitor = Monitor(monitor, mode, min_delta)
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.min_lr = min_lr

    def on_train_begin(self, logs: Logs) -> None:
        """Resets the best value and the counts of epochs."""
        self._monitor.best = None
        self._waited = self._cooling = 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Reduces the rate if the value has not improved for `patience` epochs."""
        self._waited = 0 if self._monitor.improves(logs) else self._waited + 1
        if self._cooling:
            self._cooling -= 1
            self._waited = 0
        rate = self.trainer.learning_rate
        # As in Keras, an epoch with an improvement reduces no rate, also with a patience of 0.
        if self._waited >= max(self.patience, 1) and rate > self.min_lr:
            self.trainer.learning_rate = max(rate * self.factor, self.min_lr)
            self._waited = 0
            self._cooling = self.cooldown


class ModelCheckpoint(Callback):
    """Writes a checkpoint or a model after each epoch.

    Args:
        filepath: path of the file, which may contain `{epoch}` (from 1) and names of values in
            logs, such as "model-{epoch:02d}-{val_loss:.3f}.tflite". A path that ends in .tflite,
            .circle or .onnx exports a model; any other path saves a checkpoint.
        monitor: name of the value in logs that tells which epoch is best.
        save_best_only: whether to write only after an epoch that is better than all before it.
        mode: min, max, or auto: min for losses, errors and perplexity, else max.

    Raises:
        OptionError: if an argument is invalid.
    """

    @known_arguments(base="Callback")
    @checked_arguments
    def __init__(
        self,
        filepath: PathLike,
        monitor: str = "val_loss",
        save_best_only: bool = False,
        mode: str = "auto",
    ) -> None:
        self.filepath = os.fspath(filepath)
        self.save_best_only = save_best_only
        self._monitor = Monitor(monitor, mode)

    def on_train_begin(self, logs: Logs) -> None:
        """Resets the best value."""
        self._monitor.best = None

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Writes the file, with `save_best_only` only if the epoch is the best so far.

        Raises:
            OptionError: if the path names a value that is not in logs.
        """
        if self.save_best_only and not self._monitor.improves(logs):
            return
        try:
            path = self.filepath.format(epoch=epoch + 1, **logs)
        except (LookupError, ValueError, AttributeError, TypeError) as e:
            rule = f"must name values of epoch, {', '.join(logs)}"
            raise OptionError("filepath", rule, self.filepath) from e
        if path.endswith(EXPORTED):
            self.trainer.export(path)
        else:
            self.trainer.save_checkpoint(path)


class CSVLogger(Callback):
    """Writes loss and metrics of each epoch to a CSV file.

    Args:
        filename: path of the file.
        separator: character between values.
        append: whether to add lines to an existing file instead of replacing it.

    Raises:
        OptionError: if the separator is not one character, or is a quote or the end of a line.
    """

    @known_arguments(base="Callback")
    @checked_arguments
    def __init__(self, filename: PathLike, separator: str = ",", append: bool = False) -> None:
        if len(separator) != 1 or separator in '"\r\n':
            rule = "must be one character, neither a quote nor the end of a line"
            raise OptionError("separator", rule, repr(separator))
        self.filename = os.fspath(filename)
        self.separator = separator
        self.append = append
        self._names: list[str] = []

    def on_train_begin(self, logs: Logs) -> None:
        """Creates an empty file; with `append`, only if there is none.

        Raises:
            OdtError: if the file cannot be written.
        """
        self._names = []
        try:
            open(self.filename, "a" if self.append else "w").close()
        except OSError as e:
            raise OdtError(unwritable(self.filename, e)) from e

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Writes the line of an epoch; an empty file gets a header line first."""
        import csv

        with open(self.filename, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=self.separator)
            if not self._names:
                self._names = list(logs)
                if not file.tell():
                    writer.writerow(["epoch", *self._names])
            writer.writerow([epoch, *(logs.get(name, "") for name in self._names)])
