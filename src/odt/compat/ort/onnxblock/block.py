"""Blocks: Python objects that add nodes to a model when they are called with names of tensors."""

from abc import ABC, abstractmethod
from typing import Any

from odt.compat.ort.eval_model import EvalModel, InputParameters, eval_model, parameters_of
from odt.compat.ort.onnx_source import proto
from odt.compat.ort.onnxblock.recorder import current
from odt.errors import TrainingError, UnsupportedError


class Block(ABC):
    """A block: `build` takes names of tensors, calls other blocks, and returns names."""

    __slots__ = ()

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds nodes; returns the name of the result, or several.

        Args:
            *args: names of tensors.
            **kwargs: further arguments.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`."""
        return self.build(*args, **kwargs)

    @property
    def base(self) -> Any:
        """Refused: odt records what blocks add, and has no ModelProto that code may change."""
        raise UnsupportedError(
            "onnxblock.Block.base: a model must be changed by blocks, such as onnxblock.blocks.Add"
        )


class ForwardBlock(Block):
    """A block whose results are the outputs of a model."""

    def __init__(self) -> None:
        self._model: bytes | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`, and makes its results the outputs."""
        results = self.build(*args, **kwargs)
        self._model = eval_model(current(), names_of(results), InputParameters()).data
        return results

    def to_model_proto(self) -> Any:
        """Returns the model: an onnx.ModelProto if onnx is imported, else its bytes.

        Raises:
            TrainingError: if the block was not called before.
        """
        return proto(_called(self._model))


class TrainingBlock(Block):
    """A block whose first result is the loss."""

    def __init__(self) -> None:
        self._requires_grad: dict[str, bool] = {}
        self._eval: EvalModel | None = None

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """Says whether a parameter trains.

        Args:
            argument_name: name of the parameter.
            value: False for one that is frozen.
        """
        self._requires_grad[argument_name] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`, and makes its results the outputs of the training model.

        Raises:
            TrainingError: if it is called in `empty_base`, whose model has no parameters.
        """
        recorder = current()
        if recorder.source is None:
            raise TrainingError("onnxblock: a TrainingBlock must be called in `base`, of a model")
        results = self.build(*args, **kwargs)
        trained = [name for name, trains in self._requires_grad.items() if trains]
        frozen = [name for name, trains in self._requires_grad.items() if not trains]
        parameters = parameters_of(recorder.source, trained, frozen)
        self._eval = eval_model(recorder, names_of(results), parameters)
        return results

    def parameters(self) -> tuple[list[Any], list[Any]]:
        """Returns the parameters that train, and the frozen ones.

        Raises:
            TrainingError: if the block was not called before.
        """
        parameters = _called(self._eval).parameters
        return list(parameters.trained.values()), list(parameters.frozen.values())

    def to_model_proto(self) -> tuple[Any, Any]:
        """Returns the training model and the evaluation model, which are equal in odt.

        Raises:
            TrainingError: if the block was not called before.
        """
        data = _called(self._eval).data
        return proto(data), proto(data)


def names_of(results: Any) -> list[str]:
    """Returns the names that a block returned as a list."""
    return [results] if isinstance(results, str) else list(results)


def _called(result: Any) -> Any:
    if result is None:
        raise TrainingError("onnxblock: a block must be called before its model is read")
    return result
