"""Planning takes time in proportion to the number of nodes."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from support.networks import Net

from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer

FEW, MANY = 100, 600
GROWTH = 1.15  # of the calls of a node


def layers(count: int) -> Graph:
    """Layers in a chain, each with weights of its own."""
    net = Net()
    x = net.input(1, 16)
    for _ in range(count):
        x = net.dense(x, 16, fused_activation_function=1)
    return net.graph(net.dense(x, 4))


def blocks(count: int) -> Graph:
    """Blocks with shortcuts."""
    net = Net()
    x = net.input(1, 16)
    for _ in range(count):
        x = net.add("ADD", (x, net.dense(x, 16, fused_activation_function=1)), (1, 16))
    return net.graph(net.dense(x, 4))


def steps(count: int) -> Graph:
    """Steps of a recurrent network that read the same input and share their weights."""
    net = Net()
    x = net.input(1, 8)
    h, w, u = x, net.weight(8, 8), net.weight(8, 8)
    for _ in range(count):
        parts = [net.add("FULLY_CONNECTED", each, (1, 8)) for each in ((x, w), (h, u))]
        h = net.add("TANH", (net.add("ADD", parts, (1, 8)),), (1, 8))
    return net.graph(net.dense(h, 4))


def calls(graph: Graph) -> int:
    """Counts the calls of functions, also of those in C, of planning and binding."""
    count = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        with Trainer(graph, TrainingInfo(loss="mean_squared_error", batch_size=8)):
            pass
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("network", [layers, blocks, steps])
def test_calls_grow_with_the_nodes(network: Callable[[int], Graph]) -> None:
    calls(network(2))  # loads modules
    few, many = (calls(network(count)) for count in (FEW, MANY))
    assert many <= GROWTH * few * MANY / FEW
