"""Transposes move behind what does not care for the order of axes, and undo each other there."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, InOrder, Net
from support.rewriting import leave_out

from odt.core.lowering.graph_builder import inverse, permuted
from odt.core.lowering.passes.push_transposes import is_view
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer

CHANNELS, SIDE = 4, 5
FIRST = (1, CHANNELS, SIDE, SIDE)  # torch's order
LAST = (1, SIDE, SIDE, CHANNELS)


def turned(net: Net, x: int, perm: tuple[int, ...]) -> int:
    shape = permuted(net.tensors[x].spec.shape, perm)
    return net.add("TRANSPOSE", (x, net.constant(perm, np.int32)), shape)


def convolved(net: Net, x: int, kernel: int = 1) -> int:
    """A convolution between two transposes, as in a converted network."""
    x = turned(net, x, (0, 2, 3, 1))
    inputs = (x, net.weight(CHANNELS, kernel, kernel, CHANNELS), net.weight(CHANNELS))
    y = net.add("CONV_2D", inputs, LAST, padding=0, stride_w=1, stride_h=1)
    return turned(net, y, (0, 3, 1, 2))


def pooled(net: Net, x: int, keep_dims: bool = False) -> int:
    shape = (1, CHANNELS, 1, 1) if keep_dims else (1, CHANNELS)
    return net.add("MEAN", (x, net.constant([2, 3], np.int32)), shape, keep_dims=keep_dims)


def ended(net: Net, x: int) -> Graph:
    return net.graph(net.dense(pooled(net, x), 3))


def normalized() -> Graph:
    """Factors and terms of channels, an activation."""
    net = Net()
    x = convolved(net, net.input(*FIRST), 3)
    x = net.add("MUL", (x, net.weight(1, CHANNELS, 1, 1)), FIRST)
    x = net.add("ADD", (x, net.weight(CHANNELS, 1, 1)), FIRST, fused_activation_function=1)
    return ended(net, convolved(net, x))


def residual() -> Graph:
    """A sum of two branches, and a gate of one value a channel."""
    net = Net()
    x = convolved(net, net.input(*FIRST))
    y = convolved(net, net.add("TANH", [x], FIRST))
    gate = net.add("LOGISTIC", [pooled(net, y, keep_dims=True)], (1, CHANNELS, 1, 1))
    y = net.add("MUL", (y, gate), FIRST)
    return ended(net, convolved(net, net.add("ADD", (x, y), FIRST)))


def joined() -> Graph:
    """Channels side by side, and a slice of them."""
    net = Net()
    x = convolved(net, net.input(*FIRST))
    y = convolved(net, net.add("RELU", [x], FIRST))
    both = net.add("CONCATENATION", (x, y), (1, 2 * CHANNELS, SIDE, SIDE), axis=1)
    ends = [net.constant(v, np.int32) for v in ([0, 2, 0, 0], [1, 6, SIDE, SIDE], [1, 1, 1, 1])]
    part = net.add("STRIDED_SLICE", (both, *ends), FIRST)
    return ended(net, convolved(net, net.add("NEG", [part], FIRST)))


def undone() -> Graph:
    """Two transposes, one after the other, of the model's own input and output."""
    net = Net()
    x = net.input(1, 2, 3)
    y = net.add("MUL", (x, net.weight(2, 3)), (1, 2, 3))
    return net.graph(turned(net, turned(net, y, (0, 2, 1)), (0, 2, 1)))


def table() -> Graph:
    """A factor for each place: moved, it would have to be transposed itself."""
    net = Net()
    x = convolved(net, net.input(*FIRST))
    x = net.add("MUL", (x, net.weight(1, CHANNELS, SIDE, SIDE)), FIRST)
    return ended(net, convolved(net, x))


def padded() -> Graph:
    """Zeros around the image as it is read, and around channels in torch's order."""
    net = Net()
    x = turned(net, net.input(*FIRST), (0, 2, 3, 1))
    pads = net.constant([(0, 0), (1, 1), (1, 1), (0, 0)], np.int32)
    x = net.add("PAD", (x, pads), (1, SIDE + 2, SIDE + 2, CHANNELS))
    filters = net.weight(CHANNELS, 3, 3, CHANNELS), net.weight(CHANNELS)
    x = net.add("CONV_2D", (x, *filters), LAST, padding=1, stride_w=1, stride_h=1)
    pads = net.constant([(0, 0), (1, 0), (0, 0), (0, 0)], np.int32)
    x = net.add("PAD", (turned(net, x, (0, 3, 1, 2)), pads), (1, CHANNELS + 1, SIDE, SIDE))
    starts = [net.constant(v, np.int32) for v in ([0, 1, 0, 0], [1, CHANNELS, SIDE, SIDE])]
    return ended(net, convolved(net, net.add("SLICE", (x, *starts), FIRST)))


def shuffled(net: Net, x: int) -> int:
    """Channels of two groups in turns, as in a ShuffleNet."""
    half = CHANNELS // 2
    x = net.add("RESHAPE", [x], (1, 2, half, SIDE, SIDE), new_shape=(1, 2, half, SIDE, SIDE))
    x = turned(net, x, (0, 2, 1, 3, 4))
    return net.add("RESHAPE", [x], FIRST, new_shape=FIRST)


def shuffle() -> Graph:
    """A shuffle of channels, whose two halves are convolved."""
    net = Net()
    x = shuffled(net, convolved(net, net.input(*FIRST)))
    size = net.constant((1, 2, SIDE, SIDE), np.int32)
    starts = [net.constant((0, k, 0, 0), np.int32) for k in (2, 0)]
    halves = [net.add("SLICE", (x, start, size), (1, 2, SIDE, SIDE)) for start in starts]
    x = net.add("CONCATENATION", halves, FIRST, axis=1)
    return ended(net, convolved(net, x))


def sequences() -> Graph:
    """Convolutions along one axis, which are those of images of height 1."""
    net = Net()
    x = net.input(1, CHANNELS, SIDE)
    for _ in range(2):
        x = turned(net, x, (0, 2, 1))
        x = net.add("RESHAPE", [x], (1, 1, SIDE, CHANNELS), new_shape=(1, 1, SIDE, CHANNELS))
        filters = net.weight(CHANNELS, 1, 3, CHANNELS), net.weight(CHANNELS)
        shape = (1, 1, SIDE, CHANNELS)
        x = net.add("CONV_2D", (x, *filters), shape, padding=0, stride_w=1, stride_h=1)
        x = net.add("RESHAPE", [x], (1, SIDE, CHANNELS), new_shape=(1, SIDE, CHANNELS))
        x = net.add("TANH", [turned(net, x, (0, 2, 1))], (1, CHANNELS, SIDE))
    x = net.add("MEAN", (x, net.constant([2], np.int32)), (1, CHANNELS))
    return net.graph(net.dense(x, 3))


# How many transposes move values, of how many.
GRAPHS = {normalized: (1, 4), residual: (1, 6), joined: (1, 6), undone: (0, 2), table: (3, 4)}
GRAPHS |= {padded: (1, 4), shuffle: (2, 5), sequences: (1, 4)}


def count(graph: Graph) -> int:
    """Transposes that move values."""
    found = 0
    for node in graph.nodes:
        if node.op == "TRANSPOSE":
            spec = graph.tensors[node.inputs[0]].spec
            found += not is_view(spec.shape, node.attrs.axes(spec))
    return found


@pytest.mark.parametrize(("network", "counts"), GRAPHS.items(), ids=[f.__name__ for f in GRAPHS])
def test_as_few_values_move_as_can(
    network: Callable[[], Graph], counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = network()
    moved = [count(lower(graph, n)) for n in (1, 4)]
    leave_out("push_transposes", monkeypatch)
    assert (*moved, count(lower(graph, 4))) == (counts[0], *counts)


@pytest.mark.parametrize("network", GRAPHS, ids=[f.__name__ for f in GRAPHS])
def test_it_trains_the_same(network: Callable[[], Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, rng = network(), np.random.default_rng(2)
    shapes = [graph.tensors[i].spec.shape[1:] for i in (*graph.inputs, *graph.outputs)]
    x, y = (rng.normal(size=(8, *shape)).astype("f4") for shape in shapes)
    info = TrainingInfo(
        loss="mean_squared_error", optimizer="sgd", learning_rate=0.05, batch_size=8
    )
    found = []
    for _ in range(2):
        with Trainer(graph, info, micro_batch=3, workers=2) as trainer:
            list(trainer.train(ArrayData([x], [y]), InOrder(8), epochs=3))
            found.append({i: a.copy() for i, a in trainer.parameters.tensors.items()})
            nodes = Counter(node.op for node in trainer.plan.graph.nodes)
        leave_out("push_transposes", monkeypatch)
    assert nodes["TRANSPOSE"] == GRAPHS[network][1]
    for i, a in found[0].items():
        assert np.abs(a - graph.tensors[i].data).max() > 1e-5
        np.testing.assert_allclose(a, found[1][i], 1e-4, 1e-6)


def test_a_permutation_is_undone() -> None:
    perm, shape = (0, 2, 3, 1), (7, 2, 3, 4)
    assert permuted(permuted(shape, perm), inverse(perm)) == shape
    assert not is_view((1, 3, 1), (1, 0, 2))  # it moves values as soon as there are two samples
    assert is_view((1, 5, 1), (0, 2, 1))


def probabilities(op: str, between: str, perm: tuple[int, ...]) -> Graph:
    """Classes of each pixel: two transposes in front of SOFTMAX or LOGISTIC, or one."""
    net = Net()
    inputs = (net.input(*LAST), net.weight(CHANNELS, 1, 1, CHANNELS), net.weight(CHANNELS))
    x = net.add("CONV_2D", inputs, LAST, padding=0, stride_w=1, stride_h=1)
    x = turned(net, x, perm)
    if between:
        x = net.add(between, [x], net.tensors[x].spec.shape)
        x = turned(net, x, inverse(perm))
    return net.graph(net.add(op, [x], net.tensors[x].spec.shape, beta=1.0))


@pytest.mark.parametrize(
    ("op", "loss"),
    [("SOFTMAX", "categorical_crossentropy"), ("LOGISTIC", "binary_crossentropy")],
)
@pytest.mark.parametrize(
    ("between", "perm"), [("RELU", (0, 3, 1, 2)), ("RELU", (0, 1, 2, 3)), ("", (0, 3, 1, 2))]
)
def test_logits_that_a_loss_reads_are_kept(
    op: str, loss: str, between: str, perm: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, rng = probabilities(op, between, perm), np.random.default_rng(2)
    x = rng.normal(size=(6, *LAST[1:])).astype("f4")
    t = np.eye(CHANNELS, dtype="f4")[rng.integers(0, CHANNELS, (6, SIDE, SIDE))]
    t = t.reshape(6, *graph.tensors[graph.outputs[0]].spec.shape[1:])
    found = []
    for _ in range(2):
        info = TrainingInfo(loss=loss, optimizer="sgd", learning_rate=0.5, batch_size=6)
        with Trainer(graph, info, outputs=True) as trainer:
            epochs = trainer.train(ArrayData([x], [t]), InOrder(6), epochs=4)
            found.append([e.training.loss for e in epochs])
        leave_out("push_transposes", monkeypatch)
    assert found[0][-1] < found[0][0]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
