"""The batch size in a file's shapes: of vectors, and of constants with a row for each sample."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, Node
from odt.core.training.inference import Predictor
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import Array


@pytest.mark.parametrize(("constant", "batch"), [((6,), 1), ((1,), 6)])
def test_a_vector_is_a_batch_where_more_of_it_can_be_computed(
    constant: tuple[int, ...], batch: int
) -> None:
    net = Net()
    graph = net.graph(net.add("MUL", (net.input(6), net.weight(*constant)), (6,)))
    assert LoweredGraphs(graph).file_batch == batch


def test_a_vector_whose_output_is_one_row_is_one_sample() -> None:
    """FULLY_CONNECTED makes two rows of a vector twice as long."""
    net = Net()
    weights = net.weight(3, 2)
    graph = net.graph(net.add("FULLY_CONNECTED", (net.input(2), weights, -1), (1, 3)))
    assert LoweredGraphs(graph).file_batch == 1
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    with Predictor(graph, 4) as predictor:
        (found,) = (
            [v.copy() for v in outputs] for outputs in predictor.run(ArrayData([x], ()), range(4))
        )
    w = graph.tensors[weights].data
    assert w is not None
    np.testing.assert_allclose(found[0].reshape(4, 3), x @ w.T, rtol=1e-5)


def one_row_each(op: str) -> Graph:
    """x (4, 6) and a constant that holds something for each of 4 samples."""
    net = Net()
    x = net.input(4, 6)
    if op == "SELECT":
        return net.graph(net.add(op, (net.constant([1, 0, 0, 1], bool), x, x), (4, 6)))
    if op == "GATHER":
        columns = net.constant([[3], [2], [1], [0]], np.int32)
        return net.graph(net.add(op, (x, columns), (4, 1), axis=1, batch_dims=1))
    y = net.add("MUL", (x, net.weight(4, 6)), (4, 6))
    if op == "RESHAPE":  # to as many rows as x has
        shape, rows, target = (net._tensor((n,), np.int32) for n in (2, 1, 2))
        first = [net.constant([n], np.int32) for n in (0, 1, 1)]
        made = (("SHAPE", (x,), shape), ("STRIDED_SLICE", (shape, *first), rows))
        net.nodes += [Node(name, ins, (out,), {}, 1) for name, ins, out in made]
        rest = net.constant([-1], np.int32)
        net.nodes.append(Node("CONCATENATION", (rows, rest), (target,), {"axis": 0}, 1))
        y = net.add(op, (y, target), (4, 6))
    return net.graph(y)


@pytest.mark.parametrize("batch", [1, 2, 6])
@pytest.mark.parametrize("op", ["MUL", "SELECT", "GATHER", "RESHAPE"])
def test_a_constant_with_a_row_for_each_sample_holds_for_the_file_s_batch(
    op: str, batch: int
) -> None:
    """A single sample must not be stretched over the rows of all."""
    graph = one_row_each(op)
    assert lower(graph, 4).tensors[graph.outputs[0]].spec.shape[0] == 4
    with pytest.raises(UnsupportedError, match="must"):
        lower(graph, batch)


@pytest.mark.parametrize("op", ["MUL", "GATHER", "RESHAPE"])
def test_a_constant_with_a_row_for_each_sample_holds_for_each_group(op: str) -> None:
    """Two batches of the file's size are computed together as one after the other."""
    graph = one_row_each(op)
    inputs = [
        np.random.default_rng(0).normal(size=(8, *graph.tensors[i].spec.shape[1:]))
        for i in graph.inputs
    ]
    found: dict[int, Array] = {}
    for batch in (4, 8):
        with Predictor(graph, batch) as predictor:
            runs = predictor.run(ArrayData(inputs, ()), range(8))
            found[batch] = np.concatenate([outputs[0].copy() for outputs in runs])
    np.testing.assert_allclose(found[8], found[4], rtol=1e-6)
