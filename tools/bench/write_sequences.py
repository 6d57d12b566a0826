"""Writes attention and recurrent layers."""

import numpy as np

from bench.networks.layers import Array, Layer
from bench.writer import Writer

TANH = 4  # of the schema's activations
NONE = -1  # an input that is left out


def write_attention(w: Writer, layer: Layer, projected: list[int]) -> int:
    """Scaled dot-product attention of queries, keys and values."""
    length, width = layer.shape
    heads, depth = layer.heads, width // layer.heads
    by_head = (heads, length, depth)
    q, k, v = (
        w.transpose(w.reshape(x, (length, heads, depth)), (0, 2, 1, 3), by_head) for x in projected
    )
    scores = w.add("BATCH_MATMUL", [q, k], (heads, length, length), adj_y=True)
    factor = w.model.add_constant(np.float32(depth**-0.5))
    scores = w.add("MUL", [scores, factor], (heads, length, length))
    if layer.causal:
        mask = np.triu(np.full((1, 1, length, length), -1e9, np.float32), 1)
        scores = w.add("ADD", [scores, w.model.add_constant(mask)], (heads, length, length))
    shares = w.add("SOFTMAX", [scores], (heads, length, length), beta=1.0)
    y = w.add("BATCH_MATMUL", [shares, v], by_head)
    return w.reshape(w.transpose(y, (0, 2, 1, 3), (length, heads, depth)), layer.shape)


def write_recurrent(
    w: Writer, layer: Layer, source: tuple[int, ...], weights: dict[str, Array], x: int
) -> int:
    """The last output of an LSTM or a GRU, from a state of zeros."""
    if not layer.unrolled:
        return _lstm_operator(w, layer, source, weights, x)
    length, units = source[0], layer.shape[0]
    gates = len(weights["b"]) // units
    parts = [x, w.weight("w", weights["w"]), w.weight("b", weights["b"])]
    shape = (length, gates * units)
    z = w.add("FULLY_CONNECTED", parts, shape, keep_num_dims=True)
    first = w.add("UNPACK", [z], *([shape[1:]] * length), num=length, axis=1)
    r = w.weight("r", weights["r"])
    step = _lstm_step if layer.kind == "lstm" else _gru_step
    state: tuple[int, ...] = ()
    for t in range(length):
        state = step(w, units, first + t, r, state)
    return state[0]


def _gates(w: Writer, units: int, z: int, count: int) -> list[int]:
    parts = [(units,)] * count
    first = w.add("SPLIT", [w.model.add_constant(np.int32(1)), z], *parts, num_splits=count)
    return [first + k for k in range(count)]


def _lstm_step(w: Writer, units: int, z: int, r: int, state: tuple[int, ...]) -> tuple[int, ...]:
    """State h and c, empty in the first step; gates i, f, g, o."""
    wide, one = (4 * units,), (units,)
    if state:
        z = w.add("ADD", [z, w.add("FULLY_CONNECTED", [state[0], r, NONE], wide)], wide)
    i, f, g, o = _gates(w, units, z, 4)
    i, f, o = (w.add("LOGISTIC", [a], one) for a in (i, f, o))
    c = w.add("MUL", [i, w.add("TANH", [g], one)], one)
    if state:
        c = w.add("ADD", [w.add("MUL", [f, state[1]], one), c], one)
    return w.add("MUL", [o, w.add("TANH", [c], one)], one), c


def _gru_step(w: Writer, units: int, z: int, r: int, state: tuple[int, ...]) -> tuple[int, ...]:
    """State h, empty in the first step; gates r, z, n."""
    one = (units,)
    reset, update, new = _gates(w, units, z, 3)
    if state:
        wide = (3 * units,)
        recurrence = _gates(w, units, w.add("FULLY_CONNECTED", [state[0], r, NONE], wide), 3)
        reset = w.add("LOGISTIC", [w.add("ADD", [reset, recurrence[0]], one)], one)
        update = w.add("ADD", [update, recurrence[1]], one)
        new = w.add("ADD", [new, w.add("MUL", [reset, recurrence[2]], one)], one)
    update, new = w.add("LOGISTIC", [update], one), w.add("TANH", [new], one)
    if not state:
        return (w.add("SUB", [new, w.add("MUL", [update, new], one)], one),)
    rest = w.add("SUB", [state[0], new], one)
    return (w.add("ADD", [new, w.add("MUL", [update, rest], one)], one),)


def _lstm_operator(
    w: Writer, layer: Layer, source: tuple[int, ...], weights: dict[str, Array], x: int
) -> int:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, and its output at the last step."""
    length, units = source[0], layer.shape[0]
    by_gate = [
        [w.weight(f"{name}{gate}", part) for gate, part in enumerate(np.split(weights[name], 4))]
        for name in ("w", "r", "b")
    ]
    states = [w.model.add_state((w.batch, units)) for _ in range(2)]
    parts = [x, *by_gate[0], *by_gate[1], *[NONE] * 3, *by_gate[2], NONE, NONE, *states]
    parts += [NONE] * 4
    shape = (length, units)
    y = w.add("UNIDIRECTIONAL_SEQUENCE_LSTM", parts, shape, fused_activation_function=TANH)
    ends = [w.constant(values) for values in ((0, -1, 0), (0, 0, 0), (1, 1, 1))]
    # Whole axes 0 and 2 by the masks, and axis 1 removed.
    return w.add(
        "STRIDED_SLICE", [y, *ends], layer.shape, begin_mask=5, end_mask=5, shrink_axis_mask=2
    )
