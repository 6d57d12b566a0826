"""One network as a Circle graph and as an ONNX file: each layer is added to both.

The Circle graph has images with channels last and layers as converters write them; the ONNX file
has images with channels in front and layers as PyTorch exports them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from odt.core.model.graph import ABSENT
from support.networks import Net
from support.onnx_files import OnnxFile, value

Array = np.ndarray[Any, Any]
Twin: TypeAlias = tuple[int, str]  # a tensor of the graph, and its name in the file
VALID, TANH = 1, 4  # Padding and ActivationFunctionType of the schema
EPSILON = 1e-5


class Twins:
    """Builds both.

    Attributes:
        net: the Circle graph.
        file: the ONNX file.
    """

    def __init__(self) -> None:
        self.net, self.file = Net(), OnnxFile()
        self._count = 0

    def shape(self, x: Twin) -> tuple[int, ...]:
        return self.net.tensors[x[0]].spec.shape

    def draw(self, *shape: int) -> Array:
        return self.net.rng.normal(0, 0.4, shape).astype(np.float32)

    def weight(self, values: Any) -> Twin:
        """Adds a constant with the same layout in both."""
        return self.net.constant(values, np.asarray(values).dtype), self.named(values)

    def named(self, values: Any) -> str:
        """Adds a constant to the file."""
        name = self._name()
        self.file.constants({name: values})
        return name

    def input(self, *shape: int) -> Twin:
        """Adds an input with the layout of the file, which is transposed if it holds images."""
        name = self._name()
        self.file.inputs.append(value(name, ("N", *shape)))
        x = self.net.input(1, *shape)
        return (self._transposed(x, (0, 2, 3, 1)) if len(shape) == 3 else x), name

    def add(
        self,
        op: str,
        kind: str,
        inputs: Sequence[Twin],
        shape: Sequence[int],
        options: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Twin:
        """Adds an operator with the same inputs to both."""
        y = self.node(kind, *(name for _, name in inputs), **attributes)
        return self.net.add(op, [i for i, _ in inputs], shape, **(options or {})), y

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operator to the file."""
        name = self._name()
        self.file.add(kind, *inputs, outputs=[name], **attributes)
        return name

    def conv(self, x: Twin, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> Twin:
        """A convolution with a bias, and zeros on both sides; depthwise with several groups."""
        _, h, w, c = self.shape(x)
        pad = kernel // 2
        weights, bias = self.draw(filters, c // groups, kernel, kernel), self.draw(filters)
        names = self.named(weights), self.named(bias)
        sides, strides = (pad,) * 4, (stride, stride)
        y = self.node("Conv", x[1], *names, pads=sides, strides=strides, group=groups)
        image = x[0]
        if pad:
            zeros = self.net.constant([(0, 0), (pad, pad), (pad, pad), (0, 0)], np.int32)
            image = self.net.add("PAD", (image, zeros), (1, h + 2 * pad, w + 2 * pad, c))
        op, order = "CONV_2D", (0, 2, 3, 1)
        options: dict[str, Any] = {"padding": VALID, "stride_h": stride, "stride_w": stride}
        if groups > 1:
            op, order, options["depth_multiplier"] = "DEPTHWISE_CONV_2D", (1, 2, 3, 0), 1
        inputs = image, self.net.constant(weights.transpose(order)), self.net.constant(bias)
        shape = (1, (h - 1) // stride + 1, (w - 1) // stride + 1, filters)
        return self.net.add(op, inputs, shape, **options), y

    def dense(self, x: Twin, units: int, kind: str = "Gemm") -> Twin:
        """A dense layer: in the file a Gemm, or a MatMul and an Add."""
        shape = self.shape(x)
        w, b = self.draw(units, shape[-1]), self.draw(units)
        if kind == "Gemm":
            y = self.node("Gemm", x[1], self.named(w), self.named(b), transB=1)
        else:
            y = self.node("Add", self.node("MatMul", x[1], self.named(w.T.copy())), self.named(b))
        inputs = x[0], self.net.constant(w), self.net.constant(b)
        options = {"keep_num_dims": len(shape) > 2}
        return self.net.add("FULLY_CONNECTED", inputs, (*shape[:-1], units), **options), y

    def relu(self, x: Twin) -> Twin:
        return self.add("RELU", "Relu", [x], self.shape(x))

    def relu6(self, x: Twin) -> Twin:
        y = self.node("Clip", x[1], *(self.named(np.float32(n)) for n in (0, 6)))
        return self.net.add("RELU6", (x[0],), self.shape(x)), y

    def max_pool(self, x: Twin) -> Twin:
        n, h, w, c = self.shape(x)
        sizes = dict.fromkeys(("filter_height", "filter_width", "stride_h", "stride_w"), 2)
        shape, options = (n, h // 2, w // 2, c), {"padding": VALID, **sizes}
        attributes = {"kernel_shape": (2, 2), "strides": (2, 2)}
        return self.add("MAX_POOL_2D", "MaxPool", [x], shape, options, **attributes)

    def global_pool(self, x: Twin) -> Twin:
        y = self.node("Flatten", self.node("GlobalAveragePool", x[1]))
        return self._mean(x[0], (1, 2)), y

    def mean_of_steps(self, x: Twin) -> Twin:
        y = self.node("ReduceMean", x[1], axes=(1,), keepdims=0)
        return self._mean(x[0], (1,)), y

    def heads(self, x: Twin, count: int, perm: Sequence[int]) -> Twin:
        """Divides the last axis into heads, and moves axes."""
        n, steps, width = self.shape(x)
        shape = (n, steps, count, width // count)
        sizes = self.named(np.array([0, *shape[1:]]))
        y = self.node("Transpose", self.node("Reshape", x[1], sizes), perm=tuple(perm))
        return self._transposed(self.net.add("RESHAPE", (x[0],), shape, new_shape=shape), perm), y

    def joined_heads(self, x: Twin) -> Twin:
        n, count, steps, width = self.shape(x)
        shape, perm = (n, steps, count * width), (0, 2, 1, 3)
        y = self.node("Transpose", x[1], perm=perm)
        y = self.node("Reshape", y, self.named(np.array([0, *shape[1:]])))
        moved = self._transposed(x[0], perm)
        return self.net.add("RESHAPE", (moved,), shape, new_shape=shape), y

    def layer_norm(self, x: Twin) -> Twin:
        """One operator in the file; mean, variance, factors and terms in the graph."""
        net, shape = self.net, self.shape(x)
        gamma, beta = self.draw(shape[-1]), self.draw(shape[-1])
        names = self.named(gamma), self.named(beta)
        y = self.node("LayerNormalization", x[1], *names, axis=-1, epsilon=EPSILON)
        last, one = (len(shape) - 1,), (*shape[:-1], 1)
        mean = self._mean(x[0], last, keep_dims=True)
        away = net.add("SUB", (x[0], mean), shape)
        square = self._mean(net.add("MUL", (away, away), shape), last, keep_dims=True)
        spread = net.add("ADD", (square, net.constant(np.float32(EPSILON))), one)
        normal = net.add("MUL", (away, net.add("RSQRT", (spread,), one)), shape)
        scaled = net.add("MUL", (normal, net.constant(gamma)), shape)
        return net.add("ADD", (scaled, net.constant(beta)), shape), y

    def lstm(self, x: Twin, units: int) -> Twin:
        """Weights of all gates i, o, f, c in one tensor in the file, with two biases."""
        _, steps, width = self.shape(x)
        w, r = self.draw(1, 4 * units, width), self.draw(1, 4 * units, units)
        b = self.draw(1, 8 * units)
        names = [self.named(a) for a in (w, r, b)]
        y = self.node("Transpose", x[1], perm=(1, 0, 2))
        y = self.node("Squeeze", self.node("LSTM", y, *names, hidden_size=units), self.axes(1))
        gates = (0, 2, 3, 1)  # i, f, c, o of the graph
        both = b[0, : 4 * units] + b[0, 4 * units :]
        inputs = [a[0, k * units : (k + 1) * units] for a in (w, r) for k in gates]
        biases = [both[k * units : (k + 1) * units] for k in gates]
        constants = [self.net.constant(a) for a in (*inputs, *biases)]
        operands = (x[0], *constants[:8], *[ABSENT] * 3, *constants[8:])
        options = {"fused_activation_function": TANH, "time_major": False}
        op, shape = "UNIDIRECTIONAL_SEQUENCE_LSTM", (1, steps, units)
        return self.net.add(op, operands, shape, **options), self.node(
            "Transpose", y, perm=(1, 0, 2)
        )

    def axes(self, *axes: int) -> str:
        return self.named(np.array(axes))

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _mean(self, x: int, axes: tuple[int, ...], keep_dims: bool = False) -> int:
        sizes = enumerate(self.net.tensors[x].spec.shape)
        kept = [1 if k in axes else n for k, n in sizes if keep_dims or k not in axes]
        constant = self.net.constant(axes, np.int32)
        return self.net.add("MEAN", (x, constant), kept, keep_dims=keep_dims)

    def _transposed(self, x: int, perm: Sequence[int]) -> int:
        shape = [self.net.tensors[x].spec.shape[k] for k in perm]
        return self.net.add("TRANSPOSE", (x, self.net.constant(perm, np.int32)), shape)
