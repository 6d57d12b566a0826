"""TrainSession of onert's Python package: compile, train, train_step, eval_step."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from odt.experimental.train import losses, metrics, optimizer
from odt.experimental.train.dataloader import Batch, DataLoader
from odt.experimental.train.info import tensorinfo
from odt.experimental.train.nnfw import nnfw_session
from odt.kernels.rows.opdef import Array

Kind = TypeVar("Kind", losses.LossFunction, metrics.Metric, optimizer.Optimizer)


class TrainSession:
    """Trains a model.

    Methods of nnfw_session, such as train_export_circle, can be called on it too.

    Args:
        nnpackage_path: model file or nnpackage.
        backends: ignored.

    Attributes:
        session: the nnfw_session.
        train_info: training info of the model, or as set by `compile`.
        total_time: wall time of each phase in ms.
    """

    def __init__(self, nnpackage_path: str | os.PathLike[str], backends: str = "train") -> None:
        start = time.perf_counter()
        self.session = nnfw_session(nnpackage_path, backends)
        self.total_time: dict[str, Any] = {"MODEL_LOAD": _ms(start)}
        self.train_info = self.session.train_get_traininfo()
        self.optimizer: optimizer.Optimizer | None = None
        self.loss: losses.LossFunction | None = None
        self.metrics: list[metrics.Metric] = []
        self._rate = 0.0  # learning rate in use

    def __getattr__(self, name: str) -> Any:
        if name == "session":  # missing if __init__ has failed
            raise AttributeError(name)
        return getattr(self.session, name)

    def get_inputs_tensorinfo(self) -> list[tensorinfo]:
        """Returns shape and dtype of each input."""
        return [self.session.input_tensorinfo(i) for i in range(self.session.input_size())]

    def get_outputs_tensorinfo(self) -> list[tensorinfo]:
        """Returns shape and dtype of each output."""
        return [self.session.output_tensorinfo(i) for i in range(self.session.output_size())]

    def compile(
        self,
        optimizer: str | optimizer.Optimizer,
        loss: str | losses.LossFunction,
        metrics: Sequence[str | metrics.Metric] = (),
        batch_size: int = 16,
    ) -> None:
        """Plans training and prints the training parameters.

        Weights that an earlier `compile` trained are kept. To change the learning rate between
        steps, assign `optimizer.learning_rate` or `train_info.learning_rate`.

        Args:
            optimizer: "sgd", "adam" or an instance.
            loss: "mean_squared_error", "categorical_crossentropy" or an instance.
            metrics: "categorical_accuracy" or instances, one for each output, computed in
                validation, `train_step` and `eval_step`.
            batch_size: samples per step.

        Raises:
            ValueError: if a name is unknown, or the number of metrics is not that of outputs.
            TypeError: if an object has another type.
            OdtError: if the model cannot be trained with these parameters.
        """
        self.optimizer = _instance(optimizer, *_OPTIMIZERS)
        self.loss = _instance(loss, *_LOSSES)
        self.metrics = [_instance(m, *_METRICS) for m in metrics]
        outputs = self.session.output_size()
        if self.metrics and len(self.metrics) != outputs:
            raise ValueError(
                f"metrics: must be one for each of {outputs} outputs, but got {len(self.metrics)}"
            )
        info = self.train_info
        info.learning_rate = self.optimizer.learning_rate
        info.batch_size = batch_size
        info.loss_info.loss = self.loss.kind
        info.loss_info.reduction_type = self.loss.reduction
        info.opt = self.optimizer.kind
        info.num_of_trainable_ops = self.optimizer.nums_trainable_ops
        self.session.train_set_traininfo(info, self.optimizer.hyper_parameters())
        print("\n".join(self._block()))
        start = time.perf_counter()
        self.session.train_prepare()
        self._rate = self.optimizer.learning_rate
        self.total_time["COMPILE"] = _ms(start)

    def _block(self) -> list[str]:
        """Formats the training parameters as onert prints them."""
        info = self.train_info
        reduction = info.loss_info.reduction_type.name.lower().replace("_", " ")
        return [
            "== training parameter ==",
            f"- learning_rate = {info.learning_rate:g}",
            f"- batch_size = {info.batch_size}",
            f"- loss_info = {{loss = {type(self.loss).__name__}, reduction = {reduction}}}",
            f"- optimizer = {type(self.optimizer).__name__}",
            f"- num_of_trainable_ops = {int(info.num_of_trainable_ops)}",
            "=" * 24,
        ]

    def train(
        self,
        data_loader: DataLoader,
        epochs: int,
        validation_split: float = 0.0,
        checkpoint_path: str | None = None,
    ) -> dict[str, Any]:
        """Trains, and prints one line for each epoch.

        Args:
            data_loader: batches of the size given to `compile`.
            epochs: number of epochs: passes over the training data.
            validation_split: fraction of the samples, from the end, used for validation after
                each epoch.
            checkpoint_path: path of a checkpoint, saved after each epoch.

        Returns:
            Times in ms: MODEL_LOAD, COMPILE, EXECUTE, and EPOCH_TIMES, a list.

        Raises:
            RuntimeError: if the session is not compiled.
            ValueError: if batches are larger than that of `compile`, or the fraction is not within
                0 … 1.
            DataError: if arrays do not match the model.
            TrainingError: if the loss is NaN or infinite.
        """
        self._check_compiled()
        training, validation = data_loader.split(validation_split)
        times = []
        for number in range(1, epochs + 1):
            start = time.perf_counter()
            loss, io_ms, train_ms = self._run(training, update=True)
            parts = [
                f"Epoch {number}/{epochs}",
                f"Train time: {train_ms:.3f}ms/step",
                f"IO time: {io_ms:.3f}ms/step",
                f"Train Loss: {loss:.4f}",
            ]
            if validation_split > 0:
                loss, _, _ = self._run(validation, update=False)
                parts.append(f"Validation Loss: {loss:.4f}")
                parts += [f"{type(m).__name__}: {m.result():.4f}" for m in self.metrics]
                for metric in self.metrics:
                    metric.reset_state()
            times.append(_ms(start))
            print(" - ".join(parts))
            if checkpoint_path:
                self.session.train_export_checkpoint(checkpoint_path)
        self.total_time |= {"EXECUTE": sum(times), "EPOCH_TIMES": times}
        return self.total_time

    def _run(self, data: Iterable[Batch], *, update: bool) -> tuple[float, float, float]:
        """Runs all batches; returns the means of loss, of input and of step times in ms.

        Without batches, they are 0.
        """
        sums = np.zeros(3)
        batches = 0
        for inputs, expecteds in data:
            start = time.perf_counter()
            self._follow_rate()
            outputs = self._bind(inputs, expecteds)
            io_ms = _ms(start)
            start = time.perf_counter()
            self.session.train(update_weights=update)
            sums += (self.session.train_get_loss(0), io_ms, _ms(start))
            batches += 1
            if not update:
                for metric in self.metrics:
                    metric.update_state(outputs, expecteds)
        loss, io_ms, step_ms = (sums / max(batches, 1)).tolist()
        return loss, io_ms, step_ms

    def train_step(self, inputs: Sequence[Array], expecteds: Sequence[Array]) -> dict[str, Any]:
        """Trains on one batch.

        Args:
            inputs: an array for each model input, with at most batch_size samples.
            expecteds: an array for each model output.

        Returns:
            loss (a list, before the update), metrics (by class name), train_time (ms).

        Raises:
            RuntimeError, ValueError, DataError, TrainingError: as `train`.
        """
        result, ms = self._step(inputs, expecteds, update=True)
        return {**result, "train_time": ms}

    def eval_step(self, inputs: Sequence[Array], expecteds: Sequence[Array]) -> dict[str, Any]:
        """Evaluates one batch.

        Args:
            inputs: an array for each model input, with at most batch_size samples.
            expecteds: an array for each model output.

        Returns:
            loss (a list), metrics (by class name), eval_time (ms).

        Raises:
            RuntimeError, ValueError, DataError, TrainingError: as `train`.
        """
        result, ms = self._step(inputs, expecteds, update=False)
        return {**result, "eval_time": ms}

    def _step(
        self, inputs: Sequence[Array], expecteds: Sequence[Array], *, update: bool
    ) -> tuple[dict[str, Any], float]:
        """Runs a batch; returns losses and metrics, and the time in ms."""
        self._check_compiled()
        self._follow_rate()
        outputs = self._bind(inputs, expecteds)
        start = time.perf_counter()
        self.session.train(update_weights=update)
        ms = _ms(start)
        values = {}
        for metric in self.metrics:
            metric.update_state(outputs, expecteds)
            values[type(metric).__name__] = metric.result()
            metric.reset_state()
        losses = [self.session.train_get_loss(i) for i in range(len(expecteds))]
        return {"loss": losses, "metrics": values}, ms

    def _follow_rate(self) -> None:
        """Uses the learning rate that was assigned to the optimizer or to train_info, if any."""
        assert self.optimizer is not None, "the session is compiled"
        for rate in (self.optimizer.learning_rate, self.train_info.learning_rate):
            if rate != self._rate:
                self.session.train_set_learning_rate(rate)
                self._rate = self.optimizer.learning_rate = self.train_info.learning_rate = rate
                return

    def _bind(self, inputs: Sequence[Array], expecteds: Sequence[Array]) -> list[Array]:
        """Sets the arrays of a batch; returns the arrays that its outputs are written to."""
        batch = self.train_info.batch_size
        for what, arrays in (("input", inputs), ("expected", expecteds)):
            for index, a in enumerate(arrays):
                if len(a) > batch:
                    raise ValueError(
                        f"{what} {index}: must have at most {batch} samples, but got {len(a)}"
                    )
        for index, a in enumerate(inputs):
            self.session.train_set_input(index, a)
        outputs = []
        for index, a in enumerate(expecteds):
            self.session.train_set_expected(index, a)
            outputs.append(np.zeros(a.shape, self.session.output_tensorinfo(index).dtype))
            self.session.train_set_output(index, outputs[-1])
        return outputs

    def _check_compiled(self) -> None:
        if self.optimizer is None:
            raise RuntimeError("a session must be compiled first, but is not. Call compile().")


# In `compile`, parameters with onert's names hide the modules of the same names.
_OPTIMIZERS = (optimizer.Optimizer, optimizer.NAMES, "optimizer")
_LOSSES = (losses.LossFunction, losses.NAMES, "loss")
_METRICS = (metrics.Metric, metrics.NAMES, "metric")


def _instance(value: Any, base: type[Kind], names: Mapping[str, type[Kind]], what: str) -> Kind:
    """Returns an instance of a base class, made by its name if the value is one."""
    if isinstance(value, base):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{what}: must derive from {base.__name__}, but got {type(value).__name__}")
    if value not in names:
        raise ValueError(f"{what}: must be one of {', '.join(names)}, but got {value!r}")
    return names[value]()


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000
