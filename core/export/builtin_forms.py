"""Operators that TFLite does not have, composed of those that it has.

Recurrent layers become one group of operators for each step, because runtimes keep the states of
TFLite's recurrent operators from one run to the next, and those of ONNX begin anew. In this module
`b` is the graph that is being built. Functions raise ShapeError for nodes that they cannot compose.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from odt.core.export.builtin_graph import BuiltinGraph
from odt.core.lowering.binding import bind_inputs, row_of
from odt.core.lowering.graph_builder import node_of
from odt.core.model.graph import ABSENT, Node
from odt.errors import ShapeError
from odt.kernels.geometry.activations import RELU, TANH

MAX_STEPS = 512  # of a recurrent layer
CURVES = {RELU: "RELU", TANH: "TANH"}


def swish(b: BuiltinGraph, node: Node) -> None:
    """x σ(x)."""
    (x,) = node.inputs
    b.add("MUL", (x, b.add("LOGISTIC", (x,))), node.outputs[0])


def softplus(b: BuiltinGraph, node: Node) -> None:
    """max(x, 0) + log(1 + exp(−|x|)), which does not overflow."""
    (x,) = node.inputs
    small = b.add("EXP", (b.add("NEG", (b.add("ABS", (x,)),)),))
    curve = b.add("LOG", (b.add("ADD", (small, b.numbers(1.0))),))
    b.add("ADD", (b.add("RELU", (x,)), curve), node.outputs[0])


def rms_norm(b: BuiltinGraph, node: Node) -> None:
    """γ x / √(mean(x²) + ε) over the last axis."""
    x, gamma = node.inputs[:2]
    scaled = b.add("MUL", (x, _inverse_root(b, x, [-1], node.attrs)))
    b.add("MUL", (scaled, gamma), node.outputs[0])


def batch_norm(b: BuiltinGraph, node: Node) -> None:
    """γ (x − mean) / √(var + ε) + β with running statistics: x s + t with constants s and t."""
    x, gamma, beta, mean, variance = node.inputs[:5]
    if node.attrs.batch:
        raise ShapeError("it must normalize with running statistics")
    root = b.add("RSQRT", (b.add("ADD", (variance, b.numbers(float(node.attrs.epsilon)))),))
    scale = b.add("MUL", (gamma, root))
    shift = b.add("SUB", (beta, b.add("MUL", (mean, scale))))
    b.add("ADD", (b.add("MUL", (x, scale)), shift), node.outputs[0])


def instance_norm(b: BuiltinGraph, node: Node) -> None:
    """γ (x − mean) / √(var + ε) + β over the axes between the first and the last."""
    x, gamma, beta = node.inputs[:3]
    rank = len(b.shape(x))
    axes = list(range(1, rank - 1))
    mean = b.add("MEAN", (x, b.numbers(axes)), keep_dims=True)
    centered = b.add("SUB", (x, mean))
    scaled = b.add("MUL", (centered, _inverse_root(b, centered, axes, node.attrs)))
    width = (b.shape(x)[-1],)
    gamma, beta = (i if b.shape(i) == width else b.reshaped(i, width) for i in (gamma, beta))
    b.add("ADD", (b.add("MUL", (scaled, gamma)), beta), node.outputs[0])


def _inverse_root(b: BuiltinGraph, x: int, axes: Sequence[int], epsilon: float) -> int:
    """Returns 1 / √(mean(x²) + ε)."""
    mean = b.add("MEAN", (b.add("MUL", (x, x)), b.numbers(axes)), keep_dims=True)
    return b.add("RSQRT", (b.add("ADD", (mean, b.numbers(float(epsilon)))),))


def rope(b: BuiltinGraph, node: Node) -> None:
    """x cos + (−x₁, x₀) sin, where x₀ and x₁ are the halves of a row."""
    x, sin, cos = node.inputs[:3]
    first = b.add("SPLIT", (b.numbers(3), x), count=2, num_splits=2)
    turned = b.add("CONCATENATION", (b.add("NEG", (first + 1,)), first), axis=3)
    b.add("ADD", (b.add("MUL", (x, cos)), b.add("MUL", (turned, sin))), node.outputs[0])


def split_v(b: BuiltinGraph, node: Node) -> None:
    """Equal parts by SPLIT, others by slices: onert 0.1.0 computes wrong parts for SPLIT_V."""
    x = node.inputs[0]
    shape = b.shape(x)
    axis = node.attrs.axis % len(shape)
    sizes = [b.shape(y)[axis] for y in node.outputs]
    if len({*sizes}) == 1:
        b.append(
            node_of(
                "SPLIT",
                (b.numbers(axis), x),
                node.outputs,
                node.origin,
                {"axis": np.array(axis)},
                num_splits=len(sizes),
            )
        )
        return
    begin = [0] * len(shape)
    for y, size in zip(node.outputs, sizes, strict=True):
        part = [*shape[:axis], size, *shape[axis + 1 :]]
        b.add("SLICE", (x, b.numbers(begin), b.numbers(part)), y)
        begin[axis] += size


def lstm(b: BuiltinGraph, node: Node) -> None:
    """The formulas of kernels/families/lstm.py, one step after the other."""
    bound = bind_inputs(row_of(node.op), node)
    others = sorted(bound.keys() & {"wp", "bp", "ni", "nf", "ng", "no"})
    attrs = node.attrs
    if others or "wi" not in bound or attrs.activation != TANH or attrs.cell_clip:
        raise ShapeError("only gates with sigmoid and tanh can be written, without projections")
    x = _by_sample(b, bound["x"], attrs.time_axis)
    w, r, bias = (
        b.add("CONCATENATION", [bound[f"{kind}{gate}"] for gate in "ifog"], axis=0)
        for kind in "wrb"
    )
    h, c = (_first_state(b, bound, name, b.shape(x)[0]) for name in "hc")
    peepholes = {gate: bound.get(f"p{gate}", ABSENT) for gate in "ifo"}
    states = []
    for z in b.steps(_products(b, x, w, bias)):
        total = _with_state(b, z, h, r)
        first = b.add("SPLIT", (b.numbers(1), total), count=4, num_splits=4)
        sums = dict(zip("ifog", range(first, first + 4), strict=True))
        before = c

        def gate(name: str, cell: int, sums: Mapping[str, int] = sums) -> int:
            """σ of a gate's sum in this step, with its peephole; the default binds this step."""
            value = sums[name]
            if cell != ABSENT and peepholes[name] != ABSENT:
                value = b.add("ADD", (value, b.add("MUL", (cell, peepholes[name]))))
            return b.add("LOGISTIC", (value,))

        c = b.add("MUL", (gate("i", before), b.add("TANH", (sums["g"],))))
        if before != ABSENT:
            c = b.add("ADD", (b.add("MUL", (gate("f", before), before)), c))
        h = b.add("MUL", (gate("o", c), b.add("TANH", (c,))))
        states.append(h)
    _pack(b, states, node.outputs[0], attrs.time_axis)
    if len(node.outputs) > 1:
        b.reshaped(c, b.shape(c), node.outputs[1])


def gru(b: BuiltinGraph, node: Node) -> None:
    """The formulas of kernels/custom/gru.py, one step after the other."""
    bound = bind_inputs(row_of(node.op), node)
    attrs = node.attrs
    x = _by_sample(b, bound["x"], attrs.time_axis)
    r, c = bound["r"], bound["c"]
    units = b.shape(r)[1]
    h = _first_state(b, bound, "h", b.shape(x)[0])
    if h == ABSENT:
        h = b.numbers(np.zeros((b.shape(x)[0], units)))
    rows, columns = b.numbers(0), b.numbers(1)
    r_parts, c_parts = (b.add("SPLIT", (rows, i), count=3, num_splits=3) for i in (r, c))
    states = []
    for z in b.steps(_products(b, x, bound["w"], bound["b"])):
        x_parts = b.add("SPLIT", (columns, z), count=3, num_splits=3)
        if attrs.reset_after:
            products = b.add("FULLY_CONNECTED", (h, r, c))
            first = b.add("SPLIT", (columns, products), count=3, num_splits=3)
            h_parts = [first, first + 1]
        else:
            h_parts = [b.add("FULLY_CONNECTED", (h, r_parts + k, c_parts + k)) for k in range(2)]
        update, reset = (
            b.add("LOGISTIC", (b.add("ADD", (x_parts + k, h_parts[k])),)) for k in range(2)
        )
        if attrs.reset_after:
            memory = b.add("MUL", (reset, first + 2))
        else:
            state = b.add("MUL", (reset, h))
            memory = b.add("FULLY_CONNECTED", (state, r_parts + 2, c_parts + 2))
        new = b.add("TANH", (b.add("ADD", (x_parts + 2, memory)),))
        change = b.add("MUL", (update, b.add("SUB", (h, new))))  # (1 − u) n + u h = n + u (h − n)
        h = b.add("ADD", (new, change))
        states.append(h)
    _pack(b, states, node.outputs[0], attrs.time_axis)


def rnn(b: BuiltinGraph, node: Node) -> None:
    """The formulas of UNIDIRECTIONAL_SEQUENCE_RNN, one step after the other."""
    x, w, r, bias = node.inputs[:4]
    attrs = node.attrs
    if attrs.activation not in CURVES:
        raise ShapeError("the activation must be RELU or TANH")
    x = _by_sample(b, x, attrs.time_axis)
    h = ABSENT
    states: list[int] = []
    for z in b.steps(_products(b, x, w, bias)):
        h = b.add(CURVES[attrs.activation], (_with_state(b, z, h, r),))
        states.append(h)
    _pack(b, states, node.outputs[0], attrs.time_axis)


def _by_sample(b: BuiltinGraph, x: int, time_axis: int) -> int:
    """Returns inputs as (N, T, I)."""
    x = b.add("TRANSPOSE", (x, b.numbers([1, 0, 2]))) if time_axis == 0 else x
    if b.shape(x)[1] > MAX_STEPS:
        raise ShapeError(f"a recurrent layer must have at most {MAX_STEPS} steps to be written")
    return x


def _products(b: BuiltinGraph, x: int, w: int, bias: int) -> int:
    """Returns w x + b of all steps (N, T, G)."""
    return b.add("FULLY_CONNECTED", (x, w, bias), keep_num_dims=True)


def _with_state(b: BuiltinGraph, z: int, h: int, r: int) -> int:
    """Returns z + r h; z alone where there is no state."""
    return z if h == ABSENT else b.add("ADD", (z, b.add("FULLY_CONNECTED", (h, r, ABSENT))))


def _first_state(b: BuiltinGraph, bound: Mapping[str, int], name: str, samples: int) -> int:
    """Returns the state (N, O) before the first step; ABSENT for zeros."""
    if name not in bound:
        return ABSENT
    i = bound[name]
    tensor = b.tensors[i]
    if tensor.variable or (tensor.data is not None and not tensor.data.any()):
        return ABSENT
    if b.shape(i)[0] == samples:
        return i
    return b.add("BROADCAST_TO", (i, b.numbers((samples, *b.shape(i)[1:]))))


def _pack(b: BuiltinGraph, states: Sequence[int], out: int, time_axis: int) -> None:
    """Adds the states of all steps as one tensor."""
    b.add("PACK", states, out, values_count=len(states), axis=time_axis)


FORMS: Mapping[str, Callable[[BuiltinGraph, Node], None]] = {
    "SWISH": swish,
    "CUSTOM:Softplus": softplus,
    "RMS_NORM": rms_norm,
    "INSTANCE_NORM": instance_norm,
    "ROPE": rope,
    "SPLIT_V": split_v,
    "CUSTOM:BatchNormalization": batch_norm,
    "CUSTOM:GRU": gru,
    "CUSTOM:StatefulLstm": lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
}
