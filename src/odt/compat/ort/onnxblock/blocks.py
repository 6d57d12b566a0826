"""Blocks of one operator, with the names and arguments of onnxruntime.training.onnxblock.blocks."""

from typing import Any

import numpy as np

from odt.compat.ort.onnxblock.block import Block
from odt.compat.ort.onnxblock.recorder import current
from odt.errors import UnsupportedError


class _Operator(Block):
    """A block of one operator, whose name is that of the class."""

    def __init__(self, **attributes: int) -> None:
        self._attributes = attributes

    def build(self, *input_names: str) -> str:
        """Adds the operator.

        Args:
            *input_names: names of its inputs.
        """
        return current().node(type(self).__name__, input_names, self._attributes)


class Add(_Operator):
    """x + y."""


class Sub(_Operator):
    """x − y."""


class Mul(_Operator):
    """x · y."""


class Div(_Operator):
    """x / y."""


class Sigmoid(_Operator):
    """1 / (1 + exp(−x))."""


class Log(_Operator):
    """Natural logarithm."""


class Neg(_Operator):
    """−x."""


class Abs(_Operator):
    """|x|."""


class ReduceMean(_Operator):
    """Mean of all values."""

    def __init__(self, keepdims: bool = True) -> None:
        """Makes the block.

        Args:
            keepdims: whether the result has the axes of x, with one entry each.
        """
        super().__init__(keepdims=int(keepdims))


class ReduceSum(_Operator):
    """Sum of all values."""

    def __init__(self, keepdims: bool = True) -> None:
        """Makes the block.

        Args:
            keepdims: whether the result has the axes of x, with one entry each.
        """
        super().__init__(keepdims=int(keepdims))


class Pow(Block):
    """x to a constant power."""

    def __init__(self, exponent: float) -> None:
        """Makes the block.

        Args:
            exponent: the power.
        """
        self._exponent = exponent

    def build(self, pow_input_name: str) -> str:
        """Adds the operator.

        Args:
            pow_input_name: name of x.
        """
        exponent = current().constant("pow_exponent", np.full(1, self._exponent, np.float32))
        return current().node("Pow", [pow_input_name, exponent])


class Clip(Block):
    """x within limits."""

    def __init__(self, clip_min: float | None = None, clip_max: float | None = None) -> None:
        """Makes the block.

        Args:
            clip_min: lower limit; None for none.
            clip_max: upper limit; None for none.
        """
        self._limits = clip_min, clip_max

    def build(self, clip_input_name: str) -> str:
        """Adds the operator.

        Args:
            clip_input_name: name of x.
        """
        low, high = (
            "" if limit is None else current().constant(f"clip_{word}", np.float32(limit))
            for word, limit in zip(("min", "max"), self._limits, strict=True)
        )
        return current().node("Clip", [clip_input_name, low, high])


class Constant(Block):
    """A constant of one value."""

    def __init__(self, value_float: float) -> None:
        """Makes the block.

        Args:
            value_float: the value.
        """
        self._value = value_float

    def build(self) -> str:
        """Adds the constant."""
        return current().constant("initializer", np.full(1, self._value, np.float32))


class PassThrough(Block):
    """A block that adds nothing."""

    def build(self, *input_names: str) -> tuple[str, ...]:
        """Returns its arguments.

        Args:
            *input_names: names of tensors.
        """
        return input_names


class InputLike(Block):
    """An input with the dtype and the shape of an input or output of the model."""

    def __init__(self, like: str) -> None:
        """Makes the block.

        Args:
            like: name of that input or output.
        """
        self._like = like

    def build(self, input_name: str | None = None) -> str:
        """Adds the input.

        Args:
            input_name: its name; None for a new one.
        """
        return current().input_like(input_name or "", self._like)


class Cast(Block):
    """x in another type."""

    def __init__(self, to: int) -> None:
        """Makes the block.

        Args:
            to: number of the type in TensorProto.DataType, such as onnx.TensorProto.FLOAT.
        """
        self._to = int(to)

    def build(self, cast_input_name: str) -> str:
        """Adds the operator.

        Args:
            cast_input_name: name of x.
        """
        return current().node("Cast", [cast_input_name], {"to": self._to})


REFUSED = ("LabelEncoder", "Linear", "ReduceAllL2", "SequenceConstruct")


def __getattr__(name: str) -> Any:
    if name in REFUSED:
        raise UnsupportedError(
            f"onnxblock.blocks.{name}: a loss must consist of operators without weights, on numbers"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
