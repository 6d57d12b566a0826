"""Weights that are packed once in a step: the bits are those of weights packed in each run."""

import numpy as np
import pytest
from support.networks import ArrayData, Net
from support.tied_network import info

from odt.core.model.graph import Graph
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.forecast import forecast
from odt.core.planning.packed_weights import packed_weights
from odt.core.training.trainer import TRAINING, Trainer
from odt.kernels.native.library import instruction_sets, is_available
from odt.kernels.rows.opdef import Array

SAMPLES = 12
SIZES = (SAMPLES, 5, 2, SAMPLES, 11)  # of steps: whole, and short batches
RELU = 1

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def network(positions: int = 6) -> Graph:
    """Makes layers that pack their weights, some with few filters, and two filters read twice.

    The second filter has 4 channels. One CONV_2D reads an input of 4 channels with it, the other an
    input of 32 channels in 8 groups, and both layouts differ.
    """
    net = Net(np.float32)
    side = positions
    x = net.input(1, side, side, 16)
    for shape in ((40, 3, 3, 16), (5, 1, 1, 40), (24, 3, 3, 5), (32, 1, 1, 24)):
        inputs = x, net.weight(*shape), net.weight(shape[0])
        to = (1, side, side, shape[0])
        x = net.add("CONV_2D", inputs, to, fused_activation_function=RELU)
    w = net.weight(32, 1, 1, 32)
    for _ in range(2):
        x = net.add("CONV_2D", (x, w), (1, side, side, 32), stride_w=1, stride_h=1)
    x = net.add("CONV_2D", (x, net.weight(4, 1, 1, 32)), (1, side, side, 4), stride_w=1, stride_h=1)
    w = net.weight(32, 1, 1, 4)
    for _ in range(2):
        x = net.add("CONV_2D", (x, w), (1, side, side, 32), stride_w=1, stride_h=1)
    x = net.add("RESHAPE", (x, net.constant([-1, 32], np.int32)), (side * side, 32))
    x = net.dense(x, 48, fused_activation_function=RELU)
    x = net.add("RESHAPE", (x, net.constant([1, -1], np.int32)), (1, side * side * 48))
    return net.graph(net.dense(x, 16))


@pytest.fixture(autouse=True)
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes short runs long."""
    monkeypatch.setattr("odt.core.planning.step_plans.is_short", lambda plan: False)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odt.core.planning.step_plans.packed_weights", lambda plan: {})


def trained(m: int, w: int) -> tuple[int, list[float], dict[int, Array]]:
    """Bytes of packed weights, losses and weights; between steps, gradients are accumulated."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(SAMPLES, 6, 6, 16)), rng.normal(size=(SAMPLES, 16))
    data = ArrayData([x.astype(np.float32)], [y.astype(np.float32)])
    with Trainer(network(), info(SAMPLES), micro_batch=m, workers=w) as t:
        losses = []
        for samples in SIZES:
            losses += [t.step(data, samples), t.accumulate(data, samples)]
            t.apply_gradients()
        packed = t.memory().packed
        return packed, losses, {i: a.copy() for i, a in t.parameters.tensors.items()}


@pytest.mark.parametrize("kernels", instruction_sets())
@pytest.mark.parametrize(("m", "w"), [(2, 1), (5, 1), (2, 2), (5, 2), (1, 3)])
def test_the_bits_are_those_of_weights_packed_in_each_run(
    m: int, w: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    packed, losses, weights = trained(m, w)
    never(monkeypatch)
    none, same_losses, same_weights = trained(m, w)
    assert packed > none == 0
    assert losses == same_losses
    assert all(a.tobytes() == same_weights[i].tobytes() for i, a in weights.items())


@pytest.mark.parametrize(("m", "w", "packs"), [(2, 2, True), (6, 2, False), (SAMPLES, 1, False)])
def test_they_are_packed_if_workers_have_several_runs(m: int, w: int, packs: bool) -> None:
    with Trainer(network(), info(SAMPLES), micro_batch=m, workers=w) as t:
        plan = t._plans.plan(t._runs[TRAINING], m)
        shapes = {plan.values[name].spec.shape for name in packed_weights(plan)}
        assert shapes == {(40, 3, 3, 16), (24, 3, 3, 5), (32, 1, 1, 24), (32, 1, 1, 32), (48, 32)}
        said = forecast(t._plans, t._runs, t.info, t.runtime.schedule)
        assert (t.memory().packed > 0) == packs
        assert said.packed == t.memory().packed
        assert said.total == t.memory().total


def test_products_with_many_results_pack_their_weights_in_each_run() -> None:
    with Trainer(network(33), info(SAMPLES), micro_batch=2, workers=2) as t:
        assert t.memory().packed == 0


def test_a_budget_that_asks_for_less_memory_leaves_them_out() -> None:
    with Trainer(network(), info(SAMPLES)) as t:
        plans, runs, given = t._plans, t._runs, t.info
    usual = fit_budget(plans, runs, given, None, 2, 2)
    less = fit_budget(plans, runs, given, usual.peak - 1, 2, 2)
    assert usual.packed > less.packed == 0
    assert (less.schedule.micro_batch, less.schedule.workers) == (2, 2)
