"""CheckpointState: parameters and properties of a checkpoint or a module."""

import os
from collections.abc import Iterator
from typing import Any, Protocol

from odt.compat.ort.onnx_state import OnnxState
from odt.core.checkpoints.checkpoint import MAGIC, Property, encode, nominal
from odt.core.checkpoints.ort_file import (
    is_ort_checkpoint,
    read_ort_checkpoint,
    write_ort_checkpoint,
)
from odt.core.checkpoints.parts import without_frozen, without_optimizer_state
from odt.core.checkpoints.resume import read_checkpoint
from odt.core.storage.atomic_files import write_atomically
from odt.errors import ModelError
from odt.training import checkpoint_state
from odt.training.weights import Array

Path = str | os.PathLike[str]
State = checkpoint_state.CheckpointState | OnnxState


class HasGradients(Protocol):
    """What a state asks of the module that uses it."""

    def gradient(self, name: str) -> Array | None:
        """Returns a copy of the summed gradient of a parameter; None if there is none."""


class Parameter:
    """A parameter: weights of the model."""

    def __init__(self, name: str, state: "CheckpointState") -> None:
        """Shows a parameter of a state.

        Args:
            name: name of the parameter.
            state: the state.
        """
        self._name = name
        self._state = state

    @property
    def name(self) -> str:
        """Name of the parameter."""
        return self._name

    @property
    def data(self) -> Array:
        """Values: a copy; assign an array to set them."""
        return self._state.odt_state.parameters[self._name].copy()

    @data.setter
    def data(self, value: Any) -> None:
        self._state.odt_state.parameters[self._name] = value

    @property
    def grad(self) -> Array | None:
        """Gradient summed since it was reset: a copy; None if there is none."""
        module = self._state.module
        return None if module is None else module.gradient(self._name)

    @property
    def requires_grad(self) -> bool:
        """Whether the parameter trains."""
        return self._name in self._state.odt_state.trainable

    def __repr__(self) -> str:
        return f"Parameter(name={self._name}, requires_grad={self.requires_grad})"


class Parameters:
    """Parameters by name; an iteration gives pairs of name and Parameter."""

    def __init__(self, state: "CheckpointState") -> None:
        """Shows the parameters of a state.

        Args:
            state: the state.
        """
        self._state = state

    def __getitem__(self, name: str) -> Parameter:
        if name not in self:
            raise KeyError(f"{name}: must be one of {', '.join(self._state.odt_state.parameters)}.")
        return Parameter(name, self._state)

    def __setitem__(self, name: str, value: Any) -> None:
        self[name].data = value

    def __contains__(self, name: object) -> bool:
        return name in self._state.odt_state.parameters

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        return ((name, Parameter(name, self._state)) for name in self._state.odt_state.parameters)

    def __len__(self) -> int:
        return len(self._state.odt_state.parameters)

    def __repr__(self) -> str:
        return f"Parameters({', '.join(self._state.odt_state.parameters)})"


class Properties:
    """Properties by name, integers, floats and strings; an iteration gives pairs."""

    def __init__(self, state: "CheckpointState") -> None:
        """Shows the properties of a state.

        Args:
            state: the state.
        """
        self._state = state

    def __getitem__(self, name: str) -> Property:
        return self._state.odt_state.properties[name]

    def __setitem__(self, name: str, value: Property) -> None:
        self._state.odt_state.properties[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._state.odt_state.properties

    def __iter__(self) -> Iterator[tuple[str, Property]]:
        return iter(list(self._state.odt_state.properties.items()))

    def __len__(self) -> int:
        return len(self._state.odt_state.properties)

    def __repr__(self) -> str:
        return f"Properties({dict(self)})"


class CheckpointState:
    """Parameters and properties of a checkpoint; after `Module(…, state)`, those of the module.

    `load_checkpoint` makes one. A checkpoint of an ONNX model is that of ONNX Runtime, with all
    parameters. That of another model holds the parameters that train; the frozen ones are in the
    model's file, and are parameters of the state as soon as a module uses it.

    Attributes:
        odt_state: the state in odt's own form.
        module: the module that uses the state, if there is one.
    """

    def __init__(self, state: State) -> None:
        """Wraps a state.

        Args:
            state: the state as odt has it.
        """
        self.odt_state = state
        self.module: HasGradients | None = None

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: Path) -> "CheckpointState":
        """Reads a checkpoint or a nominal checkpoint.

        Args:
            checkpoint_uri: path of the file.

        Raises:
            ModelError: if the file cannot be read, is damaged or has another format.
        """
        name = os.fspath(checkpoint_uri)
        if os.path.isdir(checkpoint_uri):
            raise ModelError(
                f"{name}: a checkpoint must be a file, but got a folder, as ONNX Runtime before "
                "1.16 wrote them. Write it with a newer one."
            )
        begin = read_checkpoint(checkpoint_uri)[: len(MAGIC)]
        if is_ort_checkpoint(begin):
            return cls(OnnxState(read_ort_checkpoint(checkpoint_uri), name))
        if begin != MAGIC:
            raise ModelError(
                f"{name}: must be a checkpoint of ONNX Runtime or in odt's format, but got another "
                "file. Give one that generate_artifacts or save_checkpoint wrote."
            )
        return cls(checkpoint_state.CheckpointState.load(checkpoint_uri))

    @classmethod
    def save_checkpoint(
        cls,
        state: "CheckpointState",
        checkpoint_uri: Path,
        include_optimizer_state: bool = False,
    ) -> None:
        """Writes a checkpoint.

        Args:
            state: the state.
            checkpoint_uri: path of the file; any name.
            include_optimizer_state: whether to write the moments of AdamW and the number of steps,
                so that training continues with the same bits.

        Raises:
            ModelError: if parameters have no values, or the file cannot be written.
        """
        if state.odt_state.is_nominal:
            raise ModelError(
                f"{os.fspath(checkpoint_uri)}: parameters must have values, but they are those of "
                "a nominal checkpoint. Set them: Module.copy_buffer_to_parameters."
            )
        odt_state = state.odt_state
        if isinstance(odt_state, OnnxState):
            contents = odt_state.checkpoint(optimizer_state=include_optimizer_state)
            write_ort_checkpoint(contents, checkpoint_uri)
        else:
            write_checkpoint(odt_state, checkpoint_uri, optimizer_state=include_optimizer_state)

    @property
    def parameters(self) -> Parameters:
        """The parameters."""
        return Parameters(self)

    @property
    def properties(self) -> Properties:
        """The properties."""
        return Properties(self)

    def attach(self, module: HasGradients, state: State) -> None:
        """Makes this the state of a module.

        Args:
            module: the module.
            state: the state of its trainer.
        """
        self.module, self.odt_state = module, state

    def __repr__(self) -> str:
        return f"CheckpointState({self.parameters!r}, {self.properties!r})"


def write_checkpoint(
    state: checkpoint_state.CheckpointState,
    path: Path,
    *,
    optimizer_state: bool = False,
    names_only: bool = False,
) -> None:
    """Writes the parameters that train as a checkpoint in odt's format.

    Args:
        state: the state.
        path: path of the file.
        optimizer_state: whether to write the state of the optimizer.
        names_only: whether to write names and shapes only.

    Raises:
        ModelError: if the file cannot be written.
    """
    whole = checkpoint_state.resume_from(state).checkpoint
    assert whole is not None  # a state has odt's format
    part = without_frozen(whole if optimizer_state else without_optimizer_state(whole))
    write_atomically(path, encode(nominal(part) if names_only else part))
