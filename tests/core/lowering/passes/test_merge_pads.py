"""Convolutions add the zeros of a PAD that they alone read."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.passes.merge_pads import merge_pads
from odt.core.model.graph import Graph

VALID = 1
SIDES = ((1, 1), (1, 1))  # zeros above and below, left and right


def padded(
    sides: tuple[tuple[int, int], tuple[int, int]] = SIDES,
    op: str = "CONV_2D",
    stride: int = 2,
    padding: int = VALID,
    channels: tuple[int, int] = (0, 0),
    twice: bool = False,
    dilation: tuple[int, int] = (1, 1),
) -> Graph:
    """(1, 8, 9, 4) through a MUL, a PAD, a convolution with 3 × 2 filters, and a mean."""
    net = Net()
    x = net.add("MUL", (net.input(1, 8, 9, 4), net.weight(4)), (1, 8, 9, 4))
    pads = ((0, 0), *sides, channels)
    wide = tuple(n + sum(p) for n, p in zip((1, 8, 9, 4), pads, strict=True))
    y = z = net.add("PAD", (x, net.constant(pads, np.int32)), wide)
    depthwise = op == "DEPTHWISE_CONV_2D"
    filters = (1, 3, 2, wide[3]) if depthwise else (5, 3, 2, wide[3])
    spans = (2 * dilation[0] + 1, dilation[1] + 1)
    sizes = wide[1:3]
    if padding == VALID:
        sizes = tuple(n - k + 1 for n, k in zip(sizes, spans, strict=True))
    shape = (1, *(-(-n // stride) for n in sizes), wide[3] if depthwise else 5)
    options = {"stride_h": stride, "stride_w": stride, "padding": padding}
    options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
    weights = net.weight(*filters), net.weight(shape[3])
    y = net.add(op, (y, *weights), shape, **options)
    axes = net.constant((1, 2), np.int32)
    y = net.add("MEAN", (y, axes), (1, shape[3]), keep_dims=False)
    if twice:
        z = net.add("MEAN", (z, axes), (1, wide[3]), keep_dims=False)
        y = net.add("CONCATENATION", (y, z), (1, shape[3] + wide[3]), axis=1)
    return net.graph(y)


MERGED = {
    "around": padded(),
    "behind": padded(((0, 1), (0, 1)), "DEPTHWISE_CONV_2D"),
    "uneven": padded(((2, 0), (0, 1)), "DEPTHWISE_CONV_2D", stride=1),
    "rows only": padded(((2, 2), (0, 0)), stride=3),
    "dilated": padded(((3, 4), (3, 1)), stride=1, dilation=(2, 3)),
}
KEPT = {
    "read twice": padded(twice=True),
    "padded again": padded(padding=0, stride=1),
    "wider than a window": padded(((3, 1), (0, 0))),
    "channels": padded(channels=(0, 1)),
}


def operators(graph: Graph) -> list[str]:
    return [node.op for node in lower(graph, 2).nodes]


@pytest.mark.parametrize("graph", MERGED.values(), ids=MERGED)
def test_a_convolution_adds_the_zeros(graph: Graph) -> None:
    assert "PAD" not in operators(graph)


@pytest.mark.parametrize("graph", KEPT.values(), ids=KEPT)
def test_other_pads_stay(graph: Graph) -> None:
    assert "PAD" in operators(graph)
    lowered = LoweredGraphs(graph).as_in_file
    assert merge_pads(lowered, graph) is lowered


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("graph", MERGED.values(), ids=MERGED)
def test_it_trains_the_same(graph: Graph, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    rng = np.random.default_rng(1)
    shape = graph.tensors[graph.outputs[0]].spec.shape[1:]
    data = ArrayData(
        [rng.normal(size=(4, 8, 9, 4)).astype("f4")], [rng.normal(size=(4, *shape)).astype("f4")]
    )
    check_same_training("merge_pads", graph, data, monkeypatch, moved=1e-5, atol=1e-6)
