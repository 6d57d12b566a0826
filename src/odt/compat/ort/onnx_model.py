"""The training and evaluation model of a folder with artifacts of an ONNX model."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from glob import escape
from typing import Any

from odt.compat.ort.inference_model import inference_model
from odt.compat.ort.loss_graph import LossGraph, Term
from odt.compat.ort.onnx_source import refuse_ort
from odt.compat.ort.onnx_state import OnnxState
from odt.compat.ort.optimizer_model import DEFAULT_RATE, read_optimizer_model
from odt.compat.ort.steps import Batch, Steps
from odt.compat.ort.term_targets import LINEAR, register_linear_loss, targets_of
from odt.compat.ort.trainer_state import TrainerState
from odt.core.formats.reader import read_model
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import ONNX
from odt.core.model.model import Model as File
from odt.core.model.onnx import PREFIX, OnnxNode
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.option_values import check_learning_rate
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import reading
from odt.errors import DataError, ModelError, OptionError, UnsupportedError
from odt.kernels.loss_text import stored_loss
from odt.kernels.rows.opdef import TensorSpec
from odt.models.model import Model, file_of
from odt.training.trainable import Trainable
from odt.training.trainer import Trainer
from odt.training.weights import Array

Path = str | os.PathLike[str]
BATCH_NORM = f"{PREFIX}BatchNormalization"
ACCUMULATES = f"{PREFIX}com.microsoft.InPlaceAccumulatorV2"  # in a graph with gradients
NO_OPTIMIZER: Mapping[str, Any] = {"optimizer": "sgd", "learning_rate": DEFAULT_RATE}


class OnnxModel:
    """A model with its loss, and the trainer that runs it.

    The trainer is made for the shapes of the first batch, and again for others.

    Args:
        file: the evaluation model.
        state: the state, whose parameters are inputs of the model.
        options: further arguments of odt.Trainer.

    Attributes:
        uri: path of the file.
        file: the evaluation model.
        state: the state.
        input_names: names of the arguments of a call.
        output_names: names of the results of a call.
        optimizer: arguments of odt.Trainer.
        steps: steps of the trainer.
    """

    def __init__(self, file: File, state: OnnxState, **options: Any) -> None:
        self.uri = file.path
        self.file = file
        self.state = state
        self._options = options
        graph = file.graph
        names = {i: graph.tensors[i].name for i in graph.inputs}
        shapes = {names[i]: graph.tensors[i].spec.shape for i in graph.inputs}
        state.arrange([*names.values()], shapes)
        self._parameters = {n: i for i, n in names.items() if n in state.parameters}
        self.input_names = [n for n in names.values() if n not in self._parameters]
        self.output_names = [graph.tensors[i].name for i in graph.outputs]
        self.optimizer: Mapping[str, Any] = NO_OPTIMIZER
        self.steps = Steps()
        self._rate = DEFAULT_RATE
        self._trainer: Trainer | None = None
        self._live: TrainerState | None = None
        self._key: tuple[Any, ...] = ()  # shapes for which the trainer was made
        self._last: tuple[bool, list[Any]] | None = None  # whether to train, and shapes, last time
        self._terms: list[Term] = []
        self._constant = 0.0
        self._inputs: list[str] = []  # of the graph that trains
        self._places: dict[int, int] = {}  # tensor → its number among the trainer's outputs
        self._read: list[int] = []  # tensors of the file that the loss reads

    # ---- calls

    def batch(self, arrays: Sequence[Array], *, train: bool) -> Batch:
        """Returns the arguments of a call as samples, for which the trainer then fits.

        Args:
            arrays: the arguments.
            train: whether they are for a step of training, which runs in whole batches.

        Raises:
            DataError: if they do not fit the model.
        """
        values = dict(zip(self.input_names, arrays, strict=True))
        self._fit(values, train=train)
        tensors = self.file.graph.tensors
        samples = _samples(a.shape for a in arrays)

        def argument(i: int) -> tuple[str, Array]:
            return tensors[i].name, values[tensors[i].name]

        specs = self.trainer.session.samples.target_specs
        pairs = zip(self._terms, specs, strict=True)
        y = [targets_of(term, argument, spec, samples) for term, spec in pairs]
        factor = float(samples) if self._terms[0].loss and self._terms[0].is_sum else 1.0
        arguments = None
        if all(term.loss for term in self._terms):
            names = [*self._inputs, *(tensors[term.target].name for term in self._terms)]
            arguments = [self.input_names.index(n) for n in names]
        x = [values[n] for n in self._inputs]
        return Batch(x, y, None, factor, self._constant, arguments)

    @property
    def size(self) -> int:
        """Largest number of samples that the trainer takes at once."""
        return self.trainer.session.recipe.info.batch_size

    def plan(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Plans training for shapes of inputs; those of the file for others.

        Raises:
            UnsupportedError: if odt cannot train the model.
        """
        self._make(shapes)
        self.trainer.session.build()

    @property
    def trainer(self) -> Trainer:
        """The trainer; of the shapes in the file if there was no batch yet."""
        if self._trainer is None:
            self._make({})
        assert self._trainer is not None, "_make sets it"
        return self._trainer

    @property
    def additional(self) -> list[int]:
        """Numbers of the additional outputs among those of the trainer."""
        return [self._places[i] for i in self.file.graph.outputs[1:]]

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update; can be set."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if value != 0:
            check_learning_rate(value)
        self._rate = value
        if self._trainer is not None:
            self._trainer.learning_rate = value

    def gradient(self, name: str) -> Array | None:
        """Returns a copy of the summed gradient of a parameter, as in the file; None for none."""
        if self._trainer is None or self._live is None:
            return None
        values = self.steps.gradient(self._trainer, name)
        return None if values is None else self._live.to_file(name, values)

    def export(self, path: Path, names: Sequence[str]) -> None:
        """Writes the model with the current parameters.

        Args:
            path: path of the new file.
            names: names of its outputs.

        Raises:
            OptionError: if there is no tensor of a name.
            ModelError: if the file cannot be written.
        """
        if os.path.splitext(path)[1].lower() in (".ort", ".tflite", ".circle"):
            raise ModelError(
                f"{os.fspath(path)}: must be the name of an .onnx file, but got another. `odt "
                "convert` writes other formats."
            )
        graph = self.file.graph
        tensors = [t.name for t in graph.tensors]
        results = {tensors[i] for node in graph.nodes for i in node.outputs}
        unknown = [n for n in names if n not in results]
        if unknown or not names:
            ends = ", ".join(tensors[i] for i in self._ends())
            rule = "must be tensors that the model computes"
            raise OptionError("graph_output_names", rule, unknown or "none", f"Such as {ends}.")
        values = {n: self.state.get(n) for n in self._parameters}
        write_atomically(path, inference_model(self.file.data, names, values))

    def _ends(self) -> list[int]:
        """Returns what the loss reads, and the additional outputs."""
        if not self._terms:
            _ = self.trainer  # makes it, which finds the terms of the loss
        return list(dict.fromkeys([*self._read, *self.file.graph.outputs[1:]]))

    def close(self) -> None:
        """Ends the worker threads."""
        if self._trainer is not None:
            self._trainer.close()

    # ---- the trainer

    def _fit(self, values: Mapping[str, Array], *, train: bool) -> None:
        """Makes a trainer for the shapes of a batch unless there is one."""
        last = train, [a.shape for a in values.values()]
        if self._trainer is not None and last == self._last:
            return
        graph = self.file.graph
        for i in graph.inputs:
            tensor = graph.tensors[i]
            if tensor.name in values:
                _check_shape(tensor.name, values[tensor.name], tensor.signature)
        key = tuple(a.shape[1:] for a in values.values())
        fits = self._trainer is not None and key == self._key
        if fits and train:
            fits = _samples(a.shape for a in values.values()) <= self.size
        if not fits:
            self.drop()
            self._make({n: a.shape for n, a in values.items()})
            self._key = key
        self._last = last

    def _make(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Makes a trainer for shapes of inputs; those of the file for others."""
        state = self.state
        bound = self._bound(shapes)
        with reading(self.uri, "must be a model with its loss", ModelError):
            split = LossGraph(bound, self.file.graph.outputs[0])
        self._terms, self._constant = split.terms, split.constant
        additional = self.file.graph.outputs[1:]
        ends = [t.tensor for t in split.terms]
        ends += [i for i in dict.fromkeys(additional) if i not in ends]
        self._places = {i: k for k, i in enumerate(ends)}
        self._read = [self._in_file(i, split.graph) for i in ends[: len(split.terms)]]
        graph = _cut(split.graph, ends)
        self._inputs = [graph.tensors[i].name for i in graph.inputs]
        register_linear_loss()
        losses = {str(k): "none" for k in range(len(ends))}
        weights: dict[str, float] = {}
        for k, term in enumerate(split.terms):
            losses[str(k)] = stored_loss(term.loss) if term.loss else LINEAR
            weights[str(k)] = term.factor if term.loss else 1.0
        if not graph.inputs:
            raise ModelError(f"{self.uri}: the loss must depend on an input, but got none.")
        declared = (graph.tensors[i].signature for i in graph.inputs)
        batch = _samples(shapes.values() or declared)
        model = Model(replace(self.file, graph=graph))
        make = partial(self._trainer_of, model, losses, batch)
        self._trainer = make(weights)
        # ONNX adds up all values of a sum, odt the means of samples.
        if split.terms[0].loss and split.terms[0].is_sum:
            for k, spec in enumerate(self._trainer.session.samples.target_specs):
                weights[str(k)] *= max(spec.size, 1)
            self._trainer = make(weights)
        self._trainer.session.outputs = len(self.file.graph.outputs) > 1
        state.live = self._live = TrainerState(self._trainer, state, self.drop)
        self._trainer.learning_rate = self._rate

    def _in_file(self, i: int, graph: Graph) -> int:
        """Returns the tensor of the file from which nodes that terms added compute tensor i."""
        count = len(self.file.graph.tensors)
        operands = {node.outputs[0]: node.inputs[0] for node in graph.nodes}
        while i >= count:
            i = operands[i]
        return i

    def _trainer_of(
        self, model: Model, losses: Mapping[str, str], batch: int, weights: Mapping[str, float]
    ) -> Trainer:
        """Returns the trainer of a graph with these losses; refuses one that trains on others."""
        file = file_of(model)
        normalizes = any(node.op == BATCH_NORM for node in file.graph.nodes)
        trainer = Trainer(
            model,
            trainable=Trainable(patterns=tuple(map(escape, self.state.trained))),
            output_losses=losses,
            loss_weights=weights,
            batch_size=batch,
            batch_norm="batch" if normalizes else "fixed",
            **self.optimizer,
            **self._options,
        )
        lowered = trainer.session.recipe.lowered
        if lowered.left_out is not None:  # a loss of other tensors than the file says
            lower_model(file, outputs="file").graphs.check()
            text = describe_left_out(lowered)
            raise UnsupportedError(f"{self.uri}: a loss must read what the model says, but {text}")
        return trainer

    def _bound(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """Returns the graph with the parameters as constants, and with shapes of inputs."""
        graph = self.file.graph
        tensors = list(graph.tensors)
        for name, i in self._parameters.items():
            values = self.state.constant(name)
            tensors[i] = replace(tensors[i], data=values, signature=values.shape)
        for i in graph.inputs:
            shape = shapes.get(tensors[i].name)
            if shape is not None:
                sizes = (tensors[i].spec.shape[0], *shape[1:]) if shape else shape
                spec = TensorSpec(sizes, tensors[i].spec.dtype)
                tensors[i] = replace(tensors[i], spec=spec)
        inputs = tuple(i for i in graph.inputs if i not in self._parameters.values())
        nodes = tuple(map(self._normalizing, graph.nodes))
        return replace(graph, tensors=tuple(tensors), nodes=nodes, inputs=inputs)

    def _normalizing(self, node: Node) -> Node:
        """Returns a node whose running statistics stay if they are no parameters."""
        statistics = set(node.inputs[3:5])
        if node.op != BATCH_NORM or not statistics.isdisjoint(self._parameters.values()):
            return node
        source: OnnxNode = node.options["onnx"]
        source = replace(source, attributes={**source.attributes, "momentum": 1.0})
        return replace(node, options={**node.options, "onnx": source})

    def drop(self) -> None:
        """Ends the trainer, whose values the state takes over."""
        self.state.take()
        if self._trainer is not None:
            self.steps.carry(self._trainer)
            self._trainer.close()
        self._trainer = None

    def use_optimizer(self, path: Path) -> None:
        """Trains with the optimizer of a file from now on."""
        optimizer = read_optimizer_model(path)
        if optimizer != self.optimizer:
            self.drop()
            self.optimizer = optimizer
            self._rate = optimizer["learning_rate"]


def read_onnx_model(
    train_uri: Path, eval_uri: Path | None, state: OnnxState, **options: Any
) -> OnnxModel:
    """Reads training_model.onnx and eval_model.onnx.

    Raises:
        ModelError: if a file cannot be read, or the files do not belong together.
    """
    train = _read(train_uri, "a training model")
    has_gradients = any(n.op == ACCUMULATES for n in train.graph.nodes)
    if eval_uri is None:
        if has_gradients:
            raise ModelError(
                f"{train.path}: a training model of ONNX Runtime must come with its evaluation "
                "model, because odt makes its own gradients. Give eval_model.onnx, too."
            )
        return OnnxModel(train, state, **options)
    evaluation = _read(eval_uri, "an evaluation model")
    names = {train.graph.tensors[i].name for i in train.graph.inputs}
    others = (evaluation.graph.tensors[i].name for i in evaluation.graph.inputs)
    missing = [name for name in others if name not in names]
    if missing and not has_gradients:
        raise ModelError(
            f"{evaluation.path}: must belong to {train.path}, but that has no input {missing[0]}. "
            "Give files of one folder."
        )
    return OnnxModel(evaluation, state, **options)


def _read(path: Path, what: str) -> File:
    refuse_ort(path)
    file = read_model(path)
    if file.format != ONNX or not file.graph.outputs:
        raise ModelError(f"{file.path}: must be {what} in ONNX, but got {file.format}.")
    return file


def _cut(graph: Graph, ends: Sequence[int]) -> Graph:
    """Returns what computes tensors of a graph, without inputs that only the loss reads."""
    tensors = set(ends)
    nodes = []
    for node in reversed(graph.nodes):
        if tensors.intersection(node.outputs):
            nodes.append(node)
            tensors.update(i for i in node.inputs if i != ABSENT)
    inputs = tuple(i for i in graph.inputs if i in tensors)
    return replace(graph, nodes=tuple(reversed(nodes)), inputs=inputs, outputs=tuple(ends))


def _samples(shapes: Iterable[Sequence[int]]) -> int:
    """Returns the number of samples of arrays: the length of the longest first axis."""
    return max((shape[0] for shape in shapes if shape and shape[0] > 0), default=1)


def _check_shape(name: str, values: Array, signature: Sequence[int]) -> None:
    fits = len(values.shape) == len(signature) and all(
        s < 0 or n == s for n, s in zip(values.shape, signature, strict=True)
    )
    if not fits:
        shape = ", ".join("N" if s < 0 else str(s) for s in signature)
        raise DataError(f"{name}: must be ({shape}), but got {values.shape}.")
