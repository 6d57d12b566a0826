"""Gradients in blocks, each of which updates its part: the bits of whole gradients, less memory."""

from typing import Any

import numpy as np
import pytest
from support.networks import ArrayData, Net
from support.tied_network import info

from odt.core.model.graph import Graph
from odt.core.planning import gradient_blocks
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.computation import Plans
from odt.core.planning.plan import Delivery
from odt.core.planning.verify import verify
from odt.core.recipe.computations import training_and_validation
from odt.core.runtime.engine import Engine
from odt.core.training.trainer import TRAINING, Trainer
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

SAMPLES = 12
SIZES = (SAMPLES, 5, 2, SAMPLES, 11)  # of steps: whole, and short batches
NEVER = 2**60
RELU = 1

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def network() -> Graph:
    """Makes layers of 40, 72 and 48 units; the first two are no whole number of blocks."""
    net = Net(np.float32)
    x = net.input(1, 6, 6, 16)
    inputs = x, net.weight(40, 3, 3, 16), net.weight(40)
    x = net.add("CONV_2D", inputs, (1, 6, 6, 40), fused_activation_function=RELU)
    x = net.add("RESHAPE", (x, net.constant([1, 1440], np.int32)), (1, 1440))
    x = net.dense(net.dense(x, 72, fused_activation_function=RELU), 48)
    return net.graph(x)


def trainer(m: int, w: int, **options: Any) -> Trainer:
    return Trainer(network(), info(SAMPLES, **options), micro_batch=m, workers=w)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes small gradients large."""
    for name in ("LARGE", "LARGE_IN_EACH_RUN", "WORTHWHILE"):
        monkeypatch.setattr(f"odt.core.planning.gradient_sums.{name}", 200)
    monkeypatch.setattr(gradient_blocks, "LEAST", 3000)
    monkeypatch.setattr(gradient_blocks, "BLOCK", 512)


def engine(t: Trainer) -> Engine:
    return t.runtime.engine_of(TRAINING)


def trained(
    m: int, w: int, mu: float = 0.0, **options: Any
) -> tuple[bool, list[float], dict[int, Array]]:
    """Whether gradients are in blocks, losses and weights."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(SAMPLES, 6, 6, 16)), rng.normal(size=(SAMPLES, 48))
    data = ArrayData([x.astype(np.float32)], [y.astype(np.float32)])
    with trainer(m, w, **options) as t:
        blocks = engine(t).plans.has_blocks
        t.parameters.proximal_mu = mu
        t.parameters.restart(t.parameters.values())
        losses = [t.step(data, samples) for samples in SIZES]
        return blocks, losses, {i: a.copy() for i, a in t.parameters.tensors.items()}


ADAMW = {"optimizer": "adamw", "hyper_parameters": {"weight_decay": 0.1}}
WHOLE: tuple[dict[str, Any], ...] = {"optimizer": "adafactor"}, {"ema": 0.9}, {"clip_norm": 0.5}
NAMES = "sgd", "rmsprop", "lion"
OPTIONS = [{}, *({"optimizer": n} for n in NAMES), ADAMW, {"mu": 0.1}, *WHOLE]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (4, 3)])
def test_blocks_have_the_bits_of_whole_gradients(
    m: int, w: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, losses, weights = trained(m, w, **options)
    assert blocks == (options not in WHOLE)
    monkeypatch.setattr(gradient_blocks, "LEAST", NEVER)
    whole, expected, others = trained(m, w, **options)
    assert not whole
    assert losses == expected
    assert all(a.tobytes() == others[i].tobytes() for i, a in weights.items())


@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2)])
def test_gradients_in_blocks_take_a_part_of_the_memory(m: int, w: int) -> None:
    with trainer(m, w) as t:
        whole = engine(t).memory
        place = engine(t).places.at(0, m)
        deliveries = [e for e in place.plan.entries if isinstance(e, Delivery) and e.call]
        sizes = [place.plan.values[e.gradient].spec.size for e in deliveries]
        verify(place.plan, place.memory)
    assert len(deliveries) == 3
    assert max(sizes) <= 24 * 1440 * max(w, 2)
    assert place.memory.nbytes < whole.nbytes
    assert "in blocks by 0 CONV_2D d.w" in str(place.plan)


@pytest.mark.parametrize("options", [{}, *WHOLE], ids=str)
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (5, 2), (4, 3)])
def test_the_forecast_is_what_is_held(m: int, w: int, options: dict[str, Any]) -> None:
    plans, training = Plans(network()), info(SAMPLES, **options)
    runs = training_and_validation(plans.graphs, training)
    said = fit_budget(plans, runs, training, None, m, w)
    for budget in (None, said.peak):
        with Trainer(network(), training, micro_batch=m, workers=w, budget=budget) as t:
            held = t.memory()
            assert held.arena == said.arena
            assert held.gradients == said.gradients
            assert held.separate == said.separate
            assert (held.parameters, held.slots) == (said.parameters, said.slots)


@pytest.mark.parametrize("form", ["RESHAPE", "TRANSPOSE"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_filter_that_is_a_view_of_a_weight_is_not_split(form: str, workers: int) -> None:
    """Its gradient has another shape than the weight, along whose axis blocks would be cut."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(SAMPLES, 4, 4, 64)).astype(np.float32)
    data = ArrayData([x], [rng.normal(size=(SAMPLES, 3)).astype(np.float32)])

    def train(view: bool) -> tuple[list[float], Array]:
        net = Net(np.float32)
        first, shape = net.input(1, 4, 4, 64), (64, 1, 1, 64)
        w = net.weight(64, 64) if view else net.weight(*shape)
        filters = w
        if view and form == "RESHAPE":
            filters = net.add("RESHAPE", (w, net.constant(shape, np.int32)), shape)
        elif view:
            columns = (64, 64, 1, 1)
            filters = net.add("RESHAPE", (w, net.constant(columns, np.int32)), columns)
            order = net.constant([0, 2, 3, 1], np.int32)
            filters = net.add("TRANSPOSE", (filters, order), shape)
        strides: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
        inputs = first, filters, net.weight(64)
        y = net.add("CONV_2D", inputs, (1, 4, 4, 64), fused_activation_function=RELU, **strides)
        y = net.add("MEAN", (y, net.constant([1, 2], np.int32)), (1, 64))
        graph = net.graph(net.dense(y, 3))
        with Trainer(graph, info(SAMPLES), micro_batch=SAMPLES // workers, workers=workers) as t:
            losses = [t.step(data, SAMPLES) for _ in range(3)]
            return losses, t.parameters.tensors[w].reshape(-1).copy()

    (wanted, weights), (found, moved) = train(view=False), train(view=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(moved, weights, rtol=1e-4, atol=1e-6)
