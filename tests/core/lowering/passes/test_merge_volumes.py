"""The CONV_2D operators that spell out a convolution of volumes become one CONV_3D."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.lowering.graph_builder import permuted
from odt.core.model.graph import Graph
from odt.kernels.geometry.window import SAME, VALID

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class Volumes:
    """A Conv3d in PyTorch's terms, its input, and how a converter writes it.

    Attributes:
        x: (C, D, H, W).
        w: (O, KD, KH, KW).
        stride, dilation, padding: of depth, height and width.
        order: of the filters of the last image, if it differs.
        zeros: of the zeros before the depth, and of the biases of the convolutions.
    """

    x: tuple[int, ...] = (3, 5, 6, 7)
    w: tuple[int, ...] = (4, 3, 3, 2)
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    padding: tuple[int, int, int] = (1, 0, 0)
    bias: bool = True
    order: int = 1
    zeros: float = 0

    @property
    def y(self) -> tuple[int, ...]:
        """The shape of the result, (O, D, H, W)."""
        sizes = zip(self.x[1:], self.w[1:], self.stride, self.dilation, self.padding, strict=True)
        return (self.w[0], *((n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, d, p in sizes))

    def graph(self) -> Graph:
        """Makes the convolution of a volume multiplied by a weight, means, and a dense layer."""
        net = Net()
        shape = (1, *self.x)
        x = net.add("MUL", (net.input(*shape), net.weight(self.x[0], 1, 1, 1)), shape)
        depth, padding = self.x[1], self.padding[0]
        if padding:
            end = (1, self.x[0], padding, *self.x[2:])
            zeros = net.constant(np.full(end, self.zeros)), net.constant(np.zeros(end))
            depth += 2 * padding
            wide = (1, self.x[0], depth, *self.x[2:])
            x = net.add("CONCATENATION", (zeros[0], x, zeros[1]), wide, axis=2)
        filters = [net.weight(self.w[0], *self.w[2:], self.x[0]) for _ in range(self.w[1])]
        bias = net.weight(1, self.w[0], 1, 1)
        units, outputs, *size = self.y
        images = []
        for t in range(outputs):
            order = filters[:: self.order] if t == outputs - 1 else filters
            y = -1
            for k, w in enumerate(order):
                term = self.image(net, x, t * self.stride[0] + k * self.dilation[0], w, depth)
                y = term if y < 0 else net.add("ADD", (y, term), (1, units, *size))
            if self.bias:
                y = net.add("ADD", (y, bias), (1, units, *size))
            images.append(reshaped(net, y, (1, units, 1, *size)))
        y = net.add("CONCATENATION", images, (1, *self.y), axis=2)
        y = net.add("RELU", (y,), (1, *self.y))
        y = net.add("MEAN", (y, net.constant([2, 3, 4], np.int32)), (1, units))
        return net.graph(net.dense(y, 3))

    def image(self, net: Net, x: int, at: int, w: int, depth: int) -> int:
        """Adds the convolution of an image of a volume."""
        channels, _, height, width = self.x
        begin = net.constant([0, 0, at, 0, 0], np.int32)
        end = net.constant([1, channels, at + 1, height, width], np.int32)
        ones = net.constant([1] * 5, np.int32)
        y = net.add("STRIDED_SLICE", (x, begin, end, ones), (1, channels, 1, height, width))
        y = reshaped(net, y, (1, channels, height, width))
        y = transposed(net, y, TO_LAST)
        pads = self.padding[1:]
        same = pads == (1, 1) and self.w[2:] == (3, 3) and self.stride[1:] == (1, 1)
        if any(pads) and not same:
            pairs = [(0, 0), *((p, p) for p in pads), (0, 0)]
            wide = (1, height + 2 * pads[0], width + 2 * pads[1], channels)
            y = net.add("PAD", (y, net.constant(pairs, np.int32)), wide)
        options = {"padding": SAME if same else VALID}
        for k, axis in enumerate("hw", 1):
            options |= {f"stride_{axis}": self.stride[k]}
            options |= {f"dilation_{axis}_factor": self.dilation[k]}
        zeros = net.constant(np.full(self.w[0], self.zeros))
        net.tensors[zeros] = replace(net.tensors[zeros], name="const_tensor_1")
        y = net.add("CONV_2D", (y, w, zeros), (1, *self.y[2:], self.w[0]), **options)
        return transposed(net, y, TO_FIRST)


def reshaped(net: Net, x: int, shape: tuple[int, ...]) -> int:
    return net.add("RESHAPE", (x, net.constant(shape, np.int32)), shape)


def transposed(net: Net, x: int, perm: tuple[int, ...]) -> int:
    """Adds a TRANSPOSE, or a RESHAPE where it moves an axis of length 1, as converters do."""
    shape = net.tensors[x].spec.shape
    if shape[perm[-1]] == 1 or (perm == TO_FIRST and shape[3] == 1):
        return reshaped(net, x, permuted(shape, perm))
    return net.add("TRANSPOSE", (x, net.constant(perm, np.int32)), permuted(shape, perm))


MERGED = {
    "padded": Volumes(),
    "same": Volumes(w=(4, 3, 3, 3), padding=(1, 1, 1)),
    "strided": Volumes(w=(4, 3, 3, 3), padding=(1, 1, 1), stride=(2, 2, 2)),
    "stride of depth alone": Volumes(stride=(2, 1, 1), padding=(2, 0, 0)),
    "inside": Volumes(padding=(0, 0, 0)),
    "dilated": Volumes(padding=(1, 1, 2), dilation=(2, 2, 1)),
    "without bias": Volumes(bias=False),
    "one tap": Volumes(w=(4, 1, 3, 2), padding=(0, 1, 0)),
    "one channel": Volumes(x=(1, 5, 6, 7)),
    "one unit": Volumes(w=(1, 3, 3, 2)),
}
KEPT = {
    "other filters for one image": Volumes(order=-1),
    "biases of images": Volumes(zeros=0.5, padding=(0, 0, 0)),
}


def operators(graph: Graph, batch: int = 2) -> set[str]:
    return {node.op for node in lower(graph, batch).nodes}


@pytest.mark.parametrize("volumes", MERGED.values(), ids=MERGED)
def test_convolutions_of_images_become_one_of_volumes(volumes: Volumes) -> None:
    found = operators(volumes.graph())
    assert "CONV_3D" in found
    assert found.isdisjoint({"CONV_2D", "CONCATENATION", "STRIDED_SLICE", "PAD"})


@pytest.mark.parametrize("volumes", KEPT.values(), ids=KEPT)
def test_other_convolutions_stay(volumes: Volumes) -> None:
    assert "CONV_2D" in operators(volumes.graph())


def test_an_end_that_is_not_zero_stays() -> None:
    volumes = Volumes(zeros=0.5)
    graph = volumes.graph()
    biases = [t.name == "const_tensor_1" for t in graph.tensors]
    tensors = [
        replace(t, data=np.zeros_like(t.data)) if is_bias else t
        for t, is_bias in zip(graph.tensors, biases, strict=True)
    ]
    assert {"CONV_3D", "CONCATENATION"} <= operators(replace(graph, tensors=tuple(tensors)))


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("volumes", MERGED.values(), ids=MERGED)
def test_it_trains_the_same(
    volumes: Volumes, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, *volumes.x)), rng.normal(size=(4, 3))
    data = ArrayData([x.astype("f4")], [y.astype("f4")])
    graph = volumes.graph()
    check_same_training("merge_volumes", graph, data, monkeypatch, moved=1e-6, atol=1e-6)
