"""Training session with the functions of onert's native API (nnfw)."""

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from odt.core.checkpoints.onert_checkpoint import decode, encode
from odt.core.data.protocol import SampleOrder, Weights
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Tensor
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.option_values import check_learning_rate
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.resolve import number_of_last, values_used
from odt.core.runtime.program import Program
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import read_input
from odt.core.training.trainer import Trainer
from odt.errors import DataError, ModelError, OptionError
from odt.experimental.train.info import (
    loss,
    loss_reduction,
    lossinfo,
    optimizer,
    tensorinfo,
    trainable_ops,
    traininfo,
)
from odt.kernels.rows.opdef import Array, TensorSpec

Path: TypeAlias = str | os.PathLike[str]
Kind = TypeVar("Kind", loss, loss_reduction, optimizer)


class nnfw_session:
    """A model and the arrays that its training steps read and write.

    A step reads the arrays given to train_set_input and train_set_expected, of any dtype and
    layout, and writes outputs to those given to train_set_output. With several outputs, loss 0 is
    the sum of all losses and the others are 0.

    Args:
        path: model file or nnpackage.
        backends: ignored.

    Raises:
        ModelError: if the model cannot be read.
        UnsupportedError: if odt cannot train it.
    """

    def __init__(self, path: Path, backends: str = "train") -> None:
        self._model = read_model(path)
        self._graph = self._model.graph
        self._lowered = lower_model(self._model)
        stored = stored_training_info(self._model)
        self._stored = stored.as_dict() if stored else {}
        self._info: traininfo | None = None
        self._hyper_parameters: Mapping[str, float] = {}
        self._trainer: Trainer | None = None
        self._trained: dict[int, Array] = {}  # weights of trainers before, by tensor index
        self._close: Callable[[], object] = lambda: None
        self._inputs: dict[int, Array] = {}
        self._expecteds: dict[int, Array] = {}
        self._outputs: dict[int, Array] = {}
        self._loss = float("nan")

    def input_size(self) -> int:
        """Returns the number of inputs of the model."""
        return len(self._graph.inputs)

    def output_size(self) -> int:
        """Returns the number of outputs of the model."""
        return len(self._lowered.graph.outputs)

    def input_tensorinfo(self, index: int) -> tensorinfo:
        """Returns shape and dtype of an input.

        The first axis is the batch size after train_prepare.

        Raises:
            IndexError: if there is no such input.
        """
        return self._tensorinfo(self._graph.tensors[self._graph.inputs[index]])

    def output_tensorinfo(self, index: int) -> tensorinfo:
        """Returns shape and dtype of an output.

        The first axis is the batch size after train_prepare.

        Raises:
            IndexError: if there is no such output.
        """
        graph = self._lowered.graph
        return self._tensorinfo(graph.tensors[graph.outputs[index]])

    def _tensorinfo(self, tensor: Tensor) -> tensorinfo:
        shape = list(tensor.spec.shape)
        if self._trainer is not None and shape:
            shape[0] = self._trainer.info.batch_size
        return tensorinfo(tensor.spec.dtype, len(shape), shape)

    def train_get_traininfo(self) -> traininfo:
        """Returns the training info that was set, or else that of the model.

        Fields that the model does not have are 0.
        """
        if self._info is not None:
            return self._info
        stored = self._stored
        ops = stored.get("trainable_ops", ())
        return traininfo(
            stored.get("learning_rate", 0.0),
            stored.get("batch_size", 0),
            lossinfo(
                _number(loss, stored.get("loss")),
                _number(loss_reduction, stored.get("reduction")),
            ),
            _number(optimizer, stored.get("optimizer")),
            number_of_last(self._graph, ops) if stored else trainable_ops.NONE,
        )

    def train_set_traininfo(
        self, info: traininfo, hyper_parameters: Mapping[str, float] | None = None
    ) -> None:
        """Sets the training info.

        Args:
            info: training info with onert's fields.
            hyper_parameters: hyper-parameters of the optimizer, which onert's fields do not hold.
        """
        self._info = info
        self._hyper_parameters = hyper_parameters or {}

    def train_prepare(self) -> None:
        """Plans and allocates memory for training; weights that are already trained are kept.

        Raises:
            OptionError: if the training info is incomplete or does not fit the model.
            UnsupportedError: if the model cannot be trained.
        """
        info = self.train_get_traininfo()
        number = int(info.num_of_trainable_ops)
        # Operators of the file's training info that are not its last ones have no number.
        is_stored = number == trainable_ops.INCORRECT_STATE and "trainable_ops" in self._stored
        options: dict[str, Any] = {
            "learning_rate": info.learning_rate,
            "batch_size": info.batch_size,
            "loss": _word(info.loss_info.loss),
            "reduction": _word(info.loss_info.reduction_type),
            "optimizer": _word(info.opt),
        }
        for name, value in options.items():
            if value is None and name not in self._stored:
                raise OptionError(name, "must be in the training info", "none")
        if info.batch_size < 1:
            raise OptionError("batch_size", "must be 1 or more", info.batch_size)
        if number < trainable_ops.ALL and not is_stored:
            raise OptionError("num_of_trainable_ops", "must be −1 or more", number)
        last = None if is_stored else number
        request = Request(options, hyper_parameters=self._hyper_parameters, last=last)
        recipe = prepare(self._lowered, request)
        graphs = recipe.graphs
        if self._trainer is not None:
            self._trained = {i: data.copy() for i, data in self._weights().items()}
            tensors = list(graphs.graph.tensors)
            for i, data in self._trained.items():
                tensors[i] = tensors[i].with_values(data)
            graphs = LoweredGraphs(replace(graphs.graph, tensors=tuple(tensors)))
        self._close()
        self._trainer = Trainer(graphs, recipe.info, outputs=True)
        self._close = weakref.finalize(self, self._trainer.close)

    def train_set_learning_rate(self, value: float) -> None:
        """Sets the learning rate of the next steps; onert has no such function.

        Raises:
            OptionError: if the value is not above 0.
            RuntimeError: before train_prepare.
        """
        check_learning_rate(value)
        optimizer = self._prepared().parameters.optimizer
        assert optimizer is not None, "train_prepare makes it"
        optimizer.learning_rate = value

    def train_set_input(self, index: int, values: Array) -> None:
        """Sets the array from which the next steps read an input.

        Raises:
            DataError: if there is no such input.
        """
        _check_index("input", index, self.input_size())
        self._inputs[index] = values

    def train_set_expected(self, index: int, values: Array) -> None:
        """Sets the array from which the next steps read an expected output.

        Raises:
            DataError: if there is no such output.
        """
        _check_index("expected output", index, self.output_size())
        self._expecteds[index] = values

    def train_set_output(self, index: int, values: Array) -> None:
        """Sets the array to which the next steps write an output.

        Raises:
            DataError: if there is no such output.
        """
        _check_index("output", index, self.output_size())
        self._outputs[index] = values

    def train(self, update_weights: bool = True) -> None:
        """Runs one training step.

        Args:
            update_weights: whether to update the weights; otherwise only loss and outputs are
                computed.

        Raises:
            DataError: if arrays are missing or do not match the model.
            RuntimeError: before train_prepare.
            TrainingError: if the loss is NaN or infinite.
        """
        trainer = self._prepared()
        runtime = trainer.runtime
        inputs = _rows(self._inputs, runtime.input_specs, "input")
        expecteds = _rows(self._expecteds, runtime.target_specs, "expected output")
        lengths = {len(a) for a in inputs + expecteds}
        batch = trainer.info.batch_size
        if len(lengths) != 1 or not 0 < max(lengths) <= batch:
            raise DataError(
                f"step: all arrays must have one number of samples from 1 to {batch}, "
                f"but got {', '.join(map(str, sorted(lengths)))}"
            )

        def copy_outputs(program: Program, first: int, count: int) -> None:
            for index, out in self._outputs.items():
                y = program.outputs[index]
                rows = out[first : first + count]
                np.copyto(rows, y.reshape(rows.shape), casting="same_kind")

        data = _Arrays(inputs, expecteds)
        self._loss = trainer.step(data, lengths.pop(), update=update_weights, look=copy_outputs)

    def train_get_loss(self, index: int) -> float:
        """Returns the loss of the last step, before its update; NaN before the first step.

        Args:
            index: number of the output; 0 has the sum of all losses, others have 0.
        """
        return self._loss if index == 0 else 0.0

    def train_export_circle(self, path: Path) -> None:
        """Exports the trained model as Circle.

        Raises:
            ModelError: if the file cannot be written.
            RuntimeError: before train_prepare.
        """
        export_model(self._model, self._weights(), path, "circle")

    def train_export_circleplus(self, path: Path) -> None:
        """Exports the trained model as circle+, with the training info used.

        Raises:
            ModelError: if the file cannot be written.
            OptionError: if circle+ cannot hold the training info.
            RuntimeError: before train_prepare.
        """
        trainer = self._prepared()
        info = values_used(self._graph, trainer.info)
        export_model(self._model, self._weights(), path, "circle", info)

    def train_export_checkpoint(self, path: Path) -> None:
        """Saves a checkpoint (weights, optimizer state, step) in onert's format.

        Raises:
            ModelError: if the file cannot be written.
            RuntimeError: before train_prepare.
        """
        trainer = self._prepared()
        write_atomically(path, encode(trainer.graph, trainer.parameters))

    def train_import_checkpoint(self, path: Path) -> None:
        """Restores a checkpoint in onert's format.

        Raises:
            ModelError: if the file cannot be read, is damaged or belongs to another model.
            RuntimeError: before train_prepare.
        """
        trainer = self._prepared()
        data = read_input(path, "a checkpoint to read", ModelError)
        decode(data, os.fspath(path), trainer.graph, trainer.parameters)

    def _weights(self) -> dict[int, Array]:
        """Returns all weights that were trained, by tensor index."""
        return self._trained | self._prepared().weights()

    def _prepared(self) -> Trainer:
        if self._trainer is None:
            raise RuntimeError("training must be prepared first, but is not. Call compile().")
        return self._trainer


class _Arrays:
    """Samples in memory, as the trainer reads them."""

    def __init__(self, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        self.columns = (inputs, targets)
        self.weights: Weights | None = None

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        for column, outs in zip(self.columns, (inputs, targets), strict=True):
            for a, out in zip(column, outs, strict=True):
                out[...] = a[np.asarray(samples)]


def _check_index(what: str, index: int, count: int) -> None:
    """Raises DataError for the number of a tensor that the model does not have."""
    if not 0 <= index < count:
        raise DataError(f"{what} {index}: must be 0 … {count - 1}, of {count}")


def _rows(arrays: Mapping[int, Array], specs: Sequence[TensorSpec], what: str) -> list[Array]:
    """Reshapes the array of each tensor to (N, values per sample).

    Raises:
        DataError: if an array is missing, or its size or dtype does not match.
    """
    rows = []
    for index, spec in enumerate(specs):
        a = np.asarray(arrays.get(index, ()))
        if index not in arrays or not a.ndim or a.size != len(a) * spec.size:
            raise DataError(
                f"{what} {index}: must be samples of {spec}, but got {a.dtype}{list(a.shape)}"
            )
        if not np.can_cast(a.dtype, spec.dtype, "same_kind"):
            raise DataError(f"{what} {index}: must be {spec.dtype}, but got {a.dtype}")
        rows.append(a.reshape(len(a), -1))
    return rows


def _word(value: loss | loss_reduction | optimizer) -> str | None:
    return value.name.lower() if value else None


def _number(kind: type[Kind], word: str | None) -> Kind:
    return next((k for k in kind if k.name.lower() == word), kind(0))
