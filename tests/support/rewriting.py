"""Small networks, and training with rewritten plans."""

from collections.abc import Callable

import numpy as np
import pytest

from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.passes.order import AFTER_BATCHING, BEFORE_BATCHING
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.memory import MemoryPlan, plan_memory
from odt.core.planning.plan import Plan
from odt.core.recipe.output_losses import output_losses
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array
from support.lowering import lower
from support.networks import ArrayData, InOrder, Net
from support.paths import TESTS

RELU = 1


def stored(name: str) -> Callable[[], Graph]:
    return lambda: dequantize_weights(read_model(str(TESTS / name))).graph


def branches() -> Graph:
    """Makes a network with a wide value with two readers, a view and a tied weight."""
    net = Net()
    x = net.dense(net.input(1, 12), 64, fused_activation_function=RELU)
    w = net.weight(64, 64)
    a = net.add("TANH", (net.add("FULLY_CONNECTED", (x, w), (1, 64)),), (1, 64))
    b = net.add("RESHAPE", (a, net.constant([1, 8, 8], np.int32)), (1, 8, 8))
    b = net.add(
        "RESHAPE", (net.add("MUL", (b, b), (1, 8, 8)), net.constant([1, 64], np.int32)), (1, 64)
    )
    c = net.add("TANH", (net.add("FULLY_CONNECTED", (b, w), (1, 64)),), (1, 64))
    return net.graph(net.dense(net.add("ADD", (c, x), (1, 64)), 4))


GRAPHS = {
    "branches": branches,
    "mnist": stored("golden/mnist/model.circle"),
    "resnet8": stored("models/mlperf-tiny-resnet8-cifar10.tflite"),
    "mobilenet": stored("models/mlperf-tiny-vww-mobilenetv1-0.25-96.tflite"),
}


def plan_of(graph: Graph, batch: int) -> Plan:
    losses = output_losses(LoweredGraphs(graph), TrainingInfo(loss="mean_squared_error"))
    return Computation(losses, frozenset(n.origin for n in graph.nodes), backward=True).plan(
        lower(graph, batch)
    )


def trained(
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    rewrite: Callable[[Plan], Plan],
    whole: bool,
) -> Array:
    """Returns all weights after ten steps with rewritten plans, concatenated."""
    at = Plans.at

    def rewriting(self: Plans, computation: Computation, batch: int) -> tuple[Plan, MemoryPlan]:
        plan, memory = at(self, computation, batch)
        if not computation.backward:
            return plan, memory
        plan = rewrite(plan)
        return plan, plan_memory(plan)

    monkeypatch.setattr(Plans, "at", rewriting)
    info = TrainingInfo(loss="mean_squared_error", batch_size=4)
    m = 4 if whole else 2
    with Trainer(graph, info, micro_batch=m, workers=1) as trainer:
        rng = np.random.default_rng(0)
        specs = (trainer.runtime.input_specs, trainer.runtime.target_specs)
        data = ArrayData(
            *([rng.random((4, *s.shape)).astype(s.dtype) for s in each] for each in specs)
        )
        for _ in range(10):
            trainer.step(data, 4)
        weights = sorted(trainer.parameters.tensors.items())  # an order may change theirs
        return np.concatenate([a.reshape(-1) for _, a in weights])


def leave_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers without a pass from now on."""
    passes = {"BEFORE_BATCHING": BEFORE_BATCHING, "AFTER_BATCHING": AFTER_BATCHING}
    assert name in {rewrite.name for each in passes.values() for rewrite in each}
    for when, each in passes.items():
        others = tuple(rewrite for rewrite in each if rewrite.name != name)
        monkeypatch.setattr(f"odt.core.lowering.lower.{when}", others)


def check_same_training(
    rewrite: str,
    graph: Graph,
    data: ArrayData,
    monkeypatch: pytest.MonkeyPatch,
    *,
    moved: float,
    atol: float,
) -> None:
    """Trains with a pass of `lower`, and without it: the weights move, and are the same.

    Args:
        rewrite: the name of the pass.
        graph: the network.
        data: four samples.
        moved: least change of each weight.
        atol: absolute tolerance.
    """
    info = TrainingInfo(
        loss="mean_squared_error", optimizer="sgd", learning_rate=1e-2, batch_size=4
    )
    found = []
    for _ in range(2):
        with Trainer(graph, info) as trainer:
            list(trainer.train(data, InOrder(4), epochs=3))
            found.append({i: a.copy() for i, a in trainer.parameters.tensors.items()})
        leave_out(rewrite, monkeypatch)
    for i, a in found[0].items():
        assert np.abs(a - graph.tensors[i].data).max() > moved
        np.testing.assert_allclose(a, found[1][i], 1e-5, atol)
