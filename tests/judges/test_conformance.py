"""The ten training runs that onert's own tests assert, with the losses it prints.

SGD with mean squared error, averaged over the batch; weights and bias zero unless said. An
epoch's loss is the mean of its steps'. The values are those of onert 1.30.0; they have four
decimals, and its last digit may differ by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from support.networks import ArrayData, InOrder, Net

from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array

RELU6 = 3
VALID, SAME = 1, 0
Numbers = Sequence[float]

CONV_X = [4, 0, -5, 1, 0, 4, -1, 1, -1, -3, 3, -2, -4, 1, -2, 2, 4, -4, 2, 2, 0, 4, -1, -2, 4]
CONV_Y = [47, -4, -25, 9, 10, 10, -13, 11, -14, -26, -12, 26, 20, 40, 1, 3, 11, 4]
FC_X = [[1, 3], [2, 1]]
FC_Y = [[2, 1, 5, 5, 2, 1, 5, 5], [2, 1, 5, 5, 2, 1, 5, 6]]


@dataclass(frozen=True)
class Case:
    """A graph, its samples, and the loss of each epoch."""

    graph: Graph
    inputs: Sequence[Sequence[Numbers]]
    targets: Sequence[Numbers]
    losses: Numbers
    learning_rate: float = 0.01
    optimizer: str = "sgd"
    batch: int = 1
    trainable: tuple[int, ...] | None = field(default=None)


def fc(net: Net, x: int, width: int, units: int, *, bias: float | None = 0) -> int:
    inputs = [x, net.constant(np.zeros((units, width)))]
    if bias is not None:
        inputs.append(net.constant(np.full(units, bias)))
    return net.add("FULLY_CONNECTED", inputs, (1, units))


def one_fc(bias: float | None = 0) -> Graph:
    net = Net()
    return net.graph(fc(net, net.input(1, 2), 2, 8, bias=bias))


def conv(net: Net) -> int:
    inputs = (
        net.input(1, 5, 5, 1),
        net.constant(np.zeros((2, 3, 3, 1))),
        net.constant(np.zeros(2)),
    )
    return net.add("CONV_2D", inputs, (1, 3, 3, 2), padding=VALID, stride_w=1, stride_h=1)


def one_conv() -> Graph:
    net = Net()
    return net.graph(conv(net))


def conv_and_add() -> Graph:
    net = Net()
    y = conv(net)
    return net.graph(net.add("ADD", (y, net.input(1, 3, 3, 2)), (1, 3, 3, 2)))


def depthwise(x: tuple[int, ...], k: int, multiplier: int, y: tuple[int, ...], pad: int) -> Graph:
    net = Net()
    channels = x[-1] * multiplier
    inputs = (
        net.input(*x),
        net.constant(np.zeros((1, k, k, channels))),
        net.constant(np.zeros(channels)),
    )
    options = {"padding": pad, "stride_w": 1, "stride_h": 1, "depth_multiplier": multiplier}
    return net.graph(net.add("DEPTHWISE_CONV_2D", inputs, y, **options))


def fc_and_input() -> Graph:
    net = Net()
    y = fc(net, net.input(1, 2), 2, 8)
    return net.graph(net.add("ADD", (y, net.input(1, 8)), (1, 8)))


def fc_relu6_add() -> Graph:
    net = Net()
    y = fc(net, net.input(1, 2), 2, 8)
    return net.graph(net.add("ADD", (y, net.add("RELU6", (y,), (1, 8))), (1, 8)))


def two_fc(op: str, bias: float, activation: int = 0) -> Graph:
    net = Net()
    first = fc(net, net.input(1, 2), 2, 8, bias=bias)
    second = fc(net, first, 8, 8, bias=bias)
    options = {"fused_activation_function": activation}
    return net.graph(net.add(op, (first, second), (1, 8), **options))


TWOS = [[2.0] * 18]
CASES = {
    "fc": Case(one_fc(), [FC_X], FC_Y, (14.2234, 13.2278, 12.3045, 11.4484)),
    "fc without bias": Case(
        one_fc(None), [FC_X], FC_Y, (14.4375, 13.9950, 13.5668, 13.1523, 12.7512), batch=2
    ),
    "conv, rate 1": Case(one_conv(), [[CONV_X]], [CONV_Y], (403.3333, 62066.2773), 1.0),
    "conv": Case(one_conv(), [[CONV_X]], [CONV_Y], (403.3333, 324.0978, 267.7882, 226.5260)),
    "conv, adam": Case(
        one_conv(),
        [[CONV_X]],
        [CONV_Y],
        (403.3333, 399.8316, 396.3581, 392.9135),
        optimizer="adam",
    ),
    "depthwise": Case(
        depthwise((1, 3, 2, 2), 2, 2, (1, 2, 1, 4), VALID),
        [[[1, 2, 7, 8, 3, 4, 9, 1, 5, 6, 11, 2]]],
        [[1, -4, 1, -3, 2, -2, 2, -4]],
        (6.8750, 2.5275, 1.6320, 1.1701),
    ),
    "depthwise, same": Case(
        depthwise((1, 2, 2, 2), 3, 1, (1, 2, 2, 2), SAME),
        [[list(range(8))]],
        [[6, 16, 8, 16, 10, 16, 12, 16]],
        (171.0000, 69.5150, 29.9159, 13.7338),
    ),
    "fc and input": Case(
        fc_and_input(),
        [FC_X, [list(range(8)), list(range(7, -1, -1))]],
        FC_Y,
        (9.2218, 8.9554, 8.7044, 8.4678),
    ),
    "fc, relu6, add": Case(fc_relu6_add(), [FC_X], FC_Y, (14.0124, 11.0036, 8.1681, 6.0974)),
    "fc, fc, sub": Case(
        two_fc("SUB", 0),
        [[[6, 7], [7, 6]]],
        [[2, 1, 5, 7, 2, 5, 5, 5], [2, 1, 5, 2, 2, 1, 3, 6]],
        (12.9477, 5.79475, 3.0031, 2.3388),
    ),
    "fc, fc, mul, relu6": Case(
        two_fc("MUL", 1, RELU6),
        [[[2, 3], [5, 4]]],
        [[3, 2, 1, 2, 5, 6, 1, 3], [2, 1, 5, 5, 2, 1, 5, 6]],
        (7.6865, 5.6564, 3.7945, 3.1894),
    ),
    "conv and add": Case(
        conv_and_add(), [[CONV_X], TWOS], [CONV_Y], (385.5555, 310.1241, 256.4867, 217.1853)
    ),
    "conv and add, the add only": Case(
        conv_and_add(), [[CONV_X], TWOS], [CONV_Y], (385.5555,) * 4, trainable=(1,)
    ),
    "conv and add, nothing": Case(
        conv_and_add(), [[CONV_X], TWOS], [CONV_Y], (385.5555,) * 4, trainable=()
    ),
}


def array(rows: Sequence[Numbers]) -> Array:
    return np.array(rows, np.float32)


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_onert(name: str) -> None:
    case = CASES[name]
    info = TrainingInfo(
        optimizer=case.optimizer,
        learning_rate=case.learning_rate,
        loss="mean_squared_error",
        batch_size=case.batch,
        trainable_ops=case.trainable,
    )
    data = ArrayData([array(x) for x in case.inputs], [array(case.targets)])
    with Trainer(case.graph, info) as trainer:
        order = InOrder(len(case.targets))
        epochs = list(trainer.train(data, order, epochs=len(case.losses)))
    losses = [e.training.loss for e in epochs]
    np.testing.assert_allclose(losses, case.losses, rtol=2e-6, atol=1.5e-4)
