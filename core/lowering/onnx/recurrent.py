"""Recurrent layers: LSTM, GRU and RNN, in one direction or both.

W, R and B hold all gates of a direction in their rows; ONNX has two biases for each gate, and both
train.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
from odt.errors import ShapeError

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
RELU, TANH = 1, 4  # ActivationFunctionType of the schema


@dataclass(frozen=True, slots=True)
class Layer:
    """The parts of a recurrent node.

    Attributes:
        x: inputs (N, T, I).
        directions: whether each direction runs from the last step to the first.
        units: number of units.
        w, r, b: for each direction, input weights (G H, I), recurrent weights (G H, H) and biases
            (2 G H,).
    """

    x: int
    directions: tuple[bool, ...]
    units: int
    w: Sequence[int]
    r: Sequence[int]
    b: Sequence[int]


def _layer(u: Use, gates: int, activations: tuple[str, ...]) -> Layer:
    """Checks what all recurrent nodes have in common."""
    if u.rank(0) != 3 or u.rank(1) != 3 or u.rank(2) != 3:
        raise ShapeError(f"X, W and R must have three axes, but got {u.shape(0)}, {u.shape(1)}")
    direction = u.attr("direction", FORWARD)
    if direction not in (FORWARD, REVERSE, BIDIRECTIONAL):
        raise ShapeError(
            f"direction must be forward, reverse or bidirectional, but got {direction}"
        )
    directions = (direction == REVERSE,) if direction != BIDIRECTIONAL else (False, True)
    count, rows, units = u.shape(2)
    if count != len(directions) or rows != gates * units or u.shape(1)[:2] != (count, rows):
        raise ShapeError(f"W and R must be those of {gates} gates, but got {u.shape(2)}")
    names = tuple(str(name).lower() for name in u.attr("activations", activations) or activations)
    if names != tuple(name.lower() for name in activations) * (len(names) // len(activations)):
        raise ShapeError(f"activations must be {', '.join(activations)}, but got {names}")
    if u.attr("clip", 0.0) or u.attr("input_forget", 0):
        raise ShapeError("clip and input_forget must be 0, but got others")
    batch_first = bool(u.attr("layout", 0))
    source = u.node.inputs[0]
    is_open = u.b.graph.tensors[source].signature[:1] == (-1,)
    if not batch_first and is_open and source in u.b.graph.inputs:
        raise ShapeError(
            "axis 0 of X is time, but the first axis of an input is the batch where a file leaves "
            "it open. Give the lengths of all axes of the input"
        )
    x = u.input(0) if batch_first else u.b.transpose(u.input(0), (1, 0, 2))
    if u.has(4):
        lengths = u.value(4, "sequence_lens")
        if (lengths != u.b.shape(x)[1]).any():
            raise ShapeError("sequence_lens must be the number of steps, but got others")
    if not u.has(3):
        zeros = [0.0] * 2 * rows
        b = [u.b.constant(zeros, u.dtype(0)) for _ in directions]
    else:
        b = _parts(u, 3, (2 * rows,))
    w, r = _parts(u, 1, (rows, u.shape(1)[2])), _parts(u, 2, (rows, units))
    return Layer(x, directions, units, w, r, b)


def _parts(u: Use, k: int, shape: tuple[int, ...]) -> list[int]:
    """Returns the weights of each direction."""
    count, x = u.shape(k)[0], u.node.inputs[k]
    if count == 1:
        return [u.b.weight(x, range(u.rank(k)), shape)]
    return [u.b.reshape(i, shape) for i in _split(u, u.input(k), count)]


def _split(u: Use, x: int, count: int) -> list[int]:
    inputs = (u.b.constant(0), x)
    return u.b.add_several("SPLIT", inputs, count, u.b.spec(x).dtype, num_splits=count)


def _reversed(u: Use, x: int) -> int:
    return u.b.add("REVERSE_V2", (x, u.b.constant([1])))


def _results(u: Use, layer: Layer, states: Sequence[int]) -> list[int]:
    """Returns Y and Y_h, from the states (N, T, H) of each direction in the order it ran."""
    n, steps, units = u.b.shape(states[0])
    layout, whole, last = u.attr("layout", 0), [], []
    for y, backwards in zip(states, layer.directions, strict=True):
        ordered = _reversed(u, y) if backwards else y
        if layout:
            whole.append(u.b.reshape(ordered, (n, steps, 1, units)))
        else:
            whole.append(u.b.reshape(u.b.transpose(ordered, (1, 0, 2)), (steps, 1, n, units)))
        if u.is_read(1):
            last.append(_step(u, y, steps - 1))
    axis = 2 if layout else 1
    joined = whole[0] if len(whole) == 1 else u.b.add("CONCATENATION", whole, axis=axis)
    return [joined, _joined(u, last) if last else joined]


def _step(u: Use, x: int, t: int) -> int:
    """Returns the values (N, C) of a step of (N, T, C)."""
    n, _, width = u.b.shape(x)
    open_axes = 0b101  # samples and values
    step = u.b.slice(x, (0, t, 0), (n, t + 1, width), begin_mask=open_axes, end_mask=open_axes)
    return u.b.reshape(step, (n, width))


def _first(u: Use, k: int, directions: int) -> list[int]:
    """Returns the first states (N, H) of each direction; none if they are absent or zeros."""
    if not u.has(k) or u.b.is_zero(u.input(k)):
        return []
    x = u.input(k)
    if u.attr("layout", 0):
        x = u.b.transpose(x, (1, 0, 2))
    parts = [x] if directions == 1 else _split(u, x, directions)
    return [u.b.reshape(i, u.b.shape(i)[1:]) for i in parts]


def _joined(u: Use, states: Sequence[int]) -> int:
    """Returns the last states (N, H) of each direction as one tensor, as in the file."""
    axis = 1 if u.attr("layout", 0) else 0
    parts = []
    for x in states:
        n, units = u.b.shape(x)
        parts.append(u.b.reshape(x, (n, 1, units) if axis else (1, n, units)))
    return parts[0] if len(parts) == 1 else u.b.add("CONCATENATION", parts, axis=axis)


def lstm(u: Use) -> list[int]:
    """Gates in the file: input, output, forget, cell; peepholes: input, output, forget."""
    layer = _layer(u, 4, ("Sigmoid", "Tanh", "Tanh"))
    count = len(layer.directions)
    h, c = (_first(u, k, count) for k in (5, 6))
    peepholes = [[ABSENT] * 3] * count
    if u.has(7):
        parts = [_split(u, p, 3) for p in _parts(u, 7, (3 * layer.units,))]
        peepholes = [[i, f, o] for i, o, f in parts]
    states, cells = [], []
    for k, backwards in enumerate(layer.directions):
        x = _reversed(u, layer.x) if backwards else layer.x
        gates = []
        for part in (layer.w[k], layer.r[k]):
            i, o, f, g = _split(u, part, 4)
            gates += [i, f, g, o]
        both = _split(u, layer.b[k], 8)
        i, o, f, g = (u.b.add("ADD", pair) for pair in zip(both[:4], both[4:], strict=True))
        inputs = [x, *gates, *peepholes[k], i, f, g, o]
        options: dict[str, Any] = {"fused_activation_function": TANH, "time_major": False}
        if not h and not c and not u.is_read(2):
            states.append(u.b.add("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, **options))
            continue
        inputs += [ABSENT, ABSENT, h[k] if h else ABSENT, c[k] if c else ABSENT]
        y, last = u.b.add_several("CUSTOM:StatefulLstm", inputs, 2, u.dtype(0), **options)
        states.append(y)
        cells.append(last)
    return [*_results(u, layer, states), *([_joined(u, cells)] if cells else [])]


def gru(u: Use) -> list[int]:
    """Gates in the file: update, reset, new, as in the row."""
    layer = _layer(u, 3, ("Sigmoid", "Tanh"))
    first = _first(u, 5, len(layer.directions))
    states = []
    for k, backwards in enumerate(layer.directions):
        x = _reversed(u, layer.x) if backwards else layer.x
        b, c = _split(u, layer.b[k], 2)
        inputs = [x, layer.w[k], layer.r[k], b, c, *first[k : k + 1]]
        after = bool(u.attr("linear_before_reset", 0))
        states.append(u.b.add("CUSTOM:GRU", inputs, reset_after=after, time_major=False))
    return _results(u, layer, states)


def rnn(u: Use) -> list[int]:
    """An LSTM without gates; with a first state, step by step."""
    name = str((u.attr("activations", ("Tanh",)) or ("Tanh",))[0])
    if name.lower() not in ("tanh", "relu"):
        raise ShapeError(f"activations must be Tanh or Relu, but got {name}")
    layer = _layer(u, 1, (name,))
    first = _first(u, 5, len(layer.directions))
    options: dict[str, Any] = {
        "fused_activation_function": RELU if name.lower() == "relu" else TANH,
        "time_major": False,
    }
    states = []
    for k, backwards in enumerate(layer.directions):
        x = _reversed(u, layer.x) if backwards else layer.x
        bias = u.b.add("ADD", _split(u, layer.b[k], 2))
        if first:
            states.append(_steps(u, name.upper(), x, layer.w[k], layer.r[k], bias, first[k]))
        else:
            state = u.b.constant(np.zeros((u.b.shape(x)[0], layer.units)), u.dtype(0))
            inputs = (x, layer.w[k], layer.r[k], bias, state)
            states.append(u.b.add("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, **options))
    return _results(u, layer, states)


def _steps(u: Use, activation: str, x: int, w: int, r: int, bias: int, h: int) -> int:
    """Returns the states (N, T, H) of an RNN that begins with h, with nodes for each step."""
    states = []
    sums = u.b.add("FULLY_CONNECTED", (x, w, bias), keep_num_dims=True)
    for t in range(u.b.shape(x)[1]):
        product = u.b.add("FULLY_CONNECTED", (h, r, ABSENT))
        h = u.b.add(activation, (u.b.add("ADD", (_step(u, sums, t), product)),))
        n, units = u.b.shape(h)
        states.append(u.b.reshape(h, (n, 1, units)))
    return states[0] if len(states) == 1 else u.b.add("CONCATENATION", states, axis=1)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
