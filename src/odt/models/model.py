"""Model files: inputs, outputs, operators, parameters and training info."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from odt.arguments import checked_arguments
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.model import FORMATS, OTHER_SUFFIXES
from odt.core.model.model import Model as File
from odt.core.model.training_info import StoredInfo
from odt.core.recipe.interface import read_interface
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.recipe.option_values import words_of
from odt.core.recipe.selection import Selection
from odt.core.recipe.sequences import with_sequences
from odt.dataclass import dataclass
from odt.errors import OdtError, OptionError
from odt.habits import known_arguments, missing_attribute
from odt.text import Text, quantity

if TYPE_CHECKING:
    from odt.charts.plot import Plot
    from odt.core.lowering.low_rank import Adapters

Array: TypeAlias = np.ndarray[Any, Any]
Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a model.

    Attributes:
        name: name in the file.
        shape: shape in the file; the first axis of inputs and outputs is the batch, usually 1.
        dtype: element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """An operator of a model, in the order of the file.

    Attributes:
        index: position in the file, from 0.
        operator: operator name, such as CONV_2D.
        inputs: names of the tensors it reads.
        outputs: names of the tensors it writes.
    """

    index: int
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Parameters(dict[str, Array]):
    """Weights by name, shown with their shapes."""

    def __repr__(self) -> str:
        shown = (f"{name!r}: {a.shape} {a.dtype}" for name, a in self.items())
        return f"{{{', '.join(shown)}}}"

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Says what to write instead, for users of PyTorch."""
            raise TypeError(
                "odt.Model: `parameters` is a mapping, not a function. odt.Trainer(model) trains "
                "them."
            )


class Model:
    """A model file as read by `load_model`: Circle, circle+, TFLite or ONNX.

    Training does not change it: `Trainer.export` writes the trained model.

    A model that `lora` returns has low-rank adapters; its other attributes are those of the file.

    Attributes:
        path: path of the file.
        format: "circle", "tflite" or "onnx".
    """

    def __init__(self, file: File, adapters: "Adapters | None" = None) -> None:
        self._file = file
        self._adapters = adapters
        self.path = file.path
        self.format = file.format

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The model's inputs."""
        return self._tensors(self._file.graph.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The model's outputs."""
        return self._tensors(self._file.graph.outputs)

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """All tensors of the file."""
        return self._tensors(range(len(self._file.graph.tensors)))

    @property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """All operators of the file."""
        names = [t.name for t in self._file.graph.tensors]

        def named(indices: tuple[int, ...]) -> tuple[str, ...]:
            return tuple(names[i] for i in indices if i >= 0)

        return tuple(
            NodeInfo(n.origin, n.op, named(n.inputs), named(n.outputs))
            for n in self._file.graph.nodes
        )

    @property
    def parameters(self) -> Mapping[str, Array]:
        """Trainable weights by name, as read-only float32 arrays.

        The arrays are views of the file, or copies of weights that the file stores in another type.
        """
        from odt.core.recipe.inspection import inspect_graph

        graph = self._lowered.graph
        graphs = self._lowered.graphs
        trainable = sorted({i for each in inspect_graph(graphs).trained.values() for i in each})
        weights = Parameters()
        for i in trainable:
            tensor = graph.tensors[i]
            real = tensor.real
            assert real is not None, "only constants are trainable"
            real.flags.writeable = False
            name = tensor.name or str(i)
            weights[name if name not in weights else f"{name}#{i}"] = real
        return weights

    @property
    def training_info(self) -> StoredInfo | None:
        """Training info of a circle+ file: loss, optimizer, …; None if the file has none."""
        return stored_training_info(self._file)

    @checked_arguments
    def summary(
        self,
        *,
        patterns: str | Sequence[str] = (),
        freeze: str | Sequence[str] = (),
        bias_only: bool = False,
        freeze_norm: bool = False,
    ) -> str:
        """Text of `odt inspect`: operators with their shapes, parameters and training info.

        The arguments select the weights that are counted, as those of Trainable do.

        Args:
            patterns: one or several patterns of weights or operators; only weights that match one
                are counted.
            freeze: one or several patterns of weights or operators that are not counted.
            bias_only: whether only biases are counted.
            freeze_norm: whether to leave out batch normalization.

        Raises:
            OptionError: if a pattern matches no weight.
        """
        from odt.models.summary import describe

        texts = words_of("patterns", patterns), words_of("freeze", freeze)
        selection = Selection(*texts, bias_only, freeze_norm)
        return Text(describe(self._lowered, selection))

    def plot(self) -> "Plot":
        """Returns the image of the graph of the operators, as `odt inspect` draws it.

        Raises:
            OdtError: if the graph is too large.
        """
        from odt.models import model_html

        return model_html.plot(self._lowered)

    @checked_arguments
    def save(self, path: Path, *, float_weights: bool = False) -> None:
        """Writes the model file, as `odt convert` does; everything in it stays unchanged.

        Low-rank adapters are merged into the weights. The new file is read back and compared before
        it gets its name.

        Args:
            path: path of the new file; a suffix .tflite, .circle or .onnx selects the format.
                ONNX models are converted to the other two; no other model becomes ONNX.
            float_weights: whether to store float16, integer and sparse weights as float32;
                activations of integers become float32 too.

        Raises:
            ModelError: if the other format cannot represent the model, or the file cannot be
                written.
            OptionError: if `float_weights` is given for an ONNX model, or the suffix is that of
                another kind of file.
            UnsupportedError: if the model cannot be converted, or adapters would be merged into
                weights of 2 or 4 bits or in blocks.
        """
        from odt.core.export.exporter import export_model

        file_format = format_of(path, self.format)
        adapted = self._lowered.adapted if self._adapters is not None else None
        if adapted is not None and not float_weights:
            adapted.check_merge()
        weights = adapted.merged({}) if adapted else {}
        export_model(
            self._file,
            weights,
            path,
            file_format,
            float_weights=float_weights,
            merged=weights.keys(),
        )

    @checked_arguments
    def save_package(self, folder: Path, config: Path | None = None) -> None:
        """Writes an nnpackage, as `odt package` does: a copy of the model's file and a MANIFEST.

        Args:
            folder: folder of the package; it and its parents are created, and other files in it
                are kept.
            config: file of runtime configuration to add, with lines key=value.

        Raises:
            ModelError: if the model is not a Circle or TFLite file, or a file cannot be written.
        """
        import pathlib

        from odt.core.formats.nnpackage import write_package

        self._file.check_flatbuffer("odt package")
        config_path = None if config is None else pathlib.Path(config)
        write_package(pathlib.Path(self.path), self.format, pathlib.Path(folder), config_path)

    @checked_arguments
    def save_adapters(self, path: Path) -> None:
        """Writes the low-rank adapters of a model that `lora` returned.

        Args:
            path: path of the new file: an .npz; adapter_model.safetensors, beside which
                adapter_config.json is then written, as PEFT reads them; or a .gguf for llama.cpp,
                if the model was converted from GGUF.

        Raises:
            OptionError: if the model has no adapters.
            DataError: if the file cannot be written.
        """
        if self._adapters is None:
            rule = "must be a model with adapters"
            raise OptionError("model", rule, self.path, "Make them with `odt.lora`.")
        from odt.core.export.adapter_file import write_adapters

        write_adapters(path, self._adapters, self._lowered.graph, self._file)

    def __repr__(self) -> str:
        graph = self._file.graph
        return f"Model({self.path!r}, {self.format}, {quantity(len(graph.nodes), 'operator')})"

    def _repr_html_(self) -> str:
        from odt.models import model_html

        return model_html.html(self._lowered)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(name, lambda: dir(Model), "odt.Model", "Model")

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Says what to write instead, for users of Keras and PyTorch."""
            raise TypeError("odt.Model: cannot be called. odt.predict(model, x) computes outputs.")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise OdtError(
            "odt.Model: must be neither pickled nor copied, as it maps its file. Give its path."
        )

    @cached_property
    def _lowered(self) -> LoweredModel:
        """The file with float32 weights; all trainers of this model share its lowered graphs."""
        return lower_model(self._file, self._adapters)

    def _tensors(self, indices: Any) -> tuple[TensorInfo, ...]:
        tensors = [self._file.graph.tensors[i] for i in indices]
        return tuple(TensorInfo(t.name, t.spec.shape, t.spec.dtype) for t in tensors)


@known_arguments()
@checked_arguments
def load_model(
    path: Path,
    adapters: Path | None = None,
    *,
    signature: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    sequence_length: int | None = None,
    return_sequences: bool = False,
    max_detections: int | None = None,
    anchors: str | None = None,
) -> Model:
    """Reads a model file.

    Args:
        path: a .circle, circle+, .tflite or .onnx file, or a folder with an nnpackage.
        adapters: path of a file of low-rank adapters that were made for the model: an .npz of odt,
            PEFT's adapter_model.safetensors or its folder, whose modules have the names of weights,
            or a .gguf.
        signature: name of the signature to use, if the file has several. Default: the first
            subgraph.
        input_shapes: mapping from names of inputs to their shapes (1, …), for inputs whose shape
            the file leaves open. The first axis is the batch. Names in the signature are accepted,
            too.
        input_values: mapping from names of inputs to values, for inputs that are the same for all
            samples, such as a sampling rate. These inputs become constants, and choose the branches
            that depend on them.
        sequence_length: number of time steps in a sample of a streaming model, which keeps state
            from one run to the next. Inputs then have the shape (N, sequence_length, …).
        return_sequences: whether a streaming model returns the outputs of all time steps, (N,
            sequence_length, …), instead of the outputs of the last one, (N, …).
        max_detections: largest number of boxes that a detector with TFLite_Detection_PostProcess
            returns for a sample, in files that are written. Default: the number in the file.
        anchors: anchors of a detector whose file has none, such as "mediapipe:8,16,16,16" for the
            anchors of MediaPipe's layers with these strides. Default: the anchors in the file.

    Raises:
        ModelError: if the file cannot be read or is damaged, or the adapters are another model's.
        DataError: if the adapters cannot be read.
        OptionError: if there is no such signature or input, a shape or value does not fit its
            input, `sequence_length` is given for a model without state, `max_detections` for one
            without the operator, or `anchors` do not fit the model's outputs.
    """
    file = read_interface(path, signature, input_shapes, input_values)
    file = with_sequences(file, sequence_length, return_sequences)
    if max_detections is not None:
        from odt.core.export.detection_counts import with_max_detections

        file = with_max_detections(file, max_detections)
    if anchors is not None:
        from odt.tasks.stated_anchors import recognize

        recognize(file, anchors)  # refuses anchors that do not fit, and other models
        file = replace(file, anchors=anchors)
    if adapters is None:
        return Model(file)
    from odt.core.export.adapter_file import read_adapters

    model = Model(file, read_adapters(adapters, file, lambda: lower_model(file).graph))
    _ = model._lowered  # checks that the adapters are this model's
    return model


def file_of(model: Model | Path) -> File:
    """Returns the file of a model, or reads the file at a path."""
    return model._file if isinstance(model, Model) else read_model(model)


def lowered_of(model: Model | Path) -> LoweredModel:
    """Returns the lowered model of a model, or of the file at a path."""
    loaded = model if isinstance(model, Model) else load_model(model)
    return loaded._lowered


def computed_of(model: Model) -> LoweredModel:
    """Returns the lowered model with all outputs of the file that odt computes.

    `lowered_of` returns those that training needs. Adapters are merged into the weights.
    """
    if model._adapters is None:
        return lower_model(model._file, outputs="computed")
    trained = model._lowered
    if trained.left_out is None or trained.adapted is None:
        return trained
    return lower_model(model._file, outputs="computed").with_weights(trained.adapted.merged({}))


def forget_lowered(model: Model) -> None:
    """Frees the float32 weights of a model, which are computed again when they are needed."""
    model.__dict__.pop("_lowered", None)


@checked_arguments
def read_training_info(model: Model | Path) -> StoredInfo | None:
    """Reads the training info of a circle+ file: loss, optimizer, …; None if it has none.

    Args:
        model: a model or the path of its file.

    Raises:
        ModelError: if the file cannot be read or is damaged.
    """
    return stored_training_info(file_of(model))


def format_of(path: Path, default: str) -> str:
    """Returns the format that the suffix of a new model file names, or else the default.

    Raises:
        OptionError: if the suffix is that of another kind of file, such as .h5.
    """
    suffix = os.path.splitext(os.fsdecode(path))[1].lower()
    if suffix in OTHER_SUFFIXES:
        rule = "must end in " + " or ".join(f".{name}" for name in FORMATS)
        raise OptionError("path", rule, path)
    return suffix[1:] if suffix[1:] in FORMATS else default
