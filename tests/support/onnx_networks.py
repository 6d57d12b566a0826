"""Small ONNX networks of several families, with random weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from support.onnx_files import OnnxFile, value

Array = np.ndarray[Any, Any]


class Network:
    """An ONNX file that is being written, with weights drawn from one generator."""

    def __init__(self, inputs: Mapping[str, Sequence[int]], opset: int = 17) -> None:
        self.file = OnnxFile(opset)
        self.draw = np.random.default_rng(7)
        self.shapes = dict(inputs)
        for name, shape in inputs.items():
            self.file.inputs.append(value(name, shape))

    def weights(self, scale: float = 0.4, **shapes: Sequence[int]) -> None:
        draw = self.draw.standard_normal
        self.file.constants({n: (scale * draw(s)).astype(np.float32) for n, s in shapes.items()})

    def add(self, kind: str, *inputs: str, to: str | Sequence[str], **attrs: Any) -> None:
        self.file.add(kind, *inputs, outputs=[to] if isinstance(to, str) else to, **attrs)

    def outputs(self, *names: str) -> "Network":
        self.file.outputs += [value(name, ()) for name in names]
        return self

    def samples(self, count: int = 3) -> list[Array]:
        """Returns normal samples of each input, along axis 0."""
        rng = np.random.default_rng(1)
        shapes = [(count, *shape[1:]) for shape in self.shapes.values()]
        return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def convolutions() -> Network:
    """Images (N, 3, 9, 8): padding on one side, groups, depthwise, normalization, pools, dense."""
    net = Network({"x": (1, 3, 9, 8)})
    net.weights(a=(6, 3, 3, 3), b=(6,), g=(6, 3, 3, 3), d=(6, 1, 3, 3), w=(6, 4), c=(4,))
    net.weights(scale=1.0, gamma=(6,), beta=(6,), mean=(6,))
    net.file.constants({"var": np.linspace(0.5, 2, 6, dtype=np.float32)})
    net.add("Conv", "x", "a", "b", to="h1", pads=(0, 1, 1, 0), strides=(2, 2), name="stride")
    net.add("BatchNormalization", "h1", "gamma", "beta", "mean", "var", to="h2")
    net.add("Relu", "h2", to="h3")
    net.add("Conv", "h3", "g", to="h4", pads=(1, 1, 1, 1), group=2)
    net.add("LeakyRelu", "h4", to="h5", alpha=0.2)
    net.add("Conv", "h5", "d", to="h6", pads=(1, 1, 1, 1), group=6)
    net.add("Add", "h6", "h3", to="h7")
    net.add("MaxPool", "h7", to="h8", kernel_shape=(2, 2), pads=(0, 0, 1, 1), strides=(2, 2))
    net.add("AveragePool", "h8", to="h9", kernel_shape=(2, 1), strides=(1, 1))
    net.add("GlobalAveragePool", "h9", to="h10")
    net.add("Flatten", "h10", to="h11")
    net.add("Gemm", "h11", "w", "c", to="z")
    net.add("Softmax", "z", to="probabilities", axis=1)
    return net.outputs("probabilities")


def images() -> Network:
    """Images to images: Split, InstanceNormalization, Softplus, ConvTranspose, Concat, Slice."""
    net = Network({"image": (1, 4, 6, 5)})
    net.weights(t=(4, 3, 3, 3), b=(3,), gamma=(4,), beta=(4,))
    net.add("InstanceNormalization", "image", "gamma", "beta", to="h1")
    net.add("Split", "h1", "sizes", to=["left", "right"], axis=1)
    net.file.constants({"sizes": np.array([1, 3]), "axes": np.array([2])})
    net.add("Softplus", "right", to="h2")
    net.add("Concat", "h2", "left", to="h3", axis=1)
    net.add("ConvTranspose", "h3", "t", "b", to="h4", strides=(2, 2), pads=(1, 1, 1, 1))
    net.file.constants({"begin": np.array([1]), "end": np.array([2**62])})
    net.add("Slice", "h4", "begin", "end", "axes", to="new image")
    return net.outputs("new image")


def transformer() -> Network:
    """Sequences (N, 5, 8): LayerNormalization, attention of two heads, GELU by Erf."""
    net = Network({"x": (1, 5, 8)})
    net.weights(q=(8, 24), o=(8, 8), w1=(8, 16), b1=(16,), w2=(16, 8), gamma=(8,), beta=(8,))
    numbers = {"heads": [0, 5, 6, 4], "rows": [0, 5, 8], "parts": [2, 2, 2]}
    net.file.constants({name: np.array(v) for name, v in numbers.items()})
    root, scalars = np.float32(2**0.5), {"half": 0.5, "one": 1.0}
    net.file.constants({"root": root, **{n: np.float32(v) for n, v in scalars.items()}})
    net.add("LayerNormalization", "x", "gamma", "beta", to="n", axis=-1)
    net.add("MatMul", "n", "q", to="qkv")
    net.add("Reshape", "qkv", "heads", to="split heads")
    net.add("Transpose", "split heads", to="by head", perm=(0, 2, 1, 3))
    net.add("Split", "by head", "parts", to=["queries", "keys", "values"], axis=1)
    net.add("Transpose", "keys", to="turned keys", perm=(0, 1, 3, 2))
    net.add("MatMul", "queries", "turned keys", to="scores")
    net.add("Mul", "scores", "half", to="scaled")
    net.add("Softmax", "scaled", to="attention", axis=-1)
    net.add("MatMul", "attention", "values", to="mixed")
    net.add("Transpose", "mixed", to="by step", perm=(0, 2, 1, 3))
    net.add("Reshape", "by step", "rows", to="joined")
    net.add("MatMul", "joined", "o", to="projected")
    net.add("Add", "projected", "x", to="r")
    net.add("MatMul", "r", "w1", to="z1")
    net.add("Add", "z1", "b1", to="z2")
    net.add("Div", "z2", "root", to="e1")
    net.add("Erf", "e1", to="e2")
    net.add("Add", "e2", "one", to="e3")
    net.add("Mul", "z2", "e3", to="e4")
    net.add("Mul", "e4", "half", to="gelu")
    net.add("MatMul", "gelu", "w2", to="z3")
    net.add("Add", "z3", "r", to="y")
    net.add("ReduceMean", "y", to="mean", axes=(1,), keepdims=0)
    return net.outputs("y", "mean")


def _recurrent(kind: str, gates: int, states: Sequence[str] = (), **attrs: Any) -> Network:
    """A layer on (N, 6, 3) with 4 units in each direction; ONNX wants steps on the first axis."""
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    net = Network({"x": (1, 6, 3), **{f"first {s}": (1, 1, 4) for s in states}})
    rows = gates * 4
    net.weights(w=(count, rows, 3), r=(count, rows, 4), b=(count, 2 * rows))
    net.file.constants({"none": np.zeros(0, np.float32)})
    net.add("Transpose", "x", to="steps", perm=(1, 0, 2))
    for state in states:
        net.add("Transpose", f"first {state}", to=state, perm=(1, 0, 2))
    net.add(kind, "steps", "w", "r", "b", "", *states, to=["all", "last"], hidden_size=4, **attrs)
    net.add("Transpose", "all", to="y", perm=(2, 0, 1, 3))
    net.add("Transpose", "last", to="h", perm=(1, 0, 2))
    return net.outputs("y", "h")


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "convolutions": convolutions,
    "images": images,
    "transformer": transformer,
    "LSTM in both directions": lambda: _recurrent("LSTM", 4, direction="bidirectional"),
    "LSTM with states": lambda: _recurrent("LSTM", 4, ("h0", "c0")),
    "GRU": lambda: _recurrent("GRU", 3, direction="reverse"),
    "GRU with a state": lambda: _recurrent("GRU", 3, ("h0",), linear_before_reset=1),
    "RNN": lambda: _recurrent("RNN", 1),
}
