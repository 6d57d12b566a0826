"""The batch size in a file's shapes, if its inputs are vectors."""

import numpy as np
import pytest
from support.networks import ArrayData, Net

from odt.core.lowering.lower import LoweredGraphs
from odt.core.training.inference import Predictor


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
