"""Operators on single values: arithmetic, comparisons, activations, conversions of types."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from odt.core.formats.onnx.tensors import dtype_of
from odt.core.formats.protobuf import ProtobufError
from odt.core.lowering.onnx.builder import FLOAT32, Use
from odt.core.model.graph import ABSENT, Node
from odt.errors import ShapeError

UNARY = {
    **{"Relu": "RELU", "Sigmoid": "LOGISTIC", "Tanh": "TANH", "Sqrt": "SQRT", "Exp": "EXP"},
    **{"Log": "LOG", "Neg": "NEG", "Abs": "ABS", "Floor": "FLOOR", "Ceil": "CEIL", "Sin": "SIN"},
    **{"Cos": "COS", "Sign": "SIGN", "Round": "ROUND", "Not": "LOGICAL_NOT"},
    **{"HardSwish": "HARD_SWISH", "Erf": "CUSTOM:Erf", "Softplus": "CUSTOM:Softplus"},
}
BINARY = {
    **{"Sub": "SUB", "Mul": "MUL", "Equal": "EQUAL", "Greater": "GREATER"},
    **{"Less": "LESS", "GreaterOrEqual": "GREATER_EQUAL", "LessOrEqual": "LESS_EQUAL"},
    **{"And": "LOGICAL_AND", "Or": "LOGICAL_OR", "Xor": "NOT_EQUAL"},
}
VARIADIC = {"Max": "MAXIMUM", "Min": "MINIMUM", "Sum": "ADD"}
LIMITS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
NUMPY_BROADCAST = 7  # the opset from which operands are broadcast as in NumPy


def operands(u: Use) -> tuple[int, int]:
    """Returns two operands that broadcast as in NumPy.

    Before opset 7 the second one has the axes of the first from `axis` on, or its last ones.
    """
    a, b = u.input(0), u.input(1)
    axis, shape = u.source.attributes.get("axis"), u.shape(1)
    if u.opset < NUMPY_BROADCAST and u.attr("broadcast", 0) and isinstance(axis, int):
        missing = u.rank(0) - u.axis(axis, u.rank(0)) - len(shape)
        if missing > 0:
            b = u.b.reshape(b, (*shape, *[1] * missing))
    return a, b


def unary(op: str, u: Use) -> int:
    return u.b.add(op, (u.input(0),))


def binary(op: str, u: Use) -> int:
    return u.b.add(op, operands(u))


def add(u: Use) -> int:
    """A sum; that of a product and a constant for each unit is a dense layer with a bias."""
    for k in (0, 1):
        layer, bias = u.b.makers.get(u.node.inputs[k]), u.raw(1 - k)
        if layer is not None and _takes_bias(u, layer, bias):
            units = u.b.shape(layer.outputs[0])[-1]
            bias = u.b.weight(bias, range(u.rank(1 - k)), (units,))
            u.b.absorbed.update(layer.outputs)
            return u.b.add(layer.op, (*layer.inputs[:2], bias), **layer.options)
    return u.b.add("ADD", operands(u))


def _takes_bias(u: Use, layer: Node, bias: int) -> bool:
    """Whether a constant can be the bias of a dense layer that nothing else reads."""
    (y,), shape = layer.outputs, u.b.shape(bias)
    if layer.op != "FULLY_CONNECTED" or layer.inputs[2] != ABSENT or y in u.b.graph.outputs:
        return False
    fits = 0 < len(shape) <= len(u.b.shape(y)) and math.prod(shape) == u.b.shape(y)[-1] == shape[-1]
    return u.b.reads[y] == 1 and fits and u.b.tensors[bias].data is not None


def divide(u: Use) -> int:
    """Divides; a quotient of integers is rounded towards 0."""
    a, b = operands(u)
    if u.dtype(0).kind == "f":
        return u.b.add("DIV", (a, b))
    x, y = u.b.value(a), u.b.value(b)
    if y is None or not (y > 0).all() or (x is not None and not (x >= 0).all()):
        raise ShapeError("integers must be divided by constants above 0, but got other ones")
    if x is None:
        raise ShapeError("integers that are divided must be constants, but got data")
    return u.b.add("FLOOR_DIV", (a, b))


def modulo(u: Use) -> int:
    if u.attr("fmod", 0):
        raise ShapeError("fmod must be 0, but got 1")
    return u.b.add("FLOOR_MOD", operands(u))


def power(u: Use) -> int:
    a, b = operands(u)
    exponents = u.b.value(b)
    if u.dtype(1) != u.dtype(0):
        if exponents is None:
            raise ShapeError("an exponent must have the dtype of its base, but got another")
        b = u.b.constant(exponents, u.dtype(0))
    return u.b.add("POW", (a, b))


def variadic(op: str, u: Use) -> int:
    y = u.input(0)
    for k in range(1, len(u.node.inputs)):
        y = u.b.add(op, (y, u.input(k)))
    return y


def mean_of(u: Use) -> int:
    y = variadic("ADD", u)
    return scaled(u, y, 1 / len(u.node.inputs))


def scaled(u: Use, x: int, factor: float) -> int:
    return x if factor == 1 else u.b.add("MUL", (x, number(u, x, factor)))


def shifted(u: Use, x: int, offset: float) -> int:
    return x if offset == 0 else u.b.add("ADD", (x, number(u, x, offset)))


def number(u: Use, like: int, value: float) -> int:
    """Adds a scalar of the dtype of another tensor."""
    return u.b.constant(value, u.b.spec(like).dtype)


def clip(u: Use) -> int:
    x = u.input(0)
    ends: list[int | None] = []
    limits: list[float] = []
    for k, (name, open_end) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
        if u.opset < 11:
            limits.append(float(u.attr(name, open_end)))
            ends.append(None)
        else:
            value = u.b.value(u.input(k)) if u.has(k) else None
            scalar = value is not None and value.size == 1
            limits.append(float(value.item()) if value is not None and scalar else open_end)
            ends.append(u.input(k) if u.has(k) and not scalar else None)
    largest = float(np.finfo(np.float32).max)
    lo, hi = (n if abs(n) < largest else np.copysign(np.inf, n) for n in limits)
    if ends == [None, None] and u.dtype(0) == FLOAT32:
        if (lo, hi) in LIMITS:
            return u.b.add(LIMITS[lo, hi], (x,))
        if (lo, hi) == (0, np.inf):
            return u.b.add("RELU", (x,))
    for op, end, limit in zip(("MAXIMUM", "MINIMUM"), ends, (lo, hi), strict=True):
        if end is not None:
            x = u.b.add(op, (x, end))
        elif np.isfinite(limit):
            x = u.b.add(op, (x, number(u, x, limit)))
    return x


def leaky_relu(u: Use) -> int:
    return u.b.add("LEAKY_RELU", (u.input(0),), alpha=float(u.attr("alpha", 0.01)))


def _elu(u: Use, alpha: float, gamma: float = 1, width: float = 1) -> int:
    """γ (max(x, 0) + α (exp(min(x, 0) / width) − 1))."""
    x = u.input(0)
    if alpha == gamma == width == 1:
        return u.b.add("ELU", (x,))
    below = scaled(u, u.b.add("MINIMUM", (x, number(u, x, 0))), 1 / width)
    curve = scaled(u, u.b.add("ELU", (below,)), alpha)
    return scaled(u, u.b.add("ADD", (u.b.add("RELU", (x,)), curve)), gamma)


def elu(u: Use) -> int:
    return _elu(u, float(u.attr("alpha", 1.0)))


def selu(u: Use) -> int:
    return _elu(u, float(u.attr("alpha", SELU_ALPHA)), float(u.attr("gamma", SELU_GAMMA)))


def celu(u: Use) -> int:
    alpha = float(u.attr("alpha", 1.0))
    if alpha == 0:
        raise ShapeError("alpha must not be 0, but got 0")
    return _elu(u, alpha, width=alpha)


def prelu(u: Use) -> int:
    """Slopes are broadcast as in NumPy; before opset 7 there may be one for each channel."""
    x, slopes = u.input(0), u.shape(1)
    if u.opset < NUMPY_BROADCAST and len(slopes) == 1 and u.rank(0) > 2:
        alpha = u.b.weight(u.node.inputs[1], (0,), (*slopes, *[1] * (u.rank(0) - 2)))
    else:
        drop = len(slopes) == u.rank(0) and len(slopes) > 1 and slopes[0] == 1
        order = tuple(range(len(slopes)))
        alpha = u.b.weight(u.node.inputs[1], order, slopes[1:] if drop else slopes)
    return u.b.add("PRELU", (x, alpha))


def softsign(u: Use) -> int:
    x = u.input(0)
    return u.b.add("DIV", (x, shifted(u, u.b.add("ABS", (x,)), 1)))


def mish(u: Use) -> int:
    x = u.input(0)
    return u.b.add("MUL", (x, u.b.add("TANH", (u.b.add("CUSTOM:Softplus", (x,)),))))


def swish(u: Use) -> int:
    x, alpha = u.input(0), float(u.attr("alpha", 1.0))
    return u.b.add("MUL", (x, u.b.add("LOGISTIC", (scaled(u, x, alpha),))))


def hard_sigmoid(u: Use) -> int:
    x = scaled(u, u.input(0), float(u.attr("alpha", 0.2)))
    return u.b.add("RELU_0_TO_1", (shifted(u, x, float(u.attr("beta", 0.5))),))


def thresholded_relu(u: Use) -> int:
    x, alpha = u.input(0), float(u.attr("alpha", 1.0))
    above = u.b.add("GREATER", (x, number(u, x, alpha)))
    return u.b.add("SELECT_V2", (above, x, number(u, x, 0)))


def gelu(u: Use) -> int:
    return u.b.add("GELU", (u.input(0),), approximate=u.attr("approximate", "none") == "tanh")


def reciprocal(u: Use) -> int:
    x = u.input(0)
    return u.b.add("DIV", (number(u, x, 1), x))


def where(u: Use) -> int:
    return u.b.add("SELECT_V2", (u.input(0), u.input(1), u.input(2)))


def is_nan(u: Use) -> int:
    x = u.input(0)
    return u.b.add("NOT_EQUAL", (x, x))


def cast(u: Use) -> int:
    try:
        dtype = dtype_of(int(u.attr("to", 0)))
    except ProtobufError as e:
        raise ShapeError(str(e)) from e
    if dtype.kind == "V":
        raise ShapeError(f"to must be a type of NumPy, but got {dtype.names}")
    return u.raw(0) if u.dtype(0) == dtype else u.b.add("CAST", (u.input(0),), dtype)


def same(u: Use) -> int:
    return u.raw(0)


def _table(names: Mapping[str, str], lowering: Any) -> dict[str, Callable[[Use], int]]:
    return {kind: partial(lowering, op) for kind, op in names.items()}


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    **_table(UNARY, unary),
    **_table(BINARY, binary),
    "Add": add,
    **_table(VARIADIC, variadic),
    **{"Div": divide, "Mod": modulo, "Pow": power, "Mean": mean_of, "Clip": clip},
    **{"LeakyRelu": leaky_relu, "Elu": elu, "Selu": selu, "Celu": celu, "PRelu": prelu},
    **{"Softsign": softsign, "Mish": mish, "HardSigmoid": hard_sigmoid},
    **{"Swish": swish, "ThresholdedRelu": thresholded_relu, "Gelu": gelu},
    **{"Reciprocal": reciprocal, "Where": where, "IsNaN": is_nan, "Cast": cast},
    **{"Identity": same, "Dropout": same},
}
