"""TensorFlow's lists of tensors in loops; NumPy judges, because LiteRT's wheel cannot run them."""

from pathlib import Path

import numpy as np
import pytest
from support.judges import odt
from support.networks import ArrayData, InOrder
from support.subgraphs import WIDTH, Subgraphs

import odt as odt_api
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.inline import inline
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array
from odt.training.exports import check_export

STEPS = 3
LISTS = "CUSTOM:FlexTensorList"


class Lists(Subgraphs):
    """Builds a recurrent layer that reads its input from a list and collects its steps in one."""

    lists = LISTS

    def list_tensor(self, op: str, inputs: tuple[int, ...]) -> int:
        return self.as_list(self.add_operator(f"{self.lists}{op}", inputs, ()))

    def list_input(self) -> int:
        return self.as_list(self.add_input(()))

    def as_list(self, i: int) -> int:
        self.graph.tensors[i].type = code_of("TensorType", "VARIANT")
        return i

    def layer(self, x: int, last: bool, length: int | None = STEPS) -> int:
        """h[t] = tanh(V x[t] + W h[t − 1]), of inputs (1, time, width).

        Args:
            x: the input.
            last: whether the list keeps the last step only.
            length: of the list; None if it depends on data.
        """
        self.v = self.rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
        self.w = self.rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
        zero, one = (np.array(k, np.int32) for k in (0, 1))
        shape = self.add_constant(np.array([-1, WIDTH], np.int32))

        def condition() -> tuple[int, ...]:
            k = self.add_input((), "int32")
            self.list_input()
            self.add_input((1, WIDTH))
            self.list_input()
            limit = self.add_constant(np.array(STEPS, np.int32))
            return (self.add_operator("LESS", (k, limit), (), dtype="bool"),)

        def body() -> tuple[int, ...]:
            k, made = self.add_input((), "int32"), self.list_input()
            h, taken = self.add_input((1, WIDTH)), self.list_input()
            item = self.add_constant(np.array([-1, WIDTH], np.int32))
            x = self.add_operator(f"{self.lists}GetItem", (taken, k, item), (1, WIDTH))
            a = self.add_operator("FULLY_CONNECTED", (x, self.add_constant(self.v), -1), (1, WIDTH))
            b = self.add_operator("FULLY_CONNECTED", (h, self.add_constant(self.w), -1), (1, WIDTH))
            h = self.add_operator("ADD", (a, b), (1, WIDTH))
            h = self.add_operator("TANH", (h,), (1, WIDTH))
            place = self.add_constant(zero) if last else k
            made = self.list_tensor("SetItem", (made, place, h))
            k = self.add_operator("ADD", (k, self.add_constant(one)), (), dtype="int32")
            return k, made, h, taken

        numbers = self.subgraph(condition), self.subgraph(body)
        time = self.add_operator("TRANSPOSE", (x, self.add_constant([1, 0, 2])), (STEPS, 1, WIDTH))
        taken = self.list_tensor("FromTensor", (time, shape))
        count = 1 if last else length
        size = (
            self.add_constant(np.array(count, np.int32))
            if count is not None
            else self.add_input((), "int32")
        )
        made = self.list_tensor("Reserve", (shape, size))
        self.start = np.zeros((1, WIDTH), np.float32)
        h = self.add_constant(self.start)
        self.add_operator(
            "WHILE",
            (self.add_constant(zero), made, h, taken),
            (),
            (),
            (1, WIDTH),
            (),
            cond_subgraph_index=numbers[0],
            body_subgraph_index=numbers[1],
        )
        k = len(self.graph.tensors) - 4
        self.graph.tensors[k].type = code_of("TensorType", "INT32")
        self.as_list(k + 1)
        self.as_list(k + 3)
        steps = 1 if last else STEPS
        y = self.add_operator(f"{self.lists}Stack", (k + 1, shape), (steps, 1, WIDTH))
        back = self.add_constant([1, 0, 2])
        return self.add_operator("TRANSPOSE", (y, back), (1, steps, WIDTH))

    def expected(self, x: Array) -> Array:
        h, steps = self.start, []
        for t in range(STEPS):
            h = np.tanh(x[:, t] @ self.v.T + h @ self.w.T)
            steps.append(h)
        return np.stack(steps, axis=1)


@pytest.fixture
def x() -> Array:
    return np.random.default_rng(0).normal(size=(6, STEPS, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("lists", [LISTS, "CUSTOM:TensorList"])
@pytest.mark.parametrize("last", [False, True])
def test_the_steps_of_a_loop_are_stacked(x: Array, last: bool, lists: str, tmp_path: Path) -> None:
    model, path = Lists("tflite"), tmp_path / "m.tflite"
    model.lists = lists
    model.write(path, model.layer(model.add_input((1, STEPS, WIDTH)), last))
    graph = inline(read_model(path)).graph
    assert not any("List" in node.op for node in graph.nodes)
    (y,) = odt(path, [x])
    expected = model.expected(x)
    np.testing.assert_allclose(y, expected[:, -1:] if last else expected, atol=1e-6)


def test_weights_of_the_loop_train_and_are_exported(x: Array, tmp_path: Path) -> None:
    model, path, out = Lists("tflite"), tmp_path / "m.tflite", tmp_path / "out.tflite"
    model.write(path, model.layer(model.add_input((1, STEPS, WIDTH)), last=False))
    lowered = lower_model(read_model(path))
    info = TrainingInfo(loss="mean_squared_error", batch_size=6, learning_rate=0.1)
    data = ArrayData([x], [np.zeros((6, STEPS, WIDTH), np.float32)])
    with Trainer(lowered.graphs, info) as trainer:
        assert len(trainer.parameters.trained) == 2  # the first state does not
        losses = [e.training.loss for e in trainer.train(data, InOrder(6), epochs=9)]
        trained = trainer.weights()
        model.v, model.w = (trained[i] for i in sorted(trained))
        export_model(lowered.file, trainer.weights(), out)
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(odt(out, [x])[0], model.expected(x), atol=1e-6)


@pytest.mark.parametrize("length", [STEPS - 1, STEPS + 1, None])
def test_a_list_whose_items_are_unknown_stays(length: int | None, tmp_path: Path) -> None:
    """A position beyond the end, an item that is never set, and a length that is data."""
    model = Lists("tflite")
    model.write(
        tmp_path / "m.tflite", model.layer(model.add_input((1, STEPS, WIDTH)), False, length)
    )
    whole = lower_model(read_model(tmp_path / "m.tflite"), outputs="file")
    refused = whole.graphs.unsupported
    assert "only TensorFlow computes" in refused[0].reason
    assert any(r.node.op == f"{LISTS}Stack" for r in refused)


def test_a_loop_behind_quantized_weights_is_unrolled(tmp_path: Path) -> None:
    """The weights of its own layer, too, are integers beside float activations."""
    model, path = Subgraphs("tflite"), tmp_path / "m.tflite"
    h = model.add_dense(model.add_input((1, WIDTH)), WIDTH)
    shape = model.add_operator("SHAPE", (h,), (2,), dtype="int32")
    one = model.add_constant([1])
    end = model.add_operator(
        "STRIDED_SLICE", (shape, one, model.add_constant([2]), one), (), dtype="int32",
        shrink_axis_mask=1,
    )  # fmt: skip
    y = model.loop(h, WIDTH)
    loop = model.graph.operators[-1]
    loop.inputs = [model.add_operator("SUB", (end, end), (), dtype="int32"), h]
    model.graph.operators.append(model.graph.operators.pop(-2))
    for graph in (model.graph, model.model.subgraphs[2]):
        for i, tensor in enumerate(graph.tensors):
            if tensor.name.endswith("/w"):
                buffer = model.model.buffers[tensor.buffer]
                values = np.frombuffer(bytes(buffer.data), np.float32)
                buffer.data = (values * 20).astype(np.int8).view(np.uint8)
                tensor.type = code_of("TensorType", "INT8")
                main, model.graph = model.graph, graph
                model.quantize(i, [0.05], [0])
                model.graph = main
    model.write(path, y)
    lowered = lower_model(read_model(path))
    assert not lowered.graphs.unsupported
    layers = [n for n in lowered.graph.nodes if n.op == "FULLY_CONNECTED"]
    assert len(layers) == WIDTH + 1
    assert {lowered.graph.tensors[n.inputs[1]].spec.dtype for n in layers} == {np.dtype("f4")}
    stored = [lowered.unrolled.graph.tensors[n.inputs[1]].spec.dtype for n in layers]
    assert {*stored} == {np.dtype(np.int8)}
    with odt_api.Trainer(path, loss="mean_squared_error", batch_size=2) as trainer:
        check_export(trainer.session)
        trainer.export(tmp_path / "out.tflite")
    again = lower_model(read_model(tmp_path / "out.tflite"))
    stored = [again.unrolled.graph.tensors[n.inputs[1]].spec.dtype for n in layers]
    assert {*stored} == {np.dtype(np.int8)}
