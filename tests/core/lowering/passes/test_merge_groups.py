"""Convolutions of groups of channels that are joined become one CONV_2D with groups."""

from dataclasses import dataclass

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.lowering.graph_builder import permuted
from odt.core.model.graph import Graph
from odt.kernels.geometry.window import SAME, VALID

SIDE = 6
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True)
class Groups:
    """A grouped convolution in a network, as converters write it.

    Attributes:
        groups, channels, units: their number, and channels and units of each.
        kernel, stride: of the filters.
        first: whether the results are joined with the channels first.
        slices: whether channels are taken by slices, with the channels first; else by a SPLIT.
        beside: whether other channels are joined before the groups.
        skipped: channels before the first group that no group reads.
        bias: whether each convolution has a bias.
    """

    groups: int = 3
    channels: int = 4
    units: int = 4
    kernel: int = 3
    stride: int = 1
    first: bool = False
    slices: bool = False
    beside: bool = False
    skipped: int = 0
    bias: bool = True

    def graph(self) -> Graph:
        """Makes channels by a convolution, convolves groups of them, and takes means."""
        net = Net()
        total = self.skipped + self.groups * self.channels
        shape = (1, SIDE, SIDE, total)
        inputs = net.input(1, SIDE, SIDE, 3), net.weight(total, 1, 1, 3), net.weight(total)
        x = net.add("CONV_2D", inputs, shape, padding=SAME)
        parts = self.parts(net, x)
        side = -(-SIDE // self.stride)
        results = [self.convolved(net, part, side) for part in parts]
        if self.beside:
            results.insert(0, self.moved(net, net.add("TANH", (x,), shape)))
        axis = 1 if self.first else 3
        wide = list(net.tensors[results[0]].spec.shape)
        wide[axis] = sum(net.tensors[i].spec.shape[axis] for i in results)
        y = net.add("CONCATENATION", results, wide, axis=axis)
        axes = net.constant([2, 3] if self.first else [1, 2], np.int32)
        y = net.add("MEAN", (net.add("TANH", (y,), wide), axes), (1, wide[axis]))
        return net.graph(net.dense(y, 3))

    def parts(self, net: Net, x: int) -> list[int]:
        """Adds operators that take the channels of each group."""
        if not self.slices:
            return split(net, x, self.groups)
        x, parts = transposed(net, x, FIRST), []
        for k in range(self.groups):
            begin = self.skipped + k * self.channels
            ends = [0, begin, 0, 0], [1, begin + self.channels, SIDE, SIDE], [1] * 4
            inputs = (x, *(net.constant(end, np.int32) for end in ends))
            part = net.add("STRIDED_SLICE", inputs, (1, self.channels, SIDE, SIDE))
            parts.append(transposed(net, part, LAST))
        return parts

    def convolved(self, net: Net, x: int, side: int) -> int:
        """Adds the convolution of a group."""
        padding = SAME
        if self.stride > 1 and self.kernel > 1:  # zeros on both sides, which SAME would not add
            pads = net.constant([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
            x, padding = net.add("PAD", (x, pads), (1, SIDE + 2, SIDE + 2, self.channels)), VALID
        weights = [net.weight(self.units, self.kernel, self.kernel, self.channels)]
        weights += [net.weight(self.units)] if self.bias else []
        strides = {"stride_h": self.stride, "stride_w": self.stride}
        shape = (1, side, side, self.units)
        return self.moved(net, net.add("CONV_2D", (x, *weights), shape, padding=padding, **strides))

    def moved(self, net: Net, x: int) -> int:
        return transposed(net, x, FIRST) if self.first else x


def split(net: Net, x: int, number: int) -> list[int]:
    """Adds a SPLIT of the channels."""
    *shape, channels = net.tensors[x].spec.shape
    y = net.add(
        "SPLIT", (net.constant(3, np.int32), x), (*shape, channels // number), num_splits=number
    )
    more = [net._tensor((*shape, channels // number)) for _ in range(number - 1)]
    node = net.nodes[-1]
    net.nodes[-1] = type(node)(node.op, node.inputs, (y, *more), node.options, node.origin)
    return [y, *more]


def transposed(net: Net, x: int, perm: tuple[int, ...]) -> int:
    shape = permuted(net.tensors[x].spec.shape, perm)
    return net.add("TRANSPOSE", (x, net.constant(perm, np.int32)), shape)


MERGED = {
    "split": Groups(),
    "channels first": Groups(first=True, slices=True),
    "strided": Groups(stride=2, slices=True),
    "beside others": Groups(beside=True, first=True, slices=True),
    "more units": Groups(units=6, kernel=1, beside=True),
    "one unit": Groups(units=1, first=True),
    "without bias": Groups(bias=False),
    "two channels, whole vectors": Groups(groups=16, channels=2, units=2),
    "four channels, whole vectors": Groups(groups=8, stride=2),
    "eight channels, whole vectors": Groups(groups=4, channels=8, units=8),
}
KEPT = {"not all channels": Groups(slices=True, skipped=1)}


def convolutions(graph: Graph) -> int:
    return sum(node.op == "CONV_2D" for node in lower(graph, 2).nodes)


@pytest.mark.parametrize("groups", MERGED.values(), ids=MERGED)
def test_groups_become_one_convolution(groups: Groups) -> None:
    assert convolutions(groups.graph()) == 2


@pytest.mark.parametrize("groups", KEPT.values(), ids=KEPT)
def test_others_stay(groups: Groups) -> None:
    assert convolutions(groups.graph()) == 1 + groups.groups


@pytest.mark.parametrize("kernels", ["numpy", "base", "avx2", "compiled"])
@pytest.mark.parametrize("groups", MERGED.values(), ids=MERGED)
def test_it_trains_the_same(groups: Groups, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels != "compiled":
        monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, SIDE, SIDE, 3)), rng.normal(size=(4, 3))
    data = ArrayData([x.astype("f4")], [y.astype("f4")])
    check_same_training("merge_groups", groups.graph(), data, monkeypatch, moved=1e-7, atol=1e-6)
