"""Networks with a frozen part: a graph, and the positions of the operators that train."""

import numpy as np

from odt.core.model.graph import Graph
from support.networks import Net

RELU = 1


def chain() -> tuple[Graph, tuple[int, ...]]:
    net = Net()
    x = net.input(1, 6)
    for _ in range(2):
        x = net.dense(x, 9, fused_activation_function=RELU)
    return net.graph(net.dense(x, 5)), (2,)


def convolutions() -> tuple[Graph, tuple[int, ...]]:
    """The trained convolution is in the middle, between a frozen one and a frozen dense layer."""
    net = Net()
    x = net.input(1, 6)
    image = net.add("RESHAPE", (x, net.constant([-1, 2, 3, 1], np.int32)), (1, 2, 3, 1))
    options = {"padding": 0, "stride_w": 1, "stride_h": 1}
    image = net.add("CONV_2D", (image, net.weight(4, 3, 3, 1)), (1, 2, 3, 4), **options)
    image = net.add("CONV_2D", (image, net.weight(2, 1, 1, 4)), (1, 2, 3, 2), **options)
    return net.graph(
        net.dense(net.add("RESHAPE", (image, net.constant([-1, 12], np.int32)), (1, 12)), 5)
    ), (2,)


def branches() -> tuple[Graph, tuple[int, ...]]:
    """The trained part reads two tensors and an input of the frozen part."""
    net = Net()
    x = net.input(1, 6)
    a = net.dense(x, 6)
    b = net.add("TANH", [net.dense(a, 6)], (1, 6))
    c = net.add("FULLY_CONNECTED", (b, net.weight(6, 6)), (1, 6))
    y = net.add("ADD", (net.add("MUL", (c, a), (1, 6)), x), (1, 6))
    return net.graph(net.dense(y, 5)), (3,)


def mixing() -> tuple[Graph, tuple[int, ...]]:
    """Values that depend on other samples of a batch are computed in each step."""
    net = Net()
    a = net.dense(net.input(1, 6), 6)
    mean = net.add("MEAN", (a, net.constant([0], np.int32)), (1, 6), keep_dims=True)
    return net.graph(net.dense(net.add("SUB", (a, mean), (1, 6)), 5)), (3,)


def unrolled() -> tuple[Graph, tuple[int, ...]]:
    """A converter has put the batch axis, 1, after another axis."""
    net = Net()
    x = net.add("RESHAPE", (net.input(1, 6), net.constant([3, 1, 2], np.int32)), (3, 1, 2))
    x = net.add("ADD", (net.add("TANH", [x], (3, 1, 2)), net.weight(3, 1, 2)), (3, 1, 2))
    ends = [net.constant(v, np.int32) for v in ([1, 0, 0], [2, 1, 2], [1, 1, 1])]
    x = net.add("STRIDED_SLICE", (x, *ends), (1, 2), shrink_axis_mask=1)
    return net.graph(net.dense(x, 5)), (4,)


def dead_reader() -> tuple[Graph, tuple[int, ...]]:
    """The trained operator that reads a tied weight has an unused output."""
    net = Net()
    x, w = net.input(1, 6), net.weight(6)
    h = net.add("MUL", (net.add("TANH", (x,), (1, 6)), w), (1, 6))
    y = net.dense(net.add("TANH", (h,), (1, 6)), 5)
    net.add("MUL", (h, w), (1, 6))
    return net.graph(y), (3, 4)
