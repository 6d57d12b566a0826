"""x · LOGISTIC(x) is one SWISH if nothing else reads the LOGISTIC."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.model.graph import Graph

SHAPE = (1, 5, 6, 3)


def gated(
    *, swapped: bool = False, twice: bool = False, other: bool = False, output: bool = False
) -> Graph:
    """A convolution, times its LOGISTIC or that of another tensor, and a mean."""
    net = Net()
    image = net.input(1, 7, 8, 2)
    options = {"stride_h": 1, "stride_w": 1, "padding": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    x = net.add("CONV_2D", (image, net.weight(3, 3, 3, 2), net.weight(3)), SHAPE, **options)
    read = net.add("TANH", (x,), SHAPE) if other else x
    gate = net.add("LOGISTIC", (read,), SHAPE)
    y = net.add("MUL", (gate, x) if swapped else (x, gate), SHAPE)
    if twice:
        y = net.add("ADD", (y, gate), SHAPE)
    y = net.add("MEAN", (y, net.constant((1, 2), np.int32)), (1, 3), keep_dims=False)
    return net.graph(y, gate) if output else net.graph(y)


MERGED = {"x first": gated(), "x second": gated(swapped=True)}
KEPT = {
    "read twice": gated(twice=True),
    "of another tensor": gated(other=True),
    "an output": gated(output=True),
}


def operators(graph: Graph) -> list[str]:
    return [node.op for node in lower(graph, 2).nodes]


@pytest.mark.parametrize("graph", MERGED.values(), ids=MERGED)
def test_a_product_and_its_logistic_are_one_node(graph: Graph) -> None:
    assert operators(graph) == ["CONV_2D", "SWISH", "MEAN"]


@pytest.mark.parametrize("graph", KEPT.values(), ids=KEPT)
def test_other_products_stay(graph: Graph) -> None:
    assert "LOGISTIC" in operators(graph)


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("graph", MERGED.values(), ids=MERGED)
def test_it_trains_the_same(graph: Graph, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 7, 8, 2), np.float32)
    data = ArrayData([x], [random.standard_normal((4, 3), np.float32)])
    check_same_training("merge_swish.merge_swish", graph, data, monkeypatch, moved=1e-5, atol=1e-6)
