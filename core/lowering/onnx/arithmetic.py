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
from odt.kernels.rows.opdef import Array

UNARY = {
    "Relu": "RELU",
    "Sigmoid": "LOGISTIC",
    "Tanh": "TANH",
    "Sqrt": "SQRT",
    "Exp": "EXP",
    "Log": "LOG",
    "Neg": "NEG",
    "Abs": "ABS",
    "Floor": "FLOOR",
    "Ceil": "CEIL",
    "Sin": "SIN",
    "Cos": "COS",
    "Sign": "SIGN",
    "Round": "ROUND",
    "Not": "LOGICAL_NOT",
    "HardSwish": "HARD_SWISH",
    "Erf": "CUSTOM:Erf",
    "Softplus": "CUSTOM:Softplus",
    "Atan": "CUSTOM:Atan",
}
BINARY = {
    "Sub": "SUB",
    "Mul": "MUL",
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "Less": "LESS",
    "GreaterOrEqual": "GREATER_EQUAL",
    "LessOrEqual": "LESS_EQUAL",
    "And": "LOGICAL_AND",
    "Or": "LOGICAL_OR",
    "Xor": "NOT_EQUAL",
}
VARIADIC = {"Max": "MAXIMUM", "Min": "MINIMUM", "Sum": "ADD"}
LIMITS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
NUMPY_BROADCAST = 7  # the opset from which operands are broadcast as in NumPy
FLOAT_FLOOR_MOD = 28  # the opset from which Mod without fmod takes floats


def operands(u: Use) -> tuple[int, int]:
    """Returns two operands that broadcast as in NumPy.

    Before opset 7 the second one has the axes of the first from `axis` on, or its last ones.
    """
    a, b = u.input(0), u.input(1)
    axis = u.source.attributes.get("axis")
    shape = u.shape(1)
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
        layer = u.b.makers.get(u.node.inputs[k])
        bias = u.raw(1 - k)
        if layer is not None and _takes_bias(u, layer, bias):
            units = u.b.shape(layer.outputs[0])[-1]
            bias = u.b.weight(bias, range(u.rank(1 - k)), (units,))
            u.b.absorbed.update(layer.outputs)
            return u.b.add(layer.op, (*layer.inputs[:2], bias), **layer.options)
    return u.b.add("ADD", operands(u))


def _takes_bias(u: Use, layer: Node, bias: int) -> bool:
    """Whether a constant can be the bias of a dense layer that nothing else reads."""
    y = layer.outputs[0]
    if layer.op != "FULLY_CONNECTED" or layer.inputs[2] != ABSENT or y in u.b.graph.outputs:
        return False
    shape, y_shape = u.b.shape(bias), u.b.shape(y)
    fits = 0 < len(shape) <= len(y_shape) and math.prod(shape) == y_shape[-1] == shape[-1]
    return u.b.reads[y] == 1 and fits and u.b.tensors[bias].data is not None


def divide(u: Use) -> int:
    """Divides; a quotient of integers is rounded towards 0."""
    a, b = operands(u)
    if u.dtype(0).kind == "f":
        return u.b.add("DIV", (a, b))
    x, y = u.b.value(a), u.b.value(b)
    if y is not None and (y == 0).any():
        raise ShapeError("integers must be divided by numbers other than 0, but got 0")
    if u.dtype(0).kind == "u" or all(v is not None and (v >= 0).all() for v in (x, y)):
        return u.b.add("FLOOR_DIV", (a, b))
    quotient = u.b.add("FLOOR_DIV", (u.b.add("ABS", (a,)), u.b.add("ABS", (b,))))
    return signed(u, quotient, [a, b])


def signed(u: Use, x: int, factors: Sequence[int]) -> int:
    """Multiplies by the signs of other tensors."""
    for factor in factors:
        x = u.b.add("MUL", (x, u.b.add("SIGN", (factor,))))
    return x


def modulo(u: Use) -> int:
    """The remainder of a division; with fmod it has the sign of the dividend."""
    a, b = operands(u)
    if not u.attr("fmod", 0):
        if u.dtype(0).kind == "f" and u.opset < FLOAT_FLOOR_MOD:
            raise ShapeError("fmod must be 1 for floats, but got 0")
        return u.b.add("FLOOR_MOD", (a, b))
    remainder = u.b.add("FLOOR_MOD", (u.b.add("ABS", (a,)), u.b.add("ABS", (b,))))
    return signed(u, remainder, [a])


def power(u: Use) -> int:
    a, b = operands(u)
    exponents = u.b.value(b)
    if u.dtype(1) != u.dtype(0):
        if exponents is None:
            raise ShapeError("an exponent must have the dtype of its base, but got another")
        if u.dtype(0).kind != "f" and not all(float(n).is_integer() for n in exponents.flat):
            raise ShapeError(f"exponents of integers must be whole, but got {exponents!s:.60}")
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
    """Multiplies by a factor, unless it is 1."""
    return x if factor == 1 else u.b.add("MUL", (x, number(u, x, factor)))


def shifted(u: Use, x: int, offset: float) -> int:
    """Adds an offset, unless it is 0."""
    return x if offset == 0 else u.b.add("ADD", (x, number(u, x, offset)))


def number(u: Use, like: int, value: float) -> int:
    """Adds a scalar of the dtype of another tensor."""
    return u.b.constant(value, u.b.spec(like).dtype)


def clip(u: Use) -> int:
    """Limits values; limits are attributes before opset 11, and inputs from then on."""
    x = u.input(0)
    ends: list[int | None] = []  # tensors with a limit that is not a constant
    limits: list[float] = []
    for k, (name, open_end) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
        if u.opset < 11:
            limits.append(float(u.attr(name, open_end)))
            ends.append(None)
        else:
            value = u.b.value(u.input(k)) if u.has(k) else None
            is_scalar = value is not None and value.size == 1
            limits.append(float(value.item()) if value is not None and is_scalar else open_end)
            ends.append(u.input(k) if u.has(k) and not is_scalar else None)
    # The largest float32 stands for no limit: it is the default of opsets before 11.
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
    x = u.input(0)
    slopes = u.shape(1)
    if u.opset < NUMPY_BROADCAST and len(slopes) == 1 and u.rank(0) > 2:
        alpha = u.b.weight(u.node.inputs[1], (0,), (*slopes, *[1] * (u.rank(0) - 2)))
    else:
        has_batch_axis = len(slopes) == u.rank(0) and len(slopes) > 1 and slopes[0] == 1
        order = tuple(range(len(slopes)))
        alpha = u.b.weight(u.node.inputs[1], order, slopes[1:] if has_batch_axis else slopes)
    return u.b.add("PRELU", (x, alpha))


def softsign(u: Use) -> int:
    x = u.input(0)
    return u.b.add("DIV", (x, shifted(u, u.b.add("ABS", (x,)), 1)))


def mish(u: Use) -> int:
    x = u.input(0)
    return u.b.add("MUL", (x, u.b.add("TANH", (u.b.add("CUSTOM:Softplus", (x,)),))))


def swish(u: Use) -> int:
    x = u.input(0)
    alpha = float(u.attr("alpha", 1.0))
    return u.b.add("MUL", (x, u.b.add("LOGISTIC", (scaled(u, x, alpha),))))


def hard_sigmoid(u: Use) -> int:
    x = scaled(u, u.input(0), float(u.attr("alpha", 0.2)))
    return u.b.add("RELU_0_TO_1", (shifted(u, x, float(u.attr("beta", 0.5))),))


def thresholded_relu(u: Use) -> int:
    x = u.input(0)
    alpha = float(u.attr("alpha", 1.0))
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


def type_of(code: int) -> np.dtype[Any]:
    """Returns the dtype of a data type of ONNX."""
    try:
        dtype = dtype_of(int(code))
    except ProtobufError as e:
        raise ShapeError(str(e)) from e
    if dtype.kind == "V":
        raise ShapeError(f"a type must be one of NumPy, but got {dtype.names}")
    return dtype


def cast(u: Use) -> int:
    dtype = type_of(u.attr("to", 0))
    return u.raw(0) if u.dtype(0) == dtype else u.b.add("CAST", (u.input(0),), dtype)


def cast_like(u: Use) -> int:
    if 0 in u.shape(1):
        raise ShapeError(f"the type must be one of NumPy, but got that of {u.shape(1)} values")
    return u.raw(0) if u.dtype(0) == u.dtype(1) else u.b.add("CAST", (u.input(0),), u.dtype(1))


def same(u: Use) -> int:
    return u.raw(0)


def dropout(u: Use) -> list[int]:
    """Returns its input, as onnxruntime does even in training; the mask lets all values through."""
    trains = u.has(2) and bool(u.value(2, "training_mode").any())
    graph = u.b.graph
    is_end = u.node.inputs[0] in graph.inputs or u.node.outputs[0] in graph.outputs
    if trains and (u.is_read(1) or is_end):
        raise ShapeError(
            "training_mode must be 0 beside an input or output and where the mask is read, which "
            "would be random, but got 1. Export the model in evaluation mode"
        )
    if not u.is_read(1):
        return [u.raw(0)]
    dtype = np.dtype(bool) if u.opset >= 10 else u.dtype(0)
    return [u.raw(0), u.b.add("FILL", (u.b.constant(u.shape(0)), u.b.constant(1, dtype)))]


def is_infinite(u: Use) -> int:
    x = u.input(0)
    limits = [("detect_negative", -np.inf), ("detect_positive", np.inf)]
    hits = [u.b.add("EQUAL", (x, number(u, x, v))) for n, v in limits if u.attr(n, 1)]
    if not hits:
        raise ShapeError("detect_negative or detect_positive must be 1, but got 0")
    return hits[0] if len(hits) == 1 else u.b.add("LOGICAL_OR", hits)


def shrink(u: Use) -> int:
    """Values between −λ and λ become 0; others move towards 0 by a bias."""
    x = u.input(0)
    limit, bias = float(u.attr("lambd", 0.5)), float(u.attr("bias", 0.0))
    below = u.b.add("LESS", (x, number(u, x, -limit)))
    above = u.b.add("GREATER", (x, number(u, x, limit)))
    zero = number(u, x, 0)
    rest = u.b.add("SELECT_V2", (above, shifted(u, x, -bias), zero))
    return u.b.add("SELECT_V2", (below, shifted(u, x, bias), rest))


def tangent(u: Use) -> int:
    x = u.input(0)
    return u.b.add("DIV", (u.b.add("SIN", (x,)), u.b.add("COS", (x,))))


def hyperbolic(op: str, u: Use) -> int:
    """(eˣ ± e⁻ˣ) / 2."""
    x = u.input(0)
    parts = u.b.add("EXP", (x,)), u.b.add("EXP", (u.b.add("NEG", (x,)),))
    return scaled(u, u.b.add(op, parts), 0.5)


def asin(u: Use) -> int:
    """2 arctan(x / (1 + √(1 − x²)))."""
    x = u.input(0)
    square = u.b.add("NEG", (u.b.add("SQUARE", (x,)),))
    root = u.b.add("SQRT", (shifted(u, square, 1),))
    ratio = u.b.add("DIV", (x, shifted(u, root, 1)))
    return scaled(u, u.b.add("CUSTOM:Atan", (ratio,)), 2)


def acos(u: Use) -> int:
    """π / 2 − arcsin(x)."""
    return shifted(u, u.b.add("NEG", (asin(u),)), np.pi / 2)


def asinh(u: Use) -> int:
    """±log(|x| + √(x² + 1))."""
    x = u.input(0)
    root = u.b.add("SQRT", (shifted(u, u.b.add("SQUARE", (x,)), 1),))
    size = u.b.add("ADD", (u.b.add("ABS", (x,)), root))
    return signed(u, u.b.add("LOG", (size,)), [x])


def acosh(u: Use) -> int:
    """log(x + √(x² − 1))."""
    x = u.input(0)
    root = u.b.add("SQRT", (shifted(u, u.b.add("SQUARE", (x,)), -1),))
    return u.b.add("LOG", (u.b.add("ADD", (x, root)),))


def atanh(u: Use) -> int:
    """log((1 + x) / (1 − x)) / 2."""
    x = u.input(0)
    ends = shifted(u, x, 1), shifted(u, u.b.add("NEG", (x,)), 1)
    return scaled(u, u.b.add("LOG", (u.b.add("DIV", ends),)), 0.5)


def scaler(u: Use) -> int:
    """(x − offset) scale, for each column: how scikit-learn standardizes samples."""
    x = u.input(0)
    if u.dtype(0) != FLOAT32:
        x = u.b.add("CAST", (x,), FLOAT32)
    numbers = [u.attr(n, ()) for n in ("offset", "scale")]
    if not all(isinstance(v, (int, float)) for v in (*numbers[0], *numbers[1])):
        raise ShapeError(f"offset and scale must be numbers, but got {numbers!s:.60}")
    offset, scale = (np.array(v, np.float32) for v in numbers)
    if any(len(v) not in (1, u.shape(0)[-1]) for v in (offset, scale)):
        raise ShapeError(
            f"offset and scale must have 1 or {u.shape(0)[-1]} numbers, "
            f"but got {len(offset)}, {len(scale)}"
        )
    return u.b.add("MUL", (u.b.add("SUB", (x, fixed(u, offset))), fixed(u, scale)))


def fixed(u: Use, values: Array) -> int:
    """Adds a constant of the array's dtype."""
    return u.b.constant(values, values.dtype)


def _table(names: Mapping[str, str], lowering: Any) -> dict[str, Callable[[Use], int]]:
    return {kind: partial(lowering, op) for kind, op in names.items()}


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    **_table(UNARY, unary),
    **_table(BINARY, binary),
    "Add": add,
    **_table(VARIADIC, variadic),
    "Div": divide,
    "Mod": modulo,
    "Pow": power,
    "Mean": mean_of,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "Selu": selu,
    "Celu": celu,
    "PRelu": prelu,
    "Softsign": softsign,
    "Mish": mish,
    "HardSigmoid": hard_sigmoid,
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
    "Gelu": gelu,
    "Reciprocal": reciprocal,
    "Where": where,
    "IsNaN": is_nan,
    "Cast": cast,
    "Identity": same,
    "Dropout": dropout,
    "CastLike": cast_like,
    "IsInf": is_infinite,
    "Shrink": shrink,
    "Tan": tangent,
    "Sinh": partial(hyperbolic, "SUB"),
    "Cosh": partial(hyperbolic, "ADD"),
    "Asin": asin,
    "Acos": acos,
    "Asinh": asinh,
    "Acosh": acosh,
    "Atanh": atanh,
    "ai.onnx.ml.Scaler": scaler,
}
