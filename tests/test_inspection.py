"""What would train, on graphs small enough to count by hand."""

import pytest
from networks import Net

from odt.core.graph import Graph
from odt.core.inspection import inspect_graph


def two_layers() -> Graph:
    net = Net()
    hidden = net.dense(net.input(1, 4), 3)
    return net.graph(net.add("RELU", [net.dense(hidden, 2)], (1, 2)))


def names(graph: Graph, tensors: frozenset[int]) -> list[str]:
    return sorted(graph.tensors[i].name for i in tensors)


@pytest.mark.parametrize(
    ("last", "expected"),
    [(0, []), (1, []), (2, ["x4", "x5"]), (3, ["x1", "x2", "x4", "x5"])],
)
def test_the_last_n_operators_train_their_own_constants(last: int, expected: list[str]) -> None:
    """x0 input; x1, x2 weights and bias of the first layer, x3 its output; x4, x5 …"""
    graph = two_layers()
    assert names(graph, inspect_graph(graph).last(last)) == expected


def test_a_shared_weight_counts_once() -> None:
    net = Net()
    x, w = net.input(1, 3), net.weight(3, 3)
    y = net.add("FULLY_CONNECTED", [x, w], (1, 3))
    graph = net.graph(net.add("FULLY_CONNECTED", [y, w], (1, 3)))
    found = inspect_graph(graph)
    assert found.trained == {0: (w,), 1: (w,)}
    assert found.last(2) == {w}


def test_a_model_that_cannot_train_is_shown_with_the_reason() -> None:
    net = Net()
    x = net.dense(net.input(1, 4), 3)
    found = inspect_graph(net.graph(net.add("NO_SUCH_OPERATOR", [x], (1, 3))))
    assert found.last(2) == frozenset()
    assert "NO_SUCH_OPERATOR" in found.refusal
