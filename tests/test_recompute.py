"""Activations that are dropped and computed again: the same numbers in less memory."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from networks import ArrayData, Net
from plan_check import faults

from odt.core.engine import Plans, Work
from odt.core.folding import fold_weights
from odt.core.graph import Graph
from odt.core.heads import heads
from odt.core.memory import MemoryPlan, plan_memory
from odt.core.plan import Call, Plan
from odt.core.reader import read_model
from odt.core.recompute import choose_dropped, recompute
from odt.core.trainer import Trainer
from odt.core.training_info import TrainingInfo
from odt.kernels.opdef import Array

HERE = Path(__file__).parent
RELU = 1


def stored(name: str) -> Callable[[], Graph]:
    return lambda: fold_weights(read_model(str(HERE / name))).graph


def branches() -> Graph:
    """A wide value with two readers, a view, a tied weight."""
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
    losses = heads(graph, TrainingInfo(loss="mean_squared_error"))
    return Work(losses, frozenset(n.origin for n in graph.nodes), backward=True).plan(graph, batch)


def all_that_helps(plan: Plan) -> frozenset[str]:
    return choose_dropped(plan, 0)


def trained(graph: Graph, monkeypatch: pytest.MonkeyPatch, rewritten: bool, whole: bool) -> Array:
    """All weights after ten steps, one after the other."""
    at = Plans.at

    def rewriting(self: Plans, work: Work, batch: int) -> tuple[Plan, MemoryPlan]:
        plan, memory = at(self, work, batch)
        if not work.backward:
            return plan, memory
        plan = recompute(plan, all_that_helps(plan))
        return plan, plan_memory(plan)

    monkeypatch.setattr(Plans, "at", rewriting if rewritten else at)
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
        return np.concatenate([a.reshape(-1) for a in trainer.parameters.tensors.values()])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_ten_steps_give_the_same_bits(
    name: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPHS[name]()
    with monkeypatch.context() as patch:
        usual = trained(graph, patch, False, whole)
    again = trained(graph, monkeypatch, True, whole)
    assert np.isfinite(usual).all()
    assert usual.tobytes() == again.tobytes()


@pytest.mark.parametrize(("name", "share"), [("resnet8", 0.9), ("mobilenet", 0.75)])
def test_the_arena_shrinks_and_nothing_is_overwritten(name: str, share: float) -> None:
    plan = plan_of(GRAPHS[name](), 4)
    before = plan_memory(plan)
    less = recompute(plan, all_that_helps(plan))
    after = plan_memory(less)
    assert after.nbytes < share * before.nbytes
    assert not faults(less, after)


def test_no_more_is_dropped_than_the_target_asks_for() -> None:
    plan = plan_of(GRAPHS["mobilenet"](), 4)
    usual = plan_memory(plan).nbytes
    assert not choose_dropped(plan, usual)
    counts = [len(choose_dropped(plan, int(usual * share))) for share in (0.95, 0.8, 0.0)]
    assert 0 < counts[0] < counts[1] < counts[2]
    for share in (0.95, 0.8):
        less = recompute(plan, choose_dropped(plan, int(usual * share)))
        assert plan_memory(less).nbytes <= usual * share * 1.03


def test_no_call_is_made_more_than_twice() -> None:
    plan = plan_of(GRAPHS["branches"](), 4)
    saved = [
        v
        for s in plan.steps[: plan.forward_steps]
        if isinstance(s, Call)
        for v in s.values(s.writes)
        if v not in plan.losses
    ]
    backward = {
        plan.root(v)
        for s in plan.steps[plan.forward_steps :]
        if isinstance(s, Call)
        for v in s.values(s.reads)
    }
    less = recompute(plan, backward.intersection(saved))
    labels = [s.label for s in less.steps if isinstance(s, Call)]
    again = [label for label in labels if label.endswith(" again")]
    assert len(again) == len(set(again)) > 3
    assert not faults(less, plan_memory(less))
