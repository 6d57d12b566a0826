"""Converts a network to ONNX nodes, of operators that have gradients in ONNX Runtime."""

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from bench.networks.layers import Array, Layer, Network

EPSILON = 1e-5
Weights = dict[str, Array]


class OnnxGraph:
    """Nodes and constants of a network; images are channels-first.

    Attributes:
        weights: names of the constants that train, in the order of the layers.
        output: name of the output.
    """

    def __init__(self, net: Network) -> None:
        self.net = net
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.weights: list[str] = []
        tensors = {-1: "x"}
        for k, (layer, weights) in enumerate(zip(net.layers, net.draw(), strict=True)):
            self.name = f"layer{k}"
            y = KINDS[layer.kind](self, layer, weights, [tensors[s] for s in layer.sources])
            tensors[k] = self._activated(layer.activation, y)
        self.output = tensors[net.last]

    def add(self, op: str, ins: list[str], *, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node; returns the name of its first output."""
        outs = [f"{self.name}_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, ins, outs, **attributes))
        return outs[0]

    def split(self, x: str, parts: int) -> list[str]:
        first = self.add("Split", [x], outputs=parts, axis=1)
        return [f"{first[:-1]}{k}" for k in range(parts)]

    def weight(self, key: str, a: Array) -> str:
        self.weights.append(self.constant(a, f"{self.name}_{key}"))
        return self.weights[-1]

    def constant(self, a: Any, name: str = "") -> str:
        name = name or f"{self.name}_c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(a.copy(order="C"), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", [x, self.constant(np.array(shape, np.int64))])

    def _activated(self, activation: str, x: str) -> str:
        """HardSigmoid and HardSwish have no gradients in ONNX Runtime, and are composed."""
        simple = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
        if activation in simple:
            return self.add(simple[activation], [x])
        if activation == "relu6":
            return self.add("Clip", [x, self.number(0), self.number(6)])
        if activation == "gelu":
            return self.add("Gelu", [x], domain="com.microsoft")
        if activation == "swish":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        if not activation:
            return x
        y = self._activated("relu6", self.add("Add", [x, self.number(3)]))
        y = self.add("Mul", [y, self.number(1 / 6)])
        return self.add("Mul", [x, y]) if activation == "hard_swish" else y


def conv(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    is_depthwise = layer.kind == "depthwise"
    w = weights["w"].transpose((3, 0, 1, 2) if is_depthwise else (0, 3, 1, 2))
    group = g.net.shape_of(layer.sources[0])[2] if is_depthwise else layer.groups
    pads = [*layer.pads[::2], *layer.pads[1::2]] if layer.causal else layer.symmetric * 2
    return g.add(
        "Conv", [*ins, g.weight("w", w), g.weight("b", weights["b"])], kernel_shape=layer.size,
        strides=[layer.stride] * 2, pads=pads, group=group, dilations=[layer.dilation, 1],
    )  # fmt: skip


def volume(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    w = weights["w"].transpose(4, 3, 0, 1, 2)
    return g.add(
        "Conv", [*ins, g.weight("w", w), g.weight("b", weights["b"])], kernel_shape=layer.size,
        strides=[layer.stride] * 3, pads=layer.symmetric * 2,
    )  # fmt: skip


def maximum(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("ReduceMax", ins, axes=[1], keepdims=0)


def swap(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Transpose", ins, perm=[0, 2, 1])


def half(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    channels = layer.shape[2]
    ends = (layer.part * channels, (layer.part + 1) * channels)
    first, last, axes = (g.constant(np.array([n], np.int64)) for n in (*ends, 1))
    return g.add("Slice", [*ins, first, last, axes])


def shuffle(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    height, width, channels = layer.shape
    y = g.reshape(ins[0], 0, 2, channels // 2, height, width)
    return g.reshape(g.add("Transpose", [y], perm=[0, 2, 1, 3, 4]), 0, channels, height, width)


def transposed(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """Composed, because ConvTranspose has no gradient: a 1×1 convolution, then a transposition."""
    height, width, channels = g.net.shape_of(layer.sources[0])
    size, units = layer.stride, layer.shape[2]
    w = weights["w"].reshape(units * size * size, channels, 1, 1)
    y = g.reshape(g.add("Conv", [*ins, g.weight("w", w)]), 0, units, size, size, height, width)
    y = g.add("Transpose", [y], perm=(0, 1, 4, 2, 5, 3))
    y = g.reshape(y, 0, units, height * size, width * size)
    return g.add("Add", [y, g.weight("b", weights["b"][:, None, None])])


def dense(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    w, image = weights["w"], g.net.reads_flattened(layer)
    if image:
        w = w.reshape(-1, *image).transpose(0, 3, 1, 2).reshape(w.shape)
    if len(layer.shape) == 1:
        return g.add("Gemm", [*ins, g.weight("w", w), g.weight("b", weights["b"])], transB=1)
    y = g.add("MatMul", [*ins, g.weight("w", w.T)])
    return g.add("Add", [y, g.weight("b", weights["b"])])


def pool(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """Averages are composed: the gradient of AveragePool ends the process."""
    strides = [layer.stride] * 2
    if layer.kind == "max_pool":
        pads = layer.symmetric * 2
        return g.add("MaxPool", ins, kernel_shape=layer.size, strides=strides, pads=pads)
    height, width, channels = layer.shape
    if (height, width) == (1, 1):
        return g.add("GlobalAveragePool", ins)
    blocks = g.reshape(ins[0], 0, channels, height, layer.stride, width, layer.stride)
    return g.add("ReduceMean", [blocks], axes=[3, 5], keepdims=0)


def mean(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    if len(g.net.shape_of(layer.sources[0])) == 2:
        return g.add("ReduceMean", ins, axes=[1], keepdims=0)
    y = g.add("GlobalAveragePool", ins)  # of videos, too
    return y if len(layer.shape) > 1 else g.add("Flatten", [y], axis=1)


def flatten(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Flatten", ins, axis=1)


def tokens(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Transpose", [g.reshape(ins[0], 0, 0, -1)], perm=[0, 2, 1])


def binary(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add(layer.kind.capitalize(), ins)


def offset(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Add", [*ins, g.weight("w", weights["w"])])


def concat(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Concat", ins, axis=1)


def upsample(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """Composed, because Resize has no gradient."""
    height, width, channels = layer.shape
    y = g.reshape(ins[0], 0, channels, height // 2, 1, width // 2, 1)
    y = g.add("Concat", [y, y], axis=3)
    return g.reshape(g.add("Concat", [y, y], axis=5), 0, channels, height, width)


def embedding(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    return g.add("Gather", [g.weight("w", weights["w"]), *ins])


def prelu(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """Composed, because PRelu has no gradient: max(x, 0) + α min(x, 0)."""
    above = g.add("Relu", ins)
    below = g.add("Sub", [*ins, above])
    return g.add("Add", [above, g.add("Mul", [below, g.weight("w", weights["w"][:, None, None])])])


def norm(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """Composed for groups, because GroupNormalization has no gradient."""
    gamma, beta = weights["w"], weights["b"]
    if not layer.groups:
        parts = [*ins, g.weight("w", gamma), g.weight("b", beta)]
        return g.add("LayerNormalization", parts, outputs=3, axis=-1, epsilon=EPSILON)
    height, width, channels = layer.shape
    x = g.reshape(ins[0], 0, layer.groups, -1)
    difference = g.add("Sub", [x, g.add("ReduceMean", [x], axes=[2], keepdims=1)])
    squares = g.add("Mul", [difference, difference])
    variance = g.add("ReduceMean", [squares], axes=[2], keepdims=1)
    deviation = g.add("Sqrt", [g.add("Add", [variance, g.number(EPSILON)])])
    y = g.reshape(g.add("Div", [difference, deviation]), 0, channels, height, width)
    y = g.add("Mul", [y, g.weight("w", gamma[:, None, None])])
    return g.add("Add", [y, g.weight("b", beta[:, None, None])])


def attention(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    length, width = layer.shape
    depth = width // layer.heads
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    q, k, v = (
        g.add("Transpose", [g.reshape(x, 0, length, layer.heads, depth)], perm=perm)
        for x, perm in zip(ins, orders, strict=True)
    )
    scores = g.add("Mul", [g.add("MatMul", [q, k]), g.number(depth**-0.5)])
    if layer.causal:
        hidden = np.triu(np.full((length, length), -1e9, np.float32), 1)
        scores = g.add("Add", [scores, g.constant(hidden)])
    y = g.add("MatMul", [g.add("Softmax", [scores], axis=-1), v])
    return g.reshape(g.add("Transpose", [y], perm=(0, 2, 1, 3)), 0, length, width)


def recurrent(g: OnnxGraph, layer: Layer, weights: Weights, ins: list[str]) -> str:
    """The last output, unrolled, because the gradients of LSTM and GRU refuse float32.

    The first step reads a state of zeros, so that all outputs of each Split are read: the gradient
    of Split omits outputs without readers.
    """
    length = g.net.shape_of(layer.sources[0])[0]
    z = g.add("MatMul", [*ins, g.weight("w", weights["w"].T)])
    z = g.add("Add", [z, g.weight("b", weights["b"])])
    r = g.weight("r", weights["r"].T)
    h = c = g.constant(np.zeros((1, *layer.shape), np.float32))
    for slice_of_step in g.split(z, length):
        gates = g.reshape(slice_of_step, 0, len(weights["b"]))
        recurrence = g.add("MatMul", [h, r])
        if layer.kind == "lstm":
            h, c = lstm_step(g, g.add("Add", [gates, recurrence]), c)
        else:
            h = gru_step(g, g.split(gates, 3), g.split(recurrence, 3), h)
    return h


def lstm_step(g: OnnxGraph, z: str, c: str) -> tuple[str, str]:
    i, f, n, o = g.split(z, 4)
    i, f, o = (g.add("Sigmoid", [a]) for a in (i, f, o))
    c = g.add("Add", [g.add("Mul", [f, c]), g.add("Mul", [i, g.add("Tanh", [n])])])
    return g.add("Mul", [o, g.add("Tanh", [c])]), c


def gru_step(g: OnnxGraph, z: list[str], recurrence: list[str], h: str) -> str:
    reset, update = (
        g.add("Sigmoid", [g.add("Add", [a, b])]) for a, b in zip(z[:2], recurrence[:2], strict=True)
    )
    new = g.add("Tanh", [g.add("Add", [z[2], g.add("Mul", [reset, recurrence[2]])])])
    return g.add("Add", [new, g.add("Mul", [update, g.add("Sub", [h, new])])])


KINDS = {
    "conv": conv,
    "volume": volume,
    "depthwise": conv,
    "transposed": transposed,
    "dense": dense,
    "max_pool": pool,
    "mean_pool": pool,
    "mean": mean,
    "max": maximum,
    "swap": swap,
    "half": half,
    "shuffle": shuffle,
    "flatten": flatten,
    "tokens": tokens,
    "add": binary,
    "mul": binary,
    "offset": offset,
    "concat": concat,
    "upsample": upsample,
    "embedding": embedding,
    "prelu": prelu,
    "norm": norm,
    "attention": attention,
    "lstm": recurrent,
    "gru": recurrent,
}
