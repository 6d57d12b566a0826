"""Parts of a weight along its first axis are views of it: no call copies them."""

import numpy as np
import pytest
from support.networks import ArrayData, InOrder, Net

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call
from odt.core.training.trainer import Trainer

INPUTS, UNITS, PARTS, SAMPLES = 7, 5, 3, 12


def network(*, is_split: bool) -> Graph:
    """A sum of products with three weights, which are parts of one or constants of their own."""
    net = Net()
    x = net.input(1, INPUTS)
    values = np.random.default_rng(1).normal(0, 0.4, (PARTS * UNITS, INPUTS))
    if is_split:
        axis, whole = net.constant(0, np.int32), net.constant(values)
        weights = [net.add("SPLIT", (axis, whole), (UNITS, INPUTS), num_splits=PARTS)]
        weights += [net._tensor((UNITS, INPUTS)) for _ in range(PARTS - 1)]
        split = net.nodes[-1]
        net.nodes[-1] = Node(split.op, split.inputs, tuple(weights), split.options, 0)
    else:
        weights = [net.constant(part) for part in np.split(values, PARTS)]
    a, b, c = (net.add("FULLY_CONNECTED", (x, w, ABSENT), (1, UNITS)) for w in weights)
    product = net.add("MUL", (a, net.add("TANH", (b,), (1, UNITS))), (1, UNITS))
    return net.graph(net.add("ADD", (product, c), (1, UNITS)))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kernels", ["", "numpy"])
def test_parts_train_like_weights_of_their_own(
    kernels: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=(SAMPLES, n)).astype(np.float32) for n in (INPUTS, UNITS))
    info = TrainingInfo(
        loss="mean_squared_error", optimizer="adam", learning_rate=0.01, batch_size=SAMPLES
    )
    losses, trained, calls = [], [], []
    for is_split in (True, False):
        graphs = LoweredGraphs(network(is_split=is_split))
        micro_batch = SAMPLES // (2 * workers)
        with Trainer(graphs, info, micro_batch=micro_batch, workers=workers) as trainer:
            epochs = trainer.train(ArrayData([x], [y]), InOrder(SAMPLES), epochs=3)
            losses.append([e.training.loss for e in epochs])
            weights = sorted(trainer.weights().items())
            trained.append(np.concatenate([w for _, w in weights]))
            calls.append([e.label for e in trainer.plan.entries if isinstance(e, Call)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-5, atol=1e-6)
    assert [label for label in calls[0] if "SPLIT" in label] == ["0 SPLIT d.x"]
