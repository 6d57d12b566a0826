"""Where a CheckpointState has its arrays: in a file's contents, or in a trainer."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from odt.core.checkpoints.checkpoint import FROZEN, Checkpoint, Entry, Property
from odt.core.checkpoints.frozen import frozen_by_name, with_frozen
from odt.core.runtime.parameters import AVERAGE, WEIGHT
from odt.core.storage.reading import printable
from odt.errors import ModelError
from odt.training.checkpoints import Checkpoints
from odt.training.weights import Array

PARAMETERS = (WEIGHT, FROZEN)  # roles


class Source(Protocol):
    """Arrays, properties and step of a state.

    Attributes:
        where: name in messages.
        missing: names of parameters without values.
        properties: user metadata.
        step: number of updates made.
    """

    where: str
    missing: set[str]
    properties: dict[str, Property]
    step: int

    def entries(self) -> tuple[Entry, ...]:
        """Returns the descriptions of all arrays, frozen weights included."""

    def get(self, entry: Entry) -> Array | None:
        """Returns an array; None for a parameter without a value."""

    def put(self, values: Mapping[Entry, Array]) -> None:
        """Sets the values of arrays, whose shapes and dtypes fit."""

    def checkpoint(self) -> Checkpoint:
        """Returns the whole state, not copied; nominal while parameters are missing."""


class FileContents:
    """The contents of a file, in arrays of their own.

    A nominal checkpoint gets its arrays one after the other; its optimizer begins anew.
    """

    def __init__(self, checkpoint: Checkpoint, where: str) -> None:
        """Copies the arrays.

        Args:
            checkpoint: contents of the file.
            where: path of the file, for messages.

        Raises:
            ModelError: if arrays contradict each other.
        """
        self.where = where
        self.properties = dict(checkpoint.properties)
        names = _parameter_names(checkpoint, where)
        self.missing = set(names) if checkpoint.is_nominal else set()
        self._checkpoint = checkpoint if not self.missing else _untrained(checkpoint)
        self.step = self._checkpoint.progress.step
        # A nominal checkpoint has no arrays.
        self._arrays = {
            _key(entry): np.array(a, a.dtype.newbyteorder("="))
            for entry, a in zip(checkpoint.entries, checkpoint.arrays, strict=False)
        }

    def entries(self) -> tuple[Entry, ...]:
        """Returns the descriptions of all arrays."""
        return self._checkpoint.entries

    def get(self, entry: Entry) -> Array | None:
        """Returns an array; zeros for the state of an optimizer that begins anew."""
        if _key(entry) not in self._arrays and entry.role not in PARAMETERS:
            try:
                self._arrays[_key(entry)] = np.zeros(entry.shape, entry.dtype)
            except MemoryError as e:
                label = printable(f"{entry.role}/{entry.tensor}")
                raise ModelError(
                    f"{self.where}: {label}: must fit into memory, but got {entry.nbytes} bytes."
                ) from e
        return self._arrays.get(_key(entry))

    def put(self, values: Mapping[Entry, Array]) -> None:
        """Sets the values of arrays."""
        for entry, new in values.items():
            if (array := self.get(entry)) is None:
                self._arrays[_key(entry)] = np.array(new, entry.dtype)
                self.missing.discard(entry.tensor)
            else:
                np.copyto(array, new, casting="same_kind")

    def checkpoint(self) -> Checkpoint:
        """Returns the contents."""
        progress = replace(self._checkpoint.progress, step=self.step)
        whole = replace(self._checkpoint, progress=progress, properties=self.properties)
        if self.missing:
            return whole
        # State of an optimizer that begins anew is zero; broadcast, it takes no memory.
        arrays = [
            self._arrays.get(_key(e), np.broadcast_to(np.zeros((), e.dtype), e.shape))
            for e in whole.entries
        ]
        return replace(whole, arrays=tuple(arrays))


class TrainerContents:
    """The state of a trainer, in the arrays that train."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._session = checkpoints.session
        self._parameters = self._session.allocate().parameters
        self.where = self._session.model.path
        self.missing = self._session.missing
        self.properties = self._session.properties

    @property
    def step(self) -> int:
        """Number of updates made."""
        return self._parameters.step

    @step.setter
    def step(self, value: int) -> None:
        self._parameters.step = value

    def entries(self) -> tuple[Entry, ...]:
        """Returns the descriptions of all arrays."""
        return tuple(e for e, _ in self._arrays.values())

    def get(self, entry: Entry) -> Array | None:
        """Returns an array; None if it has no value."""
        if entry.role == FROZEN:
            return self._frozen_array(entry.tensor)
        if entry.tensor in self.missing:
            return None
        _, array = self._arrays[_key(entry)]
        return array

    def put(self, values: Mapping[Entry, Array]) -> None:
        """Sets the values of arrays."""
        names = self._frozen
        frozen = {names[e.tensor]: new for e, new in values.items() if e.role == FROZEN}
        self._session.replace_frozen(frozen)
        for entry, new in values.items():
            if entry.role != FROZEN:
                _, array = self._arrays[_key(entry)]
                np.copyto(array, new, casting="same_kind")
            if entry.role == WEIGHT:
                self.missing.discard(entry.tensor)

    def checkpoint(self) -> Checkpoint:
        """Returns the current state."""
        whole = self._whole()
        return replace(whole, arrays=()) if self.missing else whole

    @cached_property
    def _arrays(self) -> dict[tuple[str, str], tuple[Entry, Array]]:
        """Descriptions and arrays of the current state; the arrays are the same for each step."""
        whole = self._whole()
        pairs = zip(whole.entries, whole.arrays, strict=True)
        return {_key(e): (e, a) for e, a in pairs if e.is_current}

    @cached_property
    def _frozen(self) -> dict[str, int]:
        """Tensor indices of the frozen weights by name."""
        return frozen_by_name(self._session.recipe.graphs, self._parameters.tensors)

    def _frozen_array(self, name: str) -> Array:
        """Returns a frozen weight as it is now: setting it replaces the array."""
        return np.asarray(self._session.allocate().graph.tensors[self._frozen[name]].real)

    def _whole(self) -> Checkpoint:
        """Returns the current state with the frozen weights."""
        frozen = {name: self._frozen_array(name) for name in self._frozen}
        return with_frozen(self._checkpoints.saver().state(), frozen)


def _parameter_names(checkpoint: Checkpoint, where: str) -> list[str]:
    """Returns the names of the parameters.

    Raises:
        ModelError: if one occurs twice, its moving average has another shape, or a nominal
            checkpoint claims state that is larger than its weight.
    """
    parameters = [e for e in checkpoint.entries if e.role in PARAMETERS]
    shapes = {e.tensor: (e.shape, e.dtype) for e in parameters}
    if len(shapes) < len(parameters):
        raise ModelError(f"{where}: each parameter must occur once, but got one twice.")
    for e in checkpoint.entries:
        if e.role == AVERAGE and (e.shape, e.dtype) != shapes.get(e.tensor):
            raise ModelError(
                f"{where}: ema/{printable(e.tensor)} must have the shape and dtype of its weight, "
                f"but got {printable((e.shape, e.dtype))}."
            )
        shape, _ = shapes.get(e.tensor, ((0,), ""))  # no values without a weight
        size = math.prod(shape)
        if checkpoint.is_nominal and math.prod(e.shape) > size:
            raise ModelError(
                f"{where}: {printable(f'{e.role}/{e.tensor}')} must have at most the {size} values "
                f"of its weight, but got {math.prod(e.shape)}."
            )
    return [*shapes]


def _key(entry: Entry) -> tuple[str, str]:
    return entry.tensor, entry.role


def _untrained(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a nominal checkpoint as before the first step."""
    progress = replace(
        checkpoint.progress, step=0, epoch=1, position=0, samples=0, plateau=(), best=()
    )
    entries = tuple(e for e in checkpoint.entries if e.is_current)
    return replace(checkpoint, progress=progress, entries=entries)
