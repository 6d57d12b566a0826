"""How a batch is cut where nobody says how."""

import numpy as np
import pytest
from support.networks import Net
from support.rewriting import plan_of, stored

from odt.core.model.graph import Graph
from odt.core.planning.cost import (
    adding_seconds,
    samples_of_calls,
    samples_worth_a_run,
    seconds_a_call,
)
from odt.core.planning.memory import plan_memory
from odt.core.planning.schedule import (
    ADDING,
    CACHE,
    NUMPY_SHORT,
    SHORT,
    Schedule,
    available_cores,
    choose_schedule,
)
from odt.errors import OptionError
from odt.kernels.native import library

RELU = 1


def images_into(units: int) -> Graph:
    """One cheap layer over a large image, then a wide one: its gradient is what costs."""
    net = Net()
    x = net.input(1, 64, 64, 8)
    w = net.weight(8, 1, 1, 8)
    x = net.add("CONV_2D", (x, w), (1, 64, 64, 8), stride_h=1, stride_w=1)
    x = net.add("MEAN", (x, net.constant([1, 2])), (1, 8), keep_dims=False)
    return net.graph(net.dense(net.dense(x, units), 4))


def schedule_of(graph: Graph, batch: int) -> Schedule:
    def plan_at(n: int) -> object:
        plan = plan_of(graph, n)
        return plan, plan_memory(plan)

    return choose_schedule(batch, plan_at, workers=2)  # type: ignore[arg-type]


def test_a_run_has_enough_samples_for_its_gradients() -> None:
    one, two = (plan_of(images_into(4096), n) for n in (1, 2))
    few, many = (samples_worth_a_run(one, two, share) for share in (0.5, 0.05))
    assert 1 <= few < many
    assert many == pytest.approx(10 * few, rel=0.5)
    one_more, two_more = (plan_of(images_into(40960), n) for n in (1, 2))
    assert adding_seconds(one_more) > 5 * adding_seconds(one)
    assert samples_worth_a_run(one_more, two_more, 0.05) > many


def test_a_batch_is_cut_no_smaller_than_its_gradients_are_worth() -> None:
    """An arena of that size is above the cache: several samples of it cost less than one."""
    graph = images_into(40960)
    one, two = (plan_of(graph, n) for n in (1, 2))
    enough = samples_worth_a_run(one, two, ADDING)
    chosen = schedule_of(graph, 64)
    assert enough > 8
    assert enough / 2 < chosen.micro_batch <= 32  # cut evenly for two workers


@pytest.mark.skipif(not library.is_available(), reason="NumPy takes other sizes")
def test_an_arena_stays_in_the_cache() -> None:
    graph = stored("models/mlperf-tiny-resnet8-cifar10.tflite")()
    chosen = schedule_of(graph, 64)
    assert 1 < chosen.micro_batch < 32
    assert plan_memory(plan_of(graph, chosen.micro_batch)).nbytes <= 1.1 * CACHE


def unrolled(width: int) -> Graph:
    """Twelve short layers."""
    net = Net()
    x = net.input(1, width)
    for _ in range(12):
        x = net.dense(x, width, fused_activation_function=RELU)
    return net.graph(net.dense(x, 4))


def test_a_plan_of_short_calls_runs_on_one_worker() -> None:
    """Two would wait for the interpreter's lock; a call of one is shared among the cores."""
    graph = unrolled(64)

    def plan_at(n: int) -> object:
        plan = plan_of(graph, n)
        return plan, plan_memory(plan)

    one, two = (plan_of(graph, n) for n in (1, 2))
    short = NUMPY_SHORT if not library.is_available() else SHORT
    found = [choose_schedule(2048, plan_at, micro_batch=m) for m in (8, 1024)]  # type: ignore[arg-type]
    assert seconds_a_call(one, two, 8) < short < seconds_a_call(one, two, 1024)
    assert [s.workers for s in found] == [1, min(2, available_cores())]


def test_samples_of_calls_is_the_inverse_of_seconds_a_call() -> None:
    one, two = (plan_of(unrolled(64), n) for n in (1, 2))
    samples = samples_of_calls(one, two, 50e-6)
    assert seconds_a_call(one, two, samples - 1) < 50e-6 <= seconds_a_call(one, two, samples)


@pytest.mark.parametrize("given", [{"micro_batch": 2}, {"workers": 2}])
def test_a_batch_that_cannot_be_cut_is_not_cut_in_silence(given: dict[str, int]) -> None:
    """A file made for four samples, whose RESHAPE fits no other number of them."""
    net = Net()
    x = net.input(4, 6)
    x = net.add("TRANSPOSE", (x, net.constant([1, 0], np.int32)), (6, 4))
    x = net.add("RESHAPE", (x,), (4, 6), new_shape=(4, 6))
    graph = net.graph(net.add("FULLY_CONNECTED", (x, net.weight(3, 6), -1), (4, 3)))

    def plan_at(n: int) -> object:
        plan = plan_of(graph, n)
        return plan, plan_memory(plan)

    chosen = choose_schedule(4, plan_at)  # type: ignore[arg-type]
    assert (chosen.micro_batch, chosen.workers) == (4, 1)
    assert choose_schedule(4, plan_at, 4, 1) == chosen  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`micro_batch=`, `workers=`: must be 4 and 1, because"):
        choose_schedule(4, plan_at, **given)  # type: ignore[arg-type]
