"""Lowering: shapes for any batch, fused activations, constants, and what is refused."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, InOrder, Net

from odt.core.lowering import lower as lowering
from odt.core.lowering.infer import infer_nodes
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.sample_axis import mixing_nodes
from odt.core.lowering.unsupported import UnsupportedNode
from odt.core.model.graph import Graph, Node, Tensor
from odt.core.model.training_info import TrainingInfo
from odt.core.training.inference import Predictor
from odt.core.training.trainer import Trainer
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array, TensorSpec

RELU = 1


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.tensors[n.outputs[0]].spec.shape for n in graph.nodes]


def test_the_batch_reaches_every_shape() -> None:
    net = Net()
    y = net.dense(net.dense(net.input(1, 6), 4), 3)
    assert shapes(lower(net.graph(y), 5)) == [(5, 4), (5, 3)]


def test_a_fused_activation_becomes_a_node_of_the_same_origin() -> None:
    net = Net()
    y = net.dense(net.input(1, 6), 4, fused_activation_function=RELU)
    lowered = lower(net.graph(y), 2)
    assert [(n.op, n.origin) for n in lowered.nodes] == [("FULLY_CONNECTED", 0), ("RELU", 0)]
    assert lowered.nodes[1].outputs == (y,)


def rnn_net(
    *, variable: bool = True, given: bool = False, readers: int = 1
) -> tuple[Net, list[int]]:
    """RNNs of 3 units that share one state, which may be an input of the model."""
    net = Net()
    x, state = net.input(1, 4, 2), net._tensor((1, 3))
    net.tensors[state] = replace(net.tensors[state], variable=variable)
    if given:
        net.inputs.append(state)
    weights = (net.weight(3, 2), net.weight(3, 3), net.weight(3))
    options = {"fused_activation_function": RELU}
    op = "UNIDIRECTIONAL_SEQUENCE_RNN"
    ys = [net.add(op, (x, *weights, state), (1, 4, 3), **options) for _ in range(readers)]
    return net, ys


def test_an_activation_that_is_part_of_the_formula_stays() -> None:
    net, ys = rnn_net()
    lowered = lower(net.graph(*ys), 5)
    assert [n.op for n in lowered.nodes] == ["UNIDIRECTIONAL_SEQUENCE_RNN"]
    assert shapes(lowered) == [(5, 4, 3)]
    assert not mixing_nodes(lowered)


@pytest.mark.parametrize(
    "how", [{"variable": False, "given": True}, {"given": True}, {"readers": 2}]
)
def test_a_state_that_may_not_be_zero_at_first_is_refused(how: Any) -> None:
    net, ys = rnn_net(**how)
    with pytest.raises(UnsupportedError, match="h must be a variable that only this operator uses"):
        lower(net.graph(*ys), 1)


def test_the_basic_lstm_is_refused_by_its_name() -> None:
    net = Net()
    inputs = (net.input(1, 4), *(net.weight(1, n) for n in (2, 6, 8, 2)))
    outputs = tuple(net._tensor((1, n)) for n in (2, 2, 6, 8))
    net.nodes.append(Node("LSTM", inputs, outputs, {"kernel_type": 1}, 0))
    with pytest.raises(
        UnsupportedError, match=r"kernel_type must be FULL \(0\), but got 1 \(BASIC"
    ):
        lower(net.graph(outputs[0]), 1)


def test_any_other_variable_is_refused() -> None:
    net, _ = rnn_net()
    state = net.add("RELU", (1,), (1, 3))
    with pytest.raises(UnsupportedError, match="is a variable, which odt does not keep"):
        lower(net.graph(state), 1)


@pytest.mark.parametrize("target", [(1, 12), (-1, 12), (1, -1)])
def test_a_reshape_written_for_one_sample_keeps_samples_independent(
    target: tuple[int, ...],
) -> None:
    net = Net()
    x = net.input(1, 3, 4)
    y = net.add("RESHAPE", (x, net.constant(target, np.int32)), (1, 12))
    lowered = lower(net.graph(y), 7)
    assert shapes(lowered) == [(7, 12)]
    assert not mixing_nodes(lowered)


def test_a_reshape_target_computed_from_the_shape_is_folded() -> None:
    net = Net()
    x = net.input(1, 3, 4)
    shape = net._tensor((3,), np.int32)
    batch = net._tensor((), np.int32)
    target = net._tensor((2,), np.int32)
    net.nodes.append(Node("SHAPE", (x,), (shape,), {"out_type": 2}, 0))
    ends = [net.constant([k], np.int32) for k in (0, 1, 1)]
    net.nodes.append(Node("STRIDED_SLICE", (shape, *ends), (batch,), {"shrink_axis_mask": 1}, 1))
    twelve = net.constant(12, np.int32)
    net.nodes.append(Node("PACK", (batch, twelve), (target,), {"values_count": 2, "axis": 0}, 2))
    y = net.add("RESHAPE", (x, target), (1, 12))
    lowered = lower(net.graph(y), 7)
    assert [n.op for n in lowered.nodes] == ["RESHAPE"]
    assert shapes(lowered) == [(7, 12)]


def test_a_size_computed_with_floats_is_folded() -> None:
    """As converters write a picture enlarged by a factor: int(2.5 · float(height and width))."""
    net = Net()
    x = net.input(1, 4, 6, 3)
    shape, size, big = (net._tensor((n,), np.int32) for n in (4, 2, 2))
    real, scaled = net._tensor((2,)), net._tensor((2,))
    ends = [net.constant([k], np.int32) for k in (1, 3, 1)]
    factor = net.constant(2.5)
    net.nodes.append(Node("SHAPE", (x,), (shape,), {"out_type": 2}, 0))
    net.nodes.append(Node("STRIDED_SLICE", (shape, *ends), (size,), {}, 1))
    net.nodes.append(Node("CAST", (size,), (real,), {}, 2))
    net.nodes.append(Node("MUL", (real, factor), (scaled,), {}, 3))
    net.nodes.append(Node("CAST", (scaled,), (big,), {}, 4))
    y = net.add("RESIZE_NEAREST_NEIGHBOR", (x, big), (1, 10, 15, 3))
    lowered = lower(net.graph(y), 7)
    assert [n.op for n in lowered.nodes] == ["RESIZE_NEAREST_NEIGHBOR"]
    assert shapes(lowered) == [(7, 10, 15, 3)]


def test_floats_made_of_weights_are_not_shapes() -> None:
    """The size follows weights, which change in training."""
    net = Net()
    x = net.input(1, 4, 6, 3)
    y = net._tensor((2,), np.int32)
    product = net.add("MUL", (net.weight(2), net.weight(2)), (2,))
    net.nodes.append(Node("CAST", (product,), (y,), {}, 1))
    z = net.add("RESIZE_NEAREST_NEIGHBOR", (x, y), (1, 10, 15, 3))
    with pytest.raises(UnsupportedError, match="size must be a constant"):
        lower(net.graph(z), 1)


def test_tensors_of_one_buffer_stay_two() -> None:
    net = Net()
    x = net.input(1, 4)
    w = net.weight(4, 4)
    twin = net._tensor((4, 4), data=net.tensors[w].data)
    net.tensors[twin] = Tensor("twin", net.tensors[w].spec, (4, 4), net.tensors[w].data, w + 1)
    y = net.add("FULLY_CONNECTED", (x, w), (1, 4))
    z = net.add("FULLY_CONNECTED", (y, twin), (1, 4))
    assert [n.inputs[1] for n in lower(net.graph(z), 1).nodes] == [w, twin]


def test_every_operator_that_cannot_be_computed_is_named_at_once() -> None:
    net = Net()
    x = net.input(1, 4)
    a = net.add("WHILE", (x,), (1, 4))
    b = net.add("CUSTOM:Magic", (x,), (1, 4))
    c = net.add("FULLY_CONNECTED", (x, net.weight(3, 5)), (1, 3))
    with pytest.raises(UnsupportedError) as e:
        lower(net.graph(a, b, c), 1)
    assert "node 0 (WHILE)" in str(e.value)
    named = e.value.details.splitlines()
    assert named[0].startswith("node 0 (WHILE)")
    assert named[1].startswith("node 1 (CUSTOM:Magic)")
    assert 'node 2 (FULLY_CONNECTED), tensor 4 ("x4"): x must be (…, I)' in named[2]
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(("op", "inputs"), [("CAST", 1), ("MUL", 2), ("CONV_2D", 3)])
def test_an_operator_without_outputs_is_named(op: str, inputs: int) -> None:
    net = Net()
    y = net.dense(net.input(1, 4), 4)
    operands = (y, net.weight(4), net.constant(np.zeros(4)))
    net.nodes.append(Node(op, operands[:inputs], (), {}, 1))
    with pytest.raises(UnsupportedError, match=rf"node 1 \({op}\): must have outputs, but"):
        lower(net.graph(y), 1)


def test_an_operator_with_too_many_outputs_is_named() -> None:
    """Of a row that reads the type of its one output."""
    net = Net()
    y = net.dense(net.input(1, 4), 4)
    first = net.add("ARG_MAX", (y, net.constant([1], np.int32)), (1,))
    spec = TensorSpec((1,), np.dtype(np.int64))
    net.tensors[first:] = [replace(net.tensors[first], spec=spec)] * 2
    net.nodes[-1] = replace(net.nodes[-1], outputs=(first, first + 1))
    rule = r"node 1 \(ARG_MAX\).*: must have 1 tensor \(y\), but got 2"
    with pytest.raises(UnsupportedError, match=rule):
        lower(net.graph(y), 1)


def test_a_quantized_activation_is_refused_by_name() -> None:
    net = Net()
    x = net.input(1, 4)
    net.tensors[x] = Tensor("q", TensorSpec((1, 4), np.dtype(np.int8)), (1, 4), quantized=True)
    y = net.add("RELU", (x,), (1, 4))
    with pytest.raises(UnsupportedError, match=r'tensor 0 \("q"\) quantized to int8'):
        lower(net.graph(y), 1)


@pytest.mark.parametrize("batch", [1, 2])
def test_samples_are_never_joined_to_a_row_of_a_wider_filter(batch: int) -> None:
    net = Net()
    y = net.add("FULLY_CONNECTED", (net.input(1, 2), net.weight(3, 4)), (1, 3))
    with pytest.raises(UnsupportedError, match=r"w \(O, I\) with one I"):
        lower(net.graph(y), batch)


def test_a_graph_that_reads_what_is_not_made_is_refused() -> None:
    net = Net()
    net.input(1, 4)
    orphan = net._tensor((1, 4))
    y = net.add("RELU", (orphan,), (1, 4))
    with pytest.raises(ModelError, match="must be computed before they are read"):
        net.graph(y)


def test_a_graph_whose_shapes_hold_for_its_own_batch_only_runs_whole() -> None:
    net = Net()
    x = net.input(4, 6)
    y = net.add("RESHAPE", (x, net.constant([3, 8], np.int32)), (3, 8))
    z = net.add("RESHAPE", (y, net.constant([4, 6], np.int32)), (4, 6))
    graph = net.graph(net.add("MUL", (z, net.weight(4, 6)), (4, 6)))
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, learning_rate=0.1)
    samples = np.ones((4, 6), np.float32)
    with Trainer(graph, info) as trainer:
        assert trainer.runtime.schedule.micro_batch == 4
        data = ArrayData([samples], [samples])
        losses = [e.training.loss for e in trainer.train(data, InOrder(4), epochs=5)]
    assert losses[-1] < losses[0]


def no_batch_axis() -> Graph:
    """Inputs x (10,) and w (4,); outputs that are (2, 5) and (4,) whatever the batch."""
    net = Net()
    x, w = net.input(10), net.input(4)
    y = net.add("RESHAPE", (x, net.constant([2, 5], np.int32)), (2, 5))
    z = net.add("MUL", (w, net.weight(4)), (4,))
    return net.graph(net.add("MUL", (y, net.weight(5)), (2, 5)), z)


def factors(graph: Graph) -> list[Array]:
    """The constants of its products."""
    found = [graph.tensors[n.inputs[1]].data for n in graph.nodes if n.op == "MUL"]
    return [a for a in found if a is not None]


def test_a_model_without_batch_axis_has_one_sample() -> None:
    graph = no_batch_axis()
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 10)), rng.normal(size=(3, 4))
    a, b = factors(graph)
    with Predictor(graph, 3) as predictor:
        assert predictor.runtime.schedule.micro_batch == 1
        (found,) = (
            [v.copy() for v in outputs]
            for outputs in predictor.run(ArrayData([x, w], ()), range(3))
        )
    np.testing.assert_allclose(found[0], x.reshape(3, 2, 5) * b, rtol=1e-6)
    np.testing.assert_allclose(found[1], w * a, rtol=1e-6)


def test_one_sample_at_a_time_trains_as_a_batch_by_hand() -> None:
    """One SGD step on three samples: the gradient of the mean by each factor is known."""
    graph = no_batch_axis()
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 10)), rng.normal(size=(3, 4))
    t, u = rng.normal(size=(3, 2, 5)), rng.normal(size=(3, 4))
    info = TrainingInfo("sgd", {}, 1.0, "mean_squared_error", batch_size=3)
    with Trainer(graph, info) as trainer:
        list(trainer.train(ArrayData([x, w], [t, u]), InOrder(3), epochs=1))
        a, b = (trainer.parameters.tensors[i] for i in sorted(trainer.parameters.tensors))
    before_a, before_b = factors(graph)
    wide = x.reshape(3, 2, 5)
    by_a = (2 * (w * before_a - u) * w).sum(axis=0) / (3 * 4)
    by_b = (2 * (wide * before_b - t) * wide).sum(axis=(0, 1)) / (3 * 10)
    np.testing.assert_allclose(a, before_a - by_a, rtol=1e-5)
    np.testing.assert_allclose(b, before_b - by_b, rtol=1e-5)


def test_a_micro_batch_of_what_holds_one_sample_is_refused() -> None:
    with pytest.raises(OptionError, match=r"`micro_batch=`: must be 1, but got 2\. .*leading axis"):
        Predictor(no_batch_axis(), 4, micro_batch=2)


def test_a_graph_without_outputs_is_refused() -> None:
    net = Net()
    net.dense(net.input(1, 4), 3)
    with pytest.raises(UnsupportedError, match="must have inputs and outputs, but got 1 and 0"):
        lower(net.graph(), 1)


def picked_rows(batch: int) -> tuple[Graph, int]:
    """A table's rows by a batch's ids, times those of its first sample; and the latter."""
    net = Net()
    ids = net._tensor((batch, 3), np.int32)
    net.inputs.append(ids)
    y = net.add("GATHER", (net.weight(9, 4), ids), (batch, 3, 4))
    picked = net.add("GATHER", (y, net.constant([0], np.int32)), (1, 3, 4))
    return net.graph(net.add("MUL", (y, picked), (batch, 3, 4))), picked


def test_selecting_rows_of_a_batch_mixes_samples_and_of_a_table_does_not() -> None:
    graph, picked = picked_rows(2)
    (node,) = mixing_nodes(lower(graph, 2))
    assert node.outputs == (picked,)
    assert not mixing_nodes(lower(picked_rows(1)[0], 2))


def vectors() -> Graph:
    """A product of vectors whose length may be the batch."""
    net = Net()
    return net.graph(net.add("MUL", (net.input(6), net.weight(1)), (6,)))


@pytest.mark.parametrize("graph", [no_batch_axis(), picked_rows(2)[0], vectors()])
def test_shapes_are_inferred_once_for_each_batch_size(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []

    def counted(*args: Any) -> list[UnsupportedNode]:
        batches.append(args[1].batch)
        return infer_nodes(*args)

    monkeypatch.setattr(lowering, "infer_nodes", counted)
    graphs = LoweredGraphs(graph)
    for batch in (graphs.file_batch, 4, 6, 5) * 2:
        assert not graphs.unsupported
        assert graphs.specs.keys() >= set(graph.outputs)
        assert graphs.at_file_batch.samples == graphs.file_batch
        with suppress(UnsupportedError):
            assert graphs.at(batch) is graphs.at(batch)
    assert sorted(batches) == sorted(set(batches))


def test_a_batch_whose_samples_depend_on_each_other_stays_whole() -> None:
    graph, _ = picked_rows(2)
    assert lower(graph, 6).samples == 6
    with pytest.raises(
        UnsupportedError, match=r"node 1 \(GATHER\).*multiple of the file's, 2.*`batch_size=2`"
    ):
        lower(graph, 5)


def test_the_batch_of_a_file_that_fits_no_other_is_named() -> None:
    """A RESHAPE that buries the batch grows by whole batches of the file."""
    net = Net()
    x = net.input(4, 2)
    flat = net.add("RESHAPE", (x, net.constant([8], np.int32)), (8,))
    shape = net.constant([4, 2], np.int32)
    graph = net.graph(net.add("RESHAPE", (flat, shape), (4, 2)))
    assert lower(graph, 8).samples == 8
    with pytest.raises(UnsupportedError, match=r"file's, 4, but got 6. Give `batch_size=4`"):
        lower(graph, 6)


def test_a_cast_goes_to_the_type_of_its_output_whatever_its_options_say() -> None:
    net = Net()
    x = net.input(1, 3)
    y = net._tensor((1, 3), np.int64)
    net.nodes.append(Node("CAST", (x,), (y,), {"in_data_type": 0, "out_data_type": 0}, 0))
    assert lower(net.graph(y), 2).tensors[y].spec == TensorSpec((2, 3), np.dtype(np.int64))
