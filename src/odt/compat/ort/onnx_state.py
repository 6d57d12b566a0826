"""State of the training of an ONNX model, in the layout of the file and in the model's order."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np

from odt.core.checkpoints.checkpoint import check_properties
from odt.core.checkpoints.ort_file import OrtCheckpoint
from odt.core.storage.reading import printable
from odt.errors import DataError, ModelError
from odt.training.weights import Array, as_array, fitting


class Live(Protocol):
    """A trainer that has the values of parameters."""

    @property
    def step(self) -> int:
        """Number of updates made."""

    def get(self, name: str) -> Array | None:
        """Returns a copy of a parameter as in the file; None if the trainer does not change it."""

    def put(self, name: str, values: Array) -> None:
        """Sets a parameter."""

    def moments(self) -> Mapping[str, tuple[Array, ...]]:
        """Returns copies of the optimizer's arrays."""


class OnnxState:
    """Parameters, state of the optimizer and properties of a checkpoint of ONNX Runtime.

    While a trainer runs, it has the values of the parameters that it changes.

    Attributes:
        where: name in messages.
        trained, frozen: parameters by name.
        moments: parameter → arrays of the optimizer.
        learning_rate: initial learning rate that the checkpoint holds.
        missing: shapes of parameters that have no values yet.
        properties: user metadata.
        live: the trainer; None for none.
    """

    def __init__(self, checkpoint: OrtCheckpoint, where: str) -> None:
        self.where = where
        self.trained, self.frozen = dict(checkpoint.trained), dict(checkpoint.frozen)
        self.moments = checkpoint.moments
        self.learning_rate = checkpoint.learning_rate
        parameters = self.trained | self.frozen
        self.missing: dict[str, tuple[int, ...]] = (
            {name: a.shape for name, a in parameters.items()} if checkpoint.is_nominal else {}
        )
        self.properties = Properties(checkpoint.properties)
        self.live: Live | None = None
        self._step, self._order = checkpoint.step, list(parameters)

    def arrange(self, order: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Takes over order and shapes of the parameters in a model.

        Raises:
            ModelError: if the model has not these parameters.
        """
        for name in self._order:
            if name not in shapes:
                raise ModelError(
                    f"{self.where}: must belong to the model, but the model has no input "
                    f"{printable(name)}. Give files of one folder."
                )
            shape = shapes[name] if name in self.missing else self._stored(name).shape
            if shape != shapes[name]:
                raise ModelError(
                    f"{self.where}: {printable(name)}: must be {shapes[name]} as in the model, but "
                    f"got {shape}. Give files of one folder."
                )
        self.missing = {name: shapes[name] for name in self.missing}
        self._order = [name for name in order if name in self.trained or name in self.frozen]

    # ---- what CheckpointState and Module read

    @property
    def parameters(self) -> "Parameters":
        """The parameters by name."""
        return Parameters(self)

    @property
    def trainable(self) -> tuple[str, ...]:
        """Names of the parameters that train."""
        return self.names(trainable_only=True)

    @property
    def is_nominal(self) -> bool:
        """Whether parameters have no values yet."""
        return bool(self.missing)

    @property
    def step(self) -> int:
        """Number of updates made."""
        return self._step if self.live is None else self.live.step

    def names(self, *, trainable_only: bool) -> tuple[str, ...]:
        """Returns names of parameters in the model's order."""
        return tuple(n for n in self._order if n in self.trained or not trainable_only)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a parameter."""
        return self.missing.get(name) or self._stored(name).shape

    def get(self, name: str) -> Array:
        """Returns a copy of a parameter.

        Raises:
            ModelError: if it has no value.
        """
        stored = self._with_value(name)
        values = None if self.live is None else self.live.get(name)
        return stored.copy() if values is None else values

    def constant(self, name: str) -> Array:
        """Returns a parameter, not copied and read-only, while no trainer has it.

        Raises:
            ModelError: if it has no value.
        """
        assert self.live is None
        values = self._with_value(name)
        values.flags.writeable = False
        return values

    def put(self, name: str, values: Any) -> None:
        """Sets a parameter.

        Raises:
            DataError: if shape or dtype differ.
        """
        stored = self._stored(name)
        new = fitting(name, self.shape(name), stored.dtype, values).astype(stored.dtype)
        self.missing.pop(name, None)
        if self.live is not None:
            self.live.put(name, new)
        (self.trained if name in self.trained else self.frozen)[name] = new

    def parameters_size(self, trainable_only: bool = True) -> int:
        """Returns the number of values of the parameters."""
        names = self.names(trainable_only=trainable_only)
        return sum(int(np.prod(self.shape(name), dtype=int)) for name in names)

    def get_contiguous_parameters(self, trainable_only: bool = True) -> Array:
        """Returns a copy of all parameters as one array."""
        values = [self.get(n).reshape(-1) for n in self._floats(trainable_only)]
        return np.concatenate(values or [np.empty(0, np.float32)])

    def copy_buffer_to_parameters(self, buffer: Any, trainable_only: bool = True) -> None:
        """Sets all parameters from one array.

        Raises:
            DataError: if the number or dtype of the values differs; nothing is changed.
        """
        names = self._floats(trainable_only)
        sizes = [int(np.prod(self.shape(n), dtype=int)) for n in names]
        values = as_array("buffer", buffer)
        if values.shape != (sum(sizes),) or values.dtype.kind != "f":
            raise DataError(
                f"buffer: must be ({sum(sizes)},) float32 for {len(names)} parameters, but got "
                f"{values.shape} {values.dtype}."
            )
        at = 0
        for name, size in zip(names, sizes, strict=True):
            self.put(name, values[at : at + size].reshape(self.shape(name)))
            at += size

    def _floats(self, trainable_only: bool) -> tuple[str, ...]:
        """Returns names in the model's order; a buffer holds no parameters of other types."""
        names = self.names(trainable_only=trainable_only)
        others = [n for n in names if self._stored(n).dtype != np.float32]
        if others:
            raise DataError(
                f"buffer: parameters must be float32, but {printable(others[0])} is "
                f"{self._stored(others[0]).dtype}. Give `trainable_only=True`."
            )
        return names

    def _with_value(self, name: str) -> Array:
        if name in self.missing:
            raise ModelError(
                f"{self.where}: {printable(name)}: must have a value, but the checkpoint is "
                "nominal. Set all parameters with `Module.copy_buffer_to_parameters`."
            )
        return self._stored(name)

    def _stored(self, name: str) -> Array:
        return self.trained[name] if name in self.trained else self.frozen[name]

    # ---- files

    def take(self) -> None:
        """Takes over the values of the trainer, which ends."""
        live = self.live
        if live is not None:
            for group in (self.trained, self.frozen):
                for name in group:
                    values = None if name in self.missing else live.get(name)
                    if values is not None:
                        group[name] = values
            self.moments, self._step, self.live = dict(live.moments()), live.step, None

    def checkpoint(self, *, optimizer_state: bool) -> OrtCheckpoint:
        """Returns the contents of a checkpoint.

        Args:
            optimizer_state: whether with the state of the optimizer.
        """
        moments = self.moments if self.live is None else self.live.moments()
        return OrtCheckpoint(
            {name: self.get(name) for name in self._order if name in self.trained},
            {name: self.get(name) for name in self._order if name in self.frozen},
            moments if optimizer_state else {},
            self.step if optimizer_state else 0,
            self.learning_rate,
            dict(self.properties),
        )


class Parameters(MutableMapping[str, Array]):
    """Parameters by name, in the model's order."""

    def __init__(self, state: OnnxState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise KeyError(name)
        return self._state.get(name)

    def __setitem__(self, name: str, values: Any) -> None:
        if name not in self:
            raise KeyError(name)
        self._state.put(name, values)

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be removed")

    def __contains__(self, name: object) -> bool:
        return name in self._state.trained or name in self._state.frozen

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.names(trainable_only=False))

    def __len__(self) -> int:
        return len(self._state.names(trainable_only=False))


class Properties(dict[str, Any]):
    """User metadata by name: strings, integers of 64 bits and finite floats."""

    def __setitem__(self, name: str, value: Any) -> None:
        check_properties({name: value})
        super().__setitem__(name, value)
