"""A final activation moves after operators that only change the shape of its output."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.model.graph import Graph


def reshaped(op: str, *shape: int) -> Graph:
    """A dense layer with six units, an activation, and its output in another shape."""
    net = Net()
    y = net.add(op, (net.dense(net.input(1, 4), 6),), (1, 6))
    return net.graph(net.add("RESHAPE", (y, net.constant((1, *shape), np.int32)), (1, *shape)))


@pytest.mark.parametrize(
    ("op", "shape", "last"),
    [
        ("LOGISTIC", (3, 2), "LOGISTIC"),
        ("SOFTMAX", (1, 6), "SOFTMAX"),
        ("SOFTMAX", (3, 2), "RESHAPE"),  # its rows would be others
    ],
)
def test_the_activation_is_last_if_its_rows_stay(
    op: str, shape: tuple[int, ...], last: str
) -> None:
    graph = lower(reshaped(op, *shape), 3)
    assert graph.nodes[-1].op == last
    assert graph.tensors[graph.outputs[0]].spec.shape == (3, *shape)


@pytest.mark.parametrize(("op", "shape"), [("LOGISTIC", (3, 2)), ("SOFTMAX", (1, 6))])
def test_training_stays_the_same(
    op: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(4, 4)).astype("f4"), rng.normal(size=(4, *shape)).astype("f4")
    graph, data = reshaped(op, *shape), ArrayData([x], [t])
    check_same_training("move_activations_last", graph, data, monkeypatch, moved=1e-6, atol=1e-7)
