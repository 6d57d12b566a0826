"""Constants that train, and those that belong to a formula."""

import numpy as np
import pytest
from support.networks import Net

from odt.core.lowering.constants.hold import hold_constants
from odt.core.planning.trainable import trainable_tensors
from odt.kernels.rows.opdef import Array

CAUSAL = np.triu(np.ones((4, 4)), 1)


def constants_that_train(op: str, values: Array) -> int:
    net = Net()
    scores = net.input(1, 4, 4)
    graph = net.graph(net.add(op, (scores, net.constant(values.tolist())), (1, 4, 4)))
    return len(trainable_tensors(hold_constants(graph), {0}))


@pytest.mark.parametrize("hidden", [-1e4, -1e9, np.finfo(np.float32).min, -np.inf])
def test_the_mask_of_an_attention_does_not_train(hidden: float) -> None:
    mask = np.where(CAUSAL, hidden, 0.0)
    assert not constants_that_train("ADD", mask)
    assert not constants_that_train("SUB", -mask)


@pytest.mark.parametrize(
    "values",
    [
        np.full((4, 4), -1e9),
        np.array([5000.0]),
        np.zeros((4, 4)),
        CAUSAL * -500,
        CAUSAL * np.arange(4.0) * -1e4,
    ],
    ids=["all equal", "a large bias", "zeros", "small", "several values"],
)
def test_other_constants_train(values: Array) -> None:
    assert constants_that_train("ADD", values) == 1


@pytest.mark.parametrize(("value", "trains"), [(1e-5, False), (0.5, True), (-1e-5, True)])
@pytest.mark.parametrize("after", [False, True], ids=["before the root", "after the root"])
def test_one_small_number_at_a_root_does_not_train(value: float, trains: bool, after: bool) -> None:
    net = Net()
    x, shape = net.input(1, 4), (1, 4)
    if after:
        x = net.add("SQRT", (x,), shape)
    y = net.add("ADD", (x, net.constant([value])), shape)
    y = y if after else net.add("RSQRT", (y,), shape)
    graph = hold_constants(net.graph(y))
    assert bool(trainable_tensors(graph, {node.origin for node in graph.nodes})) == trains


def test_one_small_number_trains_elsewhere() -> None:
    assert constants_that_train("ADD", np.array([1e-5])) == 1
