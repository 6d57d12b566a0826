"""Recurrent layers: LSTM and GRU, in one direction or both.

W, R and B hold all gates of a direction in their rows; ONNX has two biases for each gate, and both
train.
"""

from collections.abc import Callable, Mapping, Sequence

from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
from odt.errors import ShapeError

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
TANH = 4  # ActivationFunctionType of the schema


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
    directions = (direction == REVERSE,) if direction != BIDIRECTIONAL else (False, True)
    count, rows, units = u.shape(2)
    if count != len(directions) or rows != gates * units or u.shape(1)[:2] != (count, rows):
        raise ShapeError(f"W and R must be those of {gates} gates, but got {u.shape(2)}")
    own = tuple(str(name).lower() for name in u.attr("activations", activations) or activations)
    if own != tuple(name.lower() for name in activations) * (len(own) // len(activations)):
        raise ShapeError(f"activations must be {', '.join(activations)}, but got {own}")
    if u.attr("clip", 0.0) or u.attr("input_forget", 0):
        raise ShapeError("clip and input_forget must be 0, but got others")
    batch_first = bool(u.attr("layout", 0))
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
    whole, last = [], []
    for y, backwards in zip(states, layer.directions, strict=True):
        ordered = _reversed(u, y) if backwards else y
        if u.attr("layout", 0):
            whole.append(u.b.reshape(ordered, (n, steps, 1, units)))
        else:
            whole.append(u.b.reshape(u.b.transpose(ordered, (1, 0, 2)), (steps, 1, n, units)))
        if u.is_read(1):
            ends = [u.b.constant(v) for v in ((0, steps - 1, 0), (n, steps, units), (1, 1, 1))]
            end = u.b.add("STRIDED_SLICE", (y, *ends), begin_mask=5, end_mask=5)
            shape = (n, 1, units) if u.attr("layout", 0) else (1, n, units)
            last.append(u.b.reshape(end, shape))
    if len(states) == 1:
        return [*whole, *last]
    results = [u.b.add("CONCATENATION", whole, axis=2 if u.attr("layout", 0) else 1)]
    if last:
        results.append(u.b.add("CONCATENATION", last, axis=1 if u.attr("layout", 0) else 0))
    return results


def lstm(u: Use) -> list[int]:
    """Gates in the file: input, output, forget, cell."""
    layer = _layer(u, 4, ("Sigmoid", "Tanh", "Tanh"))
    for k, name in ((5, "initial_h"), (6, "initial_c")):
        if u.has(k) and not u.b.is_zero(u.input(k)):
            raise ShapeError(f"{name} must be zeros, but got other values")
    if u.has(7):
        raise ShapeError("peepholes must be absent, but got some")
    states = []
    for k, backwards in enumerate(layer.directions):
        x = _reversed(u, layer.x) if backwards else layer.x
        gates = []
        for part in (layer.w[k], layer.r[k]):
            i, o, f, c = _split(u, part, 4)
            gates += [i, f, c, o]
        both = _split(u, layer.b[k], 8)
        i, o, f, c = (u.b.add("ADD", pair) for pair in zip(both[:4], both[4:], strict=True))
        inputs = (x, *gates, *[ABSENT] * 3, i, f, c, o)
        op = "UNIDIRECTIONAL_SEQUENCE_LSTM"
        states.append(u.b.add(op, inputs, fused_activation_function=TANH, time_major=False))
    return _results(u, layer, states)


def gru(u: Use) -> list[int]:
    """Gates in the file: update, reset, new, as in the row."""
    layer = _layer(u, 3, ("Sigmoid", "Tanh"))
    first: list[int] = []
    if u.has(5) and not u.b.is_zero(u.input(5)):
        h = u.input(5)
        if u.attr("layout", 0):
            h = u.b.transpose(h, (1, 0, 2))
        parts = [h] if len(layer.directions) == 1 else _split(u, h, 2)
        first = [u.b.reshape(i, u.b.shape(i)[1:]) for i in parts]
    states = []
    for k, backwards in enumerate(layer.directions):
        x = _reversed(u, layer.x) if backwards else layer.x
        b, c = _split(u, layer.b[k], 2)
        inputs = [x, layer.w[k], layer.r[k], b, c, *first[k : k + 1]]
        after = bool(u.attr("linear_before_reset", 0))
        states.append(u.b.add("CUSTOM:GRU", inputs, reset_after=after, time_major=False))
    return _results(u, layer, states)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"LSTM": lstm, "GRU": gru}
