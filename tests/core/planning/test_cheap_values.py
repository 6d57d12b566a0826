"""Results that the backward pass recomputes from saved operands, instead of saving them too."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.networks import Net
from support.rewriting import GRAPHS, plan_of, trained

from odt.core.model.graph import Graph
from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Call, Phase, Plan
from odt.core.planning.rewrites import cheap_values as module
from odt.core.planning.verify import faults
from odt.kernels.native.library import is_available
from odt.kernels.ops import sin
from odt.kernels.registry import find_operator

SHAPE = (1, 16, 16, 8)
CONVOLUTION = {"stride_h": 1, "stride_w": 1, "padding": 0}
CONVOLUTION |= {"dilation_h_factor": 1, "dilation_w_factor": 1}


def gates() -> Graph:
    """Three convolutions, each followed by x σ(x) and a gate for each channel."""
    net = Net()
    x = net.input(*SHAPE)
    for _ in range(3):
        x = net.add("CONV_2D", (x, net.weight(8, 3, 3, 8), net.weight(8)), SHAPE, **CONVOLUTION)
        x = net.add("MUL", (x, net.add("LOGISTIC", (x,), SHAPE)), SHAPE)
        mean = net.add("MEAN", (x, net.constant((1, 2), np.int32)), (1, 1, 1, 8), keep_dims=True)
        x = net.add("MUL", (x, net.add("LOGISTIC", (mean,), (1, 1, 1, 8))), SHAPE)
    return net.graph(net.add("MEAN", (x, net.constant((1, 2), np.int32)), (1, 8), keep_dims=False))


def normalized() -> Graph:
    """Three convolutions, each followed by a normalization with the statistics of the batch."""
    net = Net()
    x = net.input(*SHAPE)
    for _ in range(3):
        x = net.add("CONV_2D", (x, net.weight(8, 3, 3, 8), net.weight(8)), SHAPE, **CONVOLUTION)
        statistics = net.constant(np.zeros(8), np.float32), net.constant(np.ones(8), np.float32)
        vectors = net.weight(8), net.weight(8), *statistics
        x = net.add("CUSTOM:BatchNormalization", (x, *vectors), SHAPE)
        x = net.add("RELU", (x,), SHAPE)
    return net.graph(net.add("MEAN", (x, net.constant((1, 2), np.int32)), (1, 8), keep_dims=False))


def recomputed(plan: Plan) -> list[str]:
    calls = (e for e in plan.entries if isinstance(e, Call) and e.phase is Phase.BACKWARD)
    return [e.label.split()[1] for e in calls if e.label.endswith(" recomputed")]


def test_products_are_recomputed_and_the_arena_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(gates(), 8)
    assert {*recomputed(plan)} == {"MUL", "SWISH"}
    memory = plan_memory(plan)
    assert not faults(plan, memory)
    monkeypatch.setattr(module, "SLOWER", 0)
    usual = plan_of(gates(), 8)
    assert not recomputed(usual)
    assert memory.nbytes < 0.9 * plan_memory(usual).nbytes


def test_normalizations_are_repeated_for_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOWER", 1)
    plan = plan_of(normalized(), 8)
    assert {*recomputed(plan)} == {"CUSTOM:BatchNormalization", "RELU"}
    memory = plan_memory(plan)
    assert not faults(plan, memory)
    monkeypatch.setattr(module, "SLOWER", 0)
    assert memory.nbytes < 0.8 * plan_memory(plan_of(normalized(), 8)).nbytes


def test_a_few_values_beside_many_others_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 0.9)
    assert not recomputed(plan_of(gates(), 8))


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
def test_values_of_numpy_are_saved_beside_compiled_kernels(
    kernels: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """NumPy computes them on one core."""
    in_numpy = replace(sin.OP, forward=replace(sin.OP.forward, compiled=None))
    monkeypatch.setattr(sin, "OP", in_numpy)
    find_operator.cache_clear()
    request.addfinalizer(find_operator.cache_clear)
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    net = Net()
    x = net.input(1, 64)
    for _ in range(4):
        x = net.add("SIN", (net.dense(x, 64),), (1, 64))
    made = recomputed(plan_of(net.graph(net.dense(x, 4)), 256))
    assert ("SIN" in made) == (not is_available())


@pytest.mark.parametrize("name", ["resnet8", "mobilenet"])
def test_values_whose_operands_are_not_saved_are_saved(name: str) -> None:
    assert not recomputed(plan_of(GRAPHS[name](), 8))


@pytest.mark.parametrize(("network", "whole"), [(gates, True), (gates, False), (normalized, True)])
def test_ten_steps_give_the_same_bits(
    network: Callable[[], Graph], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "SLOWER", 1)
        less = trained(network(), patch, lambda plan: plan, whole)
    monkeypatch.setattr(module, "SLOWER", 0)
    usual = trained(network(), monkeypatch, lambda plan: plan, whole)
    assert np.isfinite(usual).all()
    assert usual.tobytes() == less.tobytes()
