"""Zeros with the shape of a tensor do not need its values."""

import pytest
from support.lowering import lower
from support.networks import Net


class Masked(Net):
    """The first step of a recurrent layer beside a product, as Keras finds a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.input(1, 4)
        self.of_step, self.trained = self.weight(3, 4), self.weight(3, 4)
        self.step = self.add("FULLY_CONNECTED", (self.x, self.of_step, -1), (1, 3))
        zeros = self.add("ZEROS_LIKE", (self.step,), (1, 3))
        product = self.add("FULLY_CONNECTED", (self.x, self.trained, -1), (1, 3))
        self.y = self.add("ADD", (product, zeros), (1, 3))


@pytest.mark.parametrize("batch", [1, 5])
def test_what_only_gives_a_shape_is_not_computed(batch: int) -> None:
    net = Masked()
    graph = lower(net.graph(net.y), batch)
    assert [node.op for node in graph.nodes] == ["FILL", "FULLY_CONNECTED", "ADD"]
    assert net.trained in graph.nodes[1].inputs
    assert graph.tensors[net.y].spec.shape == (batch, 3)


def test_what_something_else_reads_stays() -> None:
    net = Masked()
    graph = lower(net.graph(net.add("ADD", (net.y, net.step), (1, 3))), 2)
    ops = [node.op for node in graph.nodes]
    assert (ops.count("FULLY_CONNECTED"), ops.count("ZEROS_LIKE")) == (2, 1)


def test_an_output_of_zeros_alone_keeps_its_samples() -> None:
    net = Masked()
    zeros = net.add("ZEROS_LIKE", (net.add("NEG", (net.step,), (1, 3)),), (1, 3))
    graph = lower(net.graph(net.y, zeros), 5)
    assert graph.tensors[zeros].spec.shape == (5, 3)
