"""The state of training as an object: parameters, optimizer state, properties."""

import math
import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.checkpoints.checkpoint import (
    FROZEN,
    Checkpoint,
    Entry,
    Property,
    check_properties,
    nominal,
)
from odt.core.checkpoints.files import FORMATS, decode_any, write_any
from odt.core.checkpoints.progress import MAX_NUMBER
from odt.core.checkpoints.resume import Resume, read_checkpoint, read_resume
from odt.core.recipe.option_values import check_whole
from odt.core.runtime.parameters import AVERAGE, WEIGHT
from odt.core.storage.reading import printable
from odt.errors import DataError, ModelError, OptionError
from odt.models.model import Model, Path, file_of
from odt.training.checkpoints import Checkpoints
from odt.training.state_sources import PARAMETERS, FileContents, Source, TrainerContents
from odt.training.weights import Array, as_array, fitting


class CheckpointState:
    """State of training: parameters, optimizer state, properties and step.

    `Trainer.state` is the state of a trainer, whose arrays are those that train: reading them
    copies nothing, and setting them changes the trainer. `load` reads the state of a file. A
    trainer starts from a state with `checkpoint=`, or takes it over with `load_checkpoint`.

    A nominal state has names and shapes, but no values, for a device that gets its weights from a
    server. Training with it is refused until all its parameters are set; its optimizer state is
    zero, and its step 0.

    Attributes:
        parameters: weights by name, sorted by name: arrays that can be read and set in place.
        optimizer_state: arrays of the optimizer by slot and name of the weight, such as m/dense/w;
            can be read and set in place. The moving average of the weights belongs to it (ema/…).
        properties: user metadata by name: strings, integers of 64 bits and floats, which a file
            keeps with their types.
    """

    def __init__(self, source: Source) -> None:
        """Makes a state of a source; users call `load` or read `Trainer.state`.

        Args:
            source: object that holds the arrays: the contents of a file, or a trainer.
        """
        self._source = source
        self.parameters = Parameters(source, PARAMETERS)
        self.optimizer_state = Slots(source)
        self.properties = Properties(source)

    @classmethod
    @checked_arguments
    def load(cls, path: Path, model: Model | Path | None = None) -> "CheckpointState":
        """Reads a checkpoint.

        Args:
            path: a checkpoint in odt's format, .npz, .h5 or onert's format.
            model: the model or the path of its file, which a checkpoint in onert's format needs.

        Raises:
            ModelError: if the file cannot be read or is damaged.
            OptionError: if a checkpoint in onert's format is given without a model.
        """
        data = read_checkpoint(path)
        where = os.fspath(path)
        file = None if model is None else file_of(model)
        return cls(FileContents(decode_any(data, where, file), where))

    @checked_arguments
    def save(
        self,
        path: Path,
        *,
        trainable_only: bool = True,
        nominal: bool = False,
        model: Model | Path | None = None,
    ) -> None:
        """Writes a checkpoint, from which training resumes.

        Args:
            path: path of the file, which ends in .odt, .npz or .h5; with `model`, any other suffix
                selects onert's format.
            trainable_only: whether to leave out the frozen weights, which are in the model's file
                unless they were set; onert's format holds all weights.
            nominal: whether to write only names and shapes, which onert's format cannot.
            model: the model or the path of its file, whose constants onert's format holds.

        Raises:
            ModelError: if parameters have no values, the state belongs to another model, or the
                file cannot be written.
            OptionError: if the path has another suffix.
        """
        is_onert = os.path.splitext(path)[1].lower() not in FORMATS
        if is_onert and (nominal or model is None):
            raise OptionError("path", f"must end in {', '.join(FORMATS)}", path)
        if not nominal:
            self._check_values(trainable_only)
        file = None if model is None else file_of(model)
        write_any(path, self._checkpoint(trainable_only, nominal), self._source.where, file)

    @property
    def trainable(self) -> tuple[str, ...]:
        """Names of the parameters that train."""
        return tuple(Parameters(self._source, (WEIGHT,)))

    @property
    def is_nominal(self) -> bool:
        """Whether parameters have no values yet."""
        return bool(self._source.missing)

    @property
    def step(self) -> int:
        """Number of updates made, on which Adam's correction of its moments depends; can be set."""
        return self._source.step

    @step.setter
    @checked_arguments
    def step(self, value: int) -> None:
        check_whole("step", value, 0)
        if value >= MAX_NUMBER:
            raise OptionError("step", "must be below 2^63", value)
        self._source.step = value

    @checked_arguments
    def parameters_size(self, trainable_only: bool = True) -> int:
        """Returns the number of values of all parameters.

        Args:
            trainable_only: whether to count only parameters that train.
        """
        return sum(math.prod(e.shape) for e in self._parameters(trainable_only))

    @checked_arguments
    def get_contiguous_parameters(self, trainable_only: bool = True) -> Array:
        """Returns a copy of all parameters as one array of one axis, float32 as a rule.

        The parameters follow one another sorted by name, each in C order.

        Args:
            trainable_only: whether to leave out the frozen parameters.

        Raises:
            ModelError: if parameters have no values.
        """
        self._check_values(trainable_only)
        return _joined([self._array(e) for e in self._parameters(trainable_only)])

    @checked_arguments
    def copy_buffer_to_parameters(self, buffer: Any, trainable_only: bool = True) -> None:
        """Sets all parameters from one array, in the order of `get_contiguous_parameters`.

        Args:
            buffer: values (parameters_size,).
            trainable_only: whether the buffer leaves out the frozen parameters.

        Raises:
            DataError: if the number or dtype of the values differs; nothing is changed.
        """
        kind = "trainable parameters" if trainable_only else "parameters"
        _put(self._source, _split(buffer, self._parameters(trainable_only), kind))

    def get_contiguous_optimizer_state(self) -> Array:
        """Returns a copy of the optimizer state as one array of one axis.

        Its dtype is float32, or uint8 (bytes) if the arrays have several dtypes. To move a run to
        another device, move `step` too.

        Raises:
            ModelError: if parameters have no values.
        """
        self._check_values(True)
        return _joined([*self.optimizer_state.values()])

    def copy_buffer_to_optimizer_state(self, buffer: Any) -> None:
        """Sets the optimizer state from one array, as `get_contiguous_optimizer_state` returns it.

        Args:
            buffer: values of the moments.

        Raises:
            DataError: if the number or dtype of the values differs; nothing is changed.
        """
        entries = [*self.optimizer_state.entries().values()]
        self._source.put(_split(buffer, entries, "arrays of the optimizer state"))

    def _resume(self) -> Resume:
        """Returns the state in the form from which a trainer resumes."""
        return Resume(self._source.where, self._checkpoint(trainable_only=False, names_only=False))

    def _parameters(self, trainable_only: bool) -> list[Entry]:
        roles = (WEIGHT,) if trainable_only else PARAMETERS
        return [*Parameters(self._source, roles).entries().values()]

    def _array(self, entry: Entry) -> Array:
        array = self._source.get(entry)
        assert array is not None, "_check_values has passed"
        return array

    def _check_values(self, trainable_only: bool) -> None:
        """Raises ModelError if a parameter has no value."""
        if self.is_nominal:
            for entry in self._parameters(trainable_only):
                _check_value(self._source, entry, self._source.get(entry))

    def _checkpoint(self, trainable_only: bool, names_only: bool) -> Checkpoint:
        """Returns the state as a checkpoint, without frozen weights or values if they are not due.

        Args:
            trainable_only: whether to leave out the frozen weights.
            names_only: whether to leave out the values.
        """
        whole = self._source.checkpoint()
        numbers = [
            k for k, e in enumerate(whole.entries) if not (trainable_only and e.role == FROZEN)
        ]
        entries = tuple(whole.entries[k] for k in numbers)
        arrays = tuple(whole.arrays[k] for k in numbers) if whole.arrays else ()
        chosen = replace(whole, entries=entries, arrays=arrays)
        return nominal(chosen) if names_only else chosen

    def __repr__(self) -> str:
        trainable = len(self.trainable)
        total = len(self.parameters)
        nominal = ", nominal" if self.is_nominal else ""
        return (
            f"CheckpointState({self._source.where!r}, step {self.step}, {trainable} trainable and "
            f"{total - trainable} frozen parameters, {len(self.properties)} properties{nominal})"
        )


def state_of(checkpoints: Checkpoints) -> CheckpointState:
    """Returns the state of a trainer, in the arrays that train.

    Args:
        checkpoints: checkpoints of the trainer.
    """
    return CheckpointState(TrainerContents(checkpoints))


def resume_from(checkpoint: Path | CheckpointState) -> Resume:
    """Returns the checkpoint of a path or a CheckpointState.

    Args:
        checkpoint: the path or state.

    Raises:
        ModelError: if the file cannot be read.
        OptionError: if it is neither.
    """
    if isinstance(checkpoint, str | os.PathLike):
        return read_resume(checkpoint)
    if not isinstance(checkpoint, CheckpointState):
        raise OptionError("checkpoint", "must be a path or a CheckpointState", repr(checkpoint))
    return checkpoint._resume()


class Parameters(MutableMapping[str, Array]):
    """Parameters by name: arrays that are set in place; names cannot be added or removed."""

    def __init__(self, source: Source, roles: tuple[str, ...]) -> None:
        self._source = source
        self._roles = roles

    def entries(self) -> dict[str, Entry]:
        """Returns the descriptions of the arrays by name, sorted by name."""
        return _sorted({e.tensor: e for e in self._source.entries() if e.role in self._roles})

    def __getitem__(self, name: str) -> Array:
        entry = self.entries()[name]
        return _check_value(self._source, entry, self._source.get(entry))

    def __setitem__(self, name: str, values: Any) -> None:
        """Sets a parameter.

        Args:
            name: name of the parameter.
            values: values of the same shape, with a dtype that can be cast to the parameter's.

        Raises:
            KeyError: if there is no parameter of that name.
            DataError: if shape or dtype differ.
        """
        entry = self.entries()[name]
        _put(self._source, {entry: fitting(name, entry.shape, np.dtype(entry.dtype), values)})

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be removed")

    def __contains__(self, name: object) -> bool:
        return name in self.entries()  # also without a value

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries())

    def __len__(self) -> int:
        return len(self.entries())

    def __repr__(self) -> str:
        missing = self._source.missing
        return "\n".join(
            f"{printable(name)}: {e.shape} {e.dtype}, {'frozen' if e.role == FROZEN else 'trains'}"
            + (", no value" if name in missing else "")
            for name, e in self.entries().items()
        )


class Slots(MutableMapping[str, Array]):
    """Optimizer state by slot and parameter, such as m/dense/w: arrays that are set in place."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def entries(self) -> dict[str, Entry]:
        """Returns the descriptions of the arrays by name, sorted by name."""
        slots = (e for e in self._source.entries() if e.is_current and e.role not in PARAMETERS)
        return _sorted({f"{e.role}/{e.tensor}": e for e in slots})

    def __getitem__(self, name: str) -> Array:
        entry = self.entries()[name]
        return _check_value(self._source, entry, self._source.get(entry))

    def __setitem__(self, name: str, values: Any) -> None:
        entry = self.entries()[name]
        self._source.put({entry: fitting(name, entry.shape, np.dtype(entry.dtype), values)})

    def __delitem__(self, name: str) -> None:
        raise TypeError("arrays of the optimizer state cannot be removed")

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries())

    def __len__(self) -> int:
        return len(self.entries())

    def __repr__(self) -> str:
        return "\n".join(
            f"{printable(name)}: {e.shape} {e.dtype}" for name, e in self.entries().items()
        )


class Properties(MutableMapping[str, Property]):
    """User metadata by name: strings, integers of 64 bits and finite floats."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getitem__(self, name: str) -> Property:
        return self._source.properties[name]

    def __setitem__(self, name: str, value: Property) -> None:
        """Adds or changes a property.

        Args:
            name: name of the property.
            value: a string, integer or float.

        Raises:
            OptionError: if the value has another type.
        """
        check_properties({name: value})
        self._source.properties[name] = value

    def __delitem__(self, name: str) -> None:
        del self._source.properties[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.properties)

    def __len__(self) -> int:
        return len(self._source.properties)

    def __repr__(self) -> str:
        return repr(self._source.properties)


def _sorted(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Sorts by name: an order that files, trainers and versions of odt agree on."""
    return dict(sorted(entries.items()))


def _put(source: Source, values: Mapping[Entry, Array]) -> None:
    """Sets parameters, and their moving averages."""
    by_tensor = {e.tensor: new for e, new in values.items()}
    averages = (e for e in source.entries() if e.role == AVERAGE and e.tensor in by_tensor)
    source.put(dict(values) | {e: by_tensor[e.tensor] for e in averages})


def _check_value(source: Source, entry: Entry, array: Array | None) -> Array:
    """Returns the array of an entry; raises ModelError if it has none."""
    if array is None:
        raise ModelError(
            f"{source.where}: {printable(entry.tensor)}: must have a value, but the checkpoint is "
            "nominal: it holds only names and shapes. Take the whole checkpoint, or set all "
            "parameters with `CheckpointState.copy_buffer_to_parameters`."
        )
    return array


def _joined(arrays: list[Array]) -> Array:
    """Concatenates the values of arrays to one axis, as bytes if the dtypes differ."""
    if len({a.dtype for a in arrays}) > 1:
        arrays = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arrays]
    return np.concatenate([a.reshape(-1) for a in arrays] or [np.empty(0, np.float32)])


def _split(buffer: Any, entries: list[Entry], kind: str) -> dict[Entry, Array]:
    """Splits a buffer that `_joined` made into arrays.

    Args:
        buffer: values of all arrays (N,).
        entries: descriptions of the arrays, in the order of the buffer.
        kind: what the arrays are, for the message.

    Raises:
        DataError: if the number or dtype of the values differs.
    """
    dtypes = {np.dtype(e.dtype) for e in entries} or {np.dtype(np.float32)}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.uint8)
    sizes = [e.nbytes // dtype.itemsize for e in entries]
    flat = as_array("buffer", buffer)
    is_float = flat.dtype.kind == dtype.kind == "f"  # of any size
    if flat.shape != (sum(sizes),) or not (is_float or flat.dtype == dtype):
        raise DataError(
            f"buffer: must be ({sum(sizes)},) {dtype} for {len(entries)} {kind}, but got "
            f"{flat.shape} {flat.dtype}."
        )
    arrays = {}
    first = 0
    for entry, size in zip(entries, sizes, strict=True):
        values = flat[first : first + size]
        if dtype != entry.dtype:
            values = np.frombuffer(values.tobytes(), entry.dtype)
        arrays[entry] = values.reshape(entry.shape)
        first += size
    return arrays
