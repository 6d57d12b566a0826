"""What would train, on graphs small enough to count by hand."""

from dataclasses import replace

from support.networks import Net

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.recipe.inspection import inspect_graph
from odt.core.recipe.trainable_parts import TrainablePart, trainable_parts


def two_layers() -> Graph:
    net = Net()
    hidden = net.dense(net.input(1, 4), 3)
    return net.graph(net.add("RELU", [net.dense(hidden, 2)], (1, 2)))


def test_the_last_n_operators_train_their_own_constants() -> None:
    """x0 input; x1, x2 weights and bias of the first layer, x3 its output; x4, x5 the next."""
    graph = two_layers()
    found = inspect_graph(LoweredGraphs(graph))
    names = {k: [graph.tensors[i].name for i in found.trained[k]] for k in found.trained}
    assert names == {0: ["x1", "x2"], 1: ["x4", "x5"], 2: []}
    assert found.from_each() == {2: 0, 1: 8, 0: 8 + 15}


def test_a_shared_weight_counts_once() -> None:
    net = Net()
    x, w = net.input(1, 3), net.weight(3, 3)
    y = net.add("FULLY_CONNECTED", [x, w], (1, 3))
    graph = net.graph(net.add("FULLY_CONNECTED", [y, w], (1, 3)))
    found = inspect_graph(LoweredGraphs(graph))
    assert found.trained == {0: (w,), 1: (w,)}
    assert found.from_each() == {1: 9, 0: 9}


def test_a_model_that_cannot_train_is_shown_with_the_reason() -> None:
    net = Net()
    x = net.dense(net.input(1, 4), 3)
    found = inspect_graph(LoweredGraphs(net.graph(net.add("NO_SUCH_OPERATOR", [x], (1, 3)))))
    assert found.from_each() == {1: 0, 0: 0}
    assert "NO_SUCH_OPERATOR" in found.refusal


def test_parts_end_before_all_that_an_operator_of_a_subgraph_needs() -> None:
    """Nodes 1 and 2 are of one subgraph, and have the position of the operator that runs it."""
    net = Net()
    x = net.dense(net.input(1, 4), 3)
    y = net.add("RELU", [net.add("RELU", [x], (1, 3))], (1, 3))
    z = net.add("NO_SUCH_OPERATOR", [y], (1, 3))
    graph = net.graph(net.dense(z, 2))
    nodes = [replace(n, origin=k) for n, k in zip(graph.nodes, (0, 1, 1, 2, 3), strict=True)]
    graph = replace(graph, nodes=tuple(nodes))
    parts = trainable_parts(graph, LoweredGraphs(graph).unsupported)
    assert parts == [
        TrainablePart(operators=3, after=(), before=(y,), parameters=15),
        TrainablePart(operators=1, after=(z,), before=(), parameters=8),
    ]
