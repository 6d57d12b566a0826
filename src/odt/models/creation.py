"""New models whose shapes follow from data."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any, Literal, TypeAlias

import numpy as np

from odt.arguments import checked_arguments
from odt.core.data.array_columns import array_columns
from odt.core.data.column import Column
from odt.core.data.columns import open_columns
from odt.core.data.sidecar import Sidecar, sidecar_path
from odt.core.export.new_model import NewModel, Scaling, Sizes, build_model
from odt.core.formats.file_kinds import HDF5, NPY, START, ZIP, file_kind
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.recipe.option_values import whole_numbers
from odt.core.storage.reading import open_input, reading
from odt.dataclass import dataclass
from odt.datasets.statistics import open_any
from odt.errors import DataError, OptionError
from odt.habits import known_arguments
from odt.kernels.rows.opdef import TensorSpec
from odt.models.model import Model, Path

Kind: TypeAlias = Literal["mlp", "cnn", "ds-cnn", "autoencoder", "lstm"]
Activation: TypeAlias = Literal["softmax", "sigmoid", "linear"]
FileFormat: TypeAlias = Literal["tflite", "circle"]
Array: TypeAlias = np.ndarray[Any, Any]
FLOAT32 = np.dtype(np.float32)
STANDARDIZED = "mean and std"  # a step of gen-datafile
CONSTANT = 1e-6  # standard deviation up to which a feature counts as constant, relative to the mean


@dataclass(frozen=True, slots=True)
class Form:
    """Form of a model for given data.

    Attributes:
        inputs: the inputs, as float32.
        targets: the targets, in their own dtype; None without targets.
        path, target_path: files of inputs and targets; empty for arrays.
        output_shape: shape of a sample of the output; empty without targets.
        activation: softmax, sigmoid or linear.
        loss: default loss for the targets.
        classes: names of the classes; empty if they are not known.
        standardized: whether the inputs were standardized when the file was made.
        boxes: names of the classes of boxes, if the targets are boxes.
    """

    inputs: Column
    targets: Column | None = None
    path: str = ""
    target_path: str = ""
    output_shape: tuple[int, ...] = ()
    activation: str = "linear"
    loss: str = "mean_squared_error"
    classes: tuple[str, ...] = ()
    standardized: bool = False
    boxes: tuple[str, ...] = ()


def form_of(like: Path | tuple[Any, Any]) -> Form:
    """Finds the form of data.

    Args:
        like: path of a data file, of a folder of gen-datafile with the split train, or a pair of
            arrays (inputs, targets). The targets of a file are in the file that its JSON file
            names, or in the file with "output" for "input" in its name.

    Raises:
        DataError: if the data cannot be read, have several inputs or targets, or arrays have
            different numbers of samples.
    """
    if isinstance(like, tuple):
        x, y = (_array_column(a, name) for a, name in zip(like, "xy", strict=True))
        if x.length != y.length:
            raise DataError(
                f"y: must hold as many samples as x, {x.length:,}, but holds {y.length:,}."
            )
        return _with_targets(Form(_as_float(x, None)), y, None, "")
    path = _input_file(os.fspath(like))
    column, sidecar = _open_one(path)
    steps = sidecar.recipe.get("preprocessing", ()) if sidecar else ()
    form = Form(
        _as_float(column, path),
        path=path,
        standardized=any(step.get("step") == STANDARDIZED for step in steps),
    )
    other = _target_path(path, sidecar)
    if not other:
        return form
    targets, target_sidecar = _open_one(other)
    return _with_targets(form, targets, target_sidecar or sidecar, other)


@known_arguments()
@checked_arguments
def new_model(
    kind: Kind,
    *,
    like: Path | tuple[Any, Any] | None = None,
    input_shape: Sequence[int] | None = None,
    outputs: int | Sequence[int] | None = None,
    activation: Activation | None = None,
    hidden: Sequence[int] | None = None,
    filters: Sequence[int] | None = None,
    blocks: int | None = None,
    units: Sequence[int] | None = None,
    unroll: bool = False,
    normalize: bool = False,
    seed: int = 0,
    file_format: FileFormat = "tflite",
) -> Model:
    """Makes a small model with random weights, to train from scratch.

    Args:
        kind: mlp: fully connected layers; cnn: convolutions of 3×3, each with max pooling; ds-cnn:
            depthwise-separable convolutions; autoencoder: fully connected layers whose target is
            the input; lstm: recurrent layers over time, the first axis of a sample.
        like: data that the model will be trained on: path of a data file or of a folder of
            gen-datafile, or a pair of arrays (x, y). It determines input shape, outputs and
            activation.
        input_shape: shape of a sample, if `like` is left out.
        outputs: number of classes or values of the output, or the shape of a sample of it.
        activation: softmax if each sample has one class, sigmoid if classes do not exclude each
            other, linear for regression. Default: as in `like`, else softmax.
        hidden: units of the hidden layers. Default: 128 for an mlp, 64 for a cnn, none for an
            lstm, 64 and 16 for the encoder of an autoencoder, whose decoder mirrors it.
        filters: output channels of the convolutions. Default: 16, 32, 64, 64, … for a cnn, at
            least two, until height or width is at most 8; 64 for a ds-cnn.
        blocks: number of depthwise-separable convolutions. Default: 4.
        units: units of the LSTM layers. Default: one layer of 32.
        unroll: whether LSTM layers have operators for each time step, which all runtimes know;
            otherwise each is one operator, which LiteRT's CompiledModel, OpenVINO and others
            refuse.
        normalize: whether the first layers subtract the mean and divide by the standard deviation
            of each feature or channel of `like`; for linear outputs, the last layers invert this
            for the targets.
        seed: random seed of the weights.
        file_format: "tflite" or "circle".

    Returns:
        The model, for a batch of 1 sample; `save` writes it.

    Raises:
        OptionError: if arguments contradict each other or do not describe a model.
        DataError: if the data cannot be read.
    """
    if (like is None) == (input_shape is None):
        actual = "none" if like is None else "both"
        raise OptionError("like, input_shape", "one of them must be given", actual)
    form = form_of(like) if like is not None else None
    shape = (
        (form.inputs.spec.shape or (1,)) if form else whole_numbers("input_shape", input_shape, 1)
    )
    if kind == "autoencoder":
        if outputs is not None or activation not in (None, "linear"):
            rule = "must be left out for an autoencoder, whose output is its input"
            raise OptionError("outputs, activation", rule, f"{outputs}, {activation}")
        output_shape = shape
        activation = "linear"
    elif outputs is not None:
        several = outputs if isinstance(outputs, Iterable) else [outputs]
        output_shape = whole_numbers("outputs", several, 1)
    elif form and form.output_shape:
        output_shape = form.output_shape
    else:
        raise OptionError("outputs", "must be given if there are no targets", "none")
    default = form.activation if form and form.output_shape == output_shape else "softmax"
    listed = {
        name: None if sizes is None else whole_numbers(name, sizes, 1)
        for name, sizes in (("hidden", hidden), ("filters", filters), ("units", units))
    }
    sizes = Sizes(**listed, blocks=blocks, unroll=unroll or None)
    new = NewModel(kind, shape, output_shape, activation or default, sizes, seed=seed)
    if normalize:
        new = _normalized(new, form)
    return Model(parse_model(memoryview(build_model(new, file_format)), f"new {kind}"))


def _normalized(new: NewModel, form: Form | None) -> NewModel:
    """Returns the model with layers that normalize inputs and scale linear outputs to the data."""
    if form is None:
        raise OptionError("normalize", "must be given with `like=`", "no data")
    if form.standardized:
        rule = "must be left out for data that gen-datafile has standardized"
        raise OptionError("normalize", rule, form.inputs.name)
    inputs = scaling_of(form.inputs)
    outputs: Scaling | None = inputs
    if new.kind != "autoencoder":
        fits = new.activation == "linear" and new.output_shape == form.output_shape
        targets = form.targets if fits else None
        spec = TensorSpec(new.output_shape, FLOAT32)
        outputs = scaling_of(replace(targets, spec=spec)) if targets else None
    return replace(new, inputs=inputs, outputs=outputs)


def scaling_of(column: Column) -> Scaling:
    """Returns mean and standard deviation along the last axis; a deviation of 0 becomes 1.

    Args:
        column: float32 samples.

    Raises:
        DataError: if there are values that are not finite.
    """
    features = column.spec.shape[-1] if column.spec.shape else 1
    moments: list[Array] = []
    for power in (1, 2):
        total = np.zeros(features)
        mean = moments[0] if moments else 0.0  # the second moment is about the first
        for _, rows in column.blocks():
            values = rows.reshape(-1, features).astype(np.float64) - mean
            total += (values**power).sum(axis=0)
        moments.append(total / (column.length * max(1, column.spec.size // features)))
    mean, std = moments[0], np.sqrt(moments[1])
    if not np.isfinite(std).all():
        raise DataError(
            f"{column.name}: must hold only finite values to normalize, but got others."
        )
    return Scaling(mean, np.where(std > CONSTANT * np.maximum(1, abs(mean)), std, 1.0))


def _input_file(path: str) -> str:
    """Returns the path, or that of the training inputs if it is a folder."""
    if not os.path.isdir(path):
        return path
    paths = sorted(str(p) for p in File(path).glob("train.input*") if p.suffix != ".json")
    if len(paths) != 1:
        raise DataError(
            f"{path}: a folder must hold one file train.input…, but got {len(paths)}. Give the "
            "file of the inputs."
        )
    return paths[0]


def _open_one(path: str) -> tuple[Column, Sidecar | None]:
    """Opens a data file of one array; returns it with the content of its JSON file."""
    with open_input(path) as f, reading(path, "must be a readable file"):
        start = f.read(START)
    has_header = start.startswith((HDF5, NPY, ZIP))
    if not has_header and not os.path.exists(sidecar_path(path)):
        kind = file_kind(start, FLOAT32.itemsize)
        actual = "a raw file without one. Make data files with odt gen-datafile."
        if kind:
            actual = kind.instead_of_data(path)
        raise DataError(f"{path}: must have its JSON, or be .npy, .npz or HDF5, but is {actual}")
    columns, sidecar = open_any(path)
    if len(columns) != 1:
        raise DataError(
            f"{path}: must hold one array for a new model with one input and one output, but got "
            f"{len(columns)}."
        )
    return columns[0], sidecar


def _array_column(values: Any, name: str) -> Column:
    """Returns an array (N, …) as a column with its own shape and dtype.

    Raises:
        DataError: if it is no array of numbers, or has no samples.
    """
    with reading(name, "must be an array of numbers"):
        array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: must be an array of numbers, but got {array.dtype}.")
    if not array.size:
        raise DataError(f"{name}: must hold samples, but holds none.")
    (column,) = array_columns([array], [TensorSpec(array.shape[1:], array.dtype)], name)
    return column


def _as_float(column: Column, path: str | None) -> Column:
    """Returns the column as a model reads it: float32, scaled as the file's JSON file says."""
    spec = TensorSpec(column.spec.shape, FLOAT32)
    if path is None:
        return replace(column, spec=spec)
    return open_columns(path, [spec], "input")[0]


def _target_path(path: str, sidecar: Sidecar | None) -> str:
    """Returns the file of targets next to a file of inputs; empty if there is none."""
    files = sidecar.recipe.get("files", {}) if sidecar else {}
    folder, base = os.path.split(path)
    name = File(str(files.get("output", ""))).name or base.replace("input", "output")
    other = os.path.join(folder, name)
    return other if name != base and os.path.isfile(other) else ""


def _with_targets(form: Form, targets: Column, sidecar: Sidecar | None, path: str) -> Form:
    """Finds output shape, activation and loss from the values of the targets."""
    boxes = sidecar.recipe.get("boxes") if sidecar else None
    if boxes:
        names = tuple(boxes.get("classes", ()))
        return replace(form, targets=targets, target_path=path, boxes=names)
    spec = targets.spec
    shape = spec.shape or (1,)
    updated = replace(form, targets=targets, target_path=path, output_shape=shape)
    names = sidecar.classes or tuple(sidecar.recipe.get("tags", ())) if sidecar else ()
    updated = replace(updated, classes=names if len(names) == shape[-1] else ())
    if spec.dtype.kind in "iub" and spec.size == 1:
        most = max(int(rows.max()) for _, rows in targets.blocks())
        count = max(len(names), most + 1, 2)
        return replace(
            updated,
            output_shape=(count,),
            classes=names if len(names) == count else (),
            activation="softmax",
            loss="sparse_categorical_crossentropy",
        )
    is_one_hot = True
    for _, rows in targets.blocks():
        if not np.isin(rows, (0, 1)).all():
            return updated
        is_one_hot = is_one_hot and bool((rows.sum(axis=1) == 1).all())
    if is_one_hot and len(shape) == 1 and math.prod(shape) > 1:
        return replace(updated, activation="softmax", loss="categorical_crossentropy")
    return replace(updated, activation="sigmoid", loss="binary_crossentropy")
