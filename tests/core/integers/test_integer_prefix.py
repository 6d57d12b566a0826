"""The frozen part of a quantized model computes the integers of the integer graph."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from support.integer_files import full_range
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.integers.integer_graph import integer_graph
from odt.core.integers.integer_prefix import with_integer_prefix
from odt.core.integers.real_graph import real_graph
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.planning.autodiff import inference_plan
from odt.core.planning.memory import plan_memory
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.kernels.rows.opdef import Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"


def computed(graph: Graph, tensor: int, x: Array) -> Array:
    """The values of a tensor for a batch."""
    lowered = LoweredGraphs(graph).at(len(x))
    plan = inference_plan(replace(lowered, outputs=(tensor,)))
    memory = plan_memory(plan)
    program = Program(plan, memory, make_arena(memory.nbytes), {})
    program.inputs[0][...] = x
    program.forward()
    return program.outputs[0].copy()


@pytest.mark.parametrize("last", [1, 4, 7])
def test_the_trained_part_reads_the_real_numbers_of_integers(last: int) -> None:
    model = read_model(str(RESNET))
    real, integers = real_graph(model).graph, integer_graph(model)
    operators = [n for n in model.graph.nodes if n.op in ("CONV_2D", "FULLY_CONNECTED")]
    first = operators[-last]
    trained = [i for n in operators[-last:] for i in n.inputs[1:]]
    same = {i: i for i in range(len(model.graph.tensors))}
    graph = with_integer_prefix(real, integers, same, trained)
    before = [n.op for n in graph.nodes if n.origin < first.origin]
    after = [n.op for n in graph.nodes if n.origin >= first.origin]
    assert "FAKE_QUANT" not in before
    assert "INTEGER_CONV_2D" in before
    assert after[0] == first.op
    (x,) = full_range(model, 4, seed=1)
    wanted = computed(integers, first.inputs[0], x)
    np.testing.assert_array_equal(computed(graph, first.inputs[0], x), wanted)
    assert np.unique(wanted).size > 8


def test_a_graph_that_trains_from_its_start_stays() -> None:
    model = read_model(str(RESNET))
    real, integers = real_graph(model).graph, integer_graph(model)
    first = next(n for n in model.graph.nodes if n.op == "CONV_2D")
    same = {i: i for i in range(len(model.graph.tensors))}
    assert with_integer_prefix(real, integers, same, first.inputs[1:2]) is real


def test_the_cache_and_the_arena_hold_integers() -> None:
    options = ("--num-of-trainable-ops", "3", "--cache-frozen", "--data-length", "100")
    done = CliRunner().invoke(main, ["plan", str(RESNET), *options])
    assert "100 samples × 64 bytes" in done.output, done.output


def test_other_frozen_weights_than_the_file_has_are_used() -> None:
    """There are no integers of the weights of a checkpoint."""
    model = read_model(str(RESNET))
    (x,) = full_range(model, 4, seed=2)
    trainer = odt.Trainer(RESNET, trainable=odt.last(3))
    before = trainer.predict(x)
    first = next(n for n in model.graph.nodes if n.op == "CONV_2D").inputs[1]
    data = real_graph(model).graph.tensors[first].data
    assert data is not None
    trainer.session.replace_frozen({first: data / 2})
    assert np.abs(trainer.predict(x) - before).max() > 0.01
