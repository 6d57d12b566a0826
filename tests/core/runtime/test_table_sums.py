"""Gradients of tables by rows: the bits of whole gradients, a lazy update, less memory."""

import mmap
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.networks import ArrayData, Net
from support.tied_network import info

from odt.core.model.graph import Graph
from odt.core.planning import gradient_sums
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.savings import savings
from odt.core.planning.computation import Plans
from odt.core.planning.verify import verify
from odt.core.recipe.computations import training_and_validation
from odt.core.training import snapshot
from odt.core.training.snapshot import Snapshot
from odt.core.training.trainer import TRAINING, Trainer
from odt.errors import OptionError
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

SAMPLES, TOKENS, ENTRIES, WIDTH = 12, 4, 3000, 16
SIZES = (SAMPLES, 5, 2, SAMPLES, 11)  # of steps: whole, and short batches
NEVER = 2**60
RELU = 1
LAZY: dict[str, Any] = {"optimizer": "adam", "hyper_parameters": {"lazy": True}}

needs_kernels = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def selected(net: Net, table: int, entries: int = ENTRIES, op: str = "GATHER") -> int:
    """Adds an input of row numbers, and the rows that they select, side by side."""
    count = 1 if op == "EMBEDDING_LOOKUP" else TOKENS
    shape = (1,) if op == "EMBEDDING_LOOKUP" else (1, TOKENS)
    ids = net.integers(*shape)
    operands = (ids, table) if op == "EMBEDDING_LOOKUP" else (table, ids)
    width = net.tensors[table].spec.shape[1]
    rows = net.add(op, operands, (*shape, width), **({"axis": 0} if op == "GATHER" else {}))
    flat = (1, count * width)
    return net.add("RESHAPE", (rows, net.constant(flat, np.int32)), flat)


def network(op: str = "GATHER", dtype: type = np.float32) -> tuple[Graph, int]:
    """Makes a network that reads a table, whose number it returns, too."""
    net = Net(dtype)
    table = net.weight(ENTRIES, WIDTH)
    x = net.dense(selected(net, table, op=op), 8, fused_activation_function=RELU)
    return net.graph(net.dense(x, 3)), table


def data(graph: Graph, entries: int = 40) -> ArrayData:
    """Returns samples that select a few rows of a table, often the same."""
    rng = np.random.default_rng(1)
    (spec,) = (graph.tensors[i].spec for i in graph.inputs)
    ids = rng.integers(0, entries, (SAMPLES, *spec.shape[1:]))
    (output,) = (graph.tensors[i].spec for i in graph.outputs)
    targets = rng.normal(size=(SAMPLES, *output.shape[1:])).astype(output.dtype)
    return ArrayData([ids.astype(np.int32)], [targets])


class Trained(NamedTuple):
    """Losses, and all that steps change."""

    losses: list[float]
    changed: dict[int, Array]


def trained(
    graph: Graph, m: int, w: int, mu: float = 0.0, **options: Any
) -> tuple[bool, list[float], dict[int, Array]]:
    """Whether a table has sums of rows, losses, and all that steps change."""
    with Trainer(graph, info(SAMPLES, **options), micro_batch=m, workers=w) as t:
        by_rows = bool(t.runtime.engine_of(TRAINING).plans.sums.tables)
        t.parameters.proximal_mu = mu
        t.parameters.restart(t.parameters.values())
        samples = data(graph)
        losses = [t.step(samples, count) for count in SIZES]
        groups = enumerate(t.parameters.groups.values())
        changed = {100 * k + i: a.copy() for k, group in groups for i, a in group.items()}
        return by_rows, losses, changed


def trained_both_ways(
    monkeypatch: pytest.MonkeyPatch, graph: Graph, m: int, w: int, **options: Any
) -> tuple[Trained, Trained]:
    """Trains with sums of rows, and with a gradient of the whole table."""
    by_rows, losses, changed = trained(graph, m, w, **options)
    assert by_rows
    rows = Trained(losses, changed)
    monkeypatch.setattr(gradient_sums, "LEAST_TABLE", NEVER)
    by_rows, losses, changed = trained(graph, m, w, **options)
    assert not by_rows
    return rows, Trained(losses, changed)


def assert_same_bits(first: Trained, second: Trained) -> None:
    assert first.losses == second.losses
    assert all(a.tobytes() == second.changed[i].tobytes() for i, a in first.changed.items())


MOMENTUM = {"optimizer": "sgd", "hyper_parameters": {"momentum": 0.9}}
DECAY = {"optimizer": "adam", "hyper_parameters": {"weight_decay": 0.1}}
NAMES = "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "ort_adamw"
OPTIONS: list[dict[str, Any]] = [
    *({"optimizer": name} for name in NAMES),
    MOMENTUM,
    DECAY,
    {"ema": 0.9},
    {"mu": 0.1},
    {"clip_value": 0.01},
    {"accumulate": 2},
]


@needs_kernels
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (4, 3)])
def test_rows_have_the_bits_of_whole_gradients(
    m: int, w: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = network()
    rows, whole = trained_both_ways(monkeypatch, graph, m, w, **options)
    assert_same_bits(rows, whole)


@needs_kernels
def test_rows_of_embedding_lookup_have_the_bits_of_whole_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, _ = network("EMBEDDING_LOOKUP")
    rows, whole = trained_both_ways(monkeypatch, graph, 6, 2, optimizer="adam")
    assert_same_bits(rows, whole)


@needs_kernels
@pytest.mark.parametrize("options", [{"clip_norm": 0.1}, {"optimizer": "adam"}], ids=str)
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (5, 1), (2, 2)])
def test_rows_are_clipped_and_added_up_like_whole_gradients(
    m: int, w: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several micro-batches of a worker add to one sum, and a norm adds squares in other order."""
    graph, _ = network()
    rows, whole = trained_both_ways(monkeypatch, graph, m, w, **options)
    (losses, changed), (expected, others) = rows, whole
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    for i, a in changed.items():
        np.testing.assert_allclose(a, others[i], rtol=1e-4, atol=1e-6)


def reference(table: Array, samples: ArrayData, steps: int) -> Array:
    """Trains a table, which is the whole model, by lazy Adam at half the rate, in float64."""
    p = table.astype(np.float64)
    m, v = np.zeros_like(p), np.zeros_like(p)
    (ids,), (targets,) = samples.inputs, samples.targets
    for step in range(1, steps + 1):
        dy = (p[ids].reshape(targets.shape) - targets) * 2 / targets.size
        g = np.zeros_like(p)
        np.add.at(g, ids, dy.reshape(*ids.shape, -1))
        rows = np.unique(ids)
        m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
        v[rows] = 0.999 * v[rows] + 0.001 * g[rows] ** 2
        alpha = 0.5 * 0.001 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        p[rows] -= alpha * m[rows] / (np.sqrt(v[rows]) + 1e-7)
        ids = np.roll(ids, 1, axis=1) // 2  # other rows in the next step
        samples.inputs[0][...] = ids
    return p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (5, 1), (2, 2)])
def test_lazy_adam_changes_the_rows_of_a_batch(m: int, w: int, dtype: type) -> None:
    net = Net(dtype)
    table = net.weight(50, 3)  # small tables, too
    graph = net.graph(selected(net, table))
    first = np.array(graph.tensors[table].data)
    samples = data(graph)
    expected = reference(first, data(graph), 6)
    halved = info(SAMPLES, rates=((table, 0.5),), **LAZY)
    with Trainer(graph, halved, micro_batch=m, workers=w) as t:
        for _ in range(6):
            t.step(samples, SAMPLES)
            samples.inputs[0][...] = np.roll(samples.inputs[0], 1, axis=1) // 2
        result = t.parameters.tensors[table]
        tolerance = 1e-5 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
        assert result[40:].tobytes() == first[40:].tobytes()  # which no sample selects


@needs_kernels
@pytest.mark.parametrize("options", [{"optimizer": "adam"}, {"clip_norm": 0.5}, LAZY], ids=str)
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2), (5, 2)])
def test_no_arena_holds_a_whole_gradient(m: int, w: int, options: dict[str, Any]) -> None:
    graph, table = network()
    plans, training = Plans(graph), info(SAMPLES, **options)
    runs = training_and_validation(plans.graphs, training)
    forecast = fit_budget(plans, runs, training, None, m, w)
    with Trainer(graph, training, micro_batch=m, workers=w) as t:
        engine, held = t.runtime.engine_of(TRAINING), t.memory()
        place = engine.places.at(0, m)
        verify(place.plan, place.memory)
        whole = graph.tensors[table].spec.nbytes
        assert place.memory.nbytes < whole <= engine.memory.nbytes
        assert held.gradients < whole
        assert (held.arena, held.gradients) == (forecast.arena, forecast.gradients)
        assert (held.parameters, held.slots) == (forecast.parameters, forecast.slots)
        assert f"deliver d.t{table} to t{table}, by rows of 0 GATHER d.x" in str(place.plan)
        rest = sum(a.nbytes for i, a in t.parameters.tensors.items() if i != table)
    saved = {saving.name: saving.nbytes for saving in savings(forecast, runs[0])}
    is_immediate = w == 1 and "clip_norm" not in options
    assert saved.get("immediate update", 0) == (rest if is_immediate else 0)
    assert "shared gradients" not in saved


def written(a: Array) -> int:
    """Bytes of the mapping with an array that were written, which take memory."""
    at, inside = a.ctypes.data, False
    with open("/proc/self/smaps", encoding="utf-8") as maps:
        for line in maps:
            first, *others = line.split()
            if "-" in first:
                low, high = (int(end, 16) for end in first.split("-"))
                inside = low <= at < high
            elif inside and first == "Private_Dirty:":
                return 1024 * int(others[0])
    raise AssertionError("the array is mapped")


@needs_kernels
@pytest.mark.skipif(not hasattr(mmap, "MADV_NOHUGEPAGE"), reason="Linux only")
@pytest.mark.parametrize("options", [{"optimizer": "adam"}, LAZY, MOMENTUM])
def test_moments_of_rows_that_no_step_reads_take_no_memory(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, table = network()
    with Trainer(graph, info(SAMPLES, **options), micro_batch=4, workers=2) as t:
        t.parameters.restart(t.parameters.values())
        in_memory = Snapshot(t.parameters)
        monkeypatch.setattr(snapshot, "SMALL", 2**16)
        in_file = Snapshot(t.parameters)
        slots = [state[table] for state in t.parameters.slots.values()]
        restart = partial(t.parameters.restart, t.parameters.values())
        for reset in (in_memory.restore, in_file.restore, restart):
            for count in SIZES:
                t.step(data(graph), count)
            assert all(a[:40].any() for a in slots)
            assert written(slots[0]) < sum(a.nbytes for a in slots) / 4
            reset()
            assert not any(a.any() for a in slots)
            assert written(slots[0]) < sum(a.nbytes for a in slots) / 4


@needs_kernels
@pytest.mark.parametrize("form", ["two readers", "last layer", "many rows"])
def test_other_tables_have_whole_gradients(form: str) -> None:
    net = Net(np.float32)
    table = net.weight(TOKENS * SAMPLES if form == "many rows" else ENTRIES, WIDTH)
    x = selected(net, table)
    if form == "two readers":
        x = net.add("ADD", (x, selected(net, table)), net.tensors[x].spec.shape)
    y = net.dense(x, 3)
    if form == "last layer":
        y = net.add("FULLY_CONNECTED", (net.dense(x, WIDTH), table), (1, ENTRIES))
    with Trainer(net.graph(y), info(SAMPLES)) as t:
        assert not t.runtime.engine_of(TRAINING).plans.sums.tables


def test_a_lazy_update_needs_a_table() -> None:
    net = Net(np.float32)
    graph = net.graph(net.dense(net.input(1, 4), 3))
    with pytest.raises(OptionError, match="lazy=`: needs a table that trains"):
        Trainer(graph, info(SAMPLES, **LAZY))


def test_a_lazy_update_has_no_weight_decay() -> None:
    decay = {"optimizer": "adam", "hyper_parameters": {"lazy": True, "weight_decay": 0.1}}
    with pytest.raises(OptionError, match="lazy=`: needs a weight decay of 0"):
        Trainer(network()[0], info(SAMPLES, **decay))


def test_gradients_that_a_user_accumulates_are_whole() -> None:
    graph, table = network()
    samples = data(graph)
    with Trainer(graph, info(SAMPLES), micro_batch=6, workers=2) as t:
        t.accumulate(samples, SAMPLES)
        assert t.gradients[table].shape == (ENTRIES, WIDTH)
    with (
        Trainer(graph, info(SAMPLES, **LAZY)) as t,
        pytest.raises(OptionError, match="lazy=`: must be off for gradients that are accumulated"),
    ):
        t.accumulate(samples, SAMPLES)
