"""BatchNorm written as MUL and ADD of constants: found, trained as an affine layer, or frozen."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, InOrder, Net

from odt.core.lowering.batch_norms import norm_constants
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.selection import Selection, select
from odt.core.training.trainer import Trainer
from odt.errors import OptionError

INFO = TrainingInfo("sgd", {}, 0.1, "mean_squared_error", batch_size=4)
RELU = 1


def normalized(scale: str = "MUL", shift: str = "ADD") -> tuple[Graph, set[int]]:
    """A layer, its BatchNorm, RELU and a layer; the indices of the constants of the BatchNorm."""
    net = Net()
    y = net.dense(net.input(1, 5), 4)
    a, b = net.weight(4), net.weight(1, 4)
    y = net.add(shift, (net.add(scale, (y, a), (1, 4)), b), (1, 4), fused_activation_function=RELU)
    return net.graph(net.dense(y, 3)), {a, b}


@pytest.mark.parametrize(("scale", "shift"), [("MUL", "ADD"), ("DIV", "SUB"), ("MUL", "SUB")])
def test_scale_and_shift_are_found(scale: str, shift: str) -> None:
    graph, constants = normalized(scale, shift)
    assert norm_constants(lower(graph, 1)) == constants


def test_shifts_before_the_scale_are_found() -> None:
    """The first subtracts a mean; the one behind an activation is a bias."""
    net = Net()
    a, b, bias = net.weight(4), net.weight(4), net.weight(4)
    y = net.add("SUB", (net.dense(net.input(1, 5), 4), a), (1, 4))
    y = net.add("MUL", (y, b), (1, 4), fused_activation_function=RELU)
    assert norm_constants(lower(net.graph(net.add("ADD", (y, bias), (1, 4))), 1)) == {a, b}


def test_channels_first_is_found_behind_a_transpose() -> None:
    net = Net()
    x, filters = net.input(1, 5, 5, 2), net.weight(3, 1, 1, 2)
    y = net.add("CONV_2D", (x, filters, -1), (1, 5, 5, 3), stride_w=1, stride_h=1, padding=0)
    y = net.add("TRANSPOSE", (y, net.constant([0, 3, 1, 2], np.int32)), (1, 3, 5, 5))
    a, b = net.weight(1, 3, 1, 1), net.weight(1, 3, 1, 1)
    y = net.add("ADD", (net.add("MUL", (a, y), (1, 3, 5, 5)), b), (1, 3, 5, 5))
    assert norm_constants(lower(net.graph(y), 1)) == {a, b}


def test_other_scales_are_not_batch_norms() -> None:
    """A bias, factors of all or behind an activation, a quotient, a product of activations."""
    net = Net()
    x = net.input(1, 5)
    first = net.dense(x, 4)
    bias = net.add("ADD", (first, net.weight(4)), (1, 4), fused_activation_function=RELU)
    scaled = net.add("MUL", (bias, net.weight(4)), (1, 4))
    second = net.add("MUL", (net.dense(scaled, 4), net.constant([2.0])), (1, 4))
    third = net.add("DIV", (net.weight(4), net.dense(second, 4)), (1, 4))
    both = net.add("MUL", (net.dense(third, 4), scaled), (1, 4))
    assert norm_constants(lower(net.graph(both), 1)) == set()


def test_frozen_constants_stay_and_others_train_unchanged() -> None:
    graph, constants = normalized()
    rng = np.random.default_rng(0)
    data = ArrayData([rng.normal(size=(4, 5))], [rng.normal(size=(4, 3))])
    moved = []
    for selection in (Selection(), Selection(freeze_norm=True)):
        with Trainer(graph, select(LoweredGraphs(graph), INFO, selection)) as trainer:
            list(trainer.train(data, InOrder(4), epochs=1))
            moved.append({i: a.copy() for i, a in trainer.parameters.tensors.items()})
    affine, frozen = moved
    assert affine.keys() - frozen.keys() == constants
    for i in constants:
        assert (affine[i] != graph.tensors[i].data).any()
    for i, a in frozen.items():
        np.testing.assert_array_equal(a, affine[i])


def test_a_graph_without_batch_norms_is_refused() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 5), 3))
    with pytest.raises(OptionError, match="`freeze_norm=`: there must be a MUL by one constant"):
        select(LoweredGraphs(graph), INFO, Selection(freeze_norm=True))
