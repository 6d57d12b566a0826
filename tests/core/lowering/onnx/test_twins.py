"""The same network as ONNX and as Circle has the same plan, and computes the same."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.networks import ArrayData, InOrder
from support.onnx_files import value
from support.twins import Twin, Twins

from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer

CLASSES, BATCH = 5, 8


def mlp(t: Twins) -> Twin:
    return t.dense(t.relu(t.dense(t.input(20), 16)), CLASSES, "MatMul")


def cnn(t: Twins) -> Twin:
    x = t.max_pool(t.relu(t.conv(t.input(3, 16, 16), 8, 3)))
    x = t.relu(t.conv(x, 16, 3, stride=2))
    return t.dense(t.global_pool(x), CLASSES)


def mobile(t: Twins) -> Twin:
    """An inverted residual block."""
    x = t.relu6(t.conv(t.input(3, 16, 16), 8, 3, stride=2))
    y = t.relu6(t.conv(t.relu6(t.conv(x, 24, 1)), 24, 3, groups=24))
    x = t.add("ADD", "Add", [x, t.conv(y, 8, 1)], t.shape(x))
    return t.dense(t.global_pool(x), CLASSES)


def transformer(t: Twins) -> Twin:
    """Attention of two heads, a normalization and two dense layers."""
    x = t.input(6, 16)
    q, k, v = (t.dense(x, 16, "MatMul") for _ in range(3))
    q, k, v = t.heads(q, 2, (0, 2, 1, 3)), t.heads(k, 2, (0, 2, 3, 1)), t.heads(v, 2, (0, 2, 1, 3))
    scores = t.add("BATCH_MATMUL", "MatMul", [q, k], (1, 2, 6, 6))
    scores = t.add("MUL", "Mul", [scores, t.weight(np.float32(8**-0.5))], (1, 2, 6, 6))
    weights = t.add("SOFTMAX", "Softmax", [scores], (1, 2, 6, 6), {"beta": 1.0}, axis=-1)
    y = t.joined_heads(t.add("BATCH_MATMUL", "MatMul", [weights, v], (1, 2, 6, 8)))
    x = t.layer_norm(t.add("ADD", "Add", [x, t.dense(y, 16, "MatMul")], (1, 6, 16)))
    x = t.dense(t.relu(t.dense(x, 32, "MatMul")), 16, "MatMul")
    return t.dense(t.mean_of_steps(x), CLASSES)


def lstm(t: Twins) -> Twin:
    return t.dense(t.mean_of_steps(t.lstm(t.input(7, 4), 8)), CLASSES)


NETWORKS = (mlp, cnn, mobile, transformer, lstm)


@pytest.mark.parametrize("network", NETWORKS, ids=[f.__name__ for f in NETWORKS])
def test_both_files_have_the_same_plan(network: Callable[[Twins], Twin], tmp_path: Path) -> None:
    twins = Twins()
    y, name = network(twins)
    twins.file.outputs.append(value(name, ("N", CLASSES)))
    file = lower_model(read_model(twins.file.write(tmp_path / "m.onnx"))).graphs
    rng = np.random.default_rng(2)
    shape = twins.net.tensors[twins.net.inputs[0]].spec.shape[1:]
    x = rng.normal(size=(BATCH, *shape)).astype("f4")
    data = ArrayData([x], [rng.normal(size=(BATCH, CLASSES)).astype("f4")])
    info = TrainingInfo(
        loss="mean_squared_error", optimizer="sgd", learning_rate=0.05, batch_size=BATCH
    )
    losses, arenas, calls = [], [], []
    for graphs in (LoweredGraphs(twins.net.graph(y)), file):
        with Trainer(graphs, info, micro_batch=BATCH, workers=1) as trainer:
            epochs = trainer.train(data, InOrder(BATCH), epochs=4)
            losses.append([e.training.loss for e in epochs])
            arenas.append(trainer.memory().arena)
            plan = trainer.plan
        names = (e.label.split(" ", 1)[1] for e in plan.entries if isinstance(e, Call))
        calls.append(Counter(names))
    np.testing.assert_allclose(losses[1][:1], losses[0][:1], rtol=1e-5)
    if network is not lstm:
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        assert (calls[1], arenas[1]) == (calls[0], arenas[0])
        return
    # The file has weights of all gates in one tensor, and two biases, which train apart.
    assert calls[1] - calls[0] == {"SPLIT d.x": 3, "ADD": 4}
    assert not calls[0] - calls[1]
    assert arenas[1] <= 1.01 * arenas[0]
