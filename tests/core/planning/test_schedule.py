"""How a batch is cut where nobody says how."""

from dataclasses import replace

import numpy as np
import pytest
from support.networks import Net
from support.rewriting import GRAPHS, plan_of, stored

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.cost import RunCost, adding_seconds, run_seconds
from odt.core.planning.memory import MemoryPlan, nbytes_of_one, plan_memory
from odt.core.planning.plan import Plan
from odt.core.planning.schedule import (
    ARENAS,
    CACHE,
    FIXED,
    GROWTH,
    Schedule,
    available_cores,
    choose_schedule,
    run_sizes,
)
from odt.core.training.trainer import Trainer
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


def schedule_of(graph: Graph, batch: int, **given: int) -> Schedule:
    def plan_at(n: int) -> tuple[Plan, MemoryPlan]:
        plan = plan_of(graph, n)
        return plan, plan_memory(plan)

    return choose_schedule(LoweredGraphs(graph), batch, plan_at, **given)


def arenas_of(graph: Graph, chosen: Schedule) -> int:
    return chosen.workers * plan_memory(plan_of(graph, chosen.micro_batch)).nbytes


def cost_of(graph: Graph) -> RunCost:
    return RunCost.from_plan(plan_of(graph, 16))


def test_a_run_has_enough_samples_for_its_gradients() -> None:
    less, more = (cost_of(images_into(units)) for units in (4096, 40960))
    assert less.sample * less.samples(0.05) >= less.fixed / 0.05
    assert more.adding > 5 * less.adding
    assert more.samples(0.05) > less.samples(0.05) > less.samples(0.5) >= 1
    one = plan_of(images_into(4096), 1)
    assert less.adding == adding_seconds(one) < less.fixed
    assert less.calls < less.fixed


@pytest.mark.parametrize("name", GRAPHS)
def test_the_plan_for_several_samples_shows_the_cost_of_one(name: str) -> None:
    one, several = (plan_of(GRAPHS[name](), n) for n in (1, 16))
    cost = RunCost.from_plan(several)
    assert cost.sample == pytest.approx((run_seconds(several) - run_seconds(one)) / 15, rel=0.02)
    assert cost.fixed + cost.sample == pytest.approx(
        run_seconds(one) + adding_seconds(one), rel=0.02
    )
    nbytes = nbytes_of_one(several, plan_memory(several))
    assert nbytes == pytest.approx(plan_memory(one).nbytes, rel=0.02)


def test_a_batch_is_cut_no_smaller_than_its_gradients_are_worth() -> None:
    """An arena of that size is above the cache: several samples of it cost less than one."""
    graph = images_into(40960)
    enough = cost_of(graph).samples(FIXED)
    chosen = schedule_of(graph, 2 * enough, workers=2)
    assert enough > 8
    assert chosen.micro_batch == enough
    assert arenas_of(graph, chosen) > 2 * CACHE


@pytest.mark.skipif(not library.is_available(), reason="NumPy takes other sizes")
def test_an_arena_stays_in_the_cache() -> None:
    graph = stored("models/mlperf-tiny-resnet8-cifar10.tflite")()
    chosen = schedule_of(graph, 64, workers=2)
    assert 1 < chosen.micro_batch < 32
    assert arenas_of(graph, chosen) <= 2 * 1.1 * CACHE


def large_images(pixels: int) -> Graph:
    """Cheap layers over an image, and weights that take long to add."""
    net = Net()
    x = net.input(1, pixels, pixels, 8)
    x = net.add("RELU", (x,), (1, pixels, pixels, 8))
    x = net.add("MEAN", (x, net.constant([1, 2])), (1, 8), keep_dims=False)
    return net.graph(net.dense(net.dense(x, 400_000), 4))


@pytest.mark.parametrize("pixels", [64, 1024])
def test_arenas_grow_to_their_limit(pixels: int) -> None:
    """Arenas of single samples are below the limit for 64 × 64 pixels, above it for larger ones."""
    graph = large_images(pixels)
    limit = max(ARENAS, GROWTH * 2 * plan_memory(plan_of(graph, 1)).nbytes)
    assert cost_of(graph).samples(FIXED) > 4
    chosen = schedule_of(graph, 2048, workers=2)
    assert arenas_of(graph, chosen) <= limit
    assert (chosen.micro_batch > 1) == (pixels == 64)


@pytest.mark.parametrize("batch", [32, 48, 64, 96])
def test_workers_have_equally_many_runs_of_equal_size(batch: int) -> None:
    chosen = schedule_of(stored("models/mlperf-tiny-resnet8-cifar10.tflite")(), batch, workers=2)
    assert batch % (2 * chosen.micro_batch) == 0
    assert chosen.sizes == (chosen.micro_batch,)


def test_a_prime_number_of_samples_is_not_cut_into_single_ones() -> None:
    graph = stored("models/mlperf-tiny-resnet8-cifar10.tflite")()
    chosen = schedule_of(graph, 2 * 61, workers=2)
    assert chosen.micro_batch > 2
    runs = [len(part) for part in chosen.parts(2 * 61)]
    assert max(runs) - min(runs) <= 1


def unrolled(width: int) -> Graph:
    """Twelve short layers."""
    net = Net()
    x = net.input(1, width)
    for _ in range(12):
        x = net.dense(x, width, fused_activation_function=RELU)
    return net.graph(net.dense(x, 4))


def test_sizes_of_runs_are_found_without_a_look_at_each_number_of_runs() -> None:
    for samples in range(1, 200):
        sizes = sorted({-(-samples // runs) for runs in range(1, samples + 1)})
        for most in range(1, samples + 2):
            assert run_sizes(samples, most) == [n for n in sizes if n <= most]
    assert run_sizes(2**63 - 1, 100) == list(range(1, 101))


def test_a_plan_of_short_numpy_calls_runs_on_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would wait for the interpreter's lock, which compiled calls do not hold."""
    two = min(2, available_cores())
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    found = [schedule_of(unrolled(256), 4096, micro_batch=m) for m in (8, 2048)]
    assert [s.workers for s in found] == [1, two]
    monkeypatch.delenv("ODT_KERNELS")
    if library.instruction_sets():
        assert schedule_of(unrolled(256), 4096, micro_batch=8).workers == two


def test_a_batch_of_many_weights_and_few_samples_runs_on_one_worker() -> None:
    """Adding the gradients of two workers takes longer than they gain."""
    found = [schedule_of(images_into(40960), batch) for batch in (4, 512)]
    assert [s.workers for s in found] == [1, min(2, available_cores())]


def recurrent(units: int) -> Graph:
    net = Net()
    x = net.input(1, 8, 4)
    state = net._tensor((1, units))
    net.tensors[state] = replace(net.tensors[state], variable=True)
    weights = net.weight(units, 4), net.weight(units, units), net.weight(units), state
    y = net.add("UNIDIRECTIONAL_SEQUENCE_RNN", (x, *weights), (1, 8, units))
    y = net.add("RESHAPE", (y, net.constant([1, 8 * units], np.int32)), (1, 8 * units))
    return net.graph(net.dense(y, 2))


@pytest.mark.skipif(not library.is_available(), reason="NumPy's calls divide no weights")
def test_threads_divide_recurrent_weights_larger_than_a_cache() -> None:
    """Two workers would each read all of them at every step of time."""
    large, small = (schedule_of(recurrent(units), 48) for units in (768, 256))
    assert (large.workers, large.micro_batch, large.blas_threads) == (1, 48, available_cores())
    assert small.workers == min(2, available_cores())


@pytest.mark.parametrize("given", [{"micro_batch": 2}, {"workers": 2}])
def test_a_batch_that_cannot_be_cut_is_not_cut_in_silence(given: dict[str, int]) -> None:
    """A file made for four samples, whose RESHAPE fits no other number of them."""
    net = Net()
    x = net.input(4, 6)
    x = net.add("TRANSPOSE", (x, net.constant([1, 0], np.int32)), (6, 4))
    x = net.add("RESHAPE", (x,), (4, 6), new_shape=(4, 6))
    graph = net.graph(net.add("FULLY_CONNECTED", (x, net.weight(3, 6), -1), (4, 3)))

    chosen = schedule_of(graph, 4)
    assert (chosen.micro_batch, chosen.workers) == (4, 1)
    assert schedule_of(graph, 4, micro_batch=4, workers=1) == chosen
    with pytest.raises(OptionError, match="`micro_batch=`, `workers=`: must be 4 and 1, because"):
        schedule_of(graph, 4, **given)


def test_plans_plans_to_choose_a_schedule_are_freed() -> None:
    info = TrainingInfo(loss="mean_squared_error", batch_size=12)
    with Trainer(GRAPHS["branches"](), info, micro_batch=5, workers=2) as trainer:
        assert {batch for _, batch in trainer._plans._plans} == {5, 2}
