"""Training gives the same bits however a batch is split, and gradients that are right."""

import ctypes
import gc
import os
import threading
import tracemalloc
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.losses import Losses
from support.networks import ArrayData, InOrder, Net
from support.paths import GOLDEN
from support.tied_network import RELU, data, info, network

from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.formats.reader import read_model
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call, Region
from odt.core.runtime import arena as arenas
from odt.core.runtime.program import Program
from odt.core.training.trainer import VALIDATION, Trainer
from odt.dataclass import MANY
from odt.errors import TrainingError
from odt.kernels.native import binding
from odt.kernels.native.binding import Calls
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array


def train(
    graph: Graph, batch: int, steps: int, **options: int
) -> tuple[list[float], dict[int, Array]]:
    losses = Losses()
    with Trainer(graph, info(batch), **options) as trainer:  # type: ignore[arg-type]
        list(trainer.train(data(batch * steps), InOrder(batch * steps), epochs=1, watch=losses))
        return losses.all, {i: a.copy() for i, a in trainer.parameters.tensors.items()}


def same_bits(a: dict[int, Array], b: dict[int, Array]) -> bool:
    return a.keys() == b.keys() and all(a[i].tobytes() == b[i].tobytes() for i in a)


def test_gradients_of_a_whole_network_equal_finite_differences() -> None:
    """One SGD step with rate 1 in float64 against central differences of the loss."""
    graph = network(np.float64)
    samples = data(5, np.float64)

    def loss(weights: dict[int, Array]) -> float:
        with Trainer(graph, info(5, optimizer="sgd", learning_rate=1.0)) as t:
            for i, a in weights.items():
                t.parameters.tensors[i][...] = a
            (epoch,) = t.train(samples, InOrder(5), epochs=1)
            return epoch.training.loss

    with Trainer(graph, info(5, optimizer="sgd", learning_rate=1.0)) as t:
        before = {i: a.copy() for i, a in t.parameters.tensors.items()}
        list(t.train(samples, InOrder(5), epochs=1))
        gradient = {i: before[i] - a for i, a in t.parameters.tensors.items()}
    rng = np.random.default_rng(2)
    for i, weight in before.items():
        direction = rng.normal(size=weight.shape)
        up, down = ({**before, i: weight + s * 1e-6 * direction} for s in (1, -1))
        expected = (loss(up) - loss(down)) / 2e-6
        assert np.sum(gradient[i] * direction) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_every_planner_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    make = arenas.make_arena

    def poisoned(nbytes: int) -> Array:
        arena = make(nbytes)
        arena.fill(0xFF)  # NaN as a float
        return arena

    monkeypatch.setattr("odt.core.runtime.runtime.make_arena", poisoned)
    results = []
    for planner in ("none", "first_fit"):
        monkeypatch.setenv("ODT_PLANNER", planner)
        for options in ({"micro_batch": 6, "workers": 1}, {"micro_batch": 4, "workers": 2}):
            results.append(train(network(), 6, 10, **options))
    for alone, planned in zip(results[:2], results[2:], strict=True):
        assert planned[0] == alone[0]
        assert same_bits(planned[1], alone[1])


@pytest.mark.parametrize(("m", "w"), [(16, 1), (8, 1), (8, 2), (5, 2), (1, 2), (3, 1)])
def test_micro_batches_train_as_the_whole_batch_does(m: int, w: int) -> None:
    losses, weights = train(network(), 16, 5, micro_batch=16, workers=1)
    cut_losses, cut = train(network(), 16, 5, micro_batch=m, workers=w)
    np.testing.assert_allclose(cut_losses, losses, rtol=1e-5)
    for i in weights:
        np.testing.assert_allclose(cut[i], weights[i], rtol=1e-4, atol=2e-6)


def test_cut_or_whole_the_update_is_the_same() -> None:
    """With SGD, whose update is the gradient: relative to its norm."""
    results = []
    for options in ({"micro_batch": 16, "workers": 1}, {"micro_batch": 3, "workers": 2}):
        graph = network()
        with Trainer(graph, info(16, optimizer="sgd", learning_rate=0.1), **options) as trainer:  # type: ignore[arg-type]
            before = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
            list(trainer.train(data(16), InOrder(16), epochs=1))
            results.append({i: a - before[i] for i, a in trainer.parameters.tensors.items()})
    for i, update in results[0].items():
        assert np.linalg.norm(results[1][i] - update) < 1e-5 * np.linalg.norm(update)


def test_updates_on_one_thread_and_on_all_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for most in (0, 2**40):
        monkeypatch.setattr("odt.core.runtime.gradients.ALONE", most)
        found.append(train(network(np.float32), 6, 3, micro_batch=2, workers=3))
    (losses, weights), (others, same) = found
    assert losses == others
    assert same_bits(weights, same)


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_updates_bound_before_training_read_the_rate_of_each_step(
    monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """A whole batch, and sums of two workers, with and without compiled kernels."""
    found = []
    weight = next(i for i, t in enumerate(network().tensors) if t.data is not None)
    rates = ((weight, factor),)
    for kernels in ("", "numpy"):
        monkeypatch.setenv("ODT_KERNELS", kernels)
        for options in ({"micro_batch": 4, "workers": 1}, {"micro_batch": 2, "workers": 2}):
            with Trainer(network(np.float32), info(4, rates=rates), **options) as t:  # type: ignore[arg-type]
                assert t.parameters.optimizer is not None
                for k in range(4):
                    t.parameters.optimizer.learning_rate = 0.01 / 10**k
                    t.step(data(4), 4)
                found.append({i: a.copy() for i, a in t.parameters.tensors.items()})
    for other in found[1:]:
        for i, a in found[0].items():
            np.testing.assert_allclose(other[i], a, rtol=0, atol=2e-5)
    start = network().tensors[weight].data
    assert start is not None
    moved = np.abs(found[0][weight] - start).max()
    assert 0.9 < moved / (0.01111 * factor) < 1.1  # Adam's first steps are as long as the rate


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
def test_updates_are_in_the_loop_of_compiled_calls() -> None:
    with Trainer(network(np.float32), info(4), micro_batch=4, workers=1) as trainer:
        program = trainer._training.programs.program(0, (4,))
        calls = [c for loop in program._backward if isinstance(loop, Calls) for c in loop.calls]
        assert [c.name for c in calls].count("adam") == len(trainer.parameters.tensors)


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize("batch", [8, 12])  # gradients are computed in the sums, or added to them
def test_a_workers_copy_of_a_program_has_the_calls_that_binding_gives(batch: int) -> None:
    def arguments(program: Program) -> list[tuple[str, list[int]]]:
        loops = [r for r in (*program._forward, *program._backward) if isinstance(r, Calls)]
        calls = [c for loop in loops for c in loop.calls]
        return [(c.name, numbers(c)) for c in calls]

    def numbers(call: binding.Call) -> list[int]:
        """The bits of operands that are no structs, which each call has of its own."""
        plain = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_float)
        types = binding.argument_types(call.name)
        return [a for a, t in zip(call.bits, types, strict=True) if t in plain]

    with Trainer(network(np.float32), info(batch), micro_batch=5, workers=2) as trainer:
        programs = trainer._training.programs
        for sizes in [(samples, samples) for samples in (5, batch % 5)]:
            copied = programs.program(1, sizes)
            assert arguments(copied) == arguments(programs._bind(1, sizes, first=None))
            assert arguments(copied) != arguments(programs.program(0, sizes))


def test_validation_gets_arenas_of_its_own_if_it_needs_larger_ones() -> None:
    with Trainer(network(), info(4), micro_batch=2) as trainer:
        runtime = trainer.runtime
        assert runtime.arena_nbytes == runtime.schedule.workers * trainer._training.memory.nbytes
        trainer.step(data(4), 4)
        wanted = trainer.evaluate(data(4), range(4)).loss
    with Trainer(network(), info(4), micro_batch=2) as trainer:
        trainer.step(data(4), 4)
        runtime, whole = trainer.runtime, trainer._training.memory.nbytes
        runtime._arenas = [arena[:64] for arena in runtime._arenas]
        runtime._nbytes = 64
        assert trainer.evaluate(data(4), range(4)).loss == wanted
        needed = runtime.engine_of(VALIDATION).memory.nbytes
        assert 64 < needed <= whole
        assert runtime.arena_nbytes == runtime.schedule.workers * (64 + whole)


def test_two_runs_give_the_same_bits() -> None:
    first, second = (train(network(), 16, 20, micro_batch=3, workers=2) for _ in range(2))
    assert first[0] == second[0]
    assert same_bits(first[1], second[1])


@pytest.mark.parametrize("options", [{"micro_batch": 16, "workers": 1}, {"micro_batch": 5}])
def test_a_step_allocates_next_to_nothing(options: dict[str, int]) -> None:
    samples = data(16)
    with Trainer(network(), info(16), **options) as trainer:  # type: ignore[arg-type]
        epochs = trainer.train(samples, InOrder(16), epochs=2 * MANY)
        for _ in range(MANY):  # classes of many instances get an `__init__` of their own
            next(epochs)
        gc.collect()
        tracemalloc.start()
        try:
            next(epochs)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(100):
                next(epochs)
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < 64 * 1024 * trainer.runtime.schedule.workers
    assert after - before < 2048  # bytes in 100 steps: interpreter noise, not one array


def test_memory_reported_is_memory_held() -> None:
    with Trainer(network(), info(16), micro_batch=4, workers=2) as trainer:
        report = trainer.memory()
        held = sum(a.nbytes for a in trainer.parameters.tensors.values())
        assert report.parameters == held
        assert report.slots == 2 * held
        assert report.gradients == 2 * held  # sums of two workers
        engines = [trainer.runtime.engine_of(k) for k in range(2)]
        arenas = [engine.places.at(k, 4).arena for engine in engines for k in range(2)]
        assert report.arena == len({a.ctypes.data for a in arenas}) * max(a.nbytes for a in arenas)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_loss_that_is_not_finite_stops_and_names_the_first_bad_tensor(dtype: type) -> None:
    samples = data(32)
    samples.inputs[0][20, 3] = np.inf
    given = {"micro_batch": 2, "workers": 2}
    with Trainer(network(dtype), info(8, learning_rate=0.01), **given) as trainer:  # type: ignore[arg-type]
        with pytest.raises(TrainingError, match=r"step 3: .*tensor 0 \(\"x0\"\)"):
            list(trainer.train(samples, InOrder(32), epochs=1))
        assert trainer.parameters.step == 2
        assert all(np.isfinite(a).all() for a in trainer.parameters.tensors.values())


def test_numbers_of_an_update_beyond_float32_give_no_warning() -> None:
    """Weights become NaN or stay, as the arithmetic of the kernels has it."""
    given = info(8, learning_rate=1e39, hyper_parameters={"epsilon": 1e39})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with Trainer(network(), given) as trainer, suppress(TrainingError):
            list(trainer.train(data(32), InOrder(32), epochs=1))


def test_only_the_chosen_operators_change() -> None:
    graph = network()
    with Trainer(graph, info(8, trainable_ops=(4, 5))) as trainer:
        assert not trainer.parameters.tensors
    with Trainer(graph, info(8, trainable_ops=(0,))) as trainer:
        names: Sequence[int] = tuple(trainer.parameters.tensors)
        assert set(names) == {i for i in graph.nodes[0].inputs if graph.tensors[i].data is not None}


def test_a_weight_that_no_gradient_reaches_stays() -> None:
    """The tables of ROPE have no gradient; a weight is one, and the other is made of it."""
    net = Net()
    x, first, table = net.input(1, 2, 3, 4), net.weight(1, 2, 3, 4), net.weight(1, 2, 3, 4)
    other = net.add("ADD", (net.weight(1, 2, 3, 4), table), (1, 2, 3, 4))
    y = net.add("MUL", (x, first), (1, 2, 3, 4))
    y = net.add("ROPE", (y, table, other), (1, 2, 3, 4), mode=0)
    rng = np.random.default_rng(1)
    x32, t32 = (rng.normal(size=(4, 2, 3, 4)).astype(np.float32) for _ in range(2))
    with Trainer(net.graph(y), info(4)) as trainer:
        list(trainer.train(ArrayData([x32], [t32]), InOrder(4), epochs=1))
        assert set(trainer.weights()) == {first}


def convolutional(batch: int, **options: int) -> Trainer:
    """The committed MNIST CNN."""
    graph = read_model(str(GOLDEN / "mnist" / "model.circle")).graph
    trained = TrainingInfo(loss="categorical_crossentropy", batch_size=batch)
    return Trainer(graph, trained, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"micro_batch": 16, "workers": 1}, {"micro_batch": 4}])
def test_a_step_of_a_cnn_on_data_files_allocates_next_to_nothing(options: dict[str, int]) -> None:
    with convolutional(16, **options) as trainer:
        runtime, folder = trainer.runtime, GOLDEN / "mnist"
        samples = DataSet(
            open_columns(str(folder / "input.bin"), runtime.input_specs, "input"),
            open_columns(str(folder / "expected.bin"), runtime.target_specs, "output"),
        )
        order = EpochOrder(range(96), shuffle=True, seed=0)
        fit = trainer.train(samples, order, epochs=8)
        next(fit)
        gc.collect()
        tracemalloc.start()
        try:
            next(fit)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            next(fit)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < 64 * 1024 * trainer.runtime.schedule.workers


def test_an_arena_is_a_fraction_of_its_values() -> None:
    """MNIST CNN, batch 128: the bound is the largest sum of what is alive in one step."""
    with convolutional(128, micro_batch=128, workers=1) as trainer:
        plan, memory = trainer._training.plan, trainer._training.memory
        assert trainer.memory().arena == memory.nbytes
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for k, step in enumerate(plan.entries):
            names = step.arrays.values() if isinstance(step, Call) else (step.gradient,)
            for name in map(plan.root, names):
                if plan.values[name].region in (Region.ARENA, Region.INPUT):
                    first.setdefault(name, k)
                    last[name] = k
        sizes = {name: plan.values[name].spec.nbytes for name in first}
        bound = max(
            sum(n for name, n in sizes.items() if first[name] <= k <= last[name])
            for k in range(len(plan.entries))
        )
        everything = sum(sizes.values())
        assert memory.nbytes < 0.45 * everything
        assert memory.nbytes < 1.05 * bound
    with convolutional(128) as trainer:
        # NumPy's calls are fewer and longer.
        assert trainer.memory().arena < (0.15 if is_available() else 0.2) * everything


def test_a_model_of_more_weights_than_values_runs_whole_batches() -> None:
    """Each micro-batch would add up gradients that are larger than all else it computes."""
    net = Net(np.float32)
    x = net.input(1, 1024)
    for _ in range(3):
        x = net.dense(x, 1024, fused_activation_function=RELU)
    with Trainer(net.graph(x), info(80)) as trainer:
        schedule = trainer.runtime.schedule
    assert (schedule.micro_batch, schedule.workers) == (80, 1)


def resident() -> int:
    """Bytes of the process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_a_hundred_trainers_leave_nothing_behind() -> None:
    samples, graph = data(16), network()

    def once(workers: int) -> None:
        with Trainer(graph, info(16), micro_batch=4, workers=workers) as trainer:
            trainer.step(samples, 16)

    def growth_of(trainers: int) -> int:
        before = resident()
        for k in range(trainers):
            once(1 + k % 2)
        gc.collect()
        return resident() - before

    growth_of(10)
    threads = threading.active_count()
    # An arena each would be three times as much, each time. Memory that threads take at once on
    # a busy machine is taken the first time only.
    assert any(growth_of(100) < 2 * 2**20 for _ in range(3))
    assert threading.active_count() == threads
