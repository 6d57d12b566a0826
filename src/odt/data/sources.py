"""Data for a trainer: arrays, data files, map-style data sets and iterables of batches."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from odt.core.data import dataset
from odt.core.data.array_columns import Quantizations, array_columns, with_note
from odt.core.data.column import Column, SampleShapeError
from odt.core.data.protocol import SampleOrder
from odt.core.data.sample_weights import (
    WEIGHT,
    ClassWeights,
    class_weights,
    read_weights,
    weigh_classes,
)
from odt.core.model.tensor_names import TensorNames, numbered_names
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.runtime.runtime import Runtime
from odt.core.storage.reading import reading
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import TensorSpec

if TYPE_CHECKING:
    from odt.core.model.record import Record

Array: TypeAlias = np.ndarray[Any, Any]
ClassWeight: TypeAlias = str | Mapping[int, float]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs and targets of the same samples, in memory or in files.

    Attributes:
        x: inputs: an array, a sequence or mapping of arrays for several inputs, or the path of a
            raw, .npy, .npz or HDF5 file. The first axis of an array counts samples.
        y: targets, in any of these forms; None for prediction.
        ignore_rest: whether to ignore bytes after the last whole sample of a raw file, as
            onert_train does, instead of refusing the file.
    """

    x: Any
    y: Any = None
    ignore_rest: bool = False


def recorded(x: Any) -> "Record | None":
    """Reads the preprocessing record next to the data file of the inputs; None if there is none.

    Args:
        x: a DataSet, or inputs; arrays have no record.

    Raises:
        DataError: if the JSON file is damaged.
    """
    path = x.x if isinstance(x, DataSet) else x
    if not isinstance(path, str | os.PathLike):
        return None
    from odt.core.data.sidecar import read_sidecar
    from odt.core.model.record import record_of

    sidecar = read_sidecar(os.fspath(path))
    with reading(f"{path}.json", "must hold a preprocessing record"):
        return record_of(sidecar.record_content) if sidecar else None


def parts_of(x: Any, y: Any) -> tuple[Any, Any, bool]:
    """Returns inputs, targets and `ignore_rest` of a DataSet, or of arguments that are none.

    Args:
        x: a DataSet, or inputs.
        y: targets; None with a DataSet.

    Raises:
        OptionError: if targets are given with a DataSet.
    """
    if not isinstance(x, DataSet):
        return x, y, False
    if y is not None:
        raise OptionError("y", "must be left out with a DataSet", "both")
    return x.x, x.y, x.ignore_rest


def same_file(x: Any, validation: Any, samples: int) -> str | None:
    """Returns a warning if validation samples are in the file of those that train; else None.

    Args:
        x: a DataSet, or inputs, of training.
        validation: those of validation.
        samples: number of validation samples.
    """
    paths = [parts_of(data, None)[0] for data in (x, validation)]
    are_paths = all(isinstance(path, str | os.PathLike) for path in paths)
    if not are_paths or not os.path.samefile(*paths):
        return None
    return (
        f"Warning: `validation_data=`: its {samples} samples are those of {os.fspath(paths[0])}, "
        "which trains: the results say nothing of other samples. Give others, or "
        "`validation_split=`."
    )


def samples_of(x: Any, y: Any, model: SampleSpecs | Runtime) -> dataset.DataSet:
    """Opens arrays or files as a data set, and checks it against the model.

    Args:
        x: a DataSet, or inputs.
        y: targets; None with a DataSet or for prediction.
        model: shapes, dtypes and names of a sample's arrays.

    Raises:
        DataError: if names, shapes or dtypes do not match the model, or numbers of samples differ.
        OptionError: if targets are given with a DataSet.
    """
    x, y, rest = parts_of(x, y)
    inputs = partial(_columns, specs=model.input_specs, names=model.input_names)
    quantizations = model.quantizations
    if y is None:
        columns = inputs(x, name="x", what="input", rest=rest, quantizations=quantizations)
        return dataset.DataSet(columns)
    checks = [dataset.target_check(loss, spec) for loss, spec in model.losses]
    targets = partial(_columns, specs=model.target_specs, names=model.target_names)
    try:
        columns = inputs(x, name="x", what="input", rest=rest, quantizations=quantizations)
        return dataset.DataSet(
            columns, targets(y, name="y", what="expected output", rest=rest), checks
        )
    except DataError as e:
        if not _swapped(x, y, model):
            raise
        raise DataError(
            f"{e} {x} fits the expected outputs and {y} the inputs: swap the two files."
        ) from e


def _swapped(x: Any, y: Any, model: SampleSpecs | Runtime) -> bool:
    """Whether the files of inputs and targets are swapped."""
    if not (isinstance(x, str | os.PathLike) and isinstance(y, str | os.PathLike)):
        return False
    try:
        inputs = _columns(y, model.input_specs, "y", "input")
        targets = _columns(x, model.target_specs, "x", "expected output")
    except DataError:
        return False
    return {c.length for c in inputs} == {c.length for c in targets}


def _columns(
    data: Any,
    specs: Sequence[TensorSpec],
    name: str,
    what: str,
    rest: bool = False,
    quantizations: Quantizations = (),
    names: TensorNames | None = None,
) -> Sequence[Column]:
    """Opens inputs or targets: a path, an array, or a sequence or mapping of arrays.

    Args:
        data: the arrays.
        specs: shape and dtype of one sample of each tensor.
        name: name of the argument, for messages.
        what: word for a tensor in messages.
        rest: whether to ignore bytes after the last whole sample of a raw file.
        quantizations: quantization of each tensor; empty for none.
        names: names of the tensors; None for numbers only.
    """
    try:
        return _opened(data, specs, name, what, rest, quantizations, names)
    except SampleShapeError as e:
        hint = names.open_hint(e.shape) if names is not None and what == "input" else ""
        raise DataError(f"{e} {hint}".rstrip()) from e


def _opened(
    data: Any,
    specs: Sequence[TensorSpec],
    name: str,
    what: str,
    rest: bool,
    quantizations: Quantizations,
    names: TensorNames | None,
) -> Sequence[Column]:
    """Opens inputs or targets, as `_columns`."""
    if isinstance(data, str | os.PathLike):
        from odt.core.data.columns import open_columns

        path = os.fspath(data)
        return open_columns(path, specs, what, quantizations, names=names, ignore_rest=rest)
    in_order = None if isinstance(data, Mapping) else names
    if isinstance(data, Mapping):
        data = {str(key): value for key, value in data.items()}
        names = names or numbered_names(len(specs))
        data = [data[key] for key in names.find(data, name, strict=what == "input")]
    several = isinstance(data, list | tuple) and len(data) == len(specs)
    with reading(name, "must be arrays of numbers"):
        if len(specs) > 1 or (several and np.ndim(data[0]) > 0):
            note = in_order.order_note(specs, name, what) if in_order is not None else ""
            first, *others = array_columns(list(data), specs, name, quantizations)
            return [with_note(first, note), *others]
        return array_columns([data], specs, name, quantizations)


def is_batches(x: Any, y: Any) -> bool:
    """Whether x yields pairs (x, y) of batches or samples, as a torch DataLoader does."""
    if y is not None or isinstance(x, DataSet | str | os.PathLike | Mapping | np.ndarray):
        return False
    return not hasattr(x, "__array__") and (hasattr(x, "__iter__") or hasattr(x, "__getitem__"))


def with_weights(
    data: dataset.DataSet, sample_weight: Any, model: SampleSpecs | Runtime
) -> dataset.DataSet:
    """Returns a data set with the weights of its samples, or of the positions of its targets.

    Args:
        data: the data set.
        sample_weight: weights of samples (N,), or of positions: (N, …) with the shape of the
            target without its last axis; of class numbers with their shape. For several outputs, a
            sequence or mapping of either, or None for 1. Or the path of a data file of these.
        model: shapes and names of a sample's arrays.

    Raises:
        DataError: if shapes or numbers of samples do not fit, or the weight of a sample is invalid.
    """
    column = _sample_column(sample_weight, data.length, model)
    if column is None:
        return data.with_weights(None, _position_columns(sample_weight, data.length, model))
    if column.length != data.length:
        raise DataError(
            f"{column.name}: must have a weight for each of the {data.length} samples, but got "
            f"{column.length}."
        )
    return data.with_weights(read_weights(column))


def _sample_column(weights: Any, samples: int, model: SampleSpecs | Runtime) -> Column | None:
    """Opens weights of samples; None for those of positions. Arguments as of `with_weights`."""
    specs = model.position_specs
    is_path = isinstance(weights, str | os.PathLike)
    if not is_path:
        with reading("sample_weight", "must be arrays of numbers"):  # rows may differ in length
            if _by_output(weights, len(specs)) or np.ndim(weights) > 1 < specs[0].size:
                return None
    has_positions = is_path and any(spec.size > 1 for spec in specs)
    try:
        (column,) = _columns(weights, [WEIGHT], "sample_weight", "sample weight")
    except DataError:
        if has_positions:
            return None
        raise
    return None if has_positions and column.length != samples else column


def _by_output(weights: Any, outputs: int) -> bool:
    """Whether weights are a mapping or a sequence of arrays, one for each output."""
    if isinstance(weights, Mapping):
        return True
    is_sequence = isinstance(weights, list | tuple) and len(weights) == outputs > 1
    return is_sequence and all(each is None or np.ndim(each) > 0 for each in weights)


def _position_columns(weights: Any, samples: int, model: SampleSpecs | Runtime) -> Sequence[Column]:
    """Opens weights of positions; arguments as of `with_weights`."""
    specs, name = model.position_specs, "sample_weight"
    if isinstance(weights, str | os.PathLike):
        return _columns(weights, specs, name, "sample weight", names=model.target_names)
    if isinstance(weights, Mapping):
        if any(value is not None and not np.ndim(value) for value in weights.values()):
            raise DataError(
                f"{name}: must be one weight for each sample (N,) or position (N, …), but got a "
                "mapping to numbers. `loss_weights=` weights outputs."
            )
        weights = {str(key): value for key, value in weights.items()}
        weights = [weights[key] for key in model.target_names.find(weights, name)]
    elif not _by_output(weights, len(specs)):
        weights = [weights]
    with reading(name, "must be arrays of numbers"):
        # Of fewer weights than outputs, `array_columns` says so.
        pairs = zip(weights, specs, strict=False)
        arrays = [_of_positions(each, spec.size, samples) for each, spec in pairs]
        return array_columns(arrays, specs, name)


def _of_positions(weights: Any, positions: int, samples: int) -> Array:
    """Returns weights of positions as an array; those of samples are the same at each position."""
    if weights is None:
        weights = np.broadcast_to(np.float32(1), samples)
    array = np.asarray(weights)
    if array.ndim > 1 or positions == 1:
        return array
    return np.broadcast_to(array[:, np.newaxis], (len(array), positions))


def class_weighted(
    data: dataset.DataSet,
    losses: Sequence[tuple[str, TensorSpec]],
    class_weight: ClassWeight,
    training: SampleOrder | None = None,
) -> tuple[dataset.DataSet, ClassWeights]:
    """Multiplies the weights of training samples by the weights of their classes.

    Args:
        data: the samples.
        losses: name of each loss, and the spec of one sample of its output.
        class_weight: weights by class, or "balanced".
        training: numbers of the training samples; None for all.

    Returns:
        The samples with weights, and the weights of the classes.

    Raises:
        OptionError: if a weight is invalid, or the targets are not classes.
    """
    labels = data.labels(losses)
    numbers = range(data.length) if training is None else training
    weights = class_weights(class_weight, labels, numbers, max(2, *losses[0][1].shape[-1:]))
    assert labels is not None, "class_weights has refused targets that are not classes"
    samples = weigh_classes(data.sample_weights, weights, labels, numbers)
    return data.with_weights(samples, data.position_weights), weights


def batches_of(data: Any, model: SampleSpecs, batch_size: int) -> Iterator[tuple[Any, ...]]:
    """Yields batches from an iterable of batches or a map-style data set of samples.

    Batches are (x, y) or (x, y, sample_weight).

    Args:
        data: an iterable of batches, or an object with __len__ and __getitem__ whose items are
            batches or samples.
        model: shapes and dtypes of a sample.
        batch_size: number of samples that are stacked to a batch.

    Raises:
        DataError: if an item is not a pair or triple of that form, or samples of a batch differ in
            form.
    """
    if hasattr(data, "__iter__"):
        yield from map(_parts, data)
        return
    if not len(data) or not _is_sample(_parts(data[0])[0], model.input_specs):
        yield from (_parts(data[k]) for k in range(len(data)))
        return
    counts = len(model.input_specs), len(model.target_specs), 1  # arrays of each group
    for first in range(0, len(data), batch_size):
        items = [_parts(data[k]) for k in range(first, min(first + batch_size, len(data)))]
        if len({*map(len, items)}) > 1:
            raise DataError("x: must give weights with all samples or with none, but got some.")
        with reading("x", "must give samples of one form"):
            groups = zip(*items, strict=True)  # inputs, targets, and weights if there are any
            batch = tuple(_stacked(g, count) for g, count in zip(groups, counts, strict=False))
        yield batch


def _is_sample(x: Any, specs: Sequence[TensorSpec]) -> bool:
    """Whether inputs, which may be a mapping or list of several, are those of one sample."""
    several = [*x.values()] if isinstance(x, Mapping) else x
    values = several if isinstance(x, Mapping) or len(specs) > 1 else [x]
    # np.size returns a method of tensors of PyTorch.
    return sorted(np.asarray(v).size for v in values) == sorted(spec.size for spec in specs)


def _stacked(samples: Sequence[Any], count: int) -> Any:
    """Returns a batch of samples, each a mapping, a list of `count` arrays, or an array."""
    if isinstance(samples[0], Mapping):
        return {k: np.stack([np.asarray(s[k]) for s in samples]) for k in samples[0]}
    if count > 1:
        return [np.stack([np.asarray(s[k]) for s in samples]) for k in range(count)]
    return np.stack([np.asarray(s) for s in samples])


def _parts(item: Any) -> tuple[Any, ...]:
    """Returns inputs, targets and perhaps weights of an item; raises DataError for others."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        actual = f"{len(item)} values" if isinstance(item, tuple | list) else type(item).__name__
        raise DataError(
            "x: must give inputs and targets (x, y), also with weights (x, y, sample_weight), but "
            f"got {actual}."
        )
    return tuple(item)
