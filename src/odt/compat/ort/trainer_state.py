"""The state of a trainer of an ONNX model, in the layout of the file."""

from collections.abc import Callable, Mapping

import numpy as np

from odt.compat.ort.onnx_state import OnnxState
from odt.training.trainer import Trainer
from odt.training.weights import Array


class TrainerState:
    """The values of a trainer, in the layout of the file."""

    def __init__(self, trainer: Trainer, state: OnnxState, drop: Callable[[], None]) -> None:
        """Gives the trainer the state of the optimizer.

        Args:
            trainer: the trainer.
            state: the state, whose parameters the trainer has.
            drop: ends the trainer, so that the next one is made with other frozen parameters.
        """
        self._trainer, self._state, self._drop = trainer, state, drop
        graph = trainer.session.graph
        self._tensors = {t.name: t for t in graph.tensors if t.name in state.trained}
        live, parameters = trainer.state, trainer.session.build().parameters
        self._statistics = {graph.tensors[i].name: i for i in parameters.statistics.arrays}
        self._slots = sorted(parameters.slots)
        for name, arrays in state.moments.items():
            # Checkpoints of ONNX Runtime have an array for an optimizer without state.
            for slot, values in zip(self._slots, arrays, strict=False):
                if name in trainer.weights:
                    live.optimizer_state[f"{slot}/{name}"] = self._to_memory(name, values)
        live.step = state.step

    @property
    def step(self) -> int:
        """Number of updates made."""
        return self._trainer.state.step

    def get(self, name: str) -> Array | None:
        """Returns a copy of a parameter; None if the trainer does not change it."""
        if name in self._statistics:
            statistics = self._trainer.session.build().parameters.statistics
            return statistics.arrays[self._statistics[name]].copy()
        if name not in self._tensors or name not in self._trainer.weights:
            return None
        return self.to_file(name, self._trainer.weights[name])

    def put(self, name: str, values: Array) -> None:
        """Sets a parameter; ends the trainer for one that does not train."""
        if name not in self._state.trained:
            self._drop()
            return
        self._trainer.weights[name] = self._to_memory(name, values)

    def moments(self) -> Mapping[str, tuple[Array, ...]]:
        """Returns copies of the optimizer's arrays.

        Checkpoints of ONNX Runtime have zeros where there are none: for an optimizer without state,
        and for parameters that the loss does not depend on.
        """
        arrays, moments = self._trainer.state.optimizer_state, {}
        for name, values in self._state.trained.items():
            slots = [arrays.get(f"{slot}/{name}") for slot in self._slots or ("",)]
            moments[name] = tuple(
                np.zeros_like(values) if a is None else self.to_file(name, a) for a in slots
            )
        return moments

    def to_file(self, name: str, values: Array) -> Array:
        """Returns a copy of values of a parameter, or of its gradient, as in the file."""
        layout = self._tensors[name].layout
        result = values if layout is None else layout.to_file(values)
        return np.array(result).reshape(self._state.trained[name].shape)

    def _to_memory(self, name: str, values: Array) -> Array:
        tensor = self._tensors[name]
        if tensor.layout is None:
            return values.reshape(tensor.spec.shape)
        return tensor.layout.to_memory(values, tensor.spec.shape)
