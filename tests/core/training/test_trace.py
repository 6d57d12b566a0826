"""A trace shows all tensors of a file, although the memory of each is used again."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.paths import GOLDEN_TORCH, MODELS

import odt
from odt.core.formats.reader import read_model
from odt.core.integers.integer_graph import integer_graph
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.planning.autodiff import inference_plan
from odt.core.planning.memory import plan_memory
from odt.core.quantization.quantize_model import side_by_side
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.core.training.trace import Trace
from odt.data.sources import samples_of
from odt.kernels.rows.opdef import Array


def graph_of(name: str) -> tuple[Graph, int]:
    model = read_model(str(MODELS / name))
    count = len(model.graph.tensors)
    return (integer_graph(model) if "int8" in name else model.graph), count


@pytest.mark.parametrize(
    "name", ["mlperf-tiny-resnet8-cifar10.tflite", "mlperf-tiny-resnet8-cifar10-int8.tflite"]
)
def test_tensors_have_the_values_that_separate_memory_keeps(name: str) -> None:
    graph, count = graph_of(name)
    trace = Trace(graph, count)
    lowered = LoweredGraphs(graph).as_in_file
    plan = inference_plan(replace(lowered, outputs=trace.tensors))
    memory = plan_memory(plan, "none")
    program = Program(plan, memory, make_arena(memory.nbytes), {})
    samples = np.random.default_rng(0).integers(-100, 100, (2, 32, 32, 3))
    data = samples_of(samples.astype(program.inputs[0].dtype), None, trace.samples)
    shown = iter(trace.run(data, [0, 1]))
    for sample in samples:
        program.inputs[0][...] = sample
        program.forward()
        for i, array in zip(trace.tensors, program.outputs, strict=True):
            found, values = next(shown)
            assert found == i
            np.testing.assert_array_equal(values, array)
    assert next(shown, None) is None
    assert trace.nbytes < memory.nbytes / 3


def test_tensors_of_two_models_are_compared_in_any_order() -> None:
    def shown(order: Iterable[int]) -> Iterator[tuple[int, Array]]:
        memory = np.zeros(1)
        for i in order:
            memory[0] = i
            yield i, memory

    found = [
        (i, float(a[0]), float(b[0]))
        for i, a, b in side_by_side(shown([1, 2, 3, 1]), shown([30, 5, 20, 10, 10]), {1: 10, 3: 30})
    ]
    assert found == [(1, 1, 10), (3, 3, 30), (1, 1, 10)]


@pytest.mark.parametrize("ranges", ["percentile", "minmax", "mse"])
@pytest.mark.parametrize("name", ["pools", "activations"])
def test_padding_with_infinity_and_groups_are_quantized(name: str, ranges: str) -> None:
    """What is padded with -inf stays float; convolutions of groups are measured one by one."""
    x = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32)
    path = GOLDEN_TORCH / f"{name}.circle"
    quantized = odt.quantize(path, x, ranges=ranges)  # type: ignore[arg-type]
    whole, found = odt.predict(path, x), odt.predict(quantized.model, x)
    np.testing.assert_allclose(found, whole, atol=0.1 * np.ptp(whole))
    assert all(np.isfinite(layer.decibels) for layer in quantized.layers)
